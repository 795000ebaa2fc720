"""Tables and queries of TPC-H and TPC-DS, from DuckDB's extensions, in Spark SQL."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import sqlglot
from sqlglot import exp

SUITES = {"tpch": "dbgen", "tpcds": "dsdgen"}
"""By extension of DuckDB, the function that fills its tables."""
_EXTENSIONS = ("duckdb-ext-tpch==1.4.4.20260205", "duckdb-ext-tpcds==1.4.4.20260205")
_TYPES = {"INTEGER": "INT", "VARCHAR": "STRING", "TIME": "STRING"}
Schema = Mapping[str, Mapping[str, str]]

ORDERS = {
    "tpch": {"orders": "o_orderkey", "lineitem": "l_orderkey"},
    "tpcds": {
        "store_sales": "ss_ticket_number",
        "store_returns": "sr_ticket_number",
        "catalog_sales": "cs_order_number",
        "catalog_returns": "cr_order_number",
        "web_sales": "ws_order_number",
        "web_returns": "wr_order_number",
    },
}
"""By suite, the tables that refresh functions change, and the number of their order."""


@dataclass(frozen=True, slots=True)
class Suite:
    """Tables and queries of a benchmark.

    Args:
        schema: Types of Spark SQL by column and table.
        queries: Spark SQL by number.
    """

    name: str
    schema: Schema
    queries: Mapping[int, str]


def connect(folder: Path) -> duckdb.DuckDBPyConnection:
    """Open an empty database with both extensions, which are installed if the folder has none."""
    extensions = folder / "duckdb_ext" / "extensions"
    if not extensions.exists():
        uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*uv, "--target", str(folder), *_EXTENSIONS], check=True)
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(f"SET extension_directory = '{extensions}'")
    for name in SUITES:
        connection.execute(f"LOAD {name}")
    return connection


def read_suites(folder: Path) -> list[Suite]:
    """Read the tables and queries of both benchmarks."""
    suites = []
    for name, generate in SUITES.items():
        with connect(folder) as connection:
            connection.execute(f"CALL {generate}(sf = 0)")
            schema: dict[str, dict[str, str]] = {}
            for table, column, type_ in connection.execute(
                "SELECT table_name, column_name, data_type FROM information_schema.columns "
                "ORDER BY table_name, ordinal_position"
            ).fetchall():
                schema.setdefault(table, {})[column] = _TYPES.get(type_, type_)
            texts = connection.execute(f"SELECT query_nr, query FROM {name}_queries()").fetchall()
        queries = {number: to_spark(text) for number, text in texts}
        suites.append(Suite(name, schema, queries))
    return suites


def to_spark(query: str) -> str:
    """Translate a query of DuckDB to Spark SQL, and name its columns as a model must."""
    tree = sqlglot.parse_one(query.rstrip().rstrip(";"), read="duckdb")
    assert isinstance(tree, exp.Query)
    names: set[str] = set()
    for number, output in enumerate(tree.selects):
        named = isinstance(output, exp.Alias | exp.Column | exp.Star)
        if not named or output.alias_or_name.lower() in names:
            output.replace(exp.alias_(output.unalias().copy(), f"c{number}"))
        names.add(output.alias_or_name.lower())
    return tree.sql("spark")


def without_order(query: str) -> str:
    """Remove a query's final ORDER BY and LIMIT."""
    tree = sqlglot.parse_one(query, read="spark")
    for part in ("order", "limit", "offset"):
        tree.set(part, None)
    return tree.sql("spark")


def tables_read(query: str, schema: Schema) -> list[str]:
    """Return the tables that a query reads."""
    found = {table.name.lower() for table in sqlglot.parse_one(query, "spark").find_all(exp.Table)}
    return sorted(found & set(schema))
