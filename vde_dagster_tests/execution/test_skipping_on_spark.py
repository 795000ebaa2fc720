"""Runs skip what has nothing new, on real Spark and Iceberg: what counts as nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from vde_dagster.execution.events import Event, IntervalFilled
from vde_dagster.execution.workspace import Workspace
from vde_dagster.reports.plan_json import model_json
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.spark

FIRST = datetime(2024, 1, 3, 12, tzinfo=timezone.utc)
ALL = {"marts.sums", "marts.kinds", "marts.report", "marts.names", "marts.now"}
FILES = {
    "models/staging/events.sql": """
        MODEL (name staging.events, kind VIEW);
        SELECT id, kind, n FROM ext.events WHERE id > 0
    """,
    "models/marts/sums.sql": """
        MODEL (name marts.sums, kind FULL, clustered_by (kind));
        SELECT kind, sum(n) AS total FROM staging.events GROUP BY kind
    """,
    "models/marts/kinds.sql": """
        MODEL (name marts.kinds, kind FULL);
        SELECT DISTINCT kind FROM staging.events
    """,
    "models/marts/report.sql": """
        MODEL (name marts.report, kind FULL);
        SELECT count(*) AS kinds FROM marts.kinds
    """,
    "models/marts/names.sql": """
        MODEL (name marts.names, kind FULL);
        SELECT upper(kind) AS name FROM marts.sums
    """,
    "models/marts/now.sql": """
        MODEL (name marts.now, kind FULL);
        SELECT kinds, current_timestamp() AS at FROM marts.report
    """,
}


class World:
    """A project over an external Iceberg table, run day by day."""

    def __init__(self, root: Path) -> None:
        self.folder = ProjectFolder(root, FILES)
        self.workspace = Workspace.open(root)
        self.now = FIRST
        self.saved: dict[str, float | None] = {}

    def sql(self, text: str) -> None:
        """Let somebody else do something."""
        self.workspace.engine().session.sql(text)  # type: ignore[attr-defined]

    def run(self, *, full: bool = False) -> tuple[set[str], set[str]]:
        """Run the next day; return what was computed and what was skipped."""
        self.now += timedelta(days=1)
        events: list[Event] = []
        plan = self.workspace.plans.due("prod", now=self.now, full=full)
        self.workspace.apply(plan, on_event=events.append)
        filled = [event for event in events if isinstance(event, IntervalFilled)]
        self.saved = {
            str(event.snapshot.name): event.skipped.seconds for event in filled if event.skipped
        }
        computed = {str(event.snapshot.name) for event in filled if not event.skipped}
        assert self.workspace.plans.due("prod", now=self.now).is_empty
        return computed, set(self.saved)

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """Ask production."""
        return sorted(self.workspace.query("prod", sql).rows, key=str)


@pytest.fixture(scope="module")
def world(spark_engine: SparkEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("skipping") / "project")
    made.sql("CREATE NAMESPACE IF NOT EXISTS lakehouse.ext")
    made.sql("CREATE TABLE lakehouse.ext.events (id INT, kind STRING, n INT) USING iceberg")
    made.sql("INSERT INTO lakehouse.ext.events VALUES (1, 'a', 1), (2, 'b', 2)")
    made.sql("INSERT INTO lakehouse.ext.events VALUES (3, 'b', 3)")
    made.workspace.apply(made.workspace.plan("prod", now=FIRST))
    yield made
    made.workspace.close()


Change = Callable[[World], None]


def compact(world: World) -> None:
    world.sql(
        "CALL lakehouse.system.rewrite_data_files(table => 'ext.events', "
        "options => map('rewrite-all', 'true'))"
    )
    world.sql("CALL lakehouse.system.rewrite_manifests('ext.events')")


def insert_nothing(world: World) -> None:
    world.sql("INSERT INTO lakehouse.ext.events SELECT * FROM lakehouse.ext.events WHERE id < 0")
    world.sql("DELETE FROM lakehouse.ext.events WHERE id = 99")


def change_and_roll_back(world: World) -> None:
    (row,) = (
        world.workspace.engine()
        .session.sql("SELECT snapshot_id FROM lakehouse.ext.events.refs")  # type: ignore[attr-defined]
        .collect()
    )
    world.sql("DELETE FROM lakehouse.ext.events WHERE id = 1")
    world.sql(f"CALL lakehouse.system.rollback_to_snapshot('ext.events', {row[0]})")


def compact_a_table_of_ours(world: World) -> None:
    shown = world.workspace.store.environments.get("prod")
    assert shown is not None
    for table in world.workspace.store.tables.load(shown.tables).values():
        world.sql(
            f"CALL lakehouse.system.rewrite_data_files(table => '`{table.ref.namespace}`."
            f"`{table.ref.name}`', options => map('rewrite-all', 'true'))"
        )


@pytest.mark.parametrize(
    "change",
    [
        lambda world: None,
        compact,
        insert_nothing,
        change_and_roll_back,
        compact_a_table_of_ours,
    ],
    ids=[
        "nothing at all",
        "compaction of an external table",
        "inserts and deletes of no rows",
        "a rollback of an external table",
        "compaction of physical tables",
    ],
)
def test_models_are_skipped_when_what_they_read_only_looks_new(
    world: World, change: Change
) -> None:
    change(world)
    computed, skipped = world.run()
    assert computed == {"marts.now"}, "it reads the clock"
    assert skipped == ALL - {"marts.now"}
    assert all(seconds is not None and seconds > 0 for seconds in world.saved.values())


def test_rows_that_come_out_as_before_stop_the_wave_below_them(world: World) -> None:
    world.sql("INSERT INTO lakehouse.ext.events VALUES (4, 'a', 7)")
    computed, skipped = world.run()
    assert computed == {"marts.sums", "marts.kinds", "marts.now"}
    assert skipped == {"marts.report", "marts.names"}, "the same kinds, and only totals changed"
    assert world.rows("SELECT kind, total FROM marts.sums") == [("a", 8), ("b", 5)]
    world.sql("INSERT INTO lakehouse.ext.events VALUES (5, 'c', 1)")
    computed, skipped = world.run()
    assert computed == ALL
    assert world.rows("SELECT name FROM marts.names") == [("A",), ("B",), ("C",)]


def test_content_that_is_restored_counts_as_what_it_was(world: World) -> None:
    world.run()
    world.sql("INSERT INTO lakehouse.ext.events VALUES (6, 'd', 1)")
    world.sql("DELETE FROM lakehouse.ext.events WHERE id = 6")
    computed, skipped = world.run()
    assert computed == {"marts.sums", "marts.kinds", "marts.now"}, "others' rows have no digest"
    assert skipped == {"marts.report", "marts.names"}


def test_interval_without_rows_and_refilled_rows_that_are_the_same_are_nothing_new(
    spark_engine: SparkEngine, tmp_path: Path
) -> None:
    files = {
        "models/daily.sql": """
            MODEL (name db.daily, kind INCREMENTAL_BY_TIME_RANGE (time_column day, lookback 1),
              start '2024-01-01');
            SELECT day, n, note FROM ext.days WHERE day BETWEEN @start_date AND @end_date
        """,
        "models/total.sql": "MODEL (name db.total, kind FULL); SELECT sum(n) AS n FROM db.daily",
        "models/all.sql": "MODEL (name db.all, kind FULL); SELECT day, n, note FROM db.daily",
    }
    root = ProjectFolder(tmp_path / "project", files).root
    with Workspace.open(root) as workspace:
        sql = workspace.engine().session.sql  # type: ignore[attr-defined]
        sql("CREATE NAMESPACE IF NOT EXISTS lakehouse.ext")
        sql("CREATE TABLE lakehouse.ext.days (day DATE, n INT, note STRING) USING iceberg")
        sql("INSERT INTO lakehouse.ext.days VALUES (DATE '2024-01-02', 1, 'a')")
        workspace.apply(workspace.plan("prod", now=FIRST))
        # The run fills the 3rd, which has no rows, and the 2nd again, which has the same.
        result = workspace.apply(workspace.plans.due("prod", now=FIRST + timedelta(days=1)))
        assert {str(name) for name in result.skipped} == {"db.total", "db.all"}
        # A late change of a note below the lookback: the total reads no notes.
        sql("INSERT INTO lakehouse.ext.days VALUES (DATE '2024-01-04', 5, 'x')")
        result = workspace.apply(workspace.plans.due("prod", now=FIRST + timedelta(days=2)))
        assert result.skipped == {}
        sql("UPDATE lakehouse.ext.days SET note = 'y' WHERE n = 5")
        result = workspace.apply(workspace.plans.due("prod", now=FIRST + timedelta(days=3)))
        assert {str(name) for name in result.skipped} == {"db.total"}
        (found,) = workspace.query("prod", "SELECT note FROM db.all WHERE n = 5").rows
        assert found == ("y",)


KEPT = {
    "merged": "kind INCREMENTAL_BY_UNIQUE_KEY (unique_key n, lookback 1, batch_size 1)",
    "parted": "kind INCREMENTAL_BY_PARTITION (lookback 1, batch_size 1), partitioned_by n",
    "dimension": "kind SCD_TYPE_2_BY_COLUMN (unique_key n, columns *)",
}


def test_tables_that_keep_rows_and_were_written_with_the_same_rows_are_nothing_new(
    spark_engine: SparkEngine, tmp_path: Path
) -> None:
    query = "SELECT day, n, note FROM ext.kept WHERE day BETWEEN @start_date AND @end_date"
    files = {
        path: text
        for name, kind in KEPT.items()
        for path, text in {
            f"models/{name}.sql": f"MODEL (name db.{name}, {kind}, start '2024-01-01'); "
            + (query if name != "dimension" else "SELECT n, note FROM ext.kept"),
            f"models/all_{name}.sql": f"MODEL (name db.all_{name}, kind FULL); "
            f"SELECT n, note FROM db.{name}",
            f"models/sum_{name}.sql": f"MODEL (name db.sum_{name}, kind FULL); "
            f"SELECT sum(n) AS n FROM db.{name}",
        }.items()
    }
    below = {f"db.{prefix}_{name}" for name in KEPT for prefix in ("all", "sum")}
    with Workspace.open(ProjectFolder(tmp_path / "project", files).root) as workspace:
        sql = workspace.engine().session.sql  # type: ignore[attr-defined]
        sql("CREATE NAMESPACE IF NOT EXISTS lakehouse.ext")
        sql("CREATE TABLE lakehouse.ext.kept (day DATE, n INT, note STRING) USING iceberg")
        sql("INSERT INTO lakehouse.ext.kept VALUES (DATE '2024-01-02', 1, 'a')")
        workspace.apply(workspace.plan("prod", now=FIRST))
        # The run merges the 2nd again, which has the same rows.
        result = workspace.apply(workspace.plans.due("prod", now=FIRST + timedelta(days=1)))
        assert {str(name) for name in result.skipped} == below
        sql("UPDATE lakehouse.ext.kept SET note = 'b', day = DATE '2024-01-04'")
        result = workspace.apply(workspace.plans.due("prod", now=FIRST + timedelta(days=2)))
        assert {str(name) for name in result.skipped} == {"db.sum_merged", "db.sum_parted"}
        (found,) = workspace.query("prod", "SELECT note FROM db.all_merged").rows
        assert found == ("b",)


def test_full_run_skips_nothing(world: World) -> None:
    assert world.run(full=True) == (ALL, set())


def test_rows_that_somebody_took_out_of_a_physical_table_are_computed_again(world: World) -> None:
    shown = world.workspace.store.environments.get("prod")
    assert shown is not None
    entry = next(e for n, e in shown.entries.items() if str(n) == "marts.kinds")
    table = world.workspace.store.tables.get(str(entry.table_id))
    before = world.rows("SELECT * FROM marts.kinds")
    world.sql(f"DELETE FROM lakehouse.`{table.ref.namespace}`.`{table.ref.name}` WHERE kind = 'a'")
    computed, _ = world.run()
    assert "marts.kinds" in computed
    assert world.rows("SELECT * FROM marts.kinds") == before


def test_plan_says_what_it_is_going_to_skip_and_why(world: World) -> None:
    world.run()
    plan = world.workspace.plans.due("prod", now=world.now + timedelta(days=1), save=False)
    said = {str(model.name): model_json(model) for model in plan.builds}
    assert said["marts.now"]["computed_always"] == "reads current_timestamp()"
    assert {name for name, one in said.items() if one["skips"]} == ALL - {"marts.now"}
    sums = said["marts.sums"]["skips"]
    assert sums["why"].startswith("its inputs have not changed since 2")
    assert sums["saved_seconds"] > 0
    assert sums["saved_bytes"] > 0
