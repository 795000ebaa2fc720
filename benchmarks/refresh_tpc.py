"""Queries of TPC-H and TPC-DS as FULL models: which of them refresh from changes, and how.

    python -m benchmarks.refresh_tpc [--extensions FOLDER] [--list] [--rows 0.01] [--seed 1]
        [--shares 0.0001,0.001,0.01,0.1] [--only tpch]

Tables and queries come from DuckDB's extensions; SQLGlot translates the queries to Spark SQL. For
each table that a query reads, the first figure is whether a change of this table is followed to a
key of the result, or why not. The second column is the same without a final ORDER BY and LIMIT.
PostgreSQL's patch for incremental views maintains 20 of the 99 queries of TPC-DS.

With `--rows`, a scale factor, DuckDB then has the tables with rows before and after changes: random
deletions, insertions and updates of a share of each table's rows, and new and deleted orders with
their lines or returns, as the refresh functions of both benchmarks make them. The rows of affected
keys are replaced, and the result is compared with all rows of the query, as multisets.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from vde_dagster.semantics.refresh.keys import find_key_steps
from vde_dagster.semantics.refresh.linear import RowSteps
from vde_dagster.semantics.refresh.merged import GroupSteps
from vde_dagster.semantics.refresh.methods import find_refresh
from vde_dagster.semantics.refresh.qualified import NotRefreshableError
from vde_dagster.semantics.refresh.steps import State

SUITES = {"tpch": "dbgen", "tpcds": "dsdgen"}
"""By extension of DuckDB, the function that fills its tables."""
_EXTENSIONS = ("duckdb-ext-tpch==1.4.4.20260205", "duckdb-ext-tpcds==1.4.4.20260205")
_TYPES = {"INTEGER": "INT", "VARCHAR": "STRING", "TIME": "STRING"}
ROWS, GROUPS = "(changed rows)", "(merged groups)"
"""Methods without a key."""
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
    """How one query follows changes: a key or method, or the reason for computing all, by table."""

    keys: Mapping[str, tuple[str, ...]]
    reasons: Mapping[str, str]

    @property
    def words(self) -> str:
        """The share of tables whose changes are followed."""
        if not self.reasons:
            return "all"
        return "some" if self.keys else "none"


def main() -> int:
    """Print the shares, and the reasons by frequency; return the number of wrong results."""
    wrong = 0
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--extensions", type=Path, help="where DuckDB's extensions are installed")
    parser.add_argument("--rows", type=float, default=0.0, help="scale factor of the comparison")
    parser.add_argument("--shares", default="0.0001,0.001,0.01,0.1", help="of changed rows")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="tpch or tpcds")
    parser.add_argument("--list", action="store_true", help="print each query")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        extensions = args.extensions or Path(folder)
        suites = [one for one in read_suites(extensions) if args.only in ("", one.name)]
        for suite in suites:
            print_shares(suite, listed=args.list)
        for suite in suites if args.rows else ():
            for share in map(float, args.shares.split(",")):
                wrong += compare(suite, extensions, args.rows, share, args.seed)
    return wrong


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


def find_method(query: str, schema: Schema, table: str) -> tuple[str, ...]:
    """Return how changes of a table are followed: a method that needs no key, or the key.

    Raises:
        NotRefreshableError: All rows are computed.
    """
    steps = find_refresh(query, schema, [table])
    if isinstance(steps, RowSteps):
        return (ROWS,)
    return (GROUPS,) if isinstance(steps, GroupSteps) else steps.key


def follow_tables(query: str, schema: Schema) -> Refreshed:
    """Return for each table that a query reads how its changes are followed."""
    keys: dict[str, tuple[str, ...]] = {}
    reasons: dict[str, str] = {}
    for table in tables_read(query, schema):
        try:
            keys[table] = find_method(query, schema, table)
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
            found[number] = follow_tables(query, suite.schema)
        both[form] = found
        counts = Counter(one.words for one in found.values())
        tables = sum(len(one.keys) for one in found.values())
        methods = Counter(
            key[0] if key[0] in (ROWS, GROUPS) else "(keys)"
            for one in found.values()
            for key in one.keys.values()
        )
        readings = tables + sum(len(one.reasons) for one in found.values())
        print(
            f"{suite.name:6} {form:24} {counts['all']:3} of {total} queries refresh after changes "
            f"of any table, {counts['some']:3} of some tables, {counts['none']:3} of none; "
            f"{tables} of {readings} pairs of a query and a table: "
            + ", ".join(f"{count} {method}" for method, count in methods.most_common())
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


def compare(suite: Suite, extensions: Path, scale: float, share: float, seed: int) -> int:
    """Change tables in DuckDB, and compare refreshed rows with computed ones for each query.

    Returns:
        The number of queries whose rows differ.
    """
    wrong = 0
    for functions in (True, False):
        counts: Counter[str] = Counter()
        affected = total = differ = 0
        with connect(extensions) as connection:
            connection.execute(f"CALL {SUITES[suite.name]}(sf = {scale})")
            for table in suite.schema:
                order = ORDERS[suite.name].get(table)
                if functions and order is None:
                    continue
                change_table(connection, table, suite.schema[table], order, share, seed, functions)
                counts["tables"] += 1
            changed = set(ORDERS[suite.name]) if functions else set(suite.schema)
            for number, query in suite.queries.items():
                query = without_order(query)
                moved = [one for one in tables_read(query, suite.schema) if one in changed]
                if not moved:
                    continue
                found = compare_query(connection, query, suite.schema, moved)
                if isinstance(found, str):
                    counts[found] += 1
                    continue
                counts["equal" if found.wrong == 0 else "wrong"] += 1
                affected, total = affected + found.affected, total + found.total
                differ += found.differ
                if found.wrong:
                    wrong += 1
                    print(
                        f"{suite.name} {number}, seed {seed}: {found.wrong} rows differ", flush=True
                    )
        what = "refresh functions" if functions else "random changes"
        listed = ", ".join(f"{count} {name}" for name, count in counts.items())
        print(
            f"{suite.name} at scale {scale:g}, {share:.2%} of rows by {what}: {listed}; "
            f"{affected} of {total} rows replaced, {differ} rows differ",
            flush=True,
        )
    return wrong


@dataclass(frozen=True, slots=True)
class ComparedQuery:
    """Rows of a query that differ after the rows of affected keys were replaced.

    Args:
        wrong: Rows that are missing or too many.
        differ: Rows that the changes added or removed.
        affected: Rows of affected keys.
        total: All rows.
    """

    wrong: int
    differ: int
    affected: int
    total: int


def change_table(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    columns: Mapping[str, str],
    number: str | None,
    share: float,
    seed: int,
    functions: bool,
) -> None:
    """Create a table's rows before and after changes, and the rows that came or went.

    A third each of the changed rows is deleted, inserted and updated; refresh functions delete
    orders and insert copies of others under new numbers.
    """
    run = connection.execute
    run(f"CREATE TABLE {table}_earlier AS SELECT * FROM {table}")
    mark = f"hash(rowid + {seed}) % 1000000"
    if functions:
        mark = f"hash({number} + {seed}) % 1000000"
    least = max(1, round(share * 1000000))
    run(f"CREATE TABLE {table}_now AS SELECT * FROM {table} WHERE {mark} >= {least}")
    if functions:
        run(
            f"INSERT INTO {table}_now SELECT * REPLACE ({number} + 100000000 AS {number}) "
            f"FROM {table} WHERE {mark} >= 1000000 - {least}"
        )
    else:
        # Among small tables with few rows, at least one changes.
        run(f"INSERT INTO {table}_now SELECT * FROM {table} WHERE {mark} >= 1000000 - {least}")
        column = sorted(columns)[seed % len(columns)]
        run(
            f"UPDATE {table}_now SET {column} = (SELECT any_value({column}) FROM {table}) "
            f"WHERE hash(rowid + {seed + 7}) % 1000000 < {least} OR rowid = {seed % 5}"
        )
    run(
        f"CREATE TABLE {table}_changed AS (SELECT * FROM {table}_now EXCEPT ALL "
        f"SELECT * FROM {table}_earlier) UNION ALL (SELECT * FROM {table}_earlier EXCEPT ALL "
        f"SELECT * FROM {table}_now)"
    )


def compare_query(
    connection: duckdb.DuckDBPyConnection, query: str, schema: Schema, moved: Collection[str]
) -> ComparedQuery | str:
    """Compare the rows outside of affected keys before and after changes; or return why not."""
    try:
        steps = find_key_steps(query, schema, moved)
    except NotRefreshableError:
        return "whole"

    def relation(table: str, state: State) -> str:
        return f"SELECT * FROM {table}_{state}" if table in moved else f"SELECT * FROM {table}"

    (text,) = sqlglot.transpile(steps.write(relation), read="spark", write="duckdb")
    try:
        keys = set(connection.execute(text).fetchall())
        states = [_rows(connection, query, schema, moved, steps.key, "earlier")]
        states.append(_rows(connection, query, schema, moved, steps.key, "now"))
    except duckdb.Error as error:
        return f"not run by DuckDB ({type(error).__name__})"
    kept, wanted = (
        Counter({row: n for row, n in rows.items() if row[0] not in keys}) for rows in states
    )
    total = states[1].total()
    wrong = ((kept - wanted) + (wanted - kept)).total()
    differ = ((states[0] - states[1]) + (states[1] - states[0])).total()
    return ComparedQuery(wrong, differ, total - wanted.total(), total)


def _rows(
    connection: duckdb.DuckDBPyConnection,
    query: str,
    schema: Schema,
    moved: Collection[str],
    key: Sequence[str],
    state: State,
) -> Counter[tuple[tuple[object, ...], tuple[object, ...]]]:
    """Return the rows of a query at a state, each with its key; floats are rounded."""
    tree = sqlglot.parse_one(query, read="spark")
    for table in list(tree.find_all(exp.Table)):
        if table.name.lower() in moved:
            alias = table.alias_or_name
            table.set("this", exp.to_identifier(f"{table.name.lower()}_{state}"))
            table.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    found = connection.execute(tree.sql("duckdb"))
    names = [column[0].lower() for column in found.description or ()]
    places = [names.index(name) for name in key]
    rows = (
        tuple(float(f"{v:.9g}") if isinstance(v, float) else v for v in row)
        for row in found.fetchall()
    )
    return Counter((tuple(row[place] for place in places), row) for row in rows)


def _print_query(name: str, form: str, found: Refreshed) -> None:
    followed = "; ".join(f"{table} by {', '.join(key)}" for table, key in found.keys.items())
    print(f"{name} {form}: {found.words}; {followed}")
    for table, reason in found.reasons.items():
        print(f"    {table}: {reason}")


if __name__ == "__main__":
    try:
        sys.exit(min(main(), 1))
    except SqlglotError as error:
        sys.exit(f"a query is not translated: {error}")
