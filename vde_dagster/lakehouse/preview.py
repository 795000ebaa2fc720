"""A few rows of a table as one commit left it, read with PyIceberg: no engine is started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.planning.interval import Interval
from vde_dagster.planning.table import PhysicalTable

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression

_BOUNDS = {"date": "%Y-%m-%d", "timestamp": "%Y-%m-%dT%H:%M:%S.%f+00:00"}
_BOUNDS |= {"timestamp_ltz": _BOUNDS["timestamp"], "timestamp_ntz": "%Y-%m-%dT%H:%M:%S.%f"}


def import_readers() -> None:
    """Import what reading rows needs, before there are threads.

    It imports more of SQLAlchemy than the state store does; two threads that do so at once can see
    half a module.
    """
    import pyiceberg.catalog.sql  # noqa: F401


def some_rows(
    lakehouse: Lakehouse,
    table: PhysicalTable,
    snapshot_id: int,
    columns: Sequence[tuple[str, str]],
    *,
    time_column: str | None,
    intervals: Sequence[Interval],
    limit: int,
) -> list[dict[str, Any]]:
    """Read rows of a commit, from the first of the given ranges that has any.

    Args:
        lakehouse: The catalog.
        table: The table.
        snapshot_id: The Iceberg snapshot, on whatever branch.
        columns: (name to give, physical column), in order.
        time_column: The physical column that tells ranges apart; None where there is none.
        intervals: Ranges (UTC) to look in, in order; a column of text or numbers has none.
        limit: The most rows to read.
    """
    from pyiceberg.expressions import AlwaysTrue

    physical = [name for _, name in columns]
    kinds = {column.name: (column.type or "").lower() for column in table.columns}
    bound = _BOUNDS.get(kinds.get(time_column or "", ""))
    filters: list[BooleanExpression] = [AlwaysTrue()]
    if time_column is not None and bound is not None:
        filters = [_within(time_column, interval, bound) for interval in intervals]
    loaded = lakehouse.load_table(table.ref)
    for row_filter in filters:
        scan = loaded.scan(
            row_filter=row_filter,
            selected_fields=tuple(physical),
            snapshot_id=snapshot_id,
            limit=limit,
        )
        rows = scan.to_arrow().select(physical).to_pylist()
        if rows:
            return [{name: row[column] for name, column in columns} for row in rows]
    return []


def _within(column: str, interval: Interval, bound: str) -> BooleanExpression:
    from pyiceberg import expressions

    # Their constructors take a name and a value, which their annotations do not say.
    at_least: Any = expressions.GreaterThanOrEqual
    below: Any = expressions.LessThan
    start, end = (f"{at:{bound}}" for at in (interval.start, interval.end))
    return expressions.And(at_least(column, start), below(column, end))
