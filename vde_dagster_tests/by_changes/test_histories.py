"""INCREMENTAL_BY_CHANGES over random histories of its tables: always what FULL would have."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.planning.changes.backlog import Backlog
from vde_dagster.planning.tables.pinned_reads import Input
from vde_dagster.reports.reasons import describe_backlog
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.daily_runs import DailyRuns

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
    "spent": (
        "customer_id",
        "SELECT customer_id, sum(amount) AS amount FROM m.base GROUP BY customer_id",
    ),
}
REFRESHED = {
    "totals_full": QUERIES["totals"][1].replace("max(c.name)", "min(c.name)"),
    "newest_full": QUERIES["newest"][1].replace("<= 2", "<= 3"),
    "small": "SELECT id, amount + 1 AS more FROM m.base WHERE amount < 30",
    "both": "SELECT id, customer_id AS other FROM raw.orders UNION ALL "
    "SELECT id, length(name) AS other FROM raw.customers",
    "all_of_it": "SELECT count(*) AS n, count(amount) AS m, sum(amount) AS amount FROM raw.orders",
    "thirds": "SELECT customer_id % 3 AS third, count(*) AS n, count(amount) AS m, "
    "sum(CAST(amount AS DECIMAL(10, 2))) AS amount FROM raw.orders GROUP BY customer_id % 3",
    "how_many": "SELECT count(*) AS many FROM raw.customers",
    "largest": "SELECT max(amount) AS amount, min(id) AS id FROM raw.orders",
    "exploded": "SELECT c.name, v FROM raw.orders AS o JOIN raw.customers AS c "
    "ON o.customer_id = c.id LATERAL VIEW OUTER explode(array(o.amount, o.id)) AS v WHERE v > 1",
    "signs": "SELECT a, CAST(a AS STRING) AS text FROM (SELECT -CAST(amount AS DOUBLE) AS a FROM "
    "raw.orders) AS o",
}
"""Queries of FULL models, which choose their method themselves."""
VIEWS = {
    "m.big": "SELECT * FROM raw.orders WHERE amount > 10",
    "m.base": "SELECT id, customer_id, amount FROM raw.orders",
}


def base(*more: str) -> str:
    """Write the model of a table of its own between others' orders and who spent what."""
    columns = ", ".join(("id", "customer_id", "amount", *more))
    return f"MODEL (name m.base, kind FULL); SELECT {columns} FROM raw.orders"


FILES = {
    "models/big.sql": f"MODEL (name m.big, kind VIEW); {VIEWS['m.big']}",
    "models/base.sql": base(),
    **{
        f"models/{name}.sql": f"MODEL (name m.{name}, kind INCREMENTAL_BY_CHANGES (key {key})); "
        + query
        for name, (key, query) in QUERIES.items()
    },
    **{
        f"models/{name}.sql": f"MODEL (name m.{name}, kind FULL (refresh changes)); " + query
        for name, query in REFRESHED.items()
    },
}


class World(DailyRuns):
    """A project over two tables of others, run day by day, of which each model can be proven."""

    def how(self, name: str) -> set[Input]:
        """Return how the last fill of a model read its tables."""
        return {one.how for one in self.inputs(f"m.{name}").values()}

    def check(self) -> None:
        """Compare every model with its query over what there is now."""
        wanted = {}
        queries = {**{name: query for name, (_, query) in QUERIES.items()}, **REFRESHED}
        for name, query in queries.items():
            for view, rows in VIEWS.items():
                query = query.replace(view, f"({rows})")
            wanted[name] = query.replace("raw.", "lakehouse.raw.")
        assert self._rows({name: f"SELECT * FROM m.{name}" for name in queries}) == self._rows(
            wanted
        )

    def _rows(self, queries: Mapping[str, str]) -> list[str]:
        """Return the rows of all queries, each with its query's name, by one job of Spark's."""
        parts = (
            f"SELECT '{name}' AS name, "
            f"to_json(struct(*), map('ignoreNullFields', 'false')) AS cells FROM ({query})"
            for name, query in queries.items()
        )
        return sorted(map(repr, self.workspace.query("prod", " UNION ALL ".join(parts)).rows))

    def backlog(self, name: str) -> Backlog | None:
        """Return what a plan says that a model has not read."""
        models = self.workspace.plan("prod", now=self.now).models
        return next(one.backlog for one in models if one.name == ModelName("m", name))


