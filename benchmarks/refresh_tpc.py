"""Queries of TPC-H and TPC-DS as FULL models: which of them refresh from changes, and how.

    python -m benchmarks.refresh_tpc [--extensions FOLDER] [--list]

Tables and queries come from DuckDB's extensions; SQLGlot translates the queries to Spark SQL. For
each table that a query reads, the first figure is whether a change of this table is followed to a
key of the result, or why not. The second column is the same without a final ORDER BY and LIMIT.
PostgreSQL's patch for incremental views maintains 20 of the 99 queries of TPC-DS.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from vde_dagster.semantics.refresh.keys import find_key_steps
from vde_dagster.semantics.refresh.qualified import NotRefreshableError

SUITES = {"tpch": "dbgen", "tpcds": "dsdgen"}
"""By extension of DuckDB, the function that fills its tables."""
_EXTENSIONS = ("duckdb-ext-tpch==1.4.4.20260205", "duckdb-ext-tpcds==1.4.4.20260205")
_TYPES = {"INTEGER": "INT", "VARCHAR": "STRING", "TIME": "STRING"}
Schema = Mapping[str, Mapping[str, str]]


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


@dataclass(frozen=True, slots=True)
class Refreshed:
    """How one query follows changes: the key, or the reason for computing all rows, by table."""

    keys: Mapping[str, tuple[str, ...]]
    reasons: Mapping[str, str]

    @property
    def words(self) -> str:
        """The share of tables whose changes are followed."""
        if not self.reasons:
            return "all"
        return "some" if self.keys else "none"


def main() -> None:
    """Print the shares, and the reasons by frequency."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--extensions", type=Path, help="where DuckDB's extensions are installed")
    parser.add_argument("--list", action="store_true", help="print each query")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for suite in read_suites(args.extensions or Path(folder)):
            print_shares(suite, listed=args.list)


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
    for number, output in enumerate(tree.selects):
        if not isinstance(output, exp.Alias | exp.Column | exp.Star):
            output.replace(exp.alias_(output.copy(), f"c{number}"))
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


def find_refresh(query: str, schema: Schema) -> Refreshed:
    """Return for each table that a query reads how its changes are followed."""
    keys: dict[str, tuple[str, ...]] = {}
    reasons: dict[str, str] = {}
    for table in tables_read(query, schema):
        try:
            keys[table] = find_key_steps(query, schema, [table]).key
        except NotRefreshableError as error:
            reasons[table] = str(error).removesuffix(f": {error.clause}")
    return Refreshed(keys, reasons)


def print_shares(suite: Suite, *, listed: bool) -> None:
    """Print for a suite how many queries refresh from changes, and the reasons where not."""
    total, both = len(suite.queries), {}
    for form in ("as written", "without ORDER BY, LIMIT"):
        found = {}
        for number, query in suite.queries.items():
            query = query if form == "as written" else without_order(query)
            found[number] = find_refresh(query, suite.schema)
        both[form] = found
        counts = Counter(one.words for one in found.values())
        tables = sum(len(one.keys) for one in found.values())
        readings = tables + sum(len(one.reasons) for one in found.values())
        print(
            f"{suite.name:6} {form:24} {counts['all']:3} of {total} queries refresh after changes "
            f"of any table, {counts['some']:3} of some tables, {counts['none']:3} of none; "
            f"{tables} of {readings} pairs of a query and a table"
        )
    reasons: Counter[str] = Counter()
    queries: dict[str, set[int]] = {}
    for number, one in both["without ORDER BY, LIMIT"].items():
        for table, reason in one.reasons.items():
            reason = reason.replace(table, "a table")
            reasons[reason] += 1
            queries.setdefault(reason, set()).add(number)
    print("\n pairs queries  reason, without ORDER BY and LIMIT")
    for reason, count in reasons.most_common():
        numbers = " ".join(map(str, sorted(queries[reason])))
        print(f"{count:6} {len(queries[reason]):7}  {reason} ({numbers})")
    print()
    if listed:
        for number in suite.queries:
            for form, found in both.items():
                _print_query(f"{suite.name} {number}", form, found[number])


def _print_query(name: str, form: str, found: Refreshed) -> None:
    followed = "; ".join(f"{table} by {', '.join(key)}" for table, key in found.keys.items())
    print(f"{name} {form}: {found.words}; {followed}")
    for table, reason in found.reasons.items():
        print(f"    {table}: {reason}")


if __name__ == "__main__":
    try:
        main()
    except SqlglotError as error:
        sys.exit(f"a query is not translated: {error}")
