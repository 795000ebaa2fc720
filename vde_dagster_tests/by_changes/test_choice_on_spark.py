"""`refresh auto` on Spark: each way gives the rows of a FULL model, and the way is a fact."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from vde_dagster.execution.changes import refresh_choice
from vde_dagster.execution.events import IntervalFilled
from vde_dagster.planning.changes.refresh import Refresh, RefreshCode, RefreshCosts
from vde_dagster.reports.reasons import describe_backlog
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.daily_runs import DailyRuns

QUERY = "SELECT customer, count(*) AS n, sum(amount) AS total FROM raw.orders GROUP BY customer"
FILES = {
    "models/auto.sql": f"MODEL (name m.auto, kind FULL (refresh auto)); {QUERY}",
    # Another condition: models with equal queries share a table.
    "models/whole.sql": "MODEL (name m.whole, kind FULL (refresh whole)); "
    + QUERY.replace("GROUP BY", "WHERE amount >= 0 GROUP BY"),
    "models/first.sql": "MODEL (name m.first, kind FULL (refresh auto)); "
    "SELECT customer, amount FROM raw.orders ORDER BY customer, amount LIMIT 3",
}
SLOW_WHOLE = RefreshCosts((1e6, 0, 0, 0), (0, 1, 1, 1))
SLOW_CHANGES = RefreshCosts((1e3, 0, 0, 0), (0, 0, 0, 1e6))


@pytest.fixture(autouse=True)
def _choose_for_small_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `refresh auto` estimate both ways for tables of a few rows."""
    monkeypatch.setattr(refresh_choice, "LEAST_BYTES", 0)


@pytest.fixture
def world(spark_engine: SparkEngine, tmp_path: Path) -> Iterator[DailyRuns]:
    made = DailyRuns(
        tmp_path / "project",
        FILES,
        "CREATE TABLE lakehouse.raw.orders (customer INT, amount INT) USING iceberg",
        "INSERT INTO lakehouse.raw.orders SELECT id % 100, id FROM range(1000)",
    )
    yield made
    made.workspace.close()


@pytest.mark.spark
def test_auto_chooses_each_way_and_the_rows_are_those_of_a_full_model(
    world: DailyRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = [_insert_and_tick(world)]
    monkeypatch.setattr(refresh_choice, "RULE_OF_THUMB", SLOW_WHOLE)
    ways.append(_insert_and_tick(world))
    monkeypatch.setattr(refresh_choice, "RULE_OF_THUMB", SLOW_CHANGES)
    world.sql("INSERT INTO lakehouse.raw.orders SELECT id % 100, id FROM range(100000)")
    ways.append(_insert_and_tick(world))
    codes = [RefreshCode.SMALL, RefreshCode.CHEAPER, RefreshCode.MUCH_CHANGED]
    assert [way.code for way in ways] == codes, ways
    cheaper = ways[1]
    assert (cheaper.tables, cheaper.key) == (("raw.orders",), ("customer",))
    assert cheaper.sizes is not None
    assert 0 < cheaper.sizes.changed < cheaper.sizes.inputs
    entries = world.workspace.store.environments.get("prod").entries
    table = next(one.table_id for name, one in entries.items() if name.name == "auto")
    assert table is not None
    recorded = [one.facts.refresh for one in world.workspace.store.fills.log(table)]
    assert recorded[:3] == ways[::-1]
    assert len(world.workspace.store.fills.measured([table])) == len(recorded)


@pytest.mark.spark
def test_a_plan_names_the_way_before_the_fill(
    world: DailyRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.sql("INSERT INTO lakehouse.raw.orders VALUES (1, 1)")
    plans = [_backlogs(world)]
    monkeypatch.setattr(refresh_choice, "RULE_OF_THUMB", SLOW_WHOLE)
    plans.append(_backlogs(world))
    texts = [plan["auto"][-1] for plan in plans]
    assert texts[0].startswith("computes all rows: its inputs are small (")
    assert texts[1].startswith("merges changes of raw.orders by customer; about ")
    assert plans[0]["first"][-1] == "computes all rows: the query takes the first rows: LIMIT 3"


@pytest.mark.spark
def test_small_inputs_are_computed_whole_without_an_analysis(
    world: DailyRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh_choice, "LEAST_BYTES", 1 << 30)
    monkeypatch.setattr(refresh_choice, "RULE_OF_THUMB", SLOW_WHOLE)
    world.sql("INSERT INTO lakehouse.raw.orders VALUES (1, 1)")
    assert _backlogs(world) == {}
    way = _insert_and_tick(world)
    assert (way.code, way.estimate) == (RefreshCode.SMALL, None)


@pytest.mark.spark
def test_a_refresh_of_many_rows_writes_few_files(spark_engine: SparkEngine, tmp_path: Path) -> None:
    kind = "kind FULL (refresh changes)"
    world = DailyRuns(
        tmp_path / "project",
        {"models/doubled.sql": f"MODEL (name m.doubled, {kind}); SELECT id, n * 2 AS n FROM raw.t"},
        "CREATE TABLE lakehouse.raw.t (id INT, n INT) USING iceberg",
        "INSERT INTO lakehouse.raw.t SELECT id, 1 FROM range(20000)",
    )
    conf = world.workspace.engine().session.conf
    conf.set("spark.sql.shuffle.partitions", "50")
    world.sql("UPDATE lakehouse.raw.t SET n = id WHERE id % 4 = 0")
    (fill,) = (event for event in world.tick() if isinstance(event, IntervalFilled))
    assert fill.refresh is not None
    assert fill.refresh.from_changes, fill.refresh
    entries = world.workspace.store.environments.get("prod").entries
    (table,) = world.workspace.store.tables.load(
        [one.table_id for one in entries.values()]
    ).values()
    metadata = world.workspace.lakehouse.table_metadata(table.ref)
    written = [int(one["summary"].get("added-data-files", 0)) for one in metadata["snapshots"]]
    assert sum(written[1:]) <= 4, written
    rows = "SELECT count(*), sum(n), count(DISTINCT id) FROM m.doubled"
    expected = sum(2 * (one if one % 4 == 0 else 1) for one in range(20000))
    assert world.workspace.query("prod", rows).rows == ((20000, expected, 20000),)
    conf.unset("spark.sql.shuffle.partitions")
    world.workspace.close()


def _insert_and_tick(world: DailyRuns) -> Refresh:
    """Add an order, run the next day, check the rows; return the way of the model `auto`."""
    world.sql("INSERT INTO lakehouse.raw.orders VALUES (7, 1)")
    (way,) = (
        event.refresh
        for event in world.tick()
        if isinstance(event, IntervalFilled) and event.snapshot.name.name == "auto"
    )
    rows = [
        sorted(world.workspace.query("prod", f"SELECT * FROM m.{name}").rows)
        for name in ("auto", "whole")
    ]
    assert rows[0] == rows[1]
    entries = world.workspace.store.environments.get("prod").entries
    tables = {one.table_id for name, one in entries.items() if name.name in ("auto", "whole")}
    assert len(tables) == 2
    assert way is not None
    return way


def _backlogs(world: DailyRuns) -> dict[str, list[str]]:
    tomorrow = world.now + timedelta(days=1)
    models = world.workspace.plans.due("prod", now=tomorrow, save=False).models
    return {
        one.name.name: list(describe_backlog(one.backlog))
        for one in models
        if one.backlog is not None
    }
