"""Filled ranges of physical tables, and the log of all fills."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

import sqlalchemy as sa

from vde_dagster.base.work import Work
from vde_dagster.planning.changes.refresh import MeasuredFill
from vde_dagster.planning.engine_tasks import FillResult
from vde_dagster.planning.intervals.cadence import BEGINNING, FAR
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.table_contents import (
    FillFacts,
    Output,
    Skipped,
    dump_facts,
    load_facts,
    load_output,
)
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.effects import STEP
from vde_dagster.state.db.outbox import add_record
from vde_dagster.state.db.rows import (
    Instant,
    among,
    chunks,
    on_ranges,
    ranges_by_key,
    row_from_value,
    span,
    to_micros,
    value_from_row,
)
from vde_dagster.state.tables.noted_ranges import settle_ranges
from vde_dagster.state.tables.tables import LIVE, STATUS, not_live

# Built once: building a statement takes longer than running it.
_RANGE, _FILL = schema.intervals.c, schema.fills.c
_EARLIER = schema.intervals.alias("earlier")
_LAST_BEFORE = (
    sa.select(sa.func.max(_EARLIER.c.start_at))
    .where(
        _EARLIER.c.table_id == sa.bindparam("of"), _EARLIER.c.start_at <= sa.bindparam("of_start")
    )
    .scalar_subquery()
)
# Stored ranges are disjoint: except for the last one that begins before, those that touch begin
# within. In this form the primary key finds them among any number of others.
_TOUCHING = (
    (_RANGE.table_id == sa.bindparam("of"))
    & (_RANGE.start_at >= sa.func.coalesce(_LAST_BEFORE, sa.bindparam("of_start", type_=Instant)))
    & (_RANGE.start_at <= sa.bindparam("of_end"))
    & (_RANGE.end_at >= sa.bindparam("of_start"))
)
_TOUCHING_RANGES = sa.select(_RANGE.start_at, _RANGE.end_at).where(_TOUCHING)
_DELETE_TOUCHING = sa.delete(schema.intervals).where(_TOUCHING)
_OUTPUTS = sa.union_all(
    *(
        sa.select(table.c.output, sa.literal(order).label("order")).where(
            table.c.table_id == sa.bindparam("of"),
            table.c.iceberg_snapshot_id == sa.bindparam("of_commit"),
            table.c.output.is_not(None),
            table.c.output != "",
            table.c.skipped.is_(None),
        )
        for order, table in enumerate((schema.pending, schema.fills))
    )
).order_by("order")
_FEW = 100
"""Maximum number of tables whose fills a query finds by the primary key."""
COUNTS = _FILL.undone.is_not(True)
"""Condition that a fill was not undone by a rollback."""
_COUNTED = sa.select(_FILL.table_id, _FILL.start_at, _FILL.end_at).where(COUNTS)
_RECORDED_LATE = _COUNTED.where(_FILL.recorded_at > sa.bindparam("late"))
_ENDED_LATE = _COUNTED.where(_FILL.end_at > sa.bindparam("late"))
_THIS_FILL = (
    (_FILL.table_id == sa.bindparam("of"))
    & (_FILL.start_at == sa.bindparam("of_start"))
    & (_FILL.end_at == sa.bindparam("of_end"))
    & (_FILL.plan_id == sa.bindparam("of_plan"))
)
_DELETE_FILL = sa.delete(schema.fills).where(_THIS_FILL)
_REDATE_FILL = sa.update(schema.fills).where(_THIS_FILL).values(recorded_at=sa.bindparam("at"))


_WITHOUT_FACTS = [one for one in schema.fills.c if one.name not in ("inputs", "output", "lacks")]
_NO_FACTS = FillFacts()


@dataclass(frozen=True, slots=True)
class FillRecord:
    """Fill of one range of a table: its plan, commit, rows and cost.

    A fill is pending until its rows reach `main` or the preview. Then its range counts as filled.

    Args:
        branch: The branch of a pending fill that computed rows; otherwise empty.
        recorded_at: When it was recorded (UTC); far in the future if it is not recorded yet.
        task_seconds: Total run time of the engine's tasks; None if unknown.
        bytes_read: Size of the files that the tasks scanned; None unless known for all tasks.
    """

    table_id: str
    interval: Interval
    plan_id: str
    iceberg_snapshot_id: int | None = None
    rows: int | None = None
    bytes: int | None = None
    seconds: float | None = None
    facts: FillFacts = _NO_FACTS
    branch: str = ""
    recorded_at: datetime = FAR
    task_seconds: float | None = None
    bytes_read: int | None = None

    @property
    def result(self) -> FillResult:
        """Rows, commit and cost of the fill, as the engine returned them."""
        return FillResult(
            self.rows,
            self.iceberg_snapshot_id,
            self.seconds,
            self.bytes,
            task_seconds=self.task_seconds,
            bytes_read=self.bytes_read,
        )

    @property
    def work(self) -> Work:
        """Cost of the fill: seconds, bytes read and written."""
        return Work.from_fill(self.seconds, self.task_seconds, self.bytes, self.bytes_read)

    def as_skipped(self) -> Skipped:
        """Build the value that the next fill records if it is skipped.

        The value has the time, cost and commit of the last fill that computed rows: this fill, or
        an earlier one if this fill was skipped.
        """
        if self.facts.skipped is not None:
            return self.facts.skipped
        return Skipped(
            self.recorded_at,
            self.seconds,
            self.bytes,
            self.iceberg_snapshot_id,
            self.task_seconds,
            self.bytes_read,
        )

    def row(self, table: sa.Table, at: datetime) -> dict[str, Any]:
        """Convert the fill to a row of `table`, recorded at `at` (UTC)."""
        return row_from_value(
            self,
            table,
            start_at=self.interval.start,
            end_at=self.interval.end,
            row_count=self.rows,
            byte_count=self.bytes,
            recorded_at=at,
            **dump_facts(self.facts),
        )


def read_fill(row: sa.Row[Any]) -> FillRecord:
    """Create a fill from a row of fills or of pending fills.

    A fact is empty if the query did not select its column.
    """
    columns = row._mapping
    return value_from_row(
        FillRecord,
        row,
        interval=Interval(row.start_at, row.end_at),
        rows=row.row_count,
        bytes=row.byte_count,
        facts=load_facts(
            columns.get("inputs"),
            columns.get("output"),
            row.skipped,
            columns.get("lacks"),
            columns.get("refresh"),
        ),
        branch=columns.get("branch", ""),
    )


Progress = Literal["begun", "computed", "broken"]


def add_fill_record(
    database: Database,
    connection: sa.Connection,
    kind: Progress | Literal["waiting", "fill"],
    fill: FillRecord,
    **more: Any,
) -> None:
    """Write an outbox record about the fill of a range."""
    interval, known = fill.interval, {"branch": fill.branch} if fill.branch else {}
    ends = {"start": to_micros(interval.start), "end": to_micros(interval.end)}
    of = {"table": fill.table_id, "plan": fill.plan_id}
    add_record(database, connection, kind, **of, **ends, **known, **more)


@dataclass(frozen=True, slots=True)
class FillStore:
    database: Database

    def record(
        self, fill: FillRecord, connection: sa.Connection | None = None, *, waited: bool = False
    ) -> None:
        """Record that a range of a table is filled and audited. Repeating the call is harmless.

        Args:
            waited: Whether an outbox record has already announced that the fill waits for a
                publication.
        """
        table_id, interval, plan_id = fill.table_id, fill.interval, fill.plan_id

        def work(conn: sa.Connection) -> None:
            status = conn.execute(STATUS, {"of": table_id}).scalar()
            if status != LIVE:
                raise not_live(table_id)
            conn.execute(_DELETE_FILL, {**span(table_id, interval), "of_plan": plan_id})
            conn.execute(sa.insert(schema.fills), fill.row(schema.fills, self.database.clock.now()))
            add_fill_record(
                self.database, conn, "fill", fill, **({"waited": True} if waited else {})
            )
            settle_ranges(conn, schema.parts, table_id, interval, plan_id)
            # Ranges that became outdated after the plan's apply began must still be
            # filled again.
            late = settle_ranges(conn, schema.outdated, table_id, interval, plan_id)
            for part in IntervalSet((interval,)) - late:
                _change_intervals(conn, table_id, part, add=True)

        self.database.run(connection, work, name="state.record_intervals")

    def note(self, kind: Progress, fill: FillRecord, **more: Any) -> None:
        """Write an outbox record about the progress of filling a range."""
        self.database.run_transaction(
            lambda conn: add_fill_record(self.database, conn, kind, fill, **more),
            name="state.note_fill",
        )

    def remove(
        self, table_id: str, interval: Interval, connection: sa.Connection | None = None
    ) -> None:
        """Mark a range of a table as missing, so that it is filled again."""
        self.database.run(
            connection,
            lambda conn: _change_intervals(conn, table_id, interval, add=False),
            name="state.remove_intervals",
        )

    def early(
        self, filled: Mapping[str, IntervalSet], now: datetime
    ) -> dict[str, tuple[IntervalSet, datetime]]:
        """Find the ranges that were filled too early, because the clock of a machine ran ahead.

        Returns:
            By table id, these ranges, and the time (UTC) of the last fill that was not too early;
            `BEGINNING` if all fills were too early.
        """
        late = now + STEP
        ahead = {one for one, ranges in filled.items() if ranges and ranges.ranges[-1].end > late}
        at = {"late": late}
        with self.database.reading() as conn:
            rows = among(conn, _RECORDED_LATE, _FILL.table_id, filled, at)
            ended = among(conn, _ENDED_LATE, _FILL.table_id, ahead, at)
            found = ranges_by_key([*rows, *ended])
            sane = sa.select(sa.func.max(_FILL.recorded_at)).where(
                COUNTS, _FILL.recorded_at <= late, _FILL.end_at <= late
            )
            since = {one: conn.execute(sane.where(_FILL.table_id == one)).scalar() for one in found}
        return {one: (ranges, since[one] or BEGINNING) for one, ranges in found.items()}

    def give_up_early(self, early: Mapping[str, IntervalSet], now: datetime) -> None:
        """Mark ranges that were filled too early as missing."""
        late = now + STEP

        def work(conn: sa.Connection) -> None:
            for table_id, ranges in early.items():
                for interval in ranges:
                    _change_intervals(conn, table_id, interval, add=False)
                own = (_FILL.table_id == table_id) & (_FILL.recorded_at > late)
                doubtful = conn.execute(
                    sa.select(_FILL.start_at, _FILL.end_at, _FILL.plan_id)
                    .where(own)
                    .order_by(_FILL.recorded_at.desc())
                )
                # The fills are dated to `now`, so that later fills count as newer.
                for age, fill in enumerate(doubtful.all()):
                    key = span(table_id, Interval(fill.start_at, fill.end_at))
                    again = {"of_plan": fill.plan_id, "at": now - timedelta(microseconds=age)}
                    conn.execute(_REDATE_FILL, {**key, **again})
                waiting = schema.pending.c
                conn.execute(
                    sa.delete(schema.pending).where(
                        waiting.table_id == table_id, waiting.recorded_at > late
                    )
                )

        self.database.run_transaction(work, name="state.give_up_early")

    def undo(
        self, connection: sa.Connection, table_id: str, commits: Collection[int], *, undone: bool
    ) -> None:
        """Record that the fills of some commits were undone or restored by a rollback."""
        for part in chunks(sorted(commits)):
            connection.execute(
                sa.update(schema.fills)
                .where(_FILL.table_id == table_id, _FILL.iceberg_snapshot_id.in_(part))
                .values(undone=undone)
            )

    def ranges_of_plans(
        self, table_ids: Collection[str], plan_ids: Iterable[str]
    ) -> dict[tuple[str, str | None], IntervalSet]:
        """Return the ranges (UTC) that plans filled, by (table id, plan id)."""
        query = sa.select(_FILL.table_id, _FILL.plan_id, _FILL.start_at, _FILL.end_at)
        if len(table_ids) <= _FEW:
            query = query.where(_FILL.table_id.in_(table_ids))
        rows = self.database.among(query, _FILL.plan_id, plan_ids)
        return ranges_by_key(((one, plan), start, end) for one, plan, start, end in rows)

    def log(
        self, table_id: str, plan_id: str | None = None, interval: Interval | None = None
    ) -> list[FillRecord]:
        """Return the fills of a table, newest first.

        Without `plan_id`, fills that a rollback undid are left out. Without `interval`, only
        `skipped` and `refresh` of each fill's `facts` are read.
        """
        query = (
            sa.select(*(_WITHOUT_FACTS if interval is None else schema.fills.c))
            .where(_FILL.table_id == table_id)
            .where(COUNTS if plan_id is None else _FILL.plan_id == plan_id)
            .order_by(_FILL.recorded_at.desc(), _FILL.start_at.desc())
        )
        if interval is not None:
            query = query.where(_FILL.start_at == interval.start, _FILL.end_at == interval.end)
        return [read_fill(row) for row in self.database.rows(query)]

    def recent(
        self,
        table_ids: Iterable[str],
        most: int,
        until: datetime | None = None,
        *,
        without_plan: str | None = None,
    ) -> dict[str, list[FillRecord]]:
        """Return the newest fills of each table, without fills that a rollback undid.

        Only `skipped` and `refresh` of each fill's `facts` are read.

        Args:
            most: Maximum number for each table.
            until: Only fills recorded by then (UTC).
            without_plan: Id of a plan whose fills are left out.
        """
        age = sa.func.row_number().over(
            partition_by=_FILL.table_id, order_by=(_FILL.recorded_at.desc(), _FILL.start_at.desc())
        )
        counted = sa.select(*_WITHOUT_FACTS, age.label("age")).where(COUNTS)
        if until is not None:
            counted = counted.where(_FILL.recorded_at <= until)
        if without_plan is not None:
            counted = counted.where(_FILL.plan_id != without_plan)
        found: dict[str, list[FillRecord]] = {}
        with self.database.reading() as conn:
            for part in chunks(list(dict.fromkeys(table_ids))):
                aged = counted.where(_FILL.table_id.in_(part)).subquery()
                query = (
                    sa.select(aged).where(aged.c.age <= most).order_by(aged.c.table_id, aged.c.age)
                )
                for row in conn.execute(query):
                    found.setdefault(row.table_id, []).append(read_fill(row))
        return found

    def between(self, since: datetime, until: datetime) -> list[FillRecord]:
        """Return the fills recorded in a half-open range (UTC), including undone ones.

        Only `skipped` and `refresh` of each fill's `facts` are read.
        """
        query = (
            sa.select(*_WITHOUT_FACTS)
            .where(_FILL.recorded_at >= since, _FILL.recorded_at < until)
            .order_by(_FILL.recorded_at, _FILL.table_id, _FILL.start_at)
        )
        return [read_fill(row) for row in self.database.rows(query)]

    def latest(self, table_ids: Iterable[str]) -> dict[str, FillRecord]:
        """Return the latest fill of each table that has one, by table id."""
        newer = schema.fills.alias("newer")
        newest = (
            sa.select(sa.func.max(newer.c.recorded_at))
            .where(newer.c.table_id == _FILL.table_id, newer.c.undone.is_not(True))
            .scalar_subquery()
        )
        query = (
            sa.select(schema.fills)
            .where(_FILL.recorded_at == newest, COUNTS)
            .order_by(_FILL.table_id, _FILL.start_at)
        )
        rows = self.database.among(query, _FILL.table_id, table_ids)
        return {row.table_id: read_fill(row) for row in rows}

    def measured(self, table_ids: Iterable[str], most: int = 100) -> list[MeasuredFill]:
        """Return duration and input sizes of each table's newest fills, where recorded."""
        found = []
        for fills in self.recent(table_ids, most).values():
            for fill in fills:
                how, seconds = fill.facts.refresh, fill.seconds
                if how is not None and how.sizes is not None and seconds is not None:
                    found.append(MeasuredFill(how.begins_with_changes, how.sizes, seconds))
        return found

    def output(self, table_id: str, commit: int) -> Output | None:
        """Return the digest of the rows that an Iceberg commit wrote, or None."""
        found = self.database.row(_OUTPUTS, of=table_id, of_commit=commit)
        return load_output(found.output) if found else None

    def overlapping(
        self, table_id: str, interval: Interval, plan_id: str
    ) -> list[tuple[Interval, int | None, Output | None]]:
        """Return fills that overlap a range, including the plan's pending fills, newest first."""
        waiting = on_ranges(schema.pending).read.where(schema.pending.c.plan_id == plan_id)
        counted, touched = on_ranges(schema.fills).read.where(COUNTS), span(table_id, interval)
        with self.database.reading() as conn:
            rows = [*conn.execute(waiting, touched), *conn.execute(counted, touched)]
        rows.sort(key=lambda row: row.recorded_at, reverse=True)
        return [
            (Interval(row.start_at, row.end_at), row.iceberg_snapshot_id, load_output(row.output))
            for row in rows
        ]


def _change_intervals(conn: sa.Connection, table_id: str, interval: Interval, *, add: bool) -> None:
    touching = span(table_id, interval)
    rows = conn.execute(_TOUCHING_RANGES, touching).all()
    before = IntervalSet.of(Interval(row[0], row[1]) for row in rows)
    change = IntervalSet((interval,))
    after = before | change if add else before - change
    if after == before:
        return
    conn.execute(_DELETE_TOUCHING, touching)
    if after:
        conn.execute(
            sa.insert(schema.intervals),
            [{"table_id": table_id, "start_at": part.start, "end_at": part.end} for part in after],
        )
