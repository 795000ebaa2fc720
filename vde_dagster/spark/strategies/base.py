"""Write strategies: their base class, the input of a write, and the strategy of each kind."""

from __future__ import annotations

import random
import re
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from vde_dagster.base.names import quote
from vde_dagster.base.plugins import Seam
from vde_dagster.errors import ConflictError, ExecutionError
from vde_dagster.lakehouse.metadata.commit_summaries import PLAN_KEY, is_quiet, scratch_branch
from vde_dagster.planning.changes.query import grouping_expression
from vde_dagster.planning.engine_tasks import FillTask
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.table_contents import Output
from vde_dagster.spark.session.failures import has_java_cause
from vde_dagster.spark.tables.columns import used_fields
from vde_dagster.spark.tables.digests import Digester
from vde_dagster.spark.tables.iceberg import CONFLICTS, Commit, IcebergTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriterV2, SparkSession

    from vde_dagster.planning.tables.nested_fields import ShownFields


_ATTEMPTS = 10
"""Number of attempts for a write that conflicts with other commits."""
_LONGEST_WAIT = 5.0
"""Maximum seconds between two attempts."""
_locks: dict[str, threading.Lock] = {}
_ZONE = "spark.sql.session.timeZone"
_GEOSPATIAL = re.compile(r"\bgeo(?:graphy|metry)\b(?![`:])", re.IGNORECASE)
_MOST_BYTES = 16 * 2**20
"""Maximum bytes of a table that is read completely after a fill of some rows, for its digests."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A kind's default table layout: Iceberg's partition transforms over output columns."""

    partitioned_by: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A commit that wrote all rows of a table, although the fill computed only some (`rows`)."""

    rows: int | None
    digester: Digester | None


@dataclass(frozen=True, slots=True)
class Write:
    """The input of a strategy: the task, its computed rows, and the table to write.

    Args:
        table: The table before the write.
        frame: The rows, in the table's physical columns and types.
        frame_types: Spark SQL type by column of the frame, which has all columns of the table.
        types: Types of the columns that the task fills.
        physical: Physical column by output column in lower case.
        summary: Properties that the commit's summary must carry.
        notes: Warnings for the fill's result, which the strategy adds.
        why_all: Reasons for computing all rows, although the changed rows are known.
        rewrites: The strategy's last commit, if it rewrote all rows of the table.
    """

    task: FillTask
    session: SparkSession
    table: IcebergTable
    frame: DataFrame
    frame_types: Mapping[str, str]
    types: Mapping[str, str]
    physical: Mapping[str, str]
    summary: Mapping[str, str]
    digester: Digester | None = None
    project_root: Path | None = None
    notes: list[str] = field(default_factory=list)
    why_all: list[str] = field(default_factory=list)
    rewrites: list[Rewrite] = field(default_factory=list)

    def compared_fields(self) -> dict[str, ShownFields]:
        """Return the struct fields that the definition fills, by physical column.

        A column is left out if the table's column has exactly these fields.
        """
        added = {column.name: column.fields for column in self.task.table.columns}
        given = (
            (name, used_fields(self.task.snapshot, output, self.types[name], added[name]))
            for output, name in self.task.columns
        )
        return {name: fields for name, fields in given if fields is not None}

    def written_rows(self, commit: Commit) -> int:
        """Return the number of rows that the fill computed and wrote in a commit."""
        counted = self.rewrites[-1].rows if self.rewrites else None
        return commit.added_records if counted is None else counted

    def target(self, branch: str | None) -> str:
        """Return the quoted name of the table for writing, with Iceberg's suffix for a branch."""
        suffix = "" if branch is None else f".{quote(f'branch_{branch}')}"
        return f"{self.table.quoted}{suffix}"

    def writer(
        self, frame: DataFrame, branch: str | None, digester: Digester | None = None
    ) -> DataFrameWriterV2:
        """Return a Spark writer for a frame, which stores the summary in the commit."""
        digester = digester or self.digester
        if digester is not None:
            frame = digester.watch(frame)
        writer = frame.writeTo(self.target(branch))
        for key, value in self.summary.items():
            writer = writer.option(f"snapshot-property.{key}", value)
        return writer

    def overwrite(self, frame: DataFrame, branch: str | None, where: str = "true") -> None:
        """Replace the rows of a branch that meet a Spark SQL condition, in one commit."""
        from pyspark.sql import functions

        self.writer(frame, branch).overwrite(functions.expr(where))

    @contextmanager
    def source(self, rows: DataFrame | None = None) -> Iterator[str]:
        """Yield the name of a temporary view of `rows`, by default of all rows to write."""
        name = f"vde_source_{uuid.uuid4().hex}"
        (self.frame if rows is None else rows).createOrReplaceTempView(name)
        try:
            yield name
        finally:
            self.session.catalog.dropTempView(name)

    def committed(self, commit: Commit) -> DataFrame:
        """Return all rows of the table as of a commit."""
        reader = self.session.read.option("versionAsOf", commit.snapshot_id)
        return reader.table(self.target(None))

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Store the summary in each commit that MERGE and DELETE make in the block.

        No other write may use the session meanwhile.
        """
        # MERGE and DELETE take no options, so the session's configuration has the summary.
        conf = self.session.conf
        names = {f"spark.sql.iceberg.snapshot-property.{key}": key for key in self.summary}
        for name, key in names.items():
            conf.set(name, self.summary[key])
        try:
            yield
        finally:
            for name in names:
                conf.unset(name)

    @contextmanager
    def in_utc(self) -> Iterator[None]:
        """Set the session's time zone to UTC in the block.

        No other write may use the session meanwhile.
        """
        zone = self.session.conf.get(_ZONE)
        self.session.conf.set(_ZONE, "UTC")
        try:
            yield
        finally:
            self.session.conf.set(_ZONE, str(zone))

    def merge(self, statement: str) -> None:
        """Run a MERGE, and retry it after each conflict with another commit.

        Raises:
            ConflictError: Each attempt conflicted with another commit. Nothing was written.
            ExecutionError: The commit would not detect conflicts, see `require_row_level`.
        """
        require_row_level(self, statement)
        for attempt in range(_ATTEMPTS):
            try:
                self.session.sql(statement)
                return
            except Exception as error:
                if not has_java_cause(error, *CONFLICTS):
                    raise
                if attempt + 1 == _ATTEMPTS:
                    raise conflict_error(self.task, "merged", _ATTEMPTS) from error
                # Random delays separate writers that conflicted.
                time.sleep(random.uniform(0, min(0.1 * 2**attempt, _LONGEST_WAIT)))

    def staged(
        self, put_together: Callable[[str], None], doing: str, *, attempts: int = _ATTEMPTS
    ) -> None:
        """Write to a scratch branch, then move the task's branch forward to it.

        The write is repeated if another writer committed meanwhile.

        Args:
            put_together: Commits to the scratch branch, which begins at the task's branch.
            doing: A participle for messages about the interval, such as `merged`.

        Raises:
            ConflictError: Each attempt conflicted with another writer.
        """
        task, table = self.task, self.table
        with self.lock:
            for _ in range(attempts):
                staging = scratch_branch(task.plan_id)
                # If the process is killed, the janitor removes the scratch branch.
                table.branch_at(staging, task.branch)
                try:
                    put_together(staging)
                    if table.fast_forward(task.branch, staging):
                        return
                finally:
                    table.drop_branch(staging)
        raise conflict_error(task, doing, attempts)

    @staticmethod
    def sortable(value: str, data_type: str, shown: ShownFields | None = None) -> str:
        """Convert a SQL value to one that Spark can sort and compare; unequal values stay unequal.

        Args:
            shown: The struct fields to compare; None for all.

        >>> Write.sortable("c", "struct<geo:string>"), Write.sortable("c", "geometry(4326)")
        ('c', 'CAST(c AS STRING)')
        """
        if shown is not None:
            value, data_type = shown.value(value), shown.shown
        if _GEOSPATIAL.search(data_type):
            return f"CAST({value} AS STRING)"
        return grouping_expression(value, data_type)

    def physical_name(self, column: str) -> str:
        """Return the physical column of an output column.

        Raises:
            ExecutionError: The model has no such output column.
        """
        name = self.physical.get(column.lower())
        if name is None:
            raise ExecutionError(
                f"{self.task.snapshot.name} returns no column '{column}', which its kind needs",
                hint=f"the model's columns are {', '.join(self.physical)}",
                location=self.task.snapshot.model.location,
            )
        return name

    @property
    def lock(self) -> threading.Lock:
        """A lock for all writes of this process to the table. Waiting costs less than conflicts."""
        return _locks.setdefault(self.task.table.id, threading.Lock())


class Strategy(ABC):
    """A write strategy: layout and writing of the tables of one family of kinds.

    Attributes:
        own_session: Whether the write needs a session that no other thread uses meanwhile.
    """

    own_session: bool = False

    def digest_condition(self, write: Write, interval: Interval) -> str | None:
        """Return the SQL condition for the rows of an interval, or None if all rows belong to it.

        Raises:
            NotImplementedError: The kind has no digests, because the rows of a range are not
                exactly the rows that one fill writes.
        """
        raise NotImplementedError

    def digests_table(self, write: Write) -> bool:
        """Return whether to read a small table completely after the fill, to digest all rows.

        True if the fill writes only some rows, and may write the same rows as before.
        """
        return False

    def layout(self, snapshot: Snapshot, types: Mapping[str, str]) -> Layout:
        """Return a table's default partitions and properties, from the types of its columns."""
        return Layout()

    def rows(self, session: SparkSession, task: FillTask, project_root: Path | None) -> DataFrame:
        """Return the rows of a model that has neither a query nor code, such as a seed."""
        model = task.snapshot.model
        raise ExecutionError(
            f"{model.name} has no query, code or file to fill its table from",
            location=model.location,
        )

    def digester(self, write: Write) -> Digester | None:
        """Return the digester of a task's rows, or None for a kind without digests."""
        task = write.task
        if task.changed is not None:
            return None  # The written rows are those of some keys.
        try:
            tiles = tuple(
                (interval, self.digest_condition(write, interval))
                for interval in task.digest_ranges or (task.interval,)
            )
        except NotImplementedError:
            return None
        whole = meaning_of(task.snapshot.model.kind).replaces_all
        return Digester(task.digest_sets, tiles, whole, write.frame_types)

    def output(self, write: Write, commit: Commit) -> Output | None:
        """Return the digests of a fill, or None if they are unknown or not needed."""
        task, digester = write.task, write.digester
        if digester is not None:
            # The write may have evaluated rows twice, so that their digests are unknown.
            return digester.result(commit.added_records) or _read_again(write, commit, digester)
        wanted = task.digest_sets and task.completes and not task.after
        if not wanted or not self.digests_table(write):
            return None
        digesters = (one.digester for one in write.rewrites if one.digester is not None)
        observed = (one.result(commit.added_records) for one in digesters)
        return next(filter(None, observed), None) or _table_digests(write, commit)

    @abstractmethod
    def write(self, write: Write) -> None:
        """Write the rows in one atomic commit to the task's branch."""


