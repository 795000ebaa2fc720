"""The package's functions: versions as values, propagation, types, lineage, determinism."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from sqlglot import parse_one

from vde_dagster.semantics._sqlglot import canonical_text
from vde_dagster.semantics.analysis import analyze, column_lineage, semantic_version
from vde_dagster.semantics.versions.version import (
    SemanticVersion,
    leaf_version,
    opaque_version,
    restrict,
)
from vde_dagster_tests.semantics.corpus import QUERIES
from vde_dagster_tests.semantics.corpus import SCHEMA as CORPUS_SCHEMA

SCHEMA = {
    "orders": {"id": "INT", "k": "INT", "amount": "DOUBLE", "status": "STRING"},
    "Raw.Customers": {"K": "INT", "Name": "STRING"},
}


def test_version_is_plain_data() -> None:
    version = semantic_version("SELECT k, SUM(amount) AS s FROM orders GROUP BY k", SCHEMA)
    assert len(bytes.fromhex(version.rows)) >= 16
    assert list(version.columns) == ["k", "s"]
    assert all(len(bytes.fromhex(v)) >= 16 for v in version.columns.values())
    assert version.unique_keys == (frozenset({"k"}),)


@pytest.mark.proof
def test_versions_do_not_change_between_processes() -> None:
    code = (
        "from vde_dagster.project.serialise import to_text;"
        "from vde_dagster.semantics.analysis import semantic_version as v;"
        "print(to_text(v('SELECT a.id, b.k FROM orders a "
        "JOIN orders b ON a.id = b.k AND a.k IN (1, 2)',"
        "{'orders': {'id': 'INT', 'k': 'INT'}})))"
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
        first = semantic_version(
            f"SELECT id, k, {amount} AS amount, {status} AS status FROM orders{where}", SCHEMA
        )
        schema = {**SCHEMA, "stg": dict.fromkeys(first.columns, "INT")}
        second = semantic_version(
            "SELECT k, SUM(amount) AS total, COUNT(*) AS n FROM stg GROUP BY k",
            schema,
            parents={"stg": first},
        )
        schema["agg"] = dict.fromkeys(second.columns, "INT")
        third = semantic_version("SELECT k, n FROM agg", schema, parents={"agg": second})
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
    parent = semantic_version("SELECT id, k + 1 AS k FROM orders", SCHEMA)
    child = semantic_version(
        "SELECT k AS a, id FROM m", {"m": {"id": "INT", "k": "INT"}}, parents={"m": parent}
    )
    assert child.rows == parent.rows
    assert child.columns == {"a": parent.columns["k"], "id": parent.columns["id"]}


def test_keys_of_parents_let_left_joins_be() -> None:
    schema = {**SCHEMA, "d": {"k": "INT", "v": "INT"}}
    query = "SELECT o.id, d.v FROM orders o LEFT JOIN d ON o.k = d.k"
    plain = semantic_version("SELECT id FROM orders", SCHEMA)
    leaf = leaf_version("d", schema["d"])
    assert semantic_version(query, schema, parents={"d": leaf}).rows != plain.rows
    keyed = {"d": leaf.with_unique_keys([["K"]])}
    assert semantic_version(query, schema, parents=keyed).rows == plain.rows
    dropped = {"d": replace(keyed["d"], unique_keys=())}
    assert semantic_version(query, schema, parents=dropped).rows != plain.rows


def test_names_are_found_without_case_and_quotes() -> None:
    one = semantic_version("SELECT name FROM raw.customers", SCHEMA)
    two = semantic_version("SELECT `NAME` FROM `Raw`.`Customers`", SCHEMA)
    assert one == two
    assert one.columns == {
        "name": leaf_version("raw.customers", SCHEMA["Raw.Customers"]).columns["name"]
    }


def test_external_leaf_follows_name_and_type() -> None:
    query = "SELECT id FROM x"
    base = semantic_version(query, {"x": {"id": "INT"}})
    assert semantic_version(query, {"x": {"id": "INT", "new": "INT"}}) == base
    assert semantic_version(query, {"x": {"id": "BIGINT"}}).columns != base.columns


def test_an_expression_is_not_changed() -> None:
    tree = parse_one("SELECT o.id FROM orders AS o WHERE o.k > 1", dialect="spark")
    before = tree.copy()
    version = semantic_version(tree, SCHEMA)
    assert tree == before
    assert version == semantic_version("SELECT id FROM orders WHERE 1 < k", SCHEMA)


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
    lineage = column_lineage(query, SCHEMA)
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
    assert {(s.table, s.column, s.kind) for s in lineage.indirect} == {
        ("orders", "k", "join"),
        ("orders", "id", "join"),
        ("raw.customers", "k", "join"),
        ("orders", "id", "filter"),
        ("orders", "k", "group"),
        ("raw.customers", "name", "sort"),
        ("orders", "k", "window"),
        ("orders", "amount", "window"),
        ("orders", "status", "conditional"),
    }


def test_scalar_functions_are_believed() -> None:
    query = "SELECT id, f(amount) AS x FROM orders"
    assert semantic_version(query, SCHEMA).opaque
    known = semantic_version(query, SCHEMA, scalar_functions=["F"])
    assert known.opaque is None
    assert known.columns["id"] == semantic_version("SELECT id FROM orders", SCHEMA).columns["id"]


def test_opaque_versions_of_python_models() -> None:
    parent = leaf_version("p", {"a": "INT", "b": "INT"})
    one = opaque_version("code", {"p": parent}, ["x", "y"], "Python")
    assert one.opaque == "Python"
    assert len({one.rows, *one.columns.values()}) == 3
    assert one != opaque_version("code2", {"p": parent}, ["x", "y"], "Python")
    changed = leaf_version("p", {"a": "INT", "b": "STRING"})
    assert one != opaque_version("code", {"p": changed}, ["x", "y"], "Python")
    narrow = opaque_version("code", {"p": restrict(parent, ["a"])}, ["x"], "Python")
    assert narrow == opaque_version("code", {"p": restrict(changed, ["A"])}, ["x"], "Python")


def test_canonical_text() -> None:
    assert canonical_text("SELECT  A -- x\nFROM `T`;") == "select a from `t`"
    assert canonical_text("SELECT 'A  b'") == "select 'A  b'"
    one = canonical_text("SELECT a FROM t WHERE x = 'it''s'")
    assert one != canonical_text("SELECT a FROM t WHERE x = 'its'")
    assert canonical_text("not 'sql")


def test_deep_and_wide_queries_do_not_fail() -> None:
    many = " AND ".join(f"id <> {i}" for i in range(3000))
    assert semantic_version(f"SELECT id FROM orders WHERE {many}", SCHEMA).opaque is None
    ctes = ["c0 AS (SELECT id, k FROM orders)"]
    ctes += [
        f"c{i} AS (SELECT a.id, b.k FROM c{i - 1} a JOIN c{i - 1} b ON a.id = b.k)"
        for i in range(1, 9)
    ]
    assert semantic_version(f"WITH {', '.join(ctes)} SELECT id FROM c8", SCHEMA).opaque is None
    nested = "SELECT id FROM orders"
    for _ in range(30):
        nested = f"SELECT id FROM ({nested})"
    assert semantic_version(nested, SCHEMA) == semantic_version("SELECT id FROM orders", SCHEMA)


@pytest.mark.parametrize("name", QUERIES)
def test_realistic_queries_are_understood(name: str) -> None:
    query = QUERIES[name]
    version = semantic_version(query, CORPUS_SCHEMA)
    assert version.opaque is None
    formatted = query.replace(",", " , ").replace("\n", " -- a comment\n\t")
    assert semantic_version(formatted, CORPUS_SCHEMA) == version
    if "WITH" not in query:
        wrapped = semantic_version(f"WITH w AS ({query}) SELECT * FROM w", CORPUS_SCHEMA)
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
    first, second = semantic_version(using, orders), semantic_version(on, orders)
    assert first.opaque is None
    assert (first.rows, first.columns) == (second.rows, second.columns)


def test_using_of_two_undeclared_tables_on_one_side_is_opaque() -> None:
    query = "SELECT a.x FROM a JOIN b ON a.i = b.i JOIN c USING (k)"
    assert "several unknown tables" in (semantic_version(query, {}).opaque or "")


def test_a_declared_function_of_a_schema_is_understood() -> None:
    orders = {"orders": {"id": "INT"}}
    query = "SELECT Tools.clean(id) AS c FROM orders"
    assert "tools.clean" in (semantic_version(query, orders).opaque or "")
    known = semantic_version(query, orders, scalar_functions=["tools.clean"])
    assert known.opaque is None
    lineage = column_lineage(query, orders)
    assert [(s.table, s.column) for s in lineage.columns["c"]] == [("orders", "id")]
