"""SQLMesh's kinds as objects: `IncrementalByTimeRangeKind(time_column="day")`."""

from __future__ import annotations

import enum
from typing import Any

from vde_dagster.project.kinds import KINDS

ModelKindName = enum.Enum(  # type: ignore[misc]
    "ModelKindName",
    {name: name for name in (*KINDS.by_name, "MANAGED", "DBT_CUSTOM")},
    type=str,
)
"""The names of kinds; those that are none here are mistakes of the models that have them."""


class OnDestructiveChange(str, enum.Enum):
    """What happens when a change in place takes columns away."""

    ERROR = "ERROR"
    WARN = "WARN"
    ALLOW = "ALLOW"
    IGNORE = "IGNORE"


class OnAdditiveChange(str, enum.Enum):
    """What happens when a change in place adds columns."""

    ERROR = "ERROR"
    WARN = "WARN"
    ALLOW = "ALLOW"
    IGNORE = "IGNORE"


class ModelKind(dict[str, Any]):
    """A kind with its properties: the dictionary that `@model(kind=…)` takes as well."""

    NAME = ""

    def __init__(self, **given: Any) -> None:
        name = str(getattr(given.pop("name", None) or self.NAME, "value", self.NAME))
        super().__init__(name=name, **given)

    def __getattr__(self, key: str) -> Any:
        if key in self:
            return self[key]
        raise AttributeError(f"{type(self).__name__} was given no '{key}'")


class TimeColumn(dict[str, Any]):
    """A time column, and the format that texts in it have."""

    def __init__(self, column: Any, format: str | None = None) -> None:
        super().__init__(column=str(column), **({"format": format} if format else {}))


def _kind(class_name: str, name: str) -> type[ModelKind]:
    return type(class_name, (ModelKind,), {"NAME": name, "__doc__": f"The kind {name}."})


FullKind = _kind("FullKind", "FULL")
ViewKind = _kind("ViewKind", "VIEW")
SeedKind = _kind("SeedKind", "SEED")
EmbeddedKind = _kind("EmbeddedKind", "EMBEDDED")
ExternalKind = _kind("ExternalKind", "EXTERNAL")
ManagedKind = _kind("ManagedKind", "MANAGED")
DbtCustomKind = _kind("DbtCustomKind", "DBT_CUSTOM")
IncrementalByTimeRangeKind = _kind("IncrementalByTimeRangeKind", "INCREMENTAL_BY_TIME_RANGE")
IncrementalByUniqueKeyKind = _kind("IncrementalByUniqueKeyKind", "INCREMENTAL_BY_UNIQUE_KEY")
IncrementalByPartitionKind = _kind("IncrementalByPartitionKind", "INCREMENTAL_BY_PARTITION")
IncrementalUnmanagedKind = _kind("IncrementalUnmanagedKind", "INCREMENTAL_UNMANAGED")
SCDType2ByTimeKind = _kind("SCDType2ByTimeKind", "SCD_TYPE_2_BY_TIME")
SCDType2ByColumnKind = _kind("SCDType2ByColumnKind", "SCD_TYPE_2_BY_COLUMN")


class CustomKind(ModelKind):
    """The kind CUSTOM."""

    NAME = "CUSTOM"
