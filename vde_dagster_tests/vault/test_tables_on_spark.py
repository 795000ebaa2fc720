"""Cases of a vault's tables and queries on Spark; all cases of a kind share an Iceberg table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from typing import Any

import pytest
from pyspark.sql import DataFrame

from vde_dagster.errors import ExecutionError
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.spark.tasks import Warehouse, days
from vde_dagster_tests.vault.tables import (
    CASE,
    Case,
    Table,
    kind_of,
    read_queries,
    read_tables,
    values_of,
)

pytestmark = [pytest.mark.spark, pytest.mark.turns(14, "vaults on Spark")]

TABLES = [*read_tables("first_seen.yaml"), *read_tables("changes.yaml")]


@pytest.fixture(scope="module", autouse=True)
def _interpreted(spark_engine: SparkEngine) -> Iterator[None]:
    """Let new sessions compile no expressions, which takes longer than these few rows do."""
    conf = spark_engine.session.sparkContext._jsc.sc().conf()
    names = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    for name, value in names.items():
        conf.set(name, value)
    yield
    for name in names:
        conf.remove(name)


def warehouse(engine: SparkEngine, table: Table) -> Warehouse:
    """An Iceberg table of its kind, whose key begins with the case."""
    kind: Any = kind_of(table.kind)
    kind = replace(kind, key=(CASE, *kind.key))
    physical = {name: f"{name}_1" for name in table.columns}
    added = {column.name: column.type for column in kind.added_columns}
    return Warehouse(engine, kind, {CASE: "string", **table.columns, **added}, physical)


QUERIES = read_queries("generated.yaml")
STORIES = [
    (table, cases)
    for table in TABLES
    for cases in ([[case] for case in table.cases] if table.alone else [list(table.cases)])
]


def together(table: Table, loads: list[list[Any]], names: list[str]) -> str:
    """The query of one load of each case."""
    rows = [[name, *row] for name, load in zip(names, loads, strict=True) for row in load]
    return values_of({CASE: "string", **table.columns}, rows)


@pytest.mark.parametrize(
    ("table", "cases"), STORIES, ids=lambda one: getattr(one, "name", "").replace(" ", "_")
)
def test_the_last_load_then_all_of_them_ends_in_the_expected_rows_and_refusals_change_nothing(
    table: Table, cases: list[Case], spark_engine: SparkEngine
) -> None:
    names = [case.name for case in cases]
    rows = [case.expected for case in cases]
    _, expected = spark_engine.query(together(table.all_shown, rows, names))
    accepted = [case.loads[:-1] if case.refused else case.loads for case in cases]
    last = [loads[-1] if loads else [] for loads in accepted]
    every = [[row for load in loads for row in load] for loads in accepted]
    held = warehouse(spark_engine, table)
    fills = [every] if table.once or last == every else [last, every]
    for day, load in enumerate(fills if any(every) else (), 1):
        held.fill(together(table, load, names), days(day, day + 1))
    for case in cases:
        if case.refused:
            query = together(table, case.loads[-1:], [case.name])
            with pytest.raises(ExecutionError, match=case.refused) as raised:
                held.fill(query, days(9, 10))
            assert raised.value.hint
    columns = ", ".join([CASE, *(f"{name}_1" for name in table.columns), *table.shown])
    assert held.rows(columns) == sorted(map(tuple, expected), key=str)


def test_spark_has_the_rows_of_every_generated_query(spark_engine: SparkEngine) -> None:
    session = spark_engine.session.newSession()

    def texts(made: DataFrame, number: int) -> DataFrame:
        cells = ", ".join(f"CAST({name} AS STRING)" for name in made.columns)
        return made.selectExpr(f"{number} AS number", f"ARRAY({cells}) AS cells")

    found, wanted = [], []
    for number, case in enumerate(QUERIES):
        for name, (types, rows) in case.tables.items():
            session.sql(values_of(types, rows)).createOrReplaceTempView(name)
        made = session.sql(case.expanded)
        assert made.columns == list(case.columns)
        found += texts(made, number).collect()
        wanted.append(texts(session.sql(case.wanted), number))
    assert sorted(found, key=repr) == sorted(reduce(DataFrame.union, wanted).collect(), key=repr)


SKIPPING = [
    (
        "FIRST_SEEN (key (hk, number), time ldts, source rsrc, skip_null (hk, number, v))",
        [("a", 1, 1, "2024-01-01", "crm")],
    ),
    (
        "CHANGES (key hk, time ldts, source rsrc, set_key number, skip_null (hk, number))",
        [("a", 1, 1, "2024-01-01", "crm"), ("a", 1, None, "2024-01-02", "crm")],
    ),
]


@pytest.mark.parametrize(("kind", "expected"), SKIPPING)
def test_rows_with_null_in_named_columns_are_left_out(
    spark_engine: SparkEngine, kind: str, expected: list[Any]
) -> None:
    """AutomateDV leaves rows out whose hash key, or one of a link's foreign keys, is NULL."""
    columns = {"hk": "string", "number": "int", "v": "int", "ldts": "date", "rsrc": "string"}
    table = Table("t", kind, columns, ())
    held = warehouse(spark_engine, table)
    given: list[Any] = [
        (None, 1, 1, "2024-01-01", "crm"),
        ("a", None, 1, "2024-01-01", "crm"),
        ("a", 1, 1, "2024-01-01", "crm"),
        ("a", 1, None, "2024-01-02", "crm"),
    ]
    for day in (1, 2):
        assert held.fill(together(table, [given], ["c"]), days(day, day + 1)).notes == ()
    shown = ", ".join(f"CAST({name}_1 AS STRING)" for name in columns)
    wanted = [tuple(None if v is None else str(v) for v in row) for row in expected]
    assert held.rows(shown) == sorted(wanted, key=str)