@pytest.fixture
def world(spark_engine: SparkEngine, tmp_path: Path) -> Iterator[World]:
    made = World(
        tmp_path / "project",
        FILES,
        "CREATE TABLE lakehouse.raw.orders (id INT, customer_id INT, amount INT) USING iceberg",
        "CREATE TABLE lakehouse.raw.customers (id INT, name STRING) USING iceberg",
        "INSERT INTO lakehouse.raw.customers VALUES (1, 'a'), (2, 'b'), (3, 'a')",
        "INSERT INTO lakehouse.raw.orders "
        "VALUES (1, 1, 5), (2, 1, 50), (3, 2, 20), (4, NULL, 30), (5, 9, 70)",
    )
    yield made
    made.workspace.close()


@pytest.mark.turns(10, "refreshes on Spark")
@pytest.mark.spark
def test_a_fill_computes_the_keys_of_which_rows_came_or_went(world: World) -> None:
    world.check()
    assert world.how("totals") == {Input.WHOLE}
    world.sql("INSERT INTO lakehouse.raw.orders VALUES (6, 2, 25), (7, 8, 1)")
    written: dict[str, int | None] = {
        "totals": 2,
        "newest": 2,
        "doubled": 1,
        "named": 2,
        "spent": 2,
        "base": 7,
    }
    written |= {"totals_full": 2, "newest_full": 2, "small": 2, "both": 2, "all_of_it": 1}
    written |= {"thirds": 1, "largest": 1, "exploded": 2, "signs": 2, "how_many": None}
    assert world.run() == {f"m.{name}": rows for name, rows in written.items()}
    for name in ("totals", "newest", "doubled", "spent"):
        assert world.how(name) == {Input.BY_CHANGES}
    for name in ("named", *(name for name in REFRESHED if name != "how_many")):
        assert world.how(name) == {Input.BY_CHANGES}
    world.check()
    assert set(world.run().values()) == {None}
    world.sql("UPDATE lakehouse.raw.customers SET name = 'z' WHERE id = 2")
    moved = {"m.totals": 1, "m.named": 2, "m.totals_full": 1, "m.both": 0, "m.exploded": 4}
    moved["m.how_many"] = 1
    assert {name: rows for name, rows in world.run().items() if rows is not None} == moved
    assert world.how("named") == {Input.BY_CHANGES}
    world.check()
    world.sql("DELETE FROM lakehouse.raw.orders WHERE customer_id = 2 OR customer_id IS NULL")
    world.run()
    world.check()


@pytest.mark.turns(10, "refreshes on Spark")
@pytest.mark.spark
def test_a_fill_computes_all_rows_if_its_keys_cannot_be_computed(world: World) -> None:
    query = (
        "SELECT 100 DIV o.amount AS share, count(DISTINCT o.id) AS n FROM raw.orders AS o "
        "JOIN raw.customers AS c ON o.customer_id = c.id GROUP BY 100 DIV o.amount"
    )
    kind = "FULL (refresh changes)"
    world.folder.write("models/shares.sql", f"MODEL (name m.shares, kind {kind}); {query}")
    world.publish()
    world.sql("INSERT INTO lakehouse.raw.orders VALUES (9, 99, 0), (10, 2, 50)")
    written = world.run()["m.shares"]
    wanted = world._rows({"shares": query.replace("raw.", "lakehouse.raw.")})
    assert world._rows({"shares": "SELECT * FROM m.shares"}) == wanted
    assert written == len(wanted) > 2, "only the rows of some keys were written"


@pytest.mark.turns(10, "refreshes on Spark")
@pytest.mark.spark
def test_a_plan_says_what_was_not_read_yet_and_why_all_is_computed(world: World) -> None:
    assert world.backlog("totals") is None
    world.sql("INSERT INTO lakehouse.raw.orders VALUES (6, 2, 25), (7, 8, 1)")
    world.sql("DELETE FROM lakehouse.raw.orders WHERE id = 1")
    world.sql("CALL lakehouse.system.rewrite_data_files(table => 'raw.orders')")
    found = world.backlog("totals")
    assert found is not None
    (orders,) = found.tables
    # A commit counts the rows of the files that it wrote anew, too.
    assert (orders.table, orders.commits) == ("raw.orders", 2)
    assert (orders.added or 0) - (orders.removed or 0) == 1
    assert found.why_all == ""
    world.sql("DELETE FROM lakehouse.raw.orders WHERE id = 2")
    due = world.workspace.plans.due("prod", now=world.now + timedelta(days=1))
    spent = next(one.backlog for one in due.models if one.name.name == "spent")
    assert spent is not None
    assert _changed_inputs(spent) == "m.base the fills of this plan"
    world.run()
    assert world.backlog("totals") is None
    world.sql("INSERT INTO lakehouse.raw.orders VALUES (8, 2, 25)")
    world.sql(
        "CALL lakehouse.system.expire_snapshots(table => 'raw.orders', "
        "older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)"
    )
    lost = world.backlog("totals")
    assert lost is not None
    assert _changed_inputs(lost) == "raw.orders unknown commits"
    assert lost.why_all == "the state of raw.orders that was read is no longer kept"
    world.run()
    assert world.how("totals") == {Input.WHOLE}
    world.check()


