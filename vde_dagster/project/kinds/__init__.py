"""The kinds of model: what decides how a model's table is filled; a module each."""

from vde_dagster.project.kinds.base import (
    KINDS,
    AddedColumn,
    Kind,
    Property,
    column_properties,
    kind_from_json,
    kind_names,
)
from vde_dagster.project.kinds.custom import Custom
from vde_dagster.project.kinds.embedded import Embedded
from vde_dagster.project.kinds.external import External
from vde_dagster.project.kinds.partition import IncrementalByPartition
from vde_dagster.project.kinds.scd_type_2 import ScdType2, ScdType2ByColumn, ScdType2ByTime
from vde_dagster.project.kinds.seed import Seed
from vde_dagster.project.kinds.standalone_audit import StandaloneAudit
from vde_dagster.project.kinds.time_range import IncrementalByTimeRange
from vde_dagster.project.kinds.unique_key import IncrementalByUniqueKey
from vde_dagster.project.kinds.unmanaged import IncrementalUnmanaged
from vde_dagster.project.kinds.view import View
from vde_dagster.project.kinds.whole import Full

KINDS.add(Full, View, Embedded, Seed, External, IncrementalByTimeRange, IncrementalByUniqueKey)
KINDS.add(ScdType2ByTime, ScdType2ByColumn)
KINDS.add(IncrementalByPartition, IncrementalUnmanaged, Custom)
KINDS.add_unwritten(StandaloneAudit)

__all__ = [
    "KINDS",
    "AddedColumn",
    "Custom",
    "Embedded",
    "External",
    "Full",
    "IncrementalByPartition",
    "IncrementalByTimeRange",
    "IncrementalByUniqueKey",
    "IncrementalUnmanaged",
    "Kind",
    "Property",
    "ScdType2",
    "ScdType2ByColumn",
    "ScdType2ByTime",
    "Seed",
    "StandaloneAudit",
    "View",
    "column_properties",
    "kind_from_json",
    "kind_names",
]
