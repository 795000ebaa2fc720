"""Parts of interval units in physical tables, see `Part`: noted before they are filled.

So an apply that dies before it records a part has noted it, too. Whoever was begun to be applied
later and fills a part again, by whole units of its own, settles it; one that fills it in part
again has noted that as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection, bindparam, select

from vde_dagster.planning.intervals.cadence import IntervalUnit
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.tables.table import Part
from vde_dagster.state.db import schema
from vde_dagster.state.db.rows import among, on_ranges, span, upsert

_ROW = schema.parts.c
_ON_RANGES = on_ranges(schema.parts)
_DELETE_WITHIN = _ON_RANGES.delete_within.where(_ROW.unit == bindparam("of_unit"))
STARTED = select(schema.plans.c.started_at).where(schema.plans.c.plan_id == bindparam("of_plan"))
"""When a plan was last begun to be applied (UTC)."""


def note_parts(conn: Connection, parts: Iterable[tuple[str, Part]], since: datetime) -> None:
    """Write down which parts of units tables, by id, are going to be filled with.

    Args:
        since: Whoever is begun to be applied after that (UTC) settles what it fills again.
    """
    for table_id, (interval, unit) in parts:
        conn.execute(_DELETE_WITHIN, {**span(table_id, interval), "of_unit": unit.name})
        _put(conn, table_id, {(interval, unit.name): since})


def settle_parts(conn: Connection, table_id: str, interval: Interval, plan_id: str) -> None:
    """Forget, in the transaction that records a fill, the earlier parts that it fills again."""
    touched = span(table_id, interval)
    rows = conn.execute(_ON_RANGES.read, touched).all()
    if not rows:
        return
    began = conn.execute(STARTED, {"of_plan": plan_id}).scalar()
    filled = IntervalSet((interval,))
    kept: dict[tuple[Interval, str], datetime] = {}
    for row in rows:
        part = IntervalSet((Interval(row.start_at, row.end_at),))
        left = part - filled if began is None or row.since < began else part
        kept |= {
            (one, row.unit): max(row.since, kept.get((one, row.unit), row.since)) for one in left
        }
    conn.execute(_ON_RANGES.delete, touched)
    _put(conn, table_id, kept)


def read_parts(conn: Connection, table_ids: Sequence[str]) -> dict[str, tuple[Part, ...]]:
    """Return the parts of units that tables have, by table id."""
    found: dict[str, tuple[Part, ...]] = {}
    query = select(schema.parts).order_by(_ROW.start_at)
    for row in among(conn, query, _ROW.table_id, table_ids):
        part = Part(Interval(row.start_at, row.end_at), IntervalUnit[row.unit])
        found[row.table_id] = (*found.get(row.table_id, ()), part)
    return found


def _put(conn: Connection, table_id: str, since: Mapping[tuple[Interval, str], datetime]) -> None:
    """Write parts; somebody else may note the same one at the same time."""
    rows = [
        {
            "table_id": table_id,
            "start_at": interval.start,
            "end_at": interval.end,
            "unit": unit,
            "since": at,
        }
        for (interval, unit), at in since.items()
    ]
    upsert(conn, schema.parts, rows, "since")