@pytest.mark.turns(10, "refreshes on Spark")
@pytest.mark.spark
def test_of_a_table_in_place_of_another_what_differs_is_computed(world: World) -> None:
    world.sql("INSERT INTO lakehouse.raw.orders VALUES (6, 2, 25)")
    world.folder.write("models/base.sql", base("amount + 1 AS more"))
    assert world.publish() == {"m.base": 6}
    found = world.backlog("spent")
    assert found is not None
    assert (_changed_inputs(found), found.why_all) == ("m.base unknown commits", "")
    assert world.run()["m.spent"] == 1
    assert world.how("spent") == {Input.BY_CHANGES}
    world.check()
    world.sql("INSERT INTO lakehouse.raw.orders VALUES (7, 1, 25)")
    assert world.run()["m.spent"] == 1
    world.check()


def _changes(chance: random.Random, world: World) -> list[Callable[[], object]]:
    def number() -> str:
        return chance.choice(["NULL", *map(str, range(1, 7))])

    def swap() -> None:
        world.folder.write("models/base.sql", base(f"amount + {chance.randrange(3)} AS more"))
        world.publish()

    def rollback() -> None:
        with suppress(UsageError):  # Nothing was published before.
            world.workspace.environments.rollback("prod")

    orders, customers = "lakehouse.raw.orders", "lakehouse.raw.customers"
    statements: list[Callable[[], str]] = [
        lambda: f"INSERT INTO {orders} VALUES ({number()}, {number()}, {chance.randrange(40)})",
        lambda: f"INSERT INTO {customers} VALUES ({number()}, '{chance.choice('abc')}')",
        lambda: f"DELETE FROM {orders} WHERE id = {number()}",
        lambda: f"DELETE FROM {customers} WHERE id = {number()}",
        lambda: f"UPDATE {orders} SET customer_id = {number()} WHERE id <=> {number()}",
        lambda: f"UPDATE {customers} SET name = '{chance.choice('abc')}' WHERE id = {number()}",
        lambda: "CALL lakehouse.system.rewrite_data_files(table => 'raw.orders')",
        lambda: f"INSERT OVERWRITE {orders} SELECT * FROM {orders} WHERE id <> {number()}",
        lambda: f"ALTER TABLE {orders} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')",
    ]
    return [
        *(lambda text=text: world.sql(text()) for text in statements),  # type: ignore[misc]
        swap,
        rollback,
        lambda: world.publish(restate=("m.base",)),
        lambda: world.publish(restate=("m.totals",)),
    ]


@pytest.mark.turns(10, "refreshes on Spark")
@pytest.mark.spark
def test_after_random_histories_it_is_as_if_made_whole(world: World) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    ways = _changes(chance, world)
    kinds: set[Input] = set()
    for _ in range(8):
        for _ in range(chance.randrange(1, 4)):
            chance.choice(ways)()
        world.run()
        world.check()
        kinds |= world.how("totals") & world.how("totals_full")
    assert Input.BY_CHANGES in kinds


def _changed_inputs(backlog: Backlog) -> str:
    return next(describe_backlog(backlog)).rpartition(": ")[2]


@pytest.mark.turns(10, "refreshes on Spark")
@pytest.mark.spark
def test_rows_with_a_constant_column_are_deleted_by_copy_on_write(
    spark_engine: SparkEngine, tmp_path: Path
) -> None:
    query = "SELECT o.id, c.name, 'x' AS mark FROM raw.o JOIN raw.c ON o.c = c.id"
    properties = "physical_properties ('write.delete.mode' = 'copy-on-write')"
    runs = DailyRuns(
        tmp_path / "project",
        {
            "models/marked.sql": f"MODEL (name m.marked, kind FULL (refresh changes), {properties})"
            f"; {query}"
        },
        "CREATE TABLE lakehouse.raw.o (id INT, c INT) USING iceberg",
        "CREATE TABLE lakehouse.raw.c (id INT, name STRING) USING iceberg",
        "INSERT INTO lakehouse.raw.c VALUES (1, 'a'), (2, 'b')",
        "INSERT INTO lakehouse.raw.o VALUES (1, 1), (2, 1), (3, 2), (4, 2)",
    )
    runs.sql("UPDATE lakehouse.raw.o SET c = 2 WHERE id = 1")
    assert runs.run() == {"m.marked": 1}
    found = runs.workspace.query("prod", "SELECT id, name, mark FROM m.marked ORDER BY id")
    names = ["b", "a", "b", "b"]
    assert list(found.rows) == [(number, name, "x") for number, name in enumerate(names, 1)]
    runs.workspace.close()
