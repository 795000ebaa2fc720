"""The package's functions: versions as values, propagation, types, lineage, determinism."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from vde_dagster.semantics._sqlglot import canonical_text
from vde_dagster.semantics.analysis import analyze
from vde_dagster.semantics.versions.version import (
    SemanticVersion,
    leaf_version,
    opaque_version,
)
from vde_dagster_tests.semantics.corpus import QUERIES
from vde_dagster_tests.semantics.corpus import SCHEMA as CORPUS_SCHEMA

SCHEMA = {
    "orders": {"id": "INT", "k": "INT", "amount": "DOUBLE", "status": "STRING"},
    "Raw.Customers": {"K": "INT", "Name": "STRING"},
}


def test_version_is_plain_data() -> None:
    version = analyze("SELECT k, SUM(amount) AS s FROM orders GROUP BY k", SCHEMA).version
    assert len(bytes.fromhex(version.rows)) >= 16
    assert list(version.columns) == ["k", "s"]
    assert all(len(bytes.fromhex(v)) >= 16 for v in version.columns.values())
    assert version.unique_keys == (frozenset({"k"}),)


@pytest.mark.proof
def test_versions_do_not_change_between_processes() -> None:
    code = (
        "from vde_dagster.project.serialise import to_text;"
        "from vde_dagster.semantics.analysis import analyze;"
        "print(to_text(analyze('SELECT a.id, b.k FROM orders a "
        "JOIN orders b ON a.id = b.k AND a.k IN (1, 2)',"
        "{'orders': {'id': 'INT', 'k': 'INT'}}).version))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1


def test_import_is_cheap() -> None:
    code = (
        "import sys;"
        "from vde_dagster.semantics import errors;"
        "from vde_dagster.semantics.versions import lineage, version;"
        "print('sqlglot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_changes_travel_only_through_what_is_read() -> None:
    def project(amount: str, status: str, where: str) -> list[SemanticVersion]:
        first = analyze(
            f"SELECT id, k, {amount} AS amount, {status} AS status FROM orders{where}", SCHEMA
        ).version
        schema = {**SCHEMA, "stg": dict.fromkeys(first.columns, "INT")}
        second = analyze(
            "SELECT k, SUM(amount) AS total, COUNT(*) AS n FROM stg GROUP BY k",
            schema,
            parents={"stg": first},
        ).version
        schema["agg"] = dict.fromkeys(second.columns, "INT")
        third = analyze("SELECT k, n FROM agg", schema, parents={"agg": second}).version
        return [first, second, third]

    base = project("amount", "status", "")
    status = project("amount", "UPPER(status)", "")
    assert status[0].rows == base[0].rows
    assert status[0] != base[0]
    assert status[1:] == base[1:]
    amount = project("amount + 1", "status", "")
    assert amount[1].rows == base[1].rows
    assert amount[1].columns["n"] == base[1].columns["n"]
    assert amount[1].columns["total"] != base[1].columns["total"]
    assert amount[2] == base[2]
    filtered = project("amount", "status", " WHERE id > 1")
    assert filtered[1].rows != base[1].rows
    assert filtered[2].rows != base[2].rows


def test_a_copy_has_its_parents_versions() -> None:
    parent = analyze("SELECT id, k + 1 AS k FROM orders", SCHEMA).version
    child = analyze(
        "SELECT k AS a, id FROM m", {"m": {"id": "INT", "k": "INT"}}, parents={"m": parent}
    ).version
    assert child.rows == parent.rows
    assert child.columns == {"a": parent.columns["k"], "id": parent.columns["id"]}


def test_keys_of_parents_let_left_joins_be() -> None:
    schema = {**SCHEMA, "d": {"k": "INT", "v": "INT"}}
    query = "SELECT o.id, d.v FROM orders o LEFT JOIN d ON o.k = d.k"
    plain = analyze("SELECT id FROM orders", SCHEMA).version
    leaf = leaf_version("d", schema["d"])
    assert analyze(query, schema, parents={"d": leaf}).version.rows != plain.rows
    keyed = {"d": replace(leaf, unique_keys=(frozenset({"k"}),))}
    assert analyze(query, schema, parents=keyed).version.rows == plain.rows
    dropped = {"d": replace(keyed["d"], unique_keys=())}
    assert analyze(query, schema, parents=dropped).version.rows != plain.rows


def test_names_are_found_without_case_and_quotes() -> None:
    one = analyze("SELECT name FROM raw.customers", SCHEMA).version
    two = analyze("SELECT `NAME` FROM `Raw`.`Customers`", SCHEMA).version
    assert one == two
    assert one.columns == {
        "name": leaf_version("raw.customers", SCHEMA["Raw.Customers"]).columns["name"]
    }


def test_external_leaf_follows_name_and_type() -> None:
    query = "SELECT id FROM x"
    base = analyze(query, {"x": {"id": "INT"}}).version
    assert analyze(query, {"x": {"id": "INT", "new": "INT"}}).version == base
    assert analyze(query, {"x": {"id": "BIGINT"}}).version.columns != base.columns


def test_an_alias_and_the_sides_of_a_comparison_mean_nothing() -> None:
    version = analyze("SELECT o.id FROM orders AS o WHERE o.k > 1", SCHEMA).version
    assert version == analyze("SELECT id FROM orders WHERE 1 < k", SCHEMA).version


def test_types() -> None:
    query = """SELECT o.id, SUM(o.amount) AS s, COUNT(*) AS n, MAX(c.name) AS m, o.id + 1 AS p,
    CAST(o.k AS DECIMAL(10, 2)) AS d, o.status = 'a' AS b, (SELECT MAX(id) FROM orders) AS q,
    other(o.k) AS u FROM orders o JOIN raw.customers c ON c.k = o.k GROUP BY ALL"""
    types = analyze(query, SCHEMA).output_types
    assert types == {
        "id": "INT",
        "s": "DOUBLE",
        "n": "BIGINT",
        "m": "STRING",
        "p": "INT",
        "d": "DECIMAL(10, 2)",
        "b": "BOOLEAN",
        "q": "INT",
        "u": "UNKNOWN",
    }


def test_lineage() -> None:
    query = """SELECT c.name, o.amount * 2 AS d, x.total,
      CASE WHEN o.status = 'a' THEN o.k END AS w,
      RANK() OVER (PARTITION BY o.k ORDER BY o.amount) AS r
    FROM orders o
    JOIN raw.customers c ON c.k = o.k
    LEFT JOIN (SELECT k, SUM(amount) AS total FROM orders GROUP BY k) x ON x.k = o.id
    WHERE o.id > 1 ORDER BY c.name LIMIT 5"""
    lineage = analyze(query, SCHEMA).lineage
    direct = {
        name: [(s.table, s.column, s.kind) for s in sources]
        for name, sources in lineage.columns.items()
    }
    assert direct == {
        "name": [("raw.customers", "name", "identity")],
        "d": [("orders", "amount", "transformation")],
        "total": [("orders", "amount", "aggregation")],
        "w": [("orders", "k", "transformation")],
        "r": [],
    }
    assert {name: set(decided) for name, decided in lineage.conditions.items() if decided} == {
        "w": {("orders", "status", "conditional")},
        "r": {("orders", "k", "window"), ("orders", "amount", "window")},
    }
    assert set(lineage.rows) == {
        ("orders", "k", "join"),
        ("orders", "id", "join"),
        ("raw.customers", "k", "join"),
        ("orders", "id", "filter"),
        ("orders", "k", "group"),
        ("raw.customers", "name", "sort"),
    }


def test_scalar_functions_are_believed() -> None:
    query = "SELECT id, f(amount) AS x FROM orders"
    assert analyze(query, SCHEMA).version.opaque
    known = analyze(query, SCHEMA, scalar_functions=["F"]).version
    assert known.opaque is None
    assert known.columns["id"] == analyze("SELECT id FROM orders", SCHEMA).version.columns["id"]


def test_opaque_versions_of_python_models() -> None:
    parent = leaf_version("p", {"a": "INT", "b": "INT"})
    one = opaque_version("code", {"p": parent}, ["x", "y"], "Python")
    assert one.opaque == "Python"
    assert len({one.rows, *one.columns.values()}) == 3
    assert one != opaque_version("code2", {"p": parent}, ["x", "y"], "Python")
    changed = leaf_version("p", {"a": "INT", "b": "STRING"})
    assert one != opaque_version("code", {"p": changed}, ["x", "y"], "Python")


def test_canonical_text() -> None:
    assert canonical_text("SELECT  A -- x\nFROM `T`;") == "select A from `T`"
    assert canonical_text("SELECT 'A  b'") == "select 'A  b'"
    one = canonical_text("SELECT a FROM t WHERE x = 'it''s'")
    assert one != canonical_text("SELECT a FROM t WHERE x = 'its'")
    assert one != canonical_text("SELECT a FROM t WHERE x = 'it' 's'")
    assert canonical_text('SELECT "a" "b"') == canonical_text("SELECT 'a'  'b'")
    assert canonical_text('SELECT "a""b"') != canonical_text("SELECT 'a''b'")
    assert canonical_text("SELECT m.Date") != canonical_text("SELECT m.date")
    assert canonical_text("SELECT v:Date.x") != canonical_text("SELECT v:date.x")
    assert canonical_text("SELECT struct(1 AS Date)") != canonical_text("SELECT struct(1 AS date)")
    assert canonical_text("SELECT cast(a AS Date)") == canonical_text("SELECT CAST(a AS date)")
    assert canonical_text("not 'sql")


def test_deep_and_wide_queries_do_not_fail() -> None:
    many = " AND ".join(f"id <> {i}" for i in range(3000))
    assert analyze(f"SELECT id FROM orders WHERE {many}", SCHEMA).version.opaque is None
    ctes = ["c0 AS (SELECT id, k FROM orders)"]
    ctes += [
        f"c{i} AS (SELECT a.id, b.k FROM c{i - 1} a JOIN c{i - 1} b ON a.id = b.k)"
        for i in range(1, 9)
    ]
    assert analyze(f"WITH {', '.join(ctes)} SELECT id FROM c8", SCHEMA).version.opaque is None
    nested = "SELECT id FROM orders"
    for _ in range(30):
        nested = f"SELECT id FROM ({nested})"
    assert analyze(nested, SCHEMA).version == analyze("SELECT id FROM orders", SCHEMA).version


@pytest.mark.parametrize("name", QUERIES)
def test_realistic_queries_are_understood(name: str) -> None:
    query = QUERIES[name]
    version = analyze(query, CORPUS_SCHEMA).version
    assert version.opaque is None
    formatted = query.replace(",", " , ").replace("\n", " -- a comment\n\t")
    assert analyze(formatted, CORPUS_SCHEMA).version == version
    if "WITH" not in query:
        wrapped = analyze(f"WITH w AS ({query}) SELECT * FROM w", CORPUS_SCHEMA).version
        assert wrapped == version


@pytest.mark.parametrize(
    ("using", "on"),
    [
        (
            "SELECT u.x FROM nowhere u JOIN elsewhere e USING (k)",
            "SELECT u.x FROM nowhere u JOIN elsewhere e ON u.k = e.k",
        ),
        (
            "SELECT k, n.x FROM orders o LEFT JOIN nowhere n ON n.k = o.id "
            "JOIN elsewhere USING (k)",
            "SELECT n.k, n.x FROM orders o LEFT JOIN nowhere n ON n.k = o.id "
            "JOIN elsewhere e ON n.k = e.k",
        ),
    ],
)
def test_using_finds_the_column_of_the_one_table_that_is_not_declared(using: str, on: str) -> None:
    orders = {"orders": {"id": "INT"}}
    first, second = analyze(using, orders).version, analyze(on, orders).version
    assert first.opaque is None
    assert (first.rows, first.columns) == (second.rows, second.columns)


def test_using_of_two_undeclared_tables_on_one_side_is_opaque() -> None:
    query = "SELECT a.x FROM a JOIN b ON a.i = b.i JOIN c USING (k)"
    assert "several tables whose columns are not known" in (analyze(query, {}).version.opaque or "")


def test_a_declared_function_of_a_schema_is_understood() -> None:
    orders = {"orders": {"id": "INT"}}
    query = "SELECT Tools.clean(id) AS c FROM orders"
    assert "tools.clean" in (analyze(query, orders).version.opaque or "")
    known = analyze(query, orders, scalar_functions=["tools.clean"]).version
    assert known.opaque is None
    lineage = analyze(query, orders).lineage
    assert [(s.table, s.column) for s in lineage.columns["c"]] == [("orders", "id")]
