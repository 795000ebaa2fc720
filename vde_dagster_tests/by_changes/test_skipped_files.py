"""Fills by changed keys skip files of their inputs whose bounds contain none of the keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.execution.events import IntervalFilled
from vde_dagster.planning.tables.pinned_reads import Input
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.daily_runs import DailyRuns

KEYS = {"number": "customer", "text": "name", "both": "customer, name"}
QUERY = "SELECT {key}, max(amount) AS most, min(amount) AS least FROM raw.orders GROUP BY {key}"


@pytest.mark.spark
def test_a_fill_reads_only_files_that_may_contain_changed_keys(
    spark_engine: SparkEngine, tmp_path: Path
) -> None:
    files = {
        f"models/{name}.sql": f"MODEL (name m.{name}, kind INCREMENTAL_BY_CHANGES (key ({key}))); "
        + QUERY.format(key=key)
        for name, key in KEYS.items()
    }
    create = "CREATE TABLE lakehouse.raw.orders (customer INT, name STRING, amount INT)"
    insert = (
        "INSERT INTO lakehouse.raw.orders SELECT {0}, 'it''s {0}', id FROM range(0, 20000, 1, 1)"
    )
    world = DailyRuns(
        tmp_path / "project",
        files,
        f"{create} USING iceberg",
        *(insert.format(customer) for customer in range(8)),
        "INSERT INTO lakehouse.raw.orders VALUES (NULL, NULL, 1)",
    )
    before = {name: _bytes_read(world, name) for name in KEYS}
    world.sql("INSERT INTO lakehouse.raw.orders VALUES (3, 'it''s 3', -5), (NULL, NULL, 7)")
    assert set(world.run().values()) == {2}
    for name, key in KEYS.items():
        assert {one.how for one in world.inputs(f"m.{name}").values()} == {Input.BY_CHANGES}
        assert _bytes_read(world, name) < before[name] / 2
        wanted = QUERY.format(key=key).replace("raw.", "lakehouse.raw.")
        found = world.workspace.query("prod", f"SELECT * FROM m.{name}").rows
        assert sorted(map(repr, found)) == sorted(
            map(repr, world.workspace.query("prod", wanted).rows)
        )
    world.workspace.close()


@pytest.mark.spark
@pytest.mark.turns(2)
@pytest.mark.parametrize("keys", [300, 2500])
def test_a_fill_of_many_keys_reads_only_files_within_their_bounds(
    spark_engine: SparkEngine, tmp_path: Path, keys: int
) -> None:
    query = QUERY.format(key="customer")
    insert = (
        "INSERT INTO lakehouse.raw.orders SELECT {0} * 10000 + CAST(id % 5000 AS INT), "
        "uuid(), CAST(id AS INT) FROM range(0, 20000, 1, 1)"
    )
    world = DailyRuns(
        tmp_path / "project",
        {"models/m.sql": f"MODEL (name m.m, kind INCREMENTAL_BY_CHANGES (key customer)); {query}"},
        "CREATE TABLE lakehouse.raw.orders (customer INT, name STRING, amount INT) USING iceberg",
        *(insert.format(block) for block in range(8)),
        "INSERT INTO lakehouse.raw.orders VALUES (NULL, NULL, 1)",
    )
    before = _bytes_read(world, "m")
    world.sql(
        f"DELETE FROM lakehouse.raw.orders WHERE customer >= 30000 AND customer < {30000 + keys} "
        "AND amount < 5000"
    )
    assert world.run() != {"m.m": None}
    assert {one.how for one in world.inputs("m.m").values()} == {Input.BY_CHANGES}
    # The rewritten file is read twice for the changes.
    assert _bytes_read(world, "m") < before / 2
    found = world.workspace.query("prod", "SELECT * FROM m.m").rows
    wanted = world.workspace.query("prod", query.replace("raw.", "lakehouse.raw.")).rows
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))
    world.workspace.close()


METHODS = {
    "keys": "SELECT key, count(DISTINCT amount) AS n, min(amount) AS least FROM raw.t GROUP BY key",
    "groups": "SELECT key, count(*) AS n, count(amount) AS known, sum(amount) AS total "
    "FROM raw.t GROUP BY key",
    "rows": "SELECT key, amount + 1 AS amount FROM raw.t",
}


@pytest.mark.spark
@pytest.mark.turns(6)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("keys", [1, 300])
@pytest.mark.parametrize(
    "value",
    [
        *("CAST(X'ff41' AS STRING)", "DATE '+12345-06-07'", "DATE '-0044-03-15'"),
        *("repeat('é', 3000)", "concat('$', '{name}')"),
    ],
)
def test_values_that_a_text_does_not_represent_are_found(
    spark_engine: SparkEngine, tmp_path: Path, value: str, keys: int, method: str
) -> None:
    query = METHODS[method]
    world = DailyRuns(
        tmp_path / "project",
        {"models/m.sql": f"MODEL (name m.m, kind FULL (refresh changes)); {query}"},
        "CREATE TABLE lakehouse.raw.t USING iceberg TBLPROPERTIES ('format-version' = '2') "
        f"AS SELECT {value} AS key, explode(array(1, 2, 2)) AS amount",
    )
    kind = world.workspace.engine().session.table("lakehouse.raw.t").schema["key"].dataType
    other = {"string": "string(id)", "date": "date_add(DATE '2024-01-01', INT(id))"}
    world.sql(
        f"INSERT INTO lakehouse.raw.t SELECT IF(id = 0, {value}, {other[kind.simpleString()]}), 3 "
        f"FROM range({keys})"
    )
    world.sql("DELETE FROM lakehouse.raw.t WHERE amount = 1")
    (fill,) = (event for event in world.tick() if isinstance(event, IntervalFilled))
    assert fill.refresh is not None
    assert (fill.refresh.from_changes, fill.refresh.changes) == (True, method), fill.refresh
    total = "SELECT count(*), sum(CAST(xxhash64(*) AS DECIMAL(38, 0))) FROM"
    found, wanted = (
        world.workspace.query("prod", f"{total} {rows}").rows
        for rows in ("m.m", f"({query.replace('raw.', 'lakehouse.raw.')})")
    )
    assert found == wanted
    world.workspace.close()


def _bytes_read(world: DailyRuns, name: str) -> int:
    entry = world.workspace.store.environments.get("prod").entries  # type: ignore[union-attr]
    table = next(one.table_id for model, one in entry.items() if model.name == name)
    assert table is not None
    found = world.workspace.store.fills.latest([table])[table].bytes_read
    assert found is not None
    return found
