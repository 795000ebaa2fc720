"""Definitions of models, their columns and their audits."""

from vde_dagster.planning.rendering.view_dialects import ViewWriter
from vde_dagster.project.model import (
    Asset,
    Audit,
    Column,
    Exposure,
    Model,
    PythonSource,
    TestTable,
    UnitTest,
)
from vde_dagster.project.reading.builtin_audits import BuiltinAudit

__all__ = [
    "Asset",
    "Audit",
    "BuiltinAudit",
    "Column",
    "Exposure",
    "Model",
    "PythonSource",
    "TestTable",
    "UnitTest",
    "ViewWriter",
]
