"""The engine: the upper layers' interface to Spark."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from vde_dagster import errors
from vde_dagster.base.names import ModelName, quote, string_literal
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.metadata.commit_summaries import FILL_KEY, fill_summary
from vde_dagster.planning.engine_tasks import (
    AnalysedQuery,
    AuditResult,
    AuditTask,
    FillResult,
    FillTask,
)
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PhysicalTable, TableRef
from vde_dagster.spark.jvm.java import require_pyspark
from vde_dagster.spark.models.create_table import create_physical_table, evolve_layout
from vde_dagster.spark.models.python_models import model_context, run_python_model, source_frame
from vde_dagster.spark.models.statements import run_statement, run_statements
from vde_dagster.spark.session import failures
from vde_dagster.spark.session.connect import is_remote, query_frame
from vde_dagster.spark.session.jobs import PlanJobs
from vde_dagster.spark.session.settings import SessionSettings
from vde_dagster.spark.sessions import Sessions
from vde_dagster.spark.strategies import Write, find_strategy
from vde_dagster.spark.tables.iceberg import IcebergTable
from vde_dagster.spark.tables.rows import (
    Columns,
    Rows,
    collect_result,
    count_failing_rows,
    frame_columns,
    sample_failing_rows,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from vde_dagster.project.settings import Settings

logger = logging.getLogger(__name__)

_WIDENED = "CANNOT_UP_CAST_DATATYPE"
"""Spark's error for a view of Iceberg whose query returns a wider type than the view declares."""
_PLAN_AGAIN = (
    "another program has widened a column that a published view reads: correct its type in "
    "external_models.yaml, if it is there; then run `vde plan` and apply the plan"
)

T = TypeVar("T")


