"""The cases of a vault's tables on Spark and Iceberg: all cases of a kind share one table."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.errors import ExecutionError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.spark import SparkEngine
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.spark.tasks import Warehouse, days
from vde_dagster_tests.vault.tables import CASE, Case, Table, kind_of, read_tables

pytestmark = pytest.mark.spark

TABLES = [*read_tables("first_seen.yaml"), *read_tables("changes.yaml")]
REFUSED = [(table, case) for table in TABLES for case in table.cases if case.refused]

FILES = {
    "models/stage.sql": """
        MODEL (name staging.customers, kind SEED (path '../seeds/customers.csv'),
          columns (id INT, name STRING, ldts DATE, rsrc STRING));
    """,
    "models/hub.sql": """
        MODEL (name vault.hub_customer, start '2024-01-01', end '2024-01-03',
          kind FIRST_SEEN (key customer_hk, time ldts, source rsrc, batch_size 1));
        SELECT @HASH_KEY(id) AS customer_hk, id, ldts, rsrc
        FROM staging.customers WHERE ldts BETWEEN @start_date AND @end_date
    """,
    "models/reader.sql": """
        MODEL (name marts.customers, kind FULL);
        SELECT id, rsrc FROM vault.hub_customer
    """,
    "seeds/customers.csv": """
        id,name,ldts,rsrc
        1,Ann,2024-01-01,crm
        2,Bob,2024-01-02,erp
        2,Bob,2024-01-02,crm
        1,Ann,2024-01-03,erp
    """,
}


def warehouse(engine: SparkEngine, table: Table) -> Warehouse:
    """An Iceberg table of its kind, whose key begins with the case."""
    kind: Any = kind_of(table.kind)
    kind = replace(kind, key=(CASE, *kind.key))
    physical = {name: f"{name}_1" for name in table.columns}
    added = {column.name: column.type for column in kind.added_columns}
    return Warehouse(engine, kind, {CASE: "string", **table.columns, **added}, physical)


STORIES = [
    (table, cases)
    for table in TABLES
    for told in [[case for case in table.cases if case.refused is None]]
    for cases in ([[case] for case in told] if table.alone else [told])
]


def together(table: Table, loads: list[list[Any]], names: list[str]) -> str:
    """The query of one load of each case."""
    pairs = zip(names, loads, strict=True)
    return " UNION ALL ".join(f"({table.values(rows, case=name)})" for name, rows in pairs)


@pytest.mark.parametrize(
    ("table", "cases"), STORIES, ids=lambda one: getattr(one, "name", "").replace(" ", "_")
)
def test_the_last_load_first_and_one_of_them_twice_ends_in_the_expected_rows(
    table: Table, cases: list[Case], spark_engine: SparkEngine
) -> None:
    names = [case.name for case in cases]
    rows = [case.expected for case in cases]
    _, expected = spark_engine.query(together(table.all_shown, rows, names))
    loads = list(zip_longest(*(case.loads[::-1] for case in cases), fillvalue=[]))
    held = warehouse(spark_engine, table)
    for day, load in enumerate([*loads, loads[0]], 1):
        held.fill(together(table, list(load), names), days(day, day + 1))
    columns = ", ".join([CASE, *(f"{name}_1" for name in table.columns), *table.shown])
    assert held.rows(columns) == sorted(map(tuple, expected), key=str)


@pytest.mark.parametrize(("table", "case"), REFUSED, ids=lambda one: one.name.replace(" ", "_"))
def test_what_is_refused_changes_nothing(
    table: Table, case: Case, spark_engine: SparkEngine
) -> None:
    held = warehouse(spark_engine, table)
    for day, load in enumerate(case.loads[:-1], 1):
        held.fill(table.values(load, case=case.name), days(day, day + 1))
    before = held.rows()
    assert len(before) == len(case.expected)
    with pytest.raises(ExecutionError, match=case.refused) as raised:
        held.fill(table.values(case.loads[-1], case=case.name), days(9, 10))
    assert raised.value.hint
    assert held.rows() == before


def _rows(workspace: Workspace, query: str) -> list[tuple[Any, ...]]:
    return [tuple(map(str, row)) for row in workspace.query("prod", query).rows]


@pytest.mark.usefixtures("spark_engine")
def test_a_hub_is_planned_edited_rolled_back_and_runs_again_with_no_new_row(
    tmp_path: Path,
) -> None:
    folder = ProjectFolder(tmp_path, FILES)
    hub = "SELECT id, ldts, rsrc FROM vault.hub_customer ORDER BY id"
    first = [("1", "2024-01-01", "crm"), ("2", "2024-01-02", "crm")]
    with Workspace.open(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        assert _rows(workspace, hub) == first
        assert workspace.plan("prod").is_empty
        workspace.apply(workspace.plan("prod", restate=("vault.hub_customer",)))
        assert _rows(workspace, hub) == first

        # A new attribute and another hash.
        folder.edit("models/hub.sql", "HASH_KEY(id)", "HASH_KEY(id, algorithm := 'sha1')")
        folder.edit("models/hub.sql", "id, ldts", "id, name, ldts")
        workspace.reload()
        workspace.apply(workspace.plan("prod"))
        edited = "SELECT LENGTH(customer_hk), name FROM vault.hub_customer ORDER BY id"
        assert _rows(workspace, edited) == [("40", "Ann"), ("40", "Bob")]
        assert _rows(workspace, hub) == first

        # A new source.
        folder.write(
            "models/hub.sql",
            FILES["models/hub.sql"]
            + "UNION ALL SELECT @HASH_KEY(7), 7, DATE '2024-01-02', 'web' "
            + "WHERE DATE '2024-01-02' BETWEEN @start_date AND @end_date",
        )
        workspace.reload()
        workspace.apply(workspace.plan("prod"))
        assert _rows(workspace, hub) == [*first, ("7", "2024-01-02", "web")]

        workspace.environments.rollback("prod")
        assert _rows(workspace, edited) == [("40", "Ann"), ("40", "Bob")]


@pytest.mark.usefixtures("spark_engine")
def test_a_satellite_is_planned_edited_rolled_back_and_runs_again_with_no_new_row(
    tmp_path: Path,
) -> None:
    satellite = """
        MODEL (name vault.sat_customer, kind SATELLITE (key customer_hk), start '2024-01-01',
          end '2024-01-03');
        SELECT @HASH_KEY(id) AS customer_hk, name, ldts, rsrc
        FROM staging.customers WHERE ldts BETWEEN @start_date AND @end_date
    """
    folder = ProjectFolder(
        tmp_path, {**FILES, "models/hub.sql": satellite, "models/reader.sql": ""}
    )
    (folder.root / "models/reader.sql").unlink()
    query = "SELECT name, ldts, rsrc FROM vault.sat_customer ORDER BY name"
    first = [("Ann", "2024-01-01", "crm"), ("Bob", "2024-01-02", "crm")]
    with Workspace.open(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        assert _rows(workspace, query) == first
        assert workspace.plan("prod").is_empty
        workspace.apply(workspace.plan("prod", restate=("vault.sat_customer",)))
        assert _rows(workspace, query) == first
        folder.edit("models/hub.sql", "name, ldts", "UPPER(name) AS name, id, ldts")
        workspace.reload()
        workspace.apply(workspace.plan("prod"))
        assert [row[0] for row in _rows(workspace, query)] == ["ANN", "BOB"]
        workspace.environments.rollback("prod")
        assert _rows(workspace, query) == first
