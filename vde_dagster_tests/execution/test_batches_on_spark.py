"""Batches at the same time on Spark: the same table, figures and digests as one by one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.errors import AuditFailedError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.intervals.cadence import ALWAYS
from vde_dagster.project.kinds import IncrementalByTimeRange, IncrementalUnmanaged
from vde_dagster.spark.engine import SparkEngine
from vde_dagster.spark.strategies.base import Write
from vde_dagster.spark.strategies.incremental import TimeRange
from vde_dagster.spark.tables.iceberg import IcebergTable
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.spark.tasks import Warehouse, days

pytestmark = pytest.mark.spark

NOW = datetime(2024, 1, 7, 12, tzinfo=timezone.utc)
FILES = {
    "models/daily.sql": """
        MODEL (name m.daily, start '2024-01-01', audits (not_null(columns := (day, n))),
          kind INCREMENTAL_BY_TIME_RANGE (time_column day, batch_size 2, batch_concurrency 3));
        SELECT CAST(@start_ds AS DATE) + CAST(id % 2 AS INT) AS day, id * id AS n FROM range(10)
    """,
    "models/total.sql": """
        MODEL (name m.total, kind FULL);
        SELECT day, sum(n) AS n FROM m.daily GROUP BY day
    """,
}
EVENTS = {"id": "bigint", "ts": "timestamp", "v": "string"}


def events(value: str) -> str:
    return (
        "SELECT id, TIMESTAMP '2013-01-01' + make_dt_interval(0, CAST(id AS INT)) AS ts, "
        f"'{value}' AS v FROM range(240)"
    )


def applied(workspace: Workspace) -> tuple[Any, list[Any]]:
    """Fill, and return the rows with what is recorded of each range."""
    workspace.apply(workspace.plan("prod", now=NOW), concurrency=3)
    rows = workspace.query("prod", "SELECT day, n FROM m.daily ORDER BY 1, 2").rows
    tables = workspace.store.environments.get("prod")
    assert tables is not None
    (table,) = [entry.table_id for name, entry in tables.entries.items() if name.name == "daily"]
    fills = workspace.store.fills.log(table or "")
    facts = workspace.store.fills.overlapping(table or "", ALWAYS.ranges[0], "")
    outputs = {interval: output for interval, _, output in facts}
    told = sorted((fill.interval, fill.rows, outputs[fill.interval]) for fill in fills)
    return rows, [(one.start, one.end, count, output) for one, count, output in told]


def test_batches_meet_in_spark_and_leave_what_they_leave_one_by_one(
    tmp_path: Path,
    open_workspace: Callable[[ProjectFolder], Workspace],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alone = ProjectFolder(tmp_path / "alone", FILES)
    alone.edit("models/daily.sql", ", batch_concurrency 3", "")
    expected = applied(open_workspace(alone))
    met, write = threading.Barrier(3), TimeRange.write

    def meeting(self: TimeRange, task: Write) -> None:
        met.wait(120)
        write(self, task)
        met.wait(120)  # No commit of one is on the attempt's branch when another one is made.

    monkeypatch.setattr(TimeRange, "write", meeting)
    folder = ProjectFolder(tmp_path / "together", FILES)
    workspace = open_workspace(folder)
    rows, log = applied(workspace)
    assert (rows, log) == expected
    assert [count for *_, count, _ in log] == [10, 10, 10]
    assert all(output for *_, output in log), "digests were taken"


def test_a_bad_batch_is_taken_out_and_the_others_stay(
    tmp_path: Path, open_workspace: Callable[[ProjectFolder], Workspace]
) -> None:
    folder = ProjectFolder(tmp_path / "project", FILES)
    folder.edit("models/daily.sql", "id * id AS n", "IF(@start_ds = '2024-01-03', NULL, id) AS n")
    workspace = open_workspace(folder)
    with pytest.raises(AuditFailedError, match="2024-01-03 … 2024-01-04"):
        workspace.apply(workspace.plan("prod", now=NOW), concurrency=3)
    with workspace.store.database.reading() as connection:
        found = connection.exec_driver_sql("SELECT row_count FROM vde_fills").all()
    assert [tuple(row) for row in found] == [(10,), (10,)]


LAYOUTS: dict[str, dict[str, Any]] = {
    "a file per day": {},
    "files of several days": {"partitioned_by": ("months(ts)",)},
    "delete files": {
        "partitioned_by": ("months(ts)",),
        "table_properties": (("write.delete.mode", "merge-on-read"),),
    },
}


@pytest.mark.turns(2)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_fill_beside_another_is_brought_over_unless_both_changed_one_file(
    layout: str, spark_engine: SparkEngine
) -> None:
    table = Warehouse(spark_engine, IncrementalByTimeRange("ts"), EVENTS, **LAYOUTS[layout])
    table.fill(events("a"), days(1, 8))
    tasks = [
        table.task(events(f"b{day}"), days(day, day + 1), branch=f"side_{day}", base="own")
        for day in (2, 3, 4)
    ]
    results = [spark_engine.fill(task) for task in tasks]
    landed = [
        spark_engine.cherry_pick(task, result) for task, result in zip(tasks, results, strict=True)
    ]
    assert landed[0] is not None
    assert landed[0].iceberg_snapshot_id == results[0].iceberg_snapshot_id
    shared = layout != "a file per day"
    assert [one is None for one in landed] == [False, shared, shared]
    if shared:
        for task in tasks[1:]:
            again = table.task(task.query, task.interval, branch="own")
            assert spark_engine.fill(again).rows == 24
    expected = [("a", 4 * 24), ("b2", 24), ("b3", 24), ("b4", 24)]
    assert table.rows("v, count(*)", " VERSION AS OF 'own' GROUP BY v") == expected
    assert table.rows("v, count(*)", " GROUP BY v") == [("a", 7 * 24)]
    for one, result in zip(landed, results, strict=True):
        if one is not None and one.iceberg_snapshot_id is not None:
            assert result.iceberg_snapshot_id is not None
            brought, was = (
                {k: v for k, v in table.summary(i).items() if "vde." in k or "added-" in k}
                for i in (one.iceberg_snapshot_id, result.iceberg_snapshot_id)
            )
            assert brought == was


def test_fills_that_begin_beside_each_other_make_the_branch_they_start_from_once(
    spark_engine: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Warehouse(spark_engine, IncrementalByTimeRange("ts"), EVENTS)
    table.fill(events("a"), days(1, 4))
    tasks = [
        table.task(events(f"b{day}"), days(day, day + 1), branch=f"side_{day}", base="own")
        for day in (1, 2)
    ]
    loaded, missed, made = threading.Barrier(2), threading.Lock(), threading.Event()
    load, has_branch = SparkEngine._table, IcebergTable.has_branch
    ensure_branch = IcebergTable.ensure_branch

    def loading(*arguments: Any) -> IcebergTable:
        found = load(*arguments)
        loaded.wait(120)
        return found

    def looking(self: IcebergTable, branch: str) -> bool:
        found = has_branch(self, branch)
        if branch == "own" and not found and missed.acquire(blocking=False):
            made.wait(1)  # Time for the other one to make it, before this one does.
        return found

    def making(self: IcebergTable, branch: str, of: str | None = None) -> None:
        ensure_branch(self, branch, of)
        made.set()

    monkeypatch.setattr(SparkEngine, "_table", loading)
    monkeypatch.setattr(IcebergTable, "has_branch", looking)
    monkeypatch.setattr(IcebergTable, "ensure_branch", making)
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(spark_engine.fill, tasks))
    monkeypatch.undo()
    landed = [spark_engine.cherry_pick(t, r) for t, r in zip(tasks, results, strict=True)]
    assert None not in landed
    rows = table.rows("v, count(*)", " VERSION AS OF 'own' GROUP BY v")
    assert rows == [("a", 24), ("b1", 24), ("b2", 24)]


def test_of_two_fills_of_one_range_beside_each_other_only_one_is_brought_over(
    spark_engine: SparkEngine,
) -> None:
    table = Warehouse(spark_engine, IncrementalByTimeRange("ts"), EVENTS)
    table.fill(events("a"), days(1, 4))
    tasks = [
        table.task(events(f"b{day}"), days(day, day + 1), branch=branch, base="own")
        for day, branch in ((1, "side_1"), (2, "side_2"), (2, "again"))
    ]
    results = [spark_engine.fill(task) for task in tasks]
    landed = [spark_engine.cherry_pick(t, r) for t, r in zip(tasks, results, strict=True)]
    assert [one is None for one in landed] == [False, False, True]
    rows = table.rows("v, count(*)", " VERSION AS OF 'own' GROUP BY v")
    assert rows == [("a", 24), ("b1", 24), ("b2", 24)]


def test_appends_beside_each_other_are_all_there_once_also_without_rows(
    spark_engine: SparkEngine,
) -> None:
    table = Warehouse(spark_engine, IncrementalUnmanaged(), EVENTS)
    queries = [events("a"), f"{events('b')} WHERE id < 0", events("c")]
    tasks = [
        table.task(query, days(day, day + 1), branch=f"side_{day}", base="own")
        for day, query in enumerate(queries, 1)
    ]
    results = [spark_engine.fill(task) for task in tasks]
    landed = [spark_engine.cherry_pick(t, r) for t, r in zip(tasks, results, strict=True)]
    assert len({one.iceberg_snapshot_id for one in landed if one is not None}) == 3
    rows = table.rows("v, count(*)", " VERSION AS OF 'own' GROUP BY v")
    assert rows == [("a", 240), ("c", 240)]
