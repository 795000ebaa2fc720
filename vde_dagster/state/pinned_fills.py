"""What counted as filled in the tables of an environment when it was published.

It is kept with the pins, by difference as they are: a version has a pin of its own for a table
where it shows other rows, or where other ranges count as filled. A rollback that takes the rows
back takes this back with them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import (
    Connection,
    bindparam,
    delete,
    insert,
    select,
    text,
    update,
)

from vde_dagster.planning.interval import Interval, IntervalSet
from vde_dagster.state import schema
from vde_dagster.state.instants import from_micros, to_micros
from vde_dagster.state.rows import chunks

_PIN, _RANGE = schema.pins.c, schema.intervals.c
_OPEN = (_PIN.environment == bindparam("of")) & _PIN.valid_to.is_(None)
_SQLITE = """
    SELECT group_concat(one, ',') FROM (
      SELECT start_at || '-' || end_at AS one FROM vde_intervals i
      WHERE i.table_id = p.table_id ORDER BY start_at)
"""
_POSTGRES = """
    SELECT string_agg(start_at || '-' || end_at, ',' ORDER BY start_at) FROM vde_intervals i
    WHERE i.table_id = p.table_id
"""
# Compared where they are: of a thousand tables few have other ranges than before.
_DIFFERING = """
    SELECT table_id, valid_from, now FROM (
      SELECT p.table_id, p.valid_from, p.filled, COALESCE(({now}), '') AS now
      FROM vde_pins p WHERE p.environment = :of AND p.valid_to IS NULL) found
    WHERE filled IS NULL OR filled <> now
"""
_ON_SQLITE = text(_DIFFERING.format(now=_SQLITE))
_ON_POSTGRES = text(_DIFFERING.format(now=_POSTGRES))
_PINNED = select(_PIN.table_id, _PIN.filled, _PIN.valid_from).where(_OPEN)
_CLOSE = (
    update(schema.pins)
    .where(_OPEN, _PIN.table_id == bindparam("table"))
    .values(valid_to=bindparam("at"))
)
_SAY = (
    update(schema.pins)
    .where(_OPEN, _PIN.table_id == bindparam("table"))
    .values(filled=bindparam("text"))
)


def dump_filled(filled: IntervalSet) -> str:
    """Write ranges as the state has them: microseconds since 1970 (UTC), `1-2,4-9`."""
    return ",".join(f"{to_micros(one.start)}-{to_micros(one.end)}" for one in filled)


def load_filled(text: str) -> IntervalSet:
    """Read what `dump_filled` wrote."""
    pairs = (part.rsplit("-", 1) for part in text.split(",") if part)
    return IntervalSet(
        tuple(Interval(from_micros(int(start)), from_micros(int(end))) for start, end in pairs)
    )


def pin_filled(
    connection: Connection,
    environment: str,
    version: int,
    said: Mapping[str, IntervalSet],
) -> None:
    """Write what counts as filled in the tables of a version, in its publication's transaction.

    Args:
        connection: The transaction; it has written the version's pins, and what it fills.
        environment: The environment.
        version: Its new version.
        said: By table id, what is filled once the catalog has followed; it may come later.
    """
    on_sqlite = connection.dialect.name == "sqlite"
    found: Iterable[Any] = connection.execute(
        _ON_SQLITE if on_sqlite else _ON_POSTGRES, {"of": environment}
    ).all()
    differing = {one: (since, now) for one, since, now in found if one not in said}
    for part in chunks(sorted(said)):
        pinned: Iterable[Any] = connection.execute(
            _PINNED.where(_PIN.table_id.in_(part)), {"of": environment}
        ).all()
        for table_id, before, since in pinned:
            now = dump_filled(said[table_id])
            if now != before:
                differing[table_id] = (since, now)
    _reopen(
        connection, environment, version, [o for o, (at, _) in differing.items() if at != version]
    )
    rows = [{"of": environment, "table": one, "text": now} for one, (_, now) in differing.items()]
    if rows:
        connection.execute(_SAY, rows)


def _reopen(
    connection: Connection, environment: str, version: int, table_ids: Collection[str]
) -> None:
    """Go on with pins of the same rows: what the earlier versions say of them stays."""
    kept: list[dict[str, Any]] = []
    for part in chunks(list(table_ids)):
        query = select(schema.pins).where(_OPEN, _PIN.table_id.in_(part))
        for row in connection.execute(query, {"of": environment}).mappings():
            changed = {"valid_from": version, "rows_added": None, "rows_removed": None}
            kept.append({**row, **changed})
    if kept:
        closed = [{"of": environment, "table": row["table_id"], "at": version} for row in kept]
        connection.execute(_CLOSE, closed)
        connection.execute(insert(schema.pins), kept)


def restore_filled(connection: Connection, table_id: str, filled: IntervalSet) -> None:
    """Let just these ranges of a table count as filled, and nothing wait for being so.

    Args:
        connection: A transaction.
        table_id: The table.
        filled: The ranges (UTC).
    """
    for table in (schema.intervals, schema.pending):
        connection.execute(delete(table).where(table.c.table_id == table_id))
    rows = [{"table_id": table_id, "start_at": one.start, "end_at": one.end} for one in filled]
    if rows:
        connection.execute(insert(schema.intervals), rows)


def filled_now(connection: Connection, table_ids: Iterable[str]) -> dict[str, IntervalSet]:
    """Return what counts as filled in tables, by id."""
    found: dict[str, list[Interval]] = {}
    for part in chunks(sorted(table_ids)):
        query = select(_RANGE.table_id, _RANGE.start_at, _RANGE.end_at)
        for row in connection.execute(query.where(_RANGE.table_id.in_(part))):
            found.setdefault(row[0], []).append(Interval(row[1], row[2]))
    return {table_id: IntervalSet.of(ranges) for table_id, ranges in found.items()}
