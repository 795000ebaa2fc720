"""Readers of a refreshed table's changes get only rows that differ, by each method and mode."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ConflictError
from vde_dagster.lakehouse.metadata.table_metadata import head_of, history
from vde_dagster.planning.engine_tasks import ChangedRows, FillResult, FillTask
from vde_dagster.spark.engine import SparkEngine
from vde_dagster.spark.strategies import replace_rows
from vde_dagster_tests.daily_runs import DailyRuns

GROUPED = "SELECT customer, count(*) AS n, count(amount) AS m, sum(amount) AS amount"
QUERIES = {
    "keys": f"{GROUPED}, count(DISTINCT id) AS ids FROM raw.orders GROUP BY customer",
    "rows": "SELECT id, customer, amount FROM raw.orders WHERE amount > 0",
    "groups": f"{GROUPED} FROM raw.orders GROUP BY customer",
}
MODES = {"cow": replace_rows.COPY_ON_WRITE, "mor": replace_rows.MERGE_ON_READ}
TABLES = [f"{way}_{mode}" for way in QUERIES for mode in MODES]


def _files() -> dict[str, str]:
    files = {}
    for table in TABLES:
        way, _, mode = table.partition("_")
        kind = "FULL (refresh changes)"
        properties = f"physical_properties ('{replace_rows.MODE}' = '{MODES[mode]}')"
        query = QUERIES[way].replace("SELECT", f"SELECT '{mode}' AS mode,", 1)
        files[f"models/{table}.sql"] = f"MODEL (name m.{table}, kind {kind}, {properties}); {query}"
        files[f"models/read_{table}.sql"] = (
            f"MODEL (name m.read_{table}, kind {kind}); SELECT *, 1 AS mark FROM m.{table}"
        )
    return files


@pytest.mark.turns(10, "refreshes on Spark")
@pytest.mark.spark
def test_readers_of_a_refreshed_table_get_only_rows_that_differ(
    spark_engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = DailyRuns(
        tmp_path / "project",
        _files(),
        "CREATE TABLE lakehouse.raw.orders (id INT, customer INT, amount INT) USING iceberg",
        "INSERT INTO lakehouse.raw.orders SELECT id, id % 7, id % 5 FROM range(100)",
    )
    read: dict[str, Counter[Any]] = {}
    fill = SparkEngine.fill

    def watched(self: SparkEngine, task: FillTask) -> FillResult:
        name = task.snapshot.name.name
        if name.startswith("read_"):
            assert isinstance(task.changed, ChangedRows)
            found = self.session.sql(task.changed.query).drop("mark").collect()
            read[name.removeprefix("read_")] = Counter(map(tuple, found))
        return fill(self, task)

    before = {table: _rows(world, table) for table in TABLES}
    world.sql("UPDATE lakehouse.raw.orders SET amount = amount + 1 WHERE id IN (8, 9)")
    world.sql("DELETE FROM lakehouse.raw.orders WHERE id = 10")
    # A group whose rows change, and whose result does not.
    world.sql("UPDATE lakehouse.raw.orders SET amount = 3 - amount WHERE id IN (11, 32)")
    world.sql("INSERT INTO lakehouse.raw.orders VALUES (101, 99, 4)")
    monkeypatch.setattr(SparkEngine, "fill", watched)
    world.tick()
    for table in TABLES:
        after = _rows(world, table)
        differences = Counter({(*row, 1): n for row, n in (after - before[table]).items()})
        differences += Counter({(*row, -1): n for row, n in (before[table] - after).items()})
        assert read[table] == differences, table
        assert differences.total() >= 5
        assert _rows(world, f"read_{table}") == Counter({(*row, 1): n for row, n in after.items()})
    deleted = {table: _deleted_rows(world, table) > 0 for table in TABLES}
    assert deleted == {table: table.endswith("_mor") for table in TABLES}
    world.workspace.close()


@pytest.mark.turns(10, "refreshes on Spark")
@pytest.mark.spark
def test_a_fill_chooses_the_mode_by_the_share_of_replaced_rows(
    spark_engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = QUERIES["keys"]
    world = DailyRuns(
        tmp_path / "project",
        {"models/spent.sql": f"MODEL (name m.spent, kind FULL (refresh changes)); {query}"},
        "CREATE TABLE lakehouse.raw.orders (id INT, customer INT, amount INT) USING iceberg",
        "INSERT INTO lakehouse.raw.orders SELECT id, id % 100, id FROM range(1000)",
    )

    def deleted_after(new: str) -> int:
        world.sql(f"INSERT INTO lakehouse.raw.orders {new}")
        world.tick()
        wanted = world.workspace.query("prod", query.replace("raw.", "lakehouse.raw."))
        assert _rows(world, "spent") == Counter(wanted.rows)
        return _deleted_rows(world, "spent")

    some, most = "SELECT -id, id, 1 FROM range(5)", "SELECT -id, id, 1 FROM range(50)"
    assert deleted_after(some) == 0, "a small table is rewritten"
    monkeypatch.setattr(replace_rows, "_SMALL_BYTES", 0)
    assert deleted_after(some) == 5
    assert deleted_after("VALUES (1, 1000, 1)") == 5, "the rows of a new key replace no row"
    assert deleted_after(most) <= 5, "files of which many rows are deleted are rewritten"
    world.workspace.close()


@pytest.mark.parametrize(
    ("rows", "touched_rows", "touched_bytes", "mode"),
    [
        (1, 10**6, 2**22, "cow"),
        (10**5, 10**6, 2**22 + 1, "mor"),
        (10**5 + 1, 10**6, 2**30, "cow"),
        (10**6, 10**6, 2**30, "cow"),
    ],
)
def test_delete_files_are_written_for_few_rows_of_large_files(
    rows: int, touched_rows: int, touched_bytes: int, mode: str
) -> None:
    assert replace_rows.Deletion(rows, touched_rows, touched_bytes).mode == MODES[mode]


def test_derived_rows_replace_no_rows_of_another_writer() -> None:
    write = MagicMock()
    write.table.head.side_effect = {write.task.branch: 7, "scratch": 8}.get
    write.table.summary.return_value = {"total-files-size": str(2**30)}
    write.staged.side_effect = lambda put_together, doing: put_together("scratch")
    with pytest.raises(ConflictError, match="was changed by other writers"):
        replace_rows.replace_rows(write, "true", MagicMock(), head=7)
    write.session.sql.assert_not_called()


def _rows(world: DailyRuns, table: str) -> Counter[Any]:
    return Counter(world.workspace.query("prod", f"SELECT * FROM m.{table}").rows)


def _deleted_rows(world: DailyRuns, table: str) -> int:
    """Return the number of rows of a model's table that are deleted in files."""
    (found,) = world.workspace.store.tables.own_tables(ModelName("m", table))
    metadata = world.workspace.lakehouse.table_metadata(found.ref)
    head = next(history(metadata, head_of(metadata)))
    return int(head["summary"].get("total-position-deletes") or 0)
