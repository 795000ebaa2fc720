"""Batches of one model: how its missing intervals become jobs, and in which order."""

from __future__ import annotations

import threading
from datetime import datetime, timezone
from io import StringIO
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from vde_dagster.errors import ExecutionError, StoreError
from vde_dagster.execution.apply.batches import Weight, cut
from vde_dagster.execution.events import Event, MemoryLacked
from vde_dagster.orchestration.names import SHORT
from vde_dagster.orchestration.pages.report_text import report_markdown
from vde_dagster.planning.engine_tasks import FillResult, FillTask
from vde_dagster.planning.intervals.cadence import Cadence, IntervalUnit
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import Part, PhysicalTable
from vde_dagster.reports.plan import plan_report
from vde_dagster.reports.plan_json import model_json
from vde_dagster.terminal.reports import show_report
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.long

NOW = datetime(2024, 1, 6, 12, tzinfo=timezone.utc)
KINDS = {
    "time range": "INCREMENTAL_BY_TIME_RANGE (time_column day, batch_size 2)",
    "unique key": "INCREMENTAL_BY_UNIQUE_KEY (unique_key n, batch_size 2)",
}


class WatchedSpark(FakeSpark):
    """Notes in which order tables are made and ranges are filled."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []
        self.queries: list[str] = []

    def create_table(
        self,
        table: PhysicalTable,
        snapshot: Snapshot,
        columns: tuple[tuple[str, str], ...],
        *,
        branch: str | None = None,
    ) -> None:
        self.done.append("table")
        super().create_table(table, snapshot, columns, branch=branch)

    def fill(self, task: FillTask) -> FillResult:
        self.done.append(f"{task.interval.start.day}-{task.interval.end.day}")
        self.queries.append(task.query or "")
        return super().fill(task)


def filled(tmp_path: Path, model: str) -> WatchedSpark:
    folder = ProjectFolder(tmp_path / "project", {"models/m.sql": model})
    spark = WatchedSpark()
    with open_fake(folder.root, spark) as workspace:
        workspace.apply(workspace.plan("prod", now=NOW))
    return spark


@pytest.mark.parametrize("kind", KINDS)
def test_batches_follow_each_other_and_the_table_is_made_once_before_them(
    kind: str, tmp_path: Path
) -> None:
    spark = filled(
        tmp_path,
        f"""
        MODEL (name db.m, start '2024-01-01', kind {KINDS[kind]});
        SELECT CAST('2024-01-01' AS DATE) AS day, 1 AS n
        """,
    )
    assert spark.done == ["table", "1-3", "3-5", "5-6"]


@pytest.mark.parametrize(("size", "expected"), [("", "1-2 2-3 3-4 4-5 5-6"), ("3", "1-4 4-6")])
def test_a_model_that_reads_itself_goes_day_by_day_unless_it_says_more(
    size: str, expected: str, tmp_path: Path
) -> None:
    batches = f", batch_size {size}" if size else ""
    spark = filled(
        tmp_path,
        f"""
        MODEL (name db.m, start '2024-01-01', columns (day DATE, n INT),
          kind INCREMENTAL_BY_TIME_RANGE (time_column day{batches}));
        SELECT CAST(@start_ds AS DATE) AS day, CAST(COALESCE(MAX(n), 0) + 1 AS INT) AS n FROM db.m
        """,
    )
    assert spark.done == ["table", *expected.split()]
    assert all("WHERE false" not in query for query in spark.queries), (
        "reads the table, no stand-in"
    )


def test_a_long_backfill_without_batch_size_is_cut_by_its_parents_bytes_and_the_plan_says_so(
    tmp_path: Path,
) -> None:
    """A batch reads one byte at most, so that each unit is one; with the default all are one."""
    model = """
        MODEL (name db.m, start '2024-01-01', kind INCREMENTAL_BY_TIME_RANGE (time_column day));
        SELECT day, n FROM db.parent WHERE day >= @start_ds
        """
    parent = """
        MODEL (name db.parent, start '2024-01-01',
          kind INCREMENTAL_BY_TIME_RANGE (time_column day));
        SELECT CAST('2024-01-01' AS DATE) AS day, 1 AS n
        """
    done, told = [], []
    for limit in ("", "batch_bytes = 1"):
        root = tmp_path / (limit or "default")
        config = f"[tool.vde.spark]\n{limit}\n"
        files = {"models/m.sql": model, "models/parent.sql": parent, "pyproject.toml": config}
        spark = WatchedSpark()
        with open_fake(ProjectFolder(root, files).root, spark) as workspace:
            workspace.apply(workspace.plan("prod", now=NOW), concurrency=1)
            again = workspace.plan("prod", restate=("db.m",), now=NOW)
            again = workspace.store.plans.load(again.id)  # As it is stored.
        printed = Console(file=StringIO(), width=200)
        show_report(printed, plan_report(again, {}))
        text = "about 5 batches that read 0.0 kB each"
        pages = printed.file.getvalue(), report_markdown(plan_report(again), SHORT)
        shown = [text in page for page in pages]
        told.append([*(model_json(model).get("batches") for model in again.models), *shown])
        done.append(spark.done)
    assert done[0] == ["table", "1-6", "table", "1-6"]
    assert done[1] == ["table", "1-6", "table", "1-2", "2-3", "3-4", "4-5", "5-6"]
    assert told == [[None, None, False, False], [None, {"count": 5, "bytes": 20}, True, True]]


class ShortOfMemory(WatchedSpark):
    """Fails like Spark whose JVM ran out of memory, where a batch holds too much.

    Args:
        fits: Units of a batch that fit.
        heavy: The day of January with which no other one fits, and how many units then do.
        late: Whether it fails behind its commit, with the rows in the table's branch.
    """

    def __init__(self, fits: int = 99, heavy: tuple[int, int] = (0, 0), late: bool = False) -> None:
        super().__init__()
        self.fits, self.heavy, self.late = fits, heavy, late
        self.running: set[str] = set()
        self.together = threading.Barrier(1)
        self.hint: str | None = "give Spark more memory"

    def fill(self, task: FillTask) -> FillResult:
        units = DAY.count(task.interval)
        days = range(task.interval.start.day, task.interval.end.day)
        fits = self.heavy[1] if self.heavy[0] in days else self.fits
        name = str(task.snapshot.name)
        self.running.add(name)
        try:
            together, _ = self.together, self.together.wait(20)
            if together.parties > 1:
                self.together = threading.Barrier(1)
                self.done.append("ended")
                raise self.out_of_memory()
            assert "ended" not in self.done or self.running == {name}, "not alone"
            if units <= fits:
                return super().fill(task)
            if self.late:
                super().fill(task)
            else:
                self.done.append(f"{task.interval.start.day}-{task.interval.end.day}!")
            raise self.out_of_memory()
        finally:
            self.running.discard(name)

    def out_of_memory(self) -> StoreError:
        error = StoreError("Spark ran out of memory", hint=self.hint)
        error.lacks_memory = True
        return error


@pytest.mark.parametrize(
    ("kind", "spark", "done", "told"),
    [
        ("time", ShortOfMemory(fits=2), "1-6! 1-4! 1-3 3-5 5-6", ""),
        ("time, batch_size 2", ShortOfMemory(heavy=(4, 1)), "1-3 3-5! 3-4 4-5 5-6", ""),
        ("time, batch_size 2, batch_concurrency 2", ShortOfMemory(fits=1), "", ""),
        ("rows, batch_size 4", ShortOfMemory(fits=2), "1-5! 1-3 3-5 5-6", ""),
        ("rows, batch_size 4", ShortOfMemory(fits=2, late=True), "1-5 5-6", ""),
        (
            "time",
            ShortOfMemory(heavy=(4, 0)),
            "1-6! 1-4 4-6! 4-5!",
            "db.m, one interval (2024-01-04), computed alone: Spark ran out of memory",
        ),
        (
            "rows",
            ShortOfMemory(fits=2),
            "1-6!",
            "db.m, 5 intervals (2024-01-01 … 2024-01-05), computed alone: Spark ran out of memory",
        ),
    ],
)
def test_a_batch_that_runs_out_of_memory_is_halved_until_one_interval_and_what_is_filled_is_kept(
    kind: str, spark: ShortOfMemory, done: str, told: str, tmp_path: Path
) -> None:
    name, _, options = kind.partition(", ")
    kind = f"INCREMENTAL_UNMANAGED ({options})".replace(" ()", "")
    if name == "time":
        kind = f"INCREMENTAL_BY_TIME_RANGE (time_column day, {options})".replace(", )", ")")
    model = f"""
        MODEL (name db.m, start '2024-01-01', kind {kind});
        SELECT CAST(@start_ds AS DATE) AS day, 1 AS n
        """
    folder = ProjectFolder(tmp_path / "project", {"models/m.sql": model})
    events: list[Event] = []
    with open_fake(folder.root, spark) as workspace:
        plan = workspace.plan("prod", now=NOW)
        if told:
            with pytest.raises(ExecutionError) as raised:
                workspace.apply(plan, on_event=events.append)
            (failure,) = raised.value.failures
            assert failure.message == told
            cut = "set batch_size of the model, or " if name == "rows" else ""
            assert failure.hint == f"{cut}give Spark more memory"
            assert workspace.store.environments.get("prod") is None
            spark.fits, spark.heavy = 99, (0, 0)
            there = len(spark.done)
            workspace.apply(plan)
            assert spark.done[there:] == (["4-6"] if name == "time" else ["1-6"])
            spark.done[there:] = []
        else:
            workspace.apply(plan, on_event=events.append)
        assert workspace.store.environments.get("prod") is not None
    if done:
        assert spark.done == ["table", *done.split()]
    lacked = [event for event in events if isinstance(event, MemoryLacked)]
    assert bool(lacked) == (kind != "INCREMENTAL_UNMANAGED")
    for event in lacked:
        assert event.text.startswith("db.m (2024-01-0")
        assert "retrying alone, at most" in event.text


def test_without_a_hint_of_spark_the_hint_is_the_size_of_a_batch(tmp_path: Path) -> None:
    model = (
        "MODEL (name db.m, start '2024-01-01', kind INCREMENTAL_UNMANAGED);"
        "SELECT CAST(@start_ds AS DATE) AS day"
    )
    folder = ProjectFolder(tmp_path / "project", {"models/m.sql": model})
    spark = ShortOfMemory(fits=2)
    spark.hint = None
    with open_fake(folder.root, spark) as workspace:
        with pytest.raises(ExecutionError) as raised:
            workspace.apply(workspace.plan("prod", now=NOW))
        (failure,) = raised.value.failures
        assert failure.hint == "set batch_size of the model"


def test_what_was_done_beside_a_batch_that_ended_spark_is_done_again_alone_and_does_not_fail(
    tmp_path: Path,
) -> None:
    """Both fail at the same time; nobody knows whose memory lacked."""
    folder = ProjectFolder(
        tmp_path / "project",
        {
            "models/big.sql": "MODEL (name db.big, start '2024-01-01', kind "
            "INCREMENTAL_BY_TIME_RANGE (time_column day)); SELECT CAST(@start_ds AS DATE) AS day",
            "models/small.sql": "MODEL (name db.small, kind FULL); SELECT 1 AS n",
            "models/after.sql": "MODEL (name db.after, kind FULL); SELECT n + 1 AS n FROM db.small",
        },
    )
    spark = ShortOfMemory(fits=3)
    spark.together = threading.Barrier(2)
    with open_fake(folder.root, spark) as workspace:
        workspace.apply(workspace.plan("prod", now=NOW), concurrency=2)
    assert spark.done[:4] == ["table", "table", "ended", "ended"]
    assert sorted(spark.done[4:]) == ["1-4", "4-6", "5-6", "5-6", "table"]


DAY = IntervalUnit.DAY
WEEK = Interval(
    datetime(2024, 1, 1, tzinfo=timezone.utc), datetime(2024, 1, 8, tzinfo=timezone.utc)
)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 7), st.integers(0, 100)), max_size=8))
@example([(0, 7, 70)])
def test_batches_by_bytes_are_the_longest_that_keep_to_the_limit(
    parts: list[tuple[int, int, int]],
) -> None:
    limit = 30
    weights = [
        Weight(Interval(DAY.shift(WEEK.start, first), DAY.shift(WEEK.start, first + days)), size)
        for first, days, size in parts
    ]

    def held(interval: Interval) -> float:
        """Count day by day what the batches are cut by without."""
        days = [DAY.shift(WEEK.start, day) for day in range(14)]
        return sum(
            weight.bytes / DAY.count(weight.interval)
            for weight in weights
            for day in days
            if interval.start <= day < interval.end
            and weight.interval.start <= day < weight.interval.end
        )

    batches = list(cut(IntervalSet((WEEK,)), Cadence("@daily"), weights, limit))
    assert IntervalSet.of(batches) == IntervalSet((WEEK,))
    for batch in batches:
        assert DAY.count(batch) == 1 or held(batch) <= limit + 0.01
    if sum(weight.bytes for weight in weights) > limit:
        for one, other in pairwise(batches):
            longer = Interval(one.start, DAY.shift(one.end, 1))
            assert other.start == one.end
            assert held(longer) > limit - 0.01


WHOLE = ["06 00-10", "06 00-12", "06 00-01"]


@pytest.mark.proof
@pytest.mark.parametrize(
    ("kind", "filled"),
    [
        ("INCREMENTAL_BY_TIME_RANGE (time_column day)", WHOLE),
        ("INCREMENTAL_BY_TIME_RANGE (time_column day, lookback 1)", WHOLE),
        (
            "INCREMENTAL_BY_TIME_RANGE (time_column day, batch_size 1)",
            ["06 00-10", "06 00-12", "06 00-00", "07 00-01"],
        ),
        ("INCREMENTAL_BY_UNIQUE_KEY (unique_key n)", WHOLE),
        ("INCREMENTAL_BY_PARTITION, partitioned_by (day)", WHOLE),
        ("INCREMENTAL_UNMANAGED", ["06 00-10", "06 10-12", "06 12-01"]),
    ],
)
def test_every_part_of_a_day_is_filled_from_the_beginning_of_the_day_but_where_rows_are_added(
    kind: str, filled: list[str], tmp_path: Path
) -> None:
    model = f"""
        MODEL (name db.m, start '2024-01-06', cron '@hourly', interval_unit day,
          allow_partials true, kind {kind});
        SELECT CAST(@start_ds AS DATE) AS day, 1 AS n
        """
    folder = ProjectFolder(tmp_path / "project", {"models/m.sql": model})
    spark = PartsSpark()
    with open_fake(folder.root, spark) as workspace:
        workspace.apply(workspace.plan("prod", now=NOW.replace(hour=10, minute=30)))
        for later in (NOW.replace(minute=30), NOW.replace(day=7, hour=1, minute=30)):
            workspace.apply(workspace.plans.due("prod", now=later))
    assert spark.parts == filled


def test_a_day_that_was_filled_by_hours_is_filled_whole_once_the_cron_is_daily(
    tmp_path: Path,
) -> None:
    hourly = """
        MODEL (name db.m, start '2024-01-06', cron '@hourly',
          kind INCREMENTAL_BY_UNIQUE_KEY (unique_key day));
        SELECT CAST(@start_ds AS DATE) AS day, 1 AS n
        """
    folder = ProjectFolder(tmp_path / "project", {"models/m.sql": hourly})
    spark = PartsSpark()
    with open_fake(folder.root, spark) as workspace:
        workspace.apply(workspace.plan("prod", now=NOW.replace(hour=10, minute=30)))
    folder.write("models/m.sql", hourly.replace("@hourly", "@daily"))
    with open_fake(folder.root, spark) as workspace:
        workspace.apply(workspace.plan("prod", now=NOW))
        workspace.apply(workspace.plans.due("prod", now=NOW.replace(day=7)))
    assert spark.parts == ["06 00-10", "06 00-00"]


def test_hours_of_a_day_that_goes_on_are_filled_again_once_the_unit_is_an_hour(
    tmp_path: Path,
) -> None:
    parts = """
        MODEL (name db.m, start '2024-01-05', cron '@hourly', interval_unit day,
          allow_partials true, kind INCREMENTAL_BY_TIME_RANGE (time_column ts));
        SELECT @start_dt AS ts, 1 AS n
        """
    folder = ProjectFolder(tmp_path / "project", {"models/m.sql": parts})
    spark = PartsSpark()
    with open_fake(folder.root, spark) as workspace:
        workspace.apply(workspace.plan("prod", now=NOW.replace(hour=10, minute=30)))
    folder.write("models/m.sql", parts.replace("interval_unit day", "interval_unit hour"))
    with open_fake(folder.root, spark) as workspace:
        plan = workspace.plan("prod", now=NOW.replace(hour=10, minute=40))
        workspace.apply(plan)
        workspace.apply(workspace.plans.due("prod", now=NOW.replace(hour=11, minute=30)))
        (model,) = plan.models
        assert model.table is not None
        table = workspace.store.tables.get(model.table.id)
        assert (table.intervals.ranges[-1].end.hour, table.parts) == (11, ())
    assert spark.parts == ["05 00-10", "06 00-11"]


@pytest.mark.proof
@pytest.mark.parametrize("definitions_only", [True, False])
def test_a_rollback_to_a_shorter_unit_fills_again_what_is_of_a_longer_one_in_part(
    tmp_path: Path, definitions_only: bool
) -> None:
    by_hour = """
        MODEL (name db.m, start '2024-01-05', cron '@hourly',
          kind INCREMENTAL_BY_TIME_RANGE (time_column ts));
        SELECT @start_dt AS ts, 1 AS n
        """
    by_day = by_hour.replace("cron", "interval_unit day, allow_partials true, cron")
    folder = ProjectFolder(tmp_path / "project")
    spark = PartsSpark()

    def publish(text: str, now: datetime) -> None:
        folder.write("models/m.sql", text)
        with open_fake(folder.root, spark) as workspace:
            workspace.apply(workspace.plan("prod", now=now))
            workspace.apply(workspace.plans.due("prod", now=now))

    tomorrow = NOW.replace(day=7, hour=0)
    publish(by_hour, NOW.replace(hour=0, minute=30))
    publish(by_day, NOW.replace(hour=10, minute=30))
    if not definitions_only:
        publish(by_day, tomorrow.replace(minute=30))
    with open_fake(folder.root, spark) as workspace:
        version = 1 if definitions_only else 3
        workspace.environments.rollback("prod", version, definitions_only=definitions_only)
    publish(by_hour, tomorrow.replace(minute=40))
    assert spark.parts[-1] == "06 00-00"


def test_a_dead_attempt_at_a_part_is_not_taken_over_by_a_shorter_unit(tmp_path: Path) -> None:
    part = Part(Interval(NOW.replace(hour=0), NOW.replace(hour=10)), IntervalUnit.DAY)
    by_hour = """
        MODEL (name db.m, start '2024-01-05', cron '@hourly',
          kind INCREMENTAL_BY_TIME_RANGE (time_column ts));
        SELECT @start_dt AS ts, 1 AS n
        """
    folder = ProjectFolder(tmp_path / "project", {"models/m.sql": by_hour})
    spark = PartsSpark()
    with open_fake(folder.root, spark) as workspace:
        workspace.apply(workspace.plan("prod", now=NOW.replace(hour=10, minute=30)))
        plan = workspace.plans.due("prod", now=NOW.replace(hour=11, minute=30))
        (model,) = plan.models
        assert model.table is not None
        # Whoever was going to fill the part may have filled it, recorded or not.
        workspace.store.tables.note_parts([(model.table.id, part)])
        workspace.apply(plan)
        assert workspace.store.tables.get(model.table.id).parts == (part,)
        workspace.apply(workspace.plans.due("prod", now=NOW.replace(hour=12, minute=30)))
        assert not workspace.store.tables.get(model.table.id).parts
    assert spark.parts == ["05 00-10", "06 10-11", "06 00-10", "06 11-12"]


class PartsSpark(FakeSpark):
    """Notes which hours of which days are filled."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []

    def fill(self, task: FillTask) -> FillResult:
        start, end = task.interval.start, task.interval.end
        self.parts.append(f"{start:%d %H}-{end:%H}")
        return super().fill(task)