def _read_again(write: Write, commit: Commit, digester: Digester) -> Output | None:
    rows = write.committed(commit)
    conditions = [f"({text})" for _, text in digester.tiles if text is not None]
    if conditions:
        rows = rows.where(" OR ".join(conditions))
    return digester.read(rows.select(*map(quote, write.types)), commit.added_records)


def _table_digests(write: Write, commit: Commit) -> Output | None:
    summary = write.table.summary(commit.snapshot_id)
    size = summary.get("total-files-size")
    if size is None or int(size) > _MOST_BYTES:
        return None
    if is_quiet(summary):
        before = write.table.parent(commit.snapshot_id)
        if before is None or write.table.summary(before).get(PLAN_KEY) != write.task.plan_id:
            return None  # Digests from before the plan are still valid.
    return table_digester(write.task).read(write.committed(commit), None)


def table_digester(task: FillTask) -> Digester:
    """Create a digester of all rows of a task's table."""
    return Digester(task.digest_sets, ((task.interval, None),), whole=True)


StrategyClass = TypeVar("StrategyClass", bound="type[Strategy]")

_strategies: dict[type, Strategy] = {}
_PLUGINS: Seam[type[Strategy]] = Seam("kind_writers")


def strategy_for(*kinds: type) -> Callable[[StrategyClass], StrategyClass]:
    """Register the decorated class as the strategy of the given kinds."""

    def register(cls: StrategyClass) -> StrategyClass:
        for kind in kinds:
            _strategies[kind] = cls()
        return cls

    return register