class SparkEngine:
    """Runs models, audits and queries on Spark; thread-safe.

    Args:
        settings: The project's settings, or only those for Spark.
        lakehouse: Access to the catalog without Spark, needed only for writes.
        join: Function that returns a Spark session. The engine works in the JVM of this session.
    """

    def __init__(
        self,
        settings: Settings | SessionSettings,
        project_root: Path | None = None,
        lakehouse: Lakehouse | None = None,
        *,
        join: Callable[[], SparkSession] | None = None,
    ) -> None:
        require_pyspark()
        if not isinstance(settings, SessionSettings):
            settings = SessionSettings.from_settings(settings)
        if lakehouse is not None:
            settings = replace(settings, catalog_override=lakehouse.catalog.for_spark())
        self.settings = settings
        self._root = project_root or settings.project_root
        self._lakehouse = lakehouse
        self._sessions = Sessions(settings, join)
        self._jobs = PlanJobs()
        self._branch_lock = threading.Lock()
        self._audits_alone = False

    @property
    def session(self) -> SparkSession:
        """The shared Spark session, started when it is first used."""
        return self._sessions.shared

    def start_in_background(self, *, writes: bool = True) -> None:
        """Start Spark in a thread. Errors are raised when the session is used.

        If `writes` is False, the process must not import PySpark until it uses the session:
        of two threads that import PySpark at the same time, one may get an incomplete module.
        """
        if writes:  # All that the thread would import of it.
            import pyspark.sql.classic.dataframe  # noqa: F401

        def start() -> None:
            # A caller that needs the session waits for the start, and gets its error.
            with suppress(errors.VdeError):
                if writes:
                    self._sessions.prepare_writes()
                else:
                    _ = self._sessions.shared

        threading.Thread(target=start, name="vde-start-spark", daemon=True).start()

    @property
    def picks_commits(self) -> bool:
        """Whether `cherry_pick` works for concurrent fills; not on Spark Connect."""
        return not is_remote(self.session)

    @property
    def guest_session(self) -> SparkSession:
        """The session for code outside of models, separate from the models' sessions."""
        return self._sessions.guest

    def analyze(self, sql: str, before: Sequence[str] = (), after: Sequence[str] = ()) -> Columns:
        """Return the name and Spark SQL type of each column of a query, without running it.

        Args:
            before: Statements that run before the query, in the same private session.
            after: Statements that run after the analysis.
        """
        if not before and not after:
            return self.prepare(sql).columns
        with self._sessions.private(reuse=False) as session:
            run_statements(session, before)
            with failures.translated_errors("the query", sql):
                columns = frame_columns(query_frame(session, failures.as_subquery(sql)))
            run_statements(session, after)
        return columns

    def prepare(self, sql: str, before: Sequence[str] = ()) -> AnalysedQuery:
        """Return a query's columns. If `before` is empty, also return the analyzed query.

        A fill can run the analyzed query, so that Spark analyzes the query only once.
        """
        # Spark analyzes the query only once.
        if before:
            return AnalysedQuery(self.analyze(sql, before))
        with failures.translated_errors("the query", sql):
            frame = query_frame(self.session, failures.as_subquery(sql))
            return AnalysedQuery(frame_columns(frame), frame)

    def create_table(
        self,
        table: PhysicalTable,
        snapshot: Snapshot,
        columns: Columns,
        *,
        branch: str | None = None,
    ) -> None:
        """Create a physical table with a snapshot's layout, unless the table exists.

        Args:
            columns: Physical name and Spark SQL type of each column, in order.
            branch: The branch that is written first.

        Raises:
            ExecutionError: A column's type cannot be stored, or the layout is refused.
            ConflictError: Another table has the name.
        """
        self._sessions.prepare_writes()
        with failures.translated_errors(f"creating the table of {snapshot.name}"):
            create_physical_table(
                self.session,
                self.settings,
                table,
                snapshot,
                columns,
                self._require_lakehouse,
                branch,
            )

    def evolve_layout(self, table: PhysicalTable, snapshot: Snapshot, previous: Snapshot) -> None:
        """Change an existing table to the layout of a snapshot. Repeated calls are harmless."""
        with failures.translated_errors(f"changing the layout of {snapshot.name}"):
            evolve_layout(self._table(self.session, table.ref), table, snapshot, previous)

    def compact(self, ref: TableRef) -> None:
        """Rewrite the data files on `main` that have deleted rows, and groups of small files.

        Source: https://iceberg.apache.org/docs/latest/spark-procedures/#rewrite_data_files
        """
        catalog = quote(self.settings.catalog)
        with failures.translated_errors(f"compacting {ref}"), self._sessions.using(self.session):
            self.session.sql(
                f"CALL {catalog}.system.rewrite_data_files(table => {string_literal(str(ref))}, "
                "options => map('delete-file-threshold', '1', 'remove-dangling-deletes', 'true'))"
            )

    def fill(self, task: FillTask) -> FillResult:
        """Compute a model's rows for one interval, and commit the rows to the task's branch.

        Raises:
            ExecutionError: The model's code or Spark failed, or the plan was canceled.
            UnknownOutcomeError: The write succeeded, but its commit cannot be found.
        """
        began = time.monotonic()
        self._sessions.prepare_writes()
        model = task.snapshot.model
        strategy = find_strategy(task.snapshot)
        statements = bool(task.before or task.after)
        changes_session = statements or model.python is not None
        own = strategy.own_session or changes_session
        what = f"{model.name} {task.interval.text}"
        with (
            self._sessions.session_for(own, not changes_session) as s,
            self._sessions.using(s, small=task.is_small),
            self._jobs.running(s, task.plan_id, what, task.query) as tag,
        ):
            table = self._table(s, task.table.ref)
            if task.base is not None:
                with self._branch_lock:  # Concurrent fills need it at the same time.
                    table.refresh()
                    table.ensure_branch(task.base, task.table.branch)
            if task.branch is not None:
                table.ensure_branch(task.branch, task.base or task.table.branch)
            write = self._prepare(s, task, table)
            if task.digest_sets and not task.after:
                write = replace(write, digester=strategy.digester(write))
            strategy.write(write)
            for statement in task.after:
                run_statement(s, statement)
            table.refresh()
            commit = table.find_commit(task.branch, {FILL_KEY: write.summary[FILL_KEY]})
            output = strategy.output(write, commit) if commit is not None else None
            usage = self._sessions.usage(s, tag)
        if commit is None:
            raise errors.UnknownOutcomeError(
                f"{what}: the commit to {task.table.ref} cannot be found",
                hint="apply the plan again, which looks for the commit first: "
                f"vde apply ENV --plan {task.plan_id}",
            )
        return FillResult(
            rows=write.written_rows(commit),
            iceberg_snapshot_id=commit.snapshot_id,
            seconds=time.monotonic() - began,
            bytes=commit.added_bytes,
            output=output,
            task_seconds=usage.task_seconds,
            bytes_read=usage.bytes_read,
            notes=tuple(write.notes),
            why_all="; ".join(write.why_all),
        )

    def cherry_pick(self, task: FillTask, result: FillResult) -> FillResult | None:
        """Copy the commit of a fill from the fill's own branch to the branch `task.base`.

        Returns:
            The result with the new commit. None if the commit cannot be copied: `task.base` no
            longer has a data file that the commit removes, the commit adds or removes delete files,
            or Spark is remote.

        Raises:
            ExecutionError: The plan was canceled, or the commit failed.
        """
        assert task.branch is not None
        assert task.base is not None
        what = f"{task.snapshot.name} {task.interval.text}"
        with self._jobs.running(self.session, task.plan_id, what):
            picked = self._table(self.session, task.table.ref).cherry_pick(task.branch, task.base)
        return replace(result, iceberg_snapshot_id=picked) if picked is not None else None

    def audit_all(self, tasks: Sequence[AuditTask]) -> Iterator[AuditResult]:
        """Run all audits for one interval of a model, and yield the results in order."""
        counts, seconds = self._count(tasks)
        # One Spark job has counted the failing rows of all audits. Audits with failing rows run
        # again for their samples. If the job failed, each audit runs separately, so that the error
        # belongs to one audit and earlier audits have results.
        for task, count in zip(tasks, counts, strict=True):
            yield AuditResult(0, (), seconds) if count == 0 else self.audit(task)

    def _count(self, tasks: Sequence[AuditTask]) -> tuple[Sequence[int | None], float]:
        unknown: list[int | None] = [None] * len(tasks)
        if len(tasks) < 2 or self._audits_alone:
            return unknown, 0.0
        began = time.monotonic()
        try:
            with self._audit_session(tasks[0], "audits") as session:
                counts = count_failing_rows(session, [task.query for task in tasks])
        except errors.ExecutionError as error:
            if not error.lacks_memory:
                return unknown, 0.0
            self._audits_alone = True
            raise
        return counts, (time.monotonic() - began) / len(tasks)

    def audit(self, task: AuditTask) -> AuditResult:
        """Count and sample the rows that fail an audit, in one Spark job.

        A missing external table counts as one failing row.
        """
        began = time.monotonic()
        try:
            with self._audit_session(task, f"audit {task.audit}", task.query) as session:
                count, sample = sample_failing_rows(session, task.query)
        except errors.ExecutionError as error:
            if not (task.external and failures.is_missing_table(error, task.external)):
                raise
            count, sample = 1, ({"problem": f"the table {task.model} does not exist"},)
        return AuditResult(count, sample, time.monotonic() - began)

    @contextmanager
    def _audit_session(
        self, task: AuditTask, what: str, query: str | None = None
    ) -> Iterator[SparkSession]:
        with (
            self._sessions.session_for(bool(task.before), not task.before) as session,
            self._sessions.using(session),
            self._jobs.running(
                session, task.plan_id, f"{task.model} {task.interval.text} {what}", query
            ),
        ):
            run_statements(session, task.before)
            yield session

    def query(
        self, sql: str, limit: int | None = None, before: Sequence[str] = ()
    ) -> tuple[Columns, Rows]:
        """Run a query, and return its columns and rows. Statements that write are refused.

        Args:
            before: Statements that run before the query, in the same private session.

        Returns:
            Name and Spark SQL type of each column, and the rows as Python values. A TIMESTAMP is
            a datetime in UTC, and a STRUCT is a dictionary.

        Raises:
            UsageError: Spark cannot parse or analyze the query.
            ExecutionError: The query failed while it ran.
        """

        def run() -> tuple[Columns, Rows]:
            with self._sessions.session_for(bool(before), not before) as session:
                run_statements(session, before)
                return collect_result(self._read(session, sql, limit))

        return self._with_retry(run)

    def query_arrow(self, sql: str, limit: int | None = None) -> pa.Table:
        """Run a query, and return its rows as an Arrow table in UTC. Writing is refused.

        Raises:
            UsageError: Spark cannot parse or analyze the query.
            ExecutionError: The query failed while it ran, or Arrow does not support a type.
        """
        return self._with_retry(lambda: self._read(self.session, sql, limit).toArrow())

    def _with_retry(self, run: Callable[[], T]) -> T:
        try:
            with self._running_query():
                return run()
        except errors.StoreError as error:
            # Another user may have ended the engine.
            if not self._sessions.has_lost_engine:
                raise
            logger.warning("%s. The query runs once more", error.message)
        with self._running_query():
            return run()

    @contextmanager
    def _running_query(self) -> Iterator[None]:
        with (
            failures.translated_errors("the query"),
            self._sessions.kept_alive(),
            self._sessions.using(self.session),
        ):
            yield

    def _read(self, session: SparkSession, sql: str, limit: int | None) -> DataFrame:
        from pyspark.errors import AnalysisException, ParseException

        try:
            frame = query_frame(session, failures.as_subquery(sql))
            frame = frame if limit is None else frame.limit(limit)
            frame.schema  # noqa: B018 - A server is asked no earlier.
        except (AnalysisException, ParseException) as error:
            widened = _WIDENED in str(error)
            raise errors.UsageError(
                f"the query cannot be run: {failures.cause_line(error)}",
                hint=_PLAN_AGAIN if widened else "write one SELECT in Spark SQL",
            ) from error
        return frame

    def run_statement(self, statement: str) -> None:
        with self._sessions.private(reuse=False) as session:
            run_statements(session, (statement,))

    def run_python(
        self,
        snapshot: Snapshot,
        sources: Mapping[ModelName, str],
        interval: Interval,
        execution_time: datetime,
        before: Sequence[str] = (),
    ) -> tuple[Columns, Rows]:
        """Run a Python model on the rows of queries, and return its result without writing it.

        Args:
            sources: A Spark SQL query for the rows of each parent.
            before: Statements that run before the model, in the same session.
        """
        columns = {column.name: column.type or "STRING" for column in snapshot.computed_columns}
        with (
            failures.translated_errors(f"the Python model {snapshot.name}"),
            self._sessions.private(reuse=False) as session,
        ):
            run_statements(session, before)
            context = model_context(
                *(session, snapshot, self.settings.catalog, sources, interval, execution_time),
                root=self._root,
            )
            frame = run_python_model(snapshot, context, columns, self._root)
            return collect_result(frame.selectExpr(*map(quote, columns)))

    def begin(self, plan_id: str) -> None:
        """Allow a plan to run again in this process after it was canceled."""
        self._jobs.begin(plan_id)

    def cancel(self, plan_id: str, wait_seconds: float = 30.0) -> bool:
        """Stop everything that runs for a plan, and refuse new work until `begin` is called.

        Return whether all work of the plan ended in time.
        """
        return self._jobs.cancel(self._sessions.started, plan_id, wait_seconds)

    def interrupt(self) -> None:
        """Cancel the JVM's jobs, or with Spark Connect the shared session's statements."""
        session = self._sessions.started
        if session is not None:
            if is_remote(session):
                session.interruptAll()
            else:
                session.sparkContext.cancelAllJobs()

    def close(self, *, process_ends: bool = False) -> None:
        """Release the engine's sessions.

        If this process started Spark, Spark stops with the process's last engine. With
        `process_ends`, Spark stops only after the process has ended, which closes the input of the
        JVM.
        """
        self._sessions.close(process_ends=process_ends)

    def _table(self, session: SparkSession, ref: TableRef) -> IcebergTable:
        return IcebergTable(session, self.settings.catalog, ref, self._require_lakehouse)

    @property
    def _require_lakehouse(self) -> Lakehouse:
        if self._lakehouse is None:
            raise errors.UsageError(
                "an engine that writes tables needs the Lakehouse of the tables' catalog",
                hint="open a Workspace, or give SparkEngine its lakehouse",
            )
        return self._lakehouse

    def _prepare(self, session: SparkSession, task: FillTask, table: IcebergTable) -> Write:
        for statement in task.before:
            run_statement(session, statement)
        types = table.types()
        is_cancelled = partial(self._jobs.is_cancelled, task.plan_id)
        frame = source_frame(session, task, types, self.settings.catalog, self._root, is_cancelled)
        return Write(
            task=task,
            session=session,
            table=table,
            frame=frame,
            project_root=self._root,
            frame_types=types,
            types={physical: types[physical] for _, physical in task.columns},
            physical={output.lower(): physical for output, physical in task.columns},
            summary=fill_summary(
                task.plan_id,
                task.table.id,
                task.interval,
                task.snapshot.model.kind.name,
                uuid.uuid4().hex,
                task.snapshot.standalone_meaning_hash,
            ),
        )
