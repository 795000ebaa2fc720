"""Recorded ranges of tables that must be computed again.

There are two kinds: ranges that became outdated (`fills.outdated`), and parts of an interval unit
(`Part`). A part is recorded before it is filled, so that an apply that dies leaves the record. A
fill removes the recorded ranges that it covers, if its apply began after they were recorded. It
removes a part only if it fills the whole unit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Table, bindparam, select

from vde_dagster.planning.intervals.cadence import FAR, IntervalUnit
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.tables.table import Part
from vde_dagster.state.db import schema
from vde_dagster.state.db.rows import among, on_ranges, span, upsert

NotedRange = tuple[Interval, "str | None"]
"""A range, and the unit of which it is a part, if any."""

_PART = schema.parts.c
_PARTS = select(schema.parts).order_by(_PART.start_at)
_STARTED = select(schema.plans.c.started_at).where(schema.plans.c.plan_id == bindparam("of_plan"))
"""The time (UTC) at which a plan's apply last began."""


def note_ranges(
    conn: Connection, table: Table, table_id: str, ranges: Collection[NotedRange], since: datetime
) -> None:
    """Store ranges that became outdated at `since` (UTC) and must be filled again.

    Stored ranges that lie inside a new range are deleted.
    """
    for interval, unit in ranges:
        within = on_ranges(table).delete_within
        if unit is not None:
            within = within.where(table.c.unit == unit)
        conn.execute(within, span(table_id, interval))
    _put(conn, table, table_id, dict.fromkeys(ranges, since))


def settle_ranges(
    conn: Connection, table: Table, table_id: str, interval: Interval, plan_id: str
) -> IntervalSet:
    """Delete the stored ranges in an interval that a plan has filled.

    Returns:
        Ranges that stay stored, because they were stored after the plan's apply began.
    """
    touched = span(table_id, interval)
    rows = conn.execute(on_ranges(table).read, touched).all()
    if not rows:
        return IntervalSet()
    began = conn.execute(_STARTED, {"of_plan": plan_id}).scalar()
    filled = IntervalSet((interval,))
    kept: dict[NotedRange, datetime] = {}
    late: list[Interval] = []
    for row in rows:
        noted = Interval(row.start_at, row.end_at)
        # The fill may have read the rows from before the note.
        if began is not None and row.since >= began:
            late.append(noted)
            rest = IntervalSet((noted,))
        else:
            # A table whose ranges all depend on each other is complete with its first range.
            rest = IntervalSet() if noted.end == FAR else IntervalSet((noted,)) - filled
        unit = row._mapping.get("unit")
        kept |= {(one, unit): max(row.since, kept.get((one, unit), row.since)) for one in rest}
    conn.execute(on_ranges(table).delete, touched)
    _put(conn, table, table_id, kept)
    return IntervalSet.of(late) & filled


def read_parts(conn: Connection, table_ids: Sequence[str]) -> dict[str, tuple[Part, ...]]:
    """Return the partly filled intervals (`Part`) of tables, by table id."""
    found: dict[str, tuple[Part, ...]] = {}
    for row in among(conn, _PARTS, _PART.table_id, table_ids):
        part = Part(Interval(row.start_at, row.end_at), IntervalUnit[row.unit])
        found[row.table_id] = (*found.get(row.table_id, ()), part)
    return found


def _put(
    conn: Connection, table: Table, table_id: str, since: Mapping[NotedRange, datetime]
) -> None:
    rows: list[dict[str, Any]] = [
        {
            "table_id": table_id,
            "start_at": interval.start,
            "end_at": interval.end,
            "since": at,
            **({"unit": unit} if unit is not None else {}),
        }
        for (interval, unit), at in since.items()
    ]
    upsert(conn, table, rows, "since")