def find_strategy(snapshot: Snapshot) -> Strategy:
    """Return the strategy of a snapshot's kind, or raise ExecutionError if it has no table."""
    kind = snapshot.model.kind
    strategy = _strategies.get(type(kind))
    if strategy is None and (plugin := _PLUGINS.find(kind.name)) is not None:
        strategy = _strategies[type(kind)] = plugin()
    if strategy is None:
        raise ExecutionError(
            f"{snapshot.name} has the kind {kind.name}, which has no table to fill",
            location=snapshot.model.location,
        )
    return strategy


def latest_first(types: Mapping[str, str], columns: Sequence[str], first: str = "") -> str:
    """Write the terms of an ORDER BY that always puts the same row first.

    The order is `first`, then columns with times (latest first), then the greatest values.
    """

    def rank(name: str) -> tuple[bool, bool]:
        return name != first, not types[name].startswith(("timestamp", "date"))

    ordered = sorted(columns, key=rank)
    return ", ".join(f"{Write.sortable(quote(c), types[c])} DESC NULLS LAST" for c in ordered)


_ROW_LEVEL = re.compile(r"\b(?:WriteDelta|ReplaceData)\b")
_checked_merges: set[tuple[str, str]] = set()


def require_row_level(write: Write, merge: str) -> None:
    """Raise ExecutionError if Spark would run a MERGE without checking rows for conflicts."""
    own = merge.replace(write.target(write.task.branch), "")
    known = write.task.table.id, re.sub(r"vde_source_[0-9a-f]{32}", "", own)
    if known in _checked_merges:
        return
    plan = str(write.session.sql(f"EXPLAIN {merge}").collect()[0][0])
    # If Spark planned an append, Iceberg would add the rows without checking for conflicts: two
    # concurrent MERGEs would leave a key twice, without an error.
    if not _ROW_LEVEL.search(plan):
        steps = [line for line in plan.splitlines() if line and not line.startswith("==")]
        raise ExecutionError(
            f"Spark would write {write.task.table.ref} by "
            f"'{(steps or ['nothing'])[0].strip()[:80]}', which does not detect conflicts with "
            "other writers; nothing was written",
            hint="check spark.sql.extensions: Iceberg's extensions must come last, so that they "
            "plan MERGE",
            location=write.task.snapshot.model.location,
        )
    _checked_merges.add(known)


def conflict_error(task: FillTask, doing: str, attempts: int) -> ConflictError:
    """Return the error for a table that other writers changed during each attempt."""
    times = f" {attempts} times" if attempts > 1 else ""
    return ConflictError(
        f"{task.table.ref} was changed by other writers{times} while {task.snapshot.name} "
        f"{task.interval.text} was being {doing}",
        hint="when the other writers are done, apply the plan again: "
        f"vde apply ENV --plan {task.plan_id}",
    )
