"""Another program changes columns of an input: Spark reads a snapshot with its own columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.execution.events import IntervalFilled
from vde_dagster.planning.changes.refresh import Refresh
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.daily_runs import DailyRuns

pytestmark = [pytest.mark.spark, pytest.mark.turns(10, "refreshes on Spark")]

QUERY = (
    "SELECT o.a, count(*) AS n FROM raw.orders AS o JOIN raw.names AS k ON o.a = k.a GROUP BY o.a"
)
FILES = {"models/counts.sql": f"MODEL (name m.counts, kind FULL (refresh changes)); {QUERY}"}
ALTER = "ALTER TABLE lakehouse.raw.names"
ACTS = {
    "emptied": ("DROP COLUMN a", "ADD COLUMN a INT"),
    "swapped": ("RENAME COLUMN a TO c", "RENAME COLUMN b TO a", "RENAME COLUMN c TO b"),
    "renamed back": ("RENAME COLUMN a TO c", "RENAME COLUMN c TO a"),
    "added": ("ADD COLUMN c INT",),
}


@pytest.mark.parametrize("commits", [False, True], ids=["other input", "same input"])
@pytest.mark.parametrize("act", ACTS)
def test_rows_are_those_of_the_query_after_columns_were_changed(
    spark_engine: SparkEngine, tmp_path: Path, act: str, commits: bool
) -> None:
    world = DailyRuns(
        tmp_path / "project",
        FILES,
        "CREATE TABLE lakehouse.raw.orders (a INT, b INT) USING iceberg",
        "CREATE TABLE lakehouse.raw.names (a INT, b INT) USING iceberg",
        "INSERT INTO lakehouse.raw.orders VALUES (1, 1), (2, 2), (3, 3)",
        "INSERT INTO lakehouse.raw.names VALUES (1, 2), (2, 5)",
    )
    for text in ACTS[act]:
        world.sql(f"{ALTER} {text}")
    _compare(world)
    ways = []
    for number in range(2):
        world.sql(f"INSERT INTO lakehouse.raw.orders VALUES ({number + 1}, 7)")
        if commits:
            world.sql("INSERT INTO lakehouse.raw.names (a, b) VALUES (2, 3)")
        ways.append(_compare(world))
    # Until the table has a commit of its own, Spark reads its snapshot with the earlier columns.
    assert ways[-1] is not None
    assert ways[-1].from_changes == (commits or act == "renamed back")
    world.workspace.close()


def _compare(world: DailyRuns) -> Refresh | None:
    """Run a day, compare the rows with the query's, and return the fill's method."""
    fills = [event for event in world.tick() if isinstance(event, IntervalFilled)]
    shown = world.workspace.query("prod", "SELECT * FROM m.counts").rows
    wanted = world.workspace.query("prod", QUERY).rows
    assert sorted(shown) == sorted(wanted)
    return fills[0].refresh if fills else None
