"""SCD type 2 and INCREMENTAL_BY_UNIQUE_KEY with `refresh changes`: always what `whole` writes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from vde_dagster.planning.tables.pinned_reads import Input
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.daily_runs import DailyRuns

JOINED = (
    "SELECT o.id, o.amount, c.name{more} "
    "FROM raw.orders AS o LEFT JOIN raw.customers AS c ON o.customer_id = c.id"
)
PRICES = "SELECT id, price, at{more} FROM raw.prices"
COLUMNS = "unique_key id, columns (amount, name)"
KINDS = {
    "by_column": (f"SCD_TYPE_2_BY_COLUMN ({COLUMNS}{{}})", JOINED),
    "with_deletes": (f"SCD_TYPE_2_BY_COLUMN ({COLUMNS}, invalidate_hard_deletes true{{}})", JOINED),
    "updated": (
        "SCD_TYPE_2_BY_COLUMN (unique_key id, columns (price), updated_at_name at{})",
        PRICES,
    ),
    "by_time": (
        "SCD_TYPE_2_BY_TIME (unique_key id, updated_at_name at, invalidate_hard_deletes true{})",
        PRICES,
    ),
    "merged": ("INCREMENTAL_BY_UNIQUE_KEY (unique_key id{})", JOINED),
}
"""Each model's kind and query; its twin has a constant more, so that they share no table."""
SHOWN = {
    name: "id, amount, name" if query is JOINED else "id, price, at"
    for name, (_, query) in KINDS.items()
}


def files() -> dict[str, str]:
    """Return the models: each of them once by changes and once as a whole."""
    found = {}
    for name, (kind, query) in KINDS.items():
        by_changes, whole = kind.format(", refresh changes"), kind.format("")
        found[f"models/{name}.sql"] = _model(name, by_changes, query.format(more=""))
        found[f"models/{name}_whole.sql"] = _model(
            f"{name}_whole", whole, query.format(more=", 1 AS twin")
        )
    return found


def _model(name: str, kind: str, query: str) -> str:
    return f"MODEL (name m.{name}, kind {kind}, start '2024-01-02'); {query}"


class World(DailyRuns):
    """Every model beside its twin."""

    def how(self, name: str) -> set[Input]:
        """Return how the last fill of a model read its tables."""
        return {one.how for one in self.inputs(f"m.{name}").values()}

    def check(self) -> None:
        """Compare every model with its twin."""
        for name, columns in SHOWN.items():
            listed = columns if name == "merged" else f"{columns}, valid_from, valid_to"
            assert self._rows(name, listed) == self._rows(f"{name}_whole", listed), name

    def _rows(self, name: str, columns: str) -> list[str]:
        found = self.workspace.query("prod", f"SELECT {columns} FROM m.{name}").rows
        return sorted(map(repr, found))


@pytest.fixture
def world(spark_engine: SparkEngine, tmp_path: Path) -> Iterator[World]:
    made = World(
        tmp_path / "project",
        files(),
        "CREATE TABLE lakehouse.raw.orders (id INT, customer_id INT, amount INT) USING iceberg",
        "CREATE TABLE lakehouse.raw.customers (id INT, name STRING) USING iceberg",
        "CREATE TABLE lakehouse.raw.prices (id INT, price INT, at TIMESTAMP) USING iceberg",
        "INSERT INTO lakehouse.raw.customers VALUES (1, 'a'), (2, 'b'), (3, 'a')",
        "INSERT INTO lakehouse.raw.orders "
        "VALUES (1, 1, 5), (2, 1, 50), (3, 2, 20), (NULL, 2, 30), (5, 9, 70)",
        "INSERT INTO lakehouse.raw.prices VALUES (1, 5, TIMESTAMP '2024-01-01 10:00:00'), "
        "(2, 6, TIMESTAMP '2024-01-02 10:00:00'), (NULL, 7, NULL)",
    )
    yield made
    made.workspace.close()


@pytest.mark.turns(10, "refreshes on Spark")
@pytest.mark.spark
def test_a_fill_compares_the_keys_that_changes_affect(world: World) -> None:
    world.run()
    world.check()
    world.sql("UPDATE lakehouse.raw.customers SET name = 'z' WHERE id = 2")
    world.sql("DELETE FROM lakehouse.raw.orders WHERE id = 5")
    world.sql("INSERT INTO lakehouse.raw.prices VALUES (1, 8, TIMESTAMP '2024-01-04 10:00:00')")
    written = world.run()
    for name in KINDS:
        assert world.how(name) == {Input.BY_CHANGES}
        assert world.how(f"{name}_whole") != {Input.BY_CHANGES}
    assert (written["m.merged"], written["m.merged_whole"]) == (2, 4)
    world.check()


@pytest.mark.turns(10, "refreshes on Spark")
@pytest.mark.spark
def test_a_definition_changed_in_place_compares_all_keys_once(world: World) -> None:
    world.run()
    for name in ("by_column", "by_column_whole"):
        path = world.folder.root / "models" / f"{name}.sql"
        text = path.read_text().replace("o.amount,", "o.amount + 1 AS amount,")
        world.folder.write(f"models/{name}.sql", text)
    world.publish()
    world.sql("INSERT INTO lakehouse.raw.orders VALUES (8, 1, 1)")
    world.run()
    assert world.how("by_column") != {Input.BY_CHANGES}
    world.check()
    world.sql("INSERT INTO lakehouse.raw.orders VALUES (9, 1, 1)")
    world.run()
    assert world.how("by_column") == {Input.BY_CHANGES}
    world.check()


@pytest.mark.turns(10, "refreshes on Spark")
@pytest.mark.spark
def test_after_random_histories_versions_are_those_of_whole_fills(world: World) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)

    def number() -> str:
        return chance.choice(["NULL", *map(str, range(1, 5))])

    def at() -> str:
        return f"TIMESTAMP '2024-01-0{chance.randrange(1, 10)} 0{chance.randrange(10)}:00:00'"

    orders, customers, prices = (
        f"lakehouse.raw.{name}" for name in ("orders", "customers", "prices")
    )
    statements = [
        lambda: f"INSERT INTO {orders} VALUES ({number()}, {number()}, {chance.randrange(9)})",
        lambda: f"INSERT INTO {customers} VALUES ({number()}, '{chance.choice('abc')}')",
        lambda: f"INSERT INTO {prices} VALUES ({number()}, {chance.randrange(9)}, {at()})",
        lambda: f"DELETE FROM {orders} WHERE id <=> {number()}",
        lambda: f"DELETE FROM {prices} WHERE id <=> {number()}",
        lambda: f"DELETE FROM {customers} WHERE id <=> {number()}",
        lambda: f"UPDATE {orders} SET amount = amount + 1 WHERE id <=> {number()}",
        lambda: f"UPDATE {prices} SET price = price + 1 WHERE id <=> {number()}",
        lambda: f"UPDATE {customers} SET name = '{chance.choice('abc')}' WHERE id <=> {number()}",
    ]
    kinds: set[Input] = set()
    for _ in range(5):
        for _ in range(chance.randrange(1, 5)):
            world.sql(chance.choice(statements)())
        world.run()
        world.check()
        kinds |= world.how("with_deletes") | world.how("by_time")
    assert Input.BY_CHANGES in kinds
