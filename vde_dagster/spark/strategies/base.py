"""The base class of write strategies, and the registry with one per model kind."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from vde_dagster.base.names import quote
from vde_dagster.base.plugins import Seam
from vde_dagster.errors import ConflictError, ExecutionError
from vde_dagster.lakehouse.metadata.fill_summaries import scratch_branch
from vde_dagster.planning.engine_tasks import FillTask
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.spark.tables.digests import Digester
from vde_dagster.spark.tables.iceberg import Commit, IcebergTable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameWriterV2, SparkSession


_locks: dict[str, threading.Lock] = {}


@dataclass(frozen=True, slots=True)
class Layout:
    """A kind's default table layout.

    Args:
        partitioned_by: Iceberg partition transforms over output column names.
    """

    partitioned_by: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Write:
    """Everything that a strategy needs to write one task's rows.

    Args:
        session: The session that `frame` belongs to.
        catalog: The catalog's name.
        table: The table as it was before the write.
        frame: The rows, in the table's physical columns and types.
        types: Spark SQL type by physical column.
        physical: Physical column by output column in lower case.
        summary: Properties that the commit's summary must carry.
        digester: Watches the rows that are written, or None.
        project_root: The project's folder, or None where there is no working copy.
    """

    task: FillTask
    session: SparkSession
    catalog: str
    table: IcebergTable
    frame: DataFrame
    types: Mapping[str, str]
    physical: Mapping[str, str]
    summary: Mapping[str, str]
    digester: Digester | None = None
    project_root: Path | None = None

    def target(self, branch: str | None) -> str:
        """Return the quoted name to write to, with Iceberg's branch suffix if there is one."""
        ref = self.task.table.ref
        parts = [self.catalog, ref.namespace, ref.name]
        if branch is not None:
            parts.append(f"branch_{branch}")
        return ".".join(quote(part) for part in parts)

    def writer(self, frame: DataFrame, branch: str | None) -> DataFrameWriterV2:
        """Return a writer whose commit carries the summary."""
        if self.digester is not None:
            frame = self.digester.watch(frame)
        writer = frame.writeTo(self.target(branch))
        for key, value in self.summary.items():
            writer = writer.option(f"snapshot-property.{key}", value)
        return writer

    def committed(self, commit: Commit) -> DataFrame:
        """Return all rows that the table has as of a commit."""
        reader = self.session.read.option("versionAsOf", commit.snapshot_id)
        return reader.table(self.target(None))

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Let SQL statements commit with the summary, too: MERGE and DELETE take no options.

        Iceberg reads the same properties from the session's configuration, so the session has to
        be this write's alone: `Strategy.own_session`.
        """
        conf = self.session.conf
        names = {f"spark.sql.iceberg.snapshot-property.{key}": key for key in self.summary}
        for name, key in names.items():
            conf.set(name, self.summary[key])
        try:
            yield
        finally:
            for name in names:
                conf.unset(name)

    def physical_name(self, column: str) -> str:
        """Return the physical column of an output column.

        Raises:
            ExecutionError: The model has no such column.
        """
        name = self.physical.get(column.lower())
        if name is None:
            raise ExecutionError(
                f"{self.task.snapshot.name} has no output column '{column}', which its kind names",
                hint=f"its columns are {', '.join(self.physical)}",
                location=self.task.snapshot.model.location,
            )
        return name

    @property
    def lock(self) -> threading.Lock:
        """A lock per physical table, for what is cheaper done in turn than retried."""
        return _locks.setdefault(self.task.table.id, threading.Lock())


class Strategy(ABC):
    """A write strategy: layout and writing of the tables of one family of kinds.

    Attributes:
        own_session: Whether the write needs a session that no other thread uses meanwhile.
    """

    own_session: bool = False

    def digest_condition(self, write: Write, interval: Interval) -> str | None:
        """Return the SQL condition of the rows of an interval; None for all rows.

        Only for kinds whose writes are, range by range, exactly the rows that are given to
        `Write.writer`; others have no digests.

        Raises:
            NotImplementedError: Rows do not lie in ranges, or others stay beside them.
        """
        raise NotImplementedError

    def digests_table(self, write: Write) -> bool:
        """Say whether a fill of a part may leave all rows as they were, though it wrote some.

        Then a digest of the whole table is taken by reading it, as long as it is small. Commits
        that say of themselves that no row came or went need none.
        """
        return False

    def layout(self, snapshot: Snapshot, types: Mapping[str, str]) -> Layout:
        """Return the default layout; `types` are Spark SQL types by output column."""
        return Layout()

    def rows(self, session: SparkSession, task: FillTask, project_root: Path | None) -> DataFrame:
        """Return the rows of a model that has neither a query nor code.

        Args:
            session: The session to build them in.
            project_root: The project's folder, if the engine knows one.

        Raises:
            ExecutionError: The kind gets its rows from nowhere, or they cannot be read.
        """
        model = task.snapshot.model
        raise ExecutionError(
            f"{model.name} has neither a query nor code nor a file to fill its table from",
            location=model.location,
        )

    @abstractmethod
    def write(self, write: Write) -> None:
        """Write the rows in one atomic commit to the task's branch."""


StrategyClass = TypeVar("StrategyClass", bound="type[Strategy]")

_strategies: dict[type, Strategy] = {}
_PLUGINS: Seam[type[Strategy]] = Seam("kind_writers")


def strategy_for(*kinds: type) -> Callable[[StrategyClass], StrategyClass]:
    """Register the decorated class as the strategy of some kinds."""

    def register(cls: StrategyClass) -> StrategyClass:
        for kind in kinds:
            _strategies[kind] = cls()
        return cls

    return register


def find_strategy(snapshot: Snapshot) -> Strategy:
    """Return the strategy of a snapshot's kind.

    Raises:
        ExecutionError: The kind owns no table.
        UsageError: The kind's distribution is broken.
    """
    kind = snapshot.model.kind
    strategy = _strategies.get(type(kind))
    if strategy is None and (plugin := _PLUGINS.find(kind.name)) is not None:
        strategy = _strategies[type(kind)] = plugin()
    if strategy is None:
        raise ExecutionError(
            f"{snapshot.name} is of kind {kind.name}, which has no table to fill",
            location=snapshot.model.location,
        )
    return strategy


def condition(text: str) -> Column:
    """Return a Spark column for a SQL condition."""
    from pyspark.sql import functions

    return functions.expr(text)


ATTEMPTS = 10


def write_staged(
    write: Write, put_together: Callable[[str], None], doing: str, *, attempts: int = ATTEMPTS
) -> None:
    """Write to a scratch branch, and fast-forward the task's branch to it.

    When somebody else committed to the task's branch meanwhile, it is done again from there. What
    a killed process leaves is the scratch branch, which the janitor removes.

    Args:
        put_together: Commits to the scratch branch, which begins as the task's branch is.
        doing: What is being done to the interval, for the message: `merged`.

    Raises:
        ConflictError: Others were faster each time.
    """
    task, table = write.task, write.table
    with write.lock:
        for _ in range(attempts):
            staging = scratch_branch(task.plan_id)
            table.branch_at(staging, task.branch)
            try:
                put_together(staging)
                if table.fast_forward(task.branch, staging):
                    return
            finally:
                table.drop_branch(staging)
    times = f" {attempts} times" if attempts > 1 else ""
    raise ConflictError(
        f"{task.table.ref} was changed by others{times} while {task.snapshot.name} "
        f"{task.interval.text} was being {doing}",
        hint="apply the plan again when the other writers are done",
    )
