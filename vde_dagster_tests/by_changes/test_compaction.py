"""Compaction by the janitor of tables whose fills leave deleted rows behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.lakehouse.maintenance.janitor import JanitorReport
from vde_dagster.planning.tables.pinned_reads import Input
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.daily_runs import DailyRuns

MODEL = (
    "MODEL (name m.spent, kind INCREMENTAL_BY_CHANGES (key customer), "
    "physical_properties ('write.delete.mode' = 'merge-on-read')); "
    "SELECT customer, sum(amount) AS amount FROM raw.orders GROUP BY customer"
)


@pytest.mark.spark
def test_a_table_with_many_deleted_rows_is_compacted(
    spark_engine: SparkEngine, tmp_path: Path
) -> None:
    world = DailyRuns(
        tmp_path / "project",
        {"models/spent.sql": MODEL},
        "CREATE TABLE lakehouse.raw.orders (customer INT, amount INT) USING iceberg",
        "INSERT INTO lakehouse.raw.orders SELECT id, id FROM range(20)",
    )
    workspace = world.workspace
    assert _compacted(workspace.maintenance.janitor()) == []
    world.sql("INSERT INTO lakehouse.raw.orders SELECT id, 1 FROM range(5)")
    world.run()
    wanted = "5 of 25 rows are deleted, in 1 delete file"
    assert _compacted(workspace.maintenance.janitor(dry_run=True)) == [("planned", wanted)]
    rows = _rows(world)
    assert _compacted(workspace.maintenance.janitor()) == [("done", wanted)]
    assert _rows(world) == rows
    assert _compacted(workspace.maintenance.janitor()) == []
    world.sql("INSERT INTO lakehouse.raw.orders VALUES (19, 1)")
    assert world.run() == {"m.spent": 1}
    assert {one.how for one in world.inputs("m.spent").values()} == {Input.BY_CHANGES}
    assert sorted(_rows(world)) == sorted(
        workspace.query(
            "prod", "SELECT customer, sum(amount) FROM lakehouse.raw.orders GROUP BY customer"
        ).rows
    )
    workspace.close()


def _compacted(report: JanitorReport) -> list[tuple[str, str]]:
    found = [one for one in report.decisions if one.action == "compact_table"]
    return [(one.outcome, one.reason) for one in found]


def _rows(world: DailyRuns) -> list[tuple[object, ...]]:
    return list(world.workspace.query("prod", "SELECT * FROM m.spent ORDER BY customer").rows)
