"""Kinds of models: their properties in a header, and the meaning of their rows."""

from vde_dagster.planning.kinds.base import Meaning
from vde_dagster.planning.kinds.incremental import IncrementalMeaning
from vde_dagster.planning.kinds.simple import WholeMeaning
from vde_dagster.planning.tables.pinned_reads import Input
from vde_dagster.project.kinds import AddedColumn, Kind, Property
from vde_dagster.project.property_value import Value
from vde_dagster.semantics.versions.version import SemanticVersion

__all__ = [
    "AddedColumn",
    "IncrementalMeaning",
    "Input",
    "Kind",
    "Meaning",
    "Property",
    "SemanticVersion",
    "Value",
    "WholeMeaning",
]
