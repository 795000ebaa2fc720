"""INCREMENTAL_BY_CHANGES over random histories of its tables: always what FULL would have."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.execution.events import Event, IntervalFilled
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.tables.pinned_reads import Input
from vde_dagster.spark import SparkEngine
from vde_dagster_tests.projects import ProjectFolder

FIRST = datetime(2024, 1, 3, 12, tzinfo=timezone.utc)
QUERIES = {
    "totals": (
        "customer_id",
        "SELECT o.customer_id, max(c.name) AS name, count(o.id) AS n, sum(o.amount) AS total "
        "FROM raw.orders AS o LEFT JOIN raw.customers AS c ON o.customer_id = c.id "
        "GROUP BY o.customer_id",
    ),
    "newest": (
        "customer_id",
        "SELECT customer_id, id, amount FROM m.big "
        "QUALIFY row_number() OVER (PARTITION BY customer_id ORDER BY id DESC) <= 2",
    ),
    "doubled": ("customer_id", "SELECT customer_id, total * 2 AS twice FROM m.totals WHERE n > 1"),
    "named": (
        "name",
        "SELECT c.name, o.id FROM raw.customers AS c JOIN raw.orders AS o ON c.id = o.customer_id",
    ),
}
FILES = {
    "models/big.sql": "MODEL (name m.big, kind VIEW); SELECT * FROM raw.orders WHERE amount > 10",
    **{
        f"models/{name}.sql": f"MODEL (name m.{name}, kind INCREMENTAL_BY_CHANGES (key {key})); "
        + query
        for name, (key, query) in QUERIES.items()
    },
}


class World:
    """A project over two tables of others, run day by day."""

    def __init__(self, root: Path) -> None:
        self.folder = ProjectFolder(root, FILES)
        self.workspace = Workspace.open(root)
        self.now = FIRST
        self.sql("CREATE NAMESPACE IF NOT EXISTS lakehouse.raw")
        self.sql(
            "CREATE TABLE lakehouse.raw.orders (id INT, customer_id INT, amount INT) USING iceberg"
        )
        self.sql("CREATE TABLE lakehouse.raw.customers (id INT, name STRING) USING iceberg")
        self.sql("INSERT INTO lakehouse.raw.customers VALUES (1, 'a'), (2, 'b'), (3, 'a')")
        self.sql(
            "INSERT INTO lakehouse.raw.orders "
            "VALUES (1, 1, 5), (2, 1, 50), (3, 2, 20), (4, NULL, 30), (5, 9, 70)"
        )
        self.workspace.apply(self.workspace.plan("prod", now=FIRST))

    def sql(self, text: str) -> None:
        """Let somebody else do something."""
        self.workspace.engine().session.sql(text)  # type: ignore[attr-defined]

    def run(self) -> dict[str, int | None]:
        """Run the next day; return how many rows were written, by model; None where skipped."""
        self.now += timedelta(days=1)
        events: list[Event] = []
        self.workspace.apply(self.workspace.plans.due("prod", now=self.now), on_event=events.append)
        filled = [event for event in events if isinstance(event, IntervalFilled)]
        return {e.snapshot.name.name: None if e.skipped else e.result.rows for e in filled}

    def how(self, name: str) -> set[Input]:
        """Return how the last fill of a model read its tables."""
        entry = self.workspace.store.environments.get("prod").entries[ModelName("m", name)]
        assert entry.table_id is not None
        fill = self.workspace.store.fills.latest([entry.table_id])[entry.table_id]
        return {one.how for one in (fill.facts.inputs or {}).values()}

    def check(self) -> None:
        """Compare every model with its query over what there is now."""
        for name, (_, query) in QUERIES.items():
            query = query.replace("raw.", "lakehouse.raw.")
            query = query.replace("m.big", "(SELECT * FROM lakehouse.raw.orders WHERE amount > 10)")
            is_, wanted = (
                sorted(map(repr, self.workspace.query("prod", text).rows))
                for text in (f"SELECT * FROM m.{name}", query)
            )
            assert is_ == wanted, name


@pytest.fixture
def world(spark_engine: SparkEngine, tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "project")
    yield made
    made.workspace.close()


@pytest.mark.spark
def test_a_fill_computes_the_keys_of_which_rows_came_or_went(world: World) -> None:
    world.check()
    assert world.how("totals") == {Input.WHOLE}
    world.sql("INSERT INTO lakehouse.raw.orders VALUES (6, 2, 25), (7, 8, 1)")
    assert world.run() == {"totals": 2, "newest": 2, "doubled": 1, "named": 4}
    assert world.how("totals") == world.how("newest") == world.how("doubled") == {Input.BY_CHANGES}
    assert world.how("named") == {Input.WHOLE}
    world.check()
    assert set(world.run().values()) == {None}
    world.sql("UPDATE lakehouse.raw.customers SET name = 'z' WHERE id = 2")
    assert world.run() == {"totals": 1, "newest": None, "doubled": None, "named": 2}
    assert world.how("named") == {Input.BY_CHANGES}
    world.check()
    world.sql("DELETE FROM lakehouse.raw.orders WHERE customer_id = 2 OR customer_id IS NULL")
    world.run()
    world.check()


def _changes(random: random.Random) -> list[Callable[[], str]]:
    def number() -> str:
        return random.choice(["NULL", *map(str, range(1, 7))])

    orders, customers = "lakehouse.raw.orders", "lakehouse.raw.customers"
    return [
        lambda: f"INSERT INTO {orders} VALUES ({number()}, {number()}, {random.randrange(40)})",
        lambda: f"INSERT INTO {customers} VALUES ({number()}, '{random.choice('abc')}')",
        lambda: f"DELETE FROM {orders} WHERE id = {number()}",
        lambda: f"DELETE FROM {customers} WHERE id = {number()}",
        lambda: f"UPDATE {orders} SET customer_id = {number()} WHERE id <=> {number()}",
        lambda: f"UPDATE {customers} SET name = '{random.choice('abc')}' WHERE id = {number()}",
        lambda: "CALL lakehouse.system.rewrite_data_files(table => 'raw.orders')",
        lambda: f"INSERT OVERWRITE {orders} SELECT * FROM {orders} WHERE id <> {number()}",
        lambda: f"ALTER TABLE {orders} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')",
    ]


@pytest.mark.spark
def test_after_random_histories_it_is_as_if_made_whole(world: World) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    ways = _changes(chance)
    kinds: set[Input] = set()
    for _ in range(8):
        for _ in range(chance.randrange(1, 4)):
            world.sql(chance.choice(ways)())
        world.run()
        world.check()
        kinds |= world.how("totals")
    assert Input.BY_CHANGES in kinds