def test_a_fill_notes_how_many_states_it_left_out(spark_engine: SparkEngine) -> None:
    columns = {"hk": "string", "v": "int", "ldts": "date", "rsrc": "string"}
    table = Table("t", "CHANGES (key hk, time ldts, source rsrc)", columns, ())
    held = warehouse(spark_engine, table)
    rows = [("a", 1, "2024-01-01", "crm"), ("a", 2, "2024-01-01", "crm")]
    (note,) = held.fill(together(table, [rows], ["c"]), days(1, 2)).notes
    assert "several states of one (in_case, hk) arrived at one load date (1 time)" in note
    assert "sequence" in note
    assert held.fill(together(table, [rows[:1]], ["c"]), days(2, 3)).notes == ()


def test_maps_of_one_text_are_two_states_and_their_order_is_none(spark_engine: SparkEngine) -> None:
    types = {"hk": "string", "v": "array<map<string,string>>", "ldts": "date"}
    kind: Any = kind_of("CHANGES (key hk, time ldts)")
    added = {column.name: column.type for column in kind.added_columns}
    held = Warehouse(spark_engine, kind, {**types, **added})
    maps = (
        "map('a', CAST(NULL AS STRING))",
        "map('a', 'null')",
        "map('a', '1, b -> 2')",
        "map('a', '1', 'b', '2')",
        "map('b', '2', 'a', '1')",
    )
    for day, one in enumerate(maps, 1):
        query = f"SELECT 'a' AS hk, array({one}) AS v, DATE '2024-01-0{day}' AS ldts"
        held.fill(query, days(day, day + 1))
    assert held.rows("DAY(ldts)") == [(1,), (2,), (3,), (4,)]


def test_of_two_rows_of_one_time_the_one_with_the_least_map_is_first(
    spark_engine: SparkEngine,
) -> None:
    kind: Any = kind_of("FIRST_SEEN (key hk, time ldts)")
    held = Warehouse(spark_engine, kind, {"hk": "string", "m": "map<string,int>", "ldts": "date"})
    for entries in ("'a', 3, 'b', 2", "'b', 1, 'a', 2", "'a', 2, 'b', 1", "'a', 2, 'b', 3"):
        held.fill(f"SELECT 'k' AS hk, map({entries}) AS m, DATE '2024-01-01' AS ldts", days(1, 2))
    assert held.rows("MAP_KEYS(m)[0], m['a'], m['b']") == [("b", 2, 1)]
