"""Batches of a long backfill: limited by bytes, and run in parallel.

The size of parents comes from Iceberg's metadata (`total-files-size` of a snapshot's summary,
https://iceberg.apache.org/spec/#optional-snapshot-summary-fields) and, per interval, from the log
of fills; bytes whose interval is unknown count as spread evenly over the table's time range.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import accumulate
from typing import TYPE_CHECKING

from vde_dagster.errors import VdeError
from vde_dagster.execution.apply.worker_pool import Slots
from vde_dagster.lakehouse.metadata.table_metadata import head_of, history
from vde_dagster.planning.environments.resolver import TableRead, tables_read
from vde_dagster.planning.intervals.cadence import Cadence
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.plan.plan import Batches, Plan, PlannedModel
from vde_dagster.spark.session.settings import MEMORY, is_local, local_memory

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles
    from vde_dagster.planning.snapshots.snapshot import Snapshot
    from vde_dagster.planning.tables.table import PhysicalTable
    from vde_dagster.project.settings import SparkSettings
    from vde_dagster.state.fills.fills import FillRecord


@dataclass
class BatchRun:
    """Runs independent batches of one table in parallel threads, until one fails."""

    # The calling thread runs batches in its own slot. Helper threads take a spare slot of the apply
    # for each batch. After a failure no batch is started, and running batches finish.
    batches: Sequence[Interval]
    work: Callable[[Interval], None]
    most: int
    slots: Slots
    stop: threading.Event
    failed: dict[Interval, Exception] = field(default_factory=dict)
    _waiting: deque[Interval] = field(init=False)

    def run(self) -> list[Interval]:
        """Run the batches in parallel.

        Returns the batches that did not start, because another batch failed or `stop` was set.
        """
        self._waiting = deque(self.batches)
        with ThreadPoolExecutor(self.most, thread_name_prefix="vde-batch") as pool:
            helpers = [pool.submit(self._run_in_spare_slots) for _ in range(self.most - 1)]
            try:
                while self._is_wanted():
                    self._run_next()
            finally:
                self.slots.give_back(0)  # Wake helpers that wait for a slot.
        for helper in helpers:
            helper.result()  # Errors outside of batches propagate.
        return list(self._waiting)

    def _is_wanted(self) -> bool:
        return bool(self._waiting) and not self.failed and not self.stop.is_set()

    def _run_in_spare_slots(self) -> None:
        while self.slots.take_spare(self._is_wanted):
            try:
                self._run_next()
            finally:
                self.slots.give_back()

    def _run_next(self) -> None:
        try:
            batch = self._waiting.popleft()
        except IndexError:
            return  # Another thread took the last batch.
        try:
            self.work(batch)
        except Exception as error:
            self.failed[batch] = error
        except BaseException:
            self.stop.set()
            raise


_MEMORY_DIVISOR = 4
"""Divisor of the JVM's memory; the quotient limits a batch in local mode.

