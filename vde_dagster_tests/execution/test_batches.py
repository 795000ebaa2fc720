"""Batches of one model: how its missing intervals become jobs, and in which order."""

from __future__ import annotations

from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vde_dagster.execution.batch_bytes import Weight, cut
from vde_dagster.planning.cadence import Cadence, IntervalUnit
from vde_dagster.planning.interval import Interval, IntervalSet
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.table import PhysicalTable
from vde_dagster.planning.work import FillResult, FillTask
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.projects import ProjectFolder

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


def test_a_long_backfill_without_batch_size_is_cut_by_the_bytes_that_its_parents_hold(
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
    done = []
    for limit in ("", "batch_bytes = 1"):
        root = tmp_path / (limit or "default")
        config = f"[tool.vde.spark]\n{limit}\n"
        files = {"models/m.sql": model, "models/parent.sql": parent, "pyproject.toml": config}
        spark = WatchedSpark()
        with open_fake(ProjectFolder(root, files).root, spark) as workspace:
            workspace.apply(workspace.plan("prod", now=NOW), concurrency=1)
        done.append(spark.done)
    assert done[0] == ["table", "1-6", "table", "1-6"]
    assert done[1] == ["table", "1-6", "table", "1-2", "2-3", "3-4", "4-5", "5-6"]


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
            workspace.apply(workspace.plan_run("prod", now=later))
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
        workspace.apply(workspace.plan_run("prod", now=NOW.replace(day=7)))
    assert spark.parts == ["06 00-10", "06 00-00"]


class PartsSpark(FakeSpark):
    """Notes which hours of which days are filled."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []

    def fill(self, task: FillTask) -> FillResult:
        start, end = task.interval.start, task.interval.end
        self.parts.append(f"{start:%d %H}-{end:%H}")
        return super().fill(task)
