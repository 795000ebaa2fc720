"""CUSTOM: a function of the project writes the table, on a branch that is checked afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import quote
from vde_dagster.errors import ExecutionError
from vde_dagster.lakehouse.metadata.commit_summaries import FILL_KEY
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.project.kinds import Custom
from vde_dagster.project.model import PythonSource
from vde_dagster.spark.session.failures import translated_errors
from vde_dagster.spark.strategies.base import Strategy, Write, strategy_for
from vde_dagster.spark.tables.columns import cast_column, spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriterV2, SparkSession

_RULE = "a materialization makes exactly one commit, on the target that it is given"


@dataclass(frozen=True, slots=True)
class CustomTarget:
    """The write target that a CUSTOM model's function gets as its second argument.

    Args:
        name: The quoted name of the table's branch, for SQL such as MERGE INTO.
        interval: The half-open UTC range to fill.
        anew: Whether the function must replace all rows of the table.
        properties: The model's `materialization_properties`.
        columns: Physical columns by the model's columns. Renamed columns keep their physical name.
    """

    spark: SparkSession
    name: str
    interval: Interval
    anew: bool
    properties: Mapping[str, Any]
    columns: Mapping[str, str]
    _write: Write = field(repr=False)
    _branch: str = field(repr=False)

    def read(self) -> DataFrame:
        """Return the table's rows, under the model's names of the columns."""
        rows = self.spark.table(self.name)
        return rows.selectExpr(*(f"{quote(at)} AS {quote(to)}" for to, at in self.columns.items()))

    def writer(self, rows: DataFrame) -> DataFrameWriterV2:
        """Return Spark's writer (append, …) for rows with columns in any order."""
        types = self._write.types
        given = {field.name.lower(): spark_type(field.dataType) for field in rows.schema.fields}
        snapshot = self._write.task.snapshot
        named = (
            f"{cast_column(snapshot, to, given[to.lower()], types[at])} AS {quote(at)}"
            for to, at in self.columns.items()
        )
        return self._write.writer(rows.selectExpr(*named), self._branch)


@strategy_for(Custom)
class CustomTable(Strategy):
    """Runs a function of the project that writes the table."""

    own_session = True

    def digests_table(self, write: Write) -> bool:
        return True

    def write(self, write: Write) -> None:
        """Run the model's function on a scratch branch, then move the task's branch to the commit.

        The function must make exactly one commit, on the scratch branch.
        """

        def put_together(staging: str) -> None:
            table = write.table
            before, main = table.head(staging), table.head(None)
            with write.committing():
                self._call(write, staging)
            table.refresh()
            self._check(write, staging, before, main)

        write.staged(put_together, "written", attempts=1)

    def _call(self, write: Write, staging: str) -> None:
        from vde_dagster.project.python.files import run_source

        model = write.task.snapshot.model
        kind = Custom.from_model(model)
        outputs = dict(write.task.columns)
        target = CustomTarget(
            spark=write.session,
            name=write.target(staging),
            interval=write.task.interval,
            anew=write.task.anew,
            properties=kind.settings,
            columns=outputs,
            _write=write,
            _branch=staging,
        )
        rows = write.frame.selectExpr(
            *(f"{quote(at)} AS {quote(to)}" for to, at in outputs.items())
        )
        when = write.task.interval.text
        what = f"{model.name} {when}: the materialization {kind.materialization}"
        with translated_errors(what, location=model.location):
            code = run_source(PythonSource(kind.entrypoint, dict(kind.code)), write.project_root)
            if isinstance(code, type):  # SQLMesh's CustomMaterialization.
                code.write_rows(rows, target, model)  # type: ignore[attr-defined]
            else:
                code(rows, target)

    def _check(self, write: Write, staging: str, before: int | None, main: int | None) -> None:
        table, mark = write.table, {FILL_KEY: write.summary[FILL_KEY]}
        astray = table.find_commit(None, mark) if table.head(None) != main else None
        if astray is not None:
            table.roll_back(astray.snapshot_id)
            raise _refused_error(write, "it wrote to the table's main branch, which readers see")
        head = table.head(staging)
        if head == before:
            raise _refused_error(write, "it wrote nothing")
        if table.parent(head) != before:
            raise _refused_error(write, "it wrote more than once")
        if table.find_commit(staging, mark) is None:
            raise _refused_error(write, "its commit lacks the summary of this fill")


def _refused_error(write: Write, what: str) -> ExecutionError:
    model = write.task.snapshot.model
    kind = Custom.from_model(model)
    return ExecutionError(
        f"{model.name} {write.task.interval.text}: the materialization '{kind.materialization}' "
        f"({kind.entrypoint.rpartition(':')[0]}) was refused: {what}",
        hint=f"{_RULE}: target.writer(rows).append(), or one statement on target.name",
        location=model.location,
    )
