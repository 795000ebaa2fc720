"""Changes of data by the versions of an environment, in words."""

from __future__ import annotations

from collections.abc import Sequence

from vde_dagster.execution.environments.version_changes import DataChange
from vde_dagster.reports.texts import count


def data_summary(tables: Sequence[DataChange]) -> str:
    """Sum up what happened to tables: `3 tables +10 -2 rows, 1 new table, 1 earlier table`."""
    moved = [table for table in tables if not table.is_new]
    back = sum(table.is_back for table in tables)
    rows = ""
    if all(table.added is not None for table in moved):
        added, removed = (
            sum(n or 0 for n in each)
            for each in ([table.added for table in moved], [table.removed for table in moved])
        )
        rows = f" +{added:,} -{removed:,} rows"
    parts = [count(len(moved), "table") + rows] if moved else []
    others = ((len(tables) - len(moved) - back, "new table"), (back, "earlier table"))
    return ", ".join([*parts, *(count(many, noun) for many, noun in others if many)])
