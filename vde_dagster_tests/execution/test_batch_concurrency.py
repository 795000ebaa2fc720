"""Batches at the same time: how many, what a failure leaves, and kills at any side effect."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import pytest

from vde_dagster.errors import AuditFailedError, ExecutionError
from vde_dagster.execution.events import Event, IntervalFilled
from vde_dagster.planning.engine_tasks import AuditResult, AuditTask, FillResult, FillTask
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.execution.look import look
from vde_dagster_tests.projects import ProjectFolder

SECONDS = 30.0
NOW = datetime(2024, 1, 13, 12, tzinfo=timezone.utc)
DAYS = 12
MODEL = """
    MODEL (name db.{}, start '2024-01-01', audits (not_null(columns := (day, n))), kind {});
    SELECT CAST('2024-01-01' AS DATE) AS day, 1 AS n
"""


def time_range(at_once: int, size: int = 1) -> str:
    return (
        "INCREMENTAL_BY_TIME_RANGE "
        f"(time_column day, batch_size {size}, batch_concurrency {at_once})"
    )


class Meeting(FakeSpark):
    """Fills of which the first wait for each other: they are proved to run at the same time.

    Args:
        together: How many have to be there before any goes on; 0 for none.
        failing: Days whose fills fail.
        bad: Days whose audits find rows.
    """

    def __init__(
        self, together: int = 0, failing: Sequence[int] = (), bad: Sequence[int] = ()
    ) -> None:
        super().__init__()
        self.met = threading.Barrier(together) if together else None
        self.running: list[int] = []
        self.most = 0
        self.begun: list[int] = []
        self.failing, self.bad = failing, bad
        self.tables = 0
        self._seen = threading.Lock()

    def create_table(self, *arguments: object, **named: object) -> None:
        self.tables += 1
        super().create_table(*arguments, **named)  # type: ignore[arg-type]

    def fill(self, task: FillTask) -> FillResult:
        day = task.interval.start.day
        with self._seen:
            meets = self.met is not None and len(self.begun) < self.met.parties
            self.begun.append(day)
            self.running.append(day)
            self.most = max(self.most, len(self.running))
        try:
            if self.met is not None and meets:
                self.met.wait(SECONDS)
            if day in self.failing:
                raise ExecutionError(f"{task.snapshot.name} {task.interval.text}: no")
            return super().fill(task)
        finally:
            with self._seen:
                self.running.remove(day)

    def audit(self, task: AuditTask) -> AuditResult:
        if task.interval.start.day in self.bad:
            return AuditResult(1, ({"n": None},), 0.0)
        return super().audit(task)


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    """A project without a model yet."""
    return ProjectFolder(tmp_path / "project", {})


def applied(
    folder: ProjectFolder, spark: FakeSpark, kind: str, concurrency: int = 4
) -> list[IntervalFilled]:
    """Fill the days of a model; return what was filled, in the order of its commits."""
    folder.write("models/m.sql", MODEL.format("m", kind))
    filled: list[IntervalFilled] = []

    def heard(event: Event) -> None:
        if isinstance(event, IntervalFilled):
            filled.append(event)

    with open_fake(folder.root, spark) as workspace:
        plan = workspace.plan("prod", now=NOW)
        workspace.apply(plan, on_event=heard, concurrency=concurrency)
    return filled


def seconds_filled(folder: ProjectFolder) -> list[float]:
    """How long the ranges are that are recorded as filled; `look` checks the commits."""
    found = look(f"sqlite:///{folder.root / '.vde' / 'vde.db'}")
    branches = [name for names in found.branches().values() for name in names]
    assert not any("scratch" in name for name in branches)
    (held,) = found.filled.values()
    return [end - start for start, end in held]


@pytest.mark.parametrize(
    ("at_once", "concurrency", "expected"), [(4, 4, 4), (3, 8, 3), (8, 2, 2), (4, 1, 1), (1, 4, 1)]
)
def test_as_many_batches_run_at_once_as_the_model_and_the_apply_allow(
    at_once: int, concurrency: int, expected: int, folder: ProjectFolder
) -> None:
    # With fewer than these at once, the barrier would stay shut.
    spark = Meeting(expected)
    filled = applied(folder, spark, time_range(at_once), concurrency)
    assert spark.most == expected
    assert sorted(spark.begun) == list(range(1, DAYS + 1))
    assert spark.tables == 1
    assert sorted(e.interval.start.day for e in filled) == list(range(1, DAYS + 1))
    assert len({event.result.iceberg_snapshot_id for event in filled}) == DAYS
    assert seconds_filled(folder) == [DAYS * 86400.0]


def test_batches_of_two_models_together_stay_within_the_applys_concurrency(
    folder: ProjectFolder,
) -> None:
    other = MODEL.format("other", time_range(4)).replace("1 AS n", "2 AS n")
    folder.write("models/other.sql", other)
    spark = Meeting()
    applied(folder, spark, time_range(4), concurrency=3)
    assert spark.most <= 3
    assert len(spark.begun) == 2 * DAYS


def test_what_reads_itself_goes_one_by_one_and_in_order(folder: ProjectFolder) -> None:
    spark = Meeting(1)
    folder.write(
        "models/own.sql",
        f"""
        MODEL (name db.own, start '2024-01-01', columns (day DATE, n INT), kind {time_range(4)});
        SELECT CAST(@start_ds AS DATE) AS day, CAST(COALESCE(MAX(n), 0) + 1 AS INT) AS n FROM db.own
        """,
    )
    with open_fake(folder.root, spark) as workspace:
        workspace.apply(workspace.plan("prod", now=NOW), concurrency=4)
    assert (spark.most, spark.begun) == (1, list(range(1, DAYS + 1)))


def test_a_table_that_is_begun_anew_gets_its_first_batch_alone(folder: ProjectFolder) -> None:
    spark = Meeting()
    first = threading.Event()

    class Watched(Meeting):
        def fill(self, task: FillTask) -> FillResult:
            assert task.anew == (not first.is_set())
            result = super().fill(task)
            first.set()
            return result

    spark = Watched()
    applied(folder, spark, "INCREMENTAL_UNMANAGED (batch_size 1, batch_concurrency 4)")
    assert spark.begun[0] == 1
    assert len(spark.begun) == DAYS


@pytest.mark.parametrize("why", ["the query", "an audit"])
def test_a_batch_that_fails_is_named_and_those_beside_it_are_kept(
    why: str, folder: ProjectFolder
) -> None:
    failing, bad = ([2], []) if why == "the query" else ([], [2])
    error = ExecutionError if why == "the query" else AuditFailedError
    with pytest.raises(error, match=r"db\.\w+,? 2024-01-02") as caught:
        applied(folder, Meeting(4, failing, bad), time_range(4))
    assert "2024-01-03" not in str(caught.value)
    database = f"sqlite:///{folder.root / '.vde' / 'vde.db'}"
    assert not look(database).environments
    again = Meeting()
    filled = applied(folder, again, time_range(4))
    kept = {1, 3, 4}
    assert kept.isdisjoint(again.begun), "they were computed, audited and recorded"
    assert 2 in {event.interval.start.day for event in filled}
    assert seconds_filled(folder) == [DAYS * 86400.0]


def test_an_audit_that_names_the_model_reads_its_batch_before_anybody_else_does(
    folder: ProjectFolder,
) -> None:
    queries: list[str] = []

    class Watched(FakeSpark):
        def audit(self, task: AuditTask) -> AuditResult:
            queries.append(task.query)
            return super().audit(task)

    folder.write(
        "audits/known.sql",
        "AUDIT (name known); SELECT * FROM @this_model WHERE n NOT IN (SELECT n FROM db.m)",
    )
    folder.write(
        "models/m.sql",
        MODEL.format("m", time_range(4)).replace("not_null(columns := (day, n))", "known"),
    )
    with open_fake(folder.root, Watched()) as workspace:
        workspace.apply(workspace.plan("prod", now=NOW), concurrency=4)
    assert len(queries) == DAYS
    assert [query.count("_scratch'") for query in queries] == [2] * DAYS


def test_of_several_that_fail_all_are_named(folder: ProjectFolder) -> None:
    with pytest.raises(ExecutionError) as caught:
        applied(folder, Meeting(4, failing=[2, 3]), time_range(4))
    assert all(f"2024-01-0{day}" in str(caught.value) for day in (2, 3))


def test_a_cancelled_apply_begins_no_further_batch(folder: ProjectFolder) -> None:
    folder.write("models/m.sql", MODEL.format("m", time_range(4)))
    spark = Meeting(4)
    with open_fake(folder.root, spark) as workspace:
        plan = workspace.plan("prod", now=NOW)
        fill = spark.fill

        def cancelling(task: FillTask) -> FillResult:
            result = fill(task)
            workspace.cancel(plan.id)
            return result

        spark.fill = cancelling  # type: ignore[method-assign]
        with pytest.raises(ExecutionError, match="canceled"):
            workspace.apply(plan, concurrency=4)
    assert len(spark.begun) == 4
    again = Meeting()
    applied(folder, again, time_range(4))
    assert len(again.begun) == DAYS - 4, "what was finished stays"


def test_where_files_have_rows_of_two_batches_the_later_one_is_computed_again(
    folder: ProjectFolder,
) -> None:
    class Mixed(Meeting):
        def cherry_pick(self, task: FillTask, result: FillResult) -> FillResult | None:
            odd = task.interval.start.day % 2
            return super().cherry_pick(task, result) if odd else None

    spark = Mixed()
    applied(folder, spark, time_range(4))
    assert sorted(spark.begun) == sorted([*range(1, DAYS + 1), *range(2, DAYS + 1, 2)])
    assert seconds_filled(folder) == [DAYS * 86400.0]


def test_batches_run_alone_where_their_commits_cannot_be_picked(folder: ProjectFolder) -> None:
    class Remote(Meeting):
        picks_commits = False

        def cherry_pick(self, task: FillTask, result: FillResult) -> FillResult | None:
            raise AssertionError(task)

    spark = Remote()
    applied(folder, spark, time_range(4))
    assert spark.most == 1
    assert sorted(spark.begun) == [*range(1, DAYS + 1)]


@pytest.mark.parametrize(("at_once", "completing"), [(1, [DAYS]), (4, [])])
def test_only_a_batch_that_has_all_rows_beneath_it_says_what_the_table_holds(
    folder: ProjectFolder, at_once: int, completing: list[int]
) -> None:
    class Noting(Meeting):
        said: list[int]

        def fill(self, task: FillTask) -> FillResult:
            with self._seen:
                self.said += [task.interval.start.day] if task.completes else []
            return super().fill(task)

    spark = Noting()
    spark.said = []
    applied(folder, spark, time_range(at_once))
    assert spark.said == completing
