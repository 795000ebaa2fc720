from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vde_dagster.api.kinds import Kind, Property


@dataclass(frozen=True, slots=True)
class IncrementalByChanges(Kind):
    """A table with the rows of a full refresh after each cron tick.

    A fill computes only changed keys.

    Args:
        key: Output columns. Several rows may have the same key: a fill replaces all of them.
    """

    key: tuple[str, ...]
    name: Literal["INCREMENTAL_BY_CHANGES"] = "INCREMENTAL_BY_CHANGES"

    summary = "the rows of a full refresh; only keys with changed rows in parents are computed"
    allows_python = False
    properties = (Property.columns("key", required=True),)

    @property
    def named_columns(self) -> tuple[str, ...]:
        return self.key