The limit counts bytes of Parquet files, whose rows take more bytes in memory.
"""
_CLUSTER_BATCH_BYTES = 64 << 30
_SIZE = re.compile(r"(\d+)\s*([kmgt]?)b?", re.I)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


@dataclass(frozen=True, slots=True)
class Weight:
    """Bytes of a table, spread evenly over a range of time (UTC)."""

    interval: Interval
    bytes: int


def default_batch_bytes(settings: SparkSettings) -> int:
    """Return the maximum bytes of parents' files that one batch reads.

    Without the setting `batch_bytes`, this is a quarter of the JVM's memory if Spark runs locally,
    and 64 GiB on a cluster.
    """
    if settings.batch_bytes is not None:
        return settings.batch_bytes
    if not is_local(settings.master):
        return _CLUSTER_BATCH_BYTES
    return (_parse_memory(settings.config.get(MEMORY, "")) or local_memory()) // _MEMORY_DIVISOR


def cut_by_bytes(
    handles: Handles,
    snapshot: Snapshot,
    table: PhysicalTable,
    missing: IntervalSet,
    reads: Callable[[], Iterable[TableRead]],
) -> tuple[list[Interval], float] | None:
    """Cut missing ranges into batches of whole units that read a limited number of bytes each.

    Returns ordered batches and their total bytes, or None if the model sets its own batches, may
    not be cut, or lacks only one unit.
    """
    # Bytes of a parent whose interval is unknown are assumed to lie between the table's first
    # instant and the last missing one.
    cadence, meaning = snapshot.cadence, meaning_of(snapshot.model.kind)
    if (
        not meaning.is_cut_freely(snapshot.model)
        or meaning.most_intervals(snapshot.model) is not None
        or sum(map(cadence.unit.count, missing)) < 2
    ):
        return None
    limit = default_batch_bytes(handles.settings.spark)
    span = Interval((table.intervals | missing).ranges[0].start, missing.ranges[-1].end)
    weights = [weight for read in reads() for weight in _weights(handles, read, span, limit)]
    before = _CumulativeBytes(weights)
    held = sum(before(one.end) - before(one.start) for one in missing)
    return list(cut(missing, cadence, weights, limit)), held


def with_batches(handles: Handles, plan: Plan) -> Plan:
    """Add the number and average size of batches to models whose fills are cut by bytes."""
    # The number follows from the current size of the parents, without rows that the plan adds.
    tables = plan.tables
    resolver = plan.resolver(tables)

    def batches(model: PlannedModel) -> Batches | None:
        if model.records_only or model.table is None:
            return None
        snapshot = plan.snapshot_of(model)

        def reads() -> Iterator[TableRead]:
            for read in tables_read(snapshot, resolver, handles.settings.catalog):
                if read.key not in tables or tables[read.key].created:
                    yield read

        found = cut_by_bytes(handles, snapshot, model.table, model.intervals, reads)
        if found is None or len(found[0]) <= len(model.intervals):
            return None
        return Batches(len(found[0]), round(found[1] / len(found[0])))

    models = (replace(m, batches=batches(m)) if m.builds else m for m in plan.models)
    return replace(plan, models=tuple(models))


def cut(
    missing: IntervalSet, cadence: Cadence, weights: list[Weight], limit: int
) -> Iterator[Interval]:
    """Yield batches of as many whole units as a limit of bytes allows, but at least one unit."""
    if sum(weight.bytes for weight in weights) <= limit:
        yield from missing
        return
    until = _CumulativeBytes(weights)
    for interval in missing:
        start = interval.start
        while start < interval.end:
            most, base = until(start) + limit, cadence.unit.floor(start)
            taken, step = 1, 1
            # Doubling, then bisecting: a decade of five minutes is 1,000,000 units.
            while cadence.unit.shift(base, taken) < interval.end and step:
                if until(cadence.unit.shift(base, taken + step)) <= most:
                    taken, step = taken + step, step * 2
                else:
                    step //= 2
            end = min(cadence.unit.shift(base, taken), interval.end)
            yield Interval(start, end)
            start = end


class _CumulativeBytes:
    def __init__(self, weights: list[Weight]) -> None:
        slopes: dict[datetime, float] = {}
        for weight in weights:
            length = _total_seconds((weight.interval,))
            for at, sign in ((weight.interval.start, 1), (weight.interval.end, -1)):
                slopes[at] = slopes.get(at, 0.0) + sign * weight.bytes / length
        self._at = sorted(slopes)
        self._slope = list(accumulate(slopes[at] for at in self._at))
        self._before = [0.0]
        for index, at in enumerate(self._at[1:]):
            seconds = (at - self._at[index]).total_seconds()
            self._before.append(self._before[-1] + self._slope[index] * seconds)

    def __call__(self, at: datetime) -> float:
        index = bisect_right(self._at, at) - 1
        if index < 0:
            return 0.0
        return self._before[index] + self._slope[index] * (at - self._at[index]).total_seconds()


def _weights(handles: Handles, read: TableRead, span: Interval, limit: int) -> Iterator[Weight]:
    left = _table_bytes(handles, read)
    if left > limit and not read.external:
        for fill, part, share in newest_fills(handles, read.key, IntervalSet((span,))):
            known = min(left, round(share * (fill.bytes or 0)))
            left -= known
            for each in part:
                yield Weight(each, round(known * _total_seconds((each,)) / _total_seconds(part)))
    if left:
        yield Weight(span, left)


def _table_bytes(handles: Handles, read: TableRead) -> int:
    if read.foreign is not None:
        return 0
    try:
        metadata = handles.lakehouse.table_metadata(read.ref)
    except (VdeError, OSError):
        return 0  # Spark will report the problem.
    shown = next(history(metadata, head_of(metadata, read.branch)), {})
    return int(shown.get("summary", {}).get("total-files-size", 0))


def _parse_memory(text: str) -> int | None:
    """Parse a size in Spark's notation.

    >>> _parse_memory("1500m") == 1500 << 20, _parse_memory("2GB") == 2 << 30, _parse_memory("")
    (True, True, None)
    """
    found = _SIZE.fullmatch(text.strip())
    return int(found[1]) << _UNITS[found[2].lower()] if found else None


def newest_fills(
    handles: Handles, table_id: str, wanted: IntervalSet
) -> Iterator[tuple[FillRecord, IntervalSet, float]]:
    """Yield the fills that last wrote parts of `wanted`, newest first.

    Each tuple has the fill, the part of `wanted` that it was the last to write, and the fraction of
    the fill's time range in this part: 0.25 for 6 hours of a day.
    """
    left = wanted
    for fill in handles.store.fills.log(table_id):
        part = left & IntervalSet((fill.interval,))
        if part:
            yield fill, part, _total_seconds(part) / _total_seconds((fill.interval,))
            left = left - part
            if not left:
                return


def _total_seconds(ranges: Iterable[Interval]) -> float:
    return sum((interval.end - interval.start).total_seconds() for interval in ranges)
