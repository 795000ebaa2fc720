"""Queries of TPC-H and TPC-DS as FULL models: which of them refresh from changes, and how.

    python -m benchmarks.refresh_tpc [--extensions FOLDER] [--list] [--rows 0.01] [--seed 1]
        [--shares 0.0001,0.001,0.01,0.1] [--only tpch]

Tables and queries come from DuckDB's extensions; SQLGlot translates the queries to Spark SQL. For
each table that a query reads, the method that a fill would choose after a change of this table is
found, or why all rows are computed: for the query as written, without a final ORDER BY and LIMIT,
and the same after additions alone. PostgreSQL's patch for incremental views maintains 20 of the 99
queries of TPC-DS.

With `--rows`, a scale factor, DuckDB then has the tables with rows before and after changes: new
orders with their lines or returns; new and deleted orders, as the refresh functions of both
benchmarks make them; and random deletions, insertions and updates of a share of each table's rows.
The method's rows are added, deleted, merged or replaced, and the result is compared with all rows
of the query, as multisets. `refresh_tpc_on_spark` does the same with fills on Spark.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from benchmarks.tpc import (
    ORDERS,
    SUITES,
    Schema,
    Suite,
    connect,
    read_suites,
    tables_read,
    without_order,
)
from vde_dagster.semantics.refresh.keys import KeySteps
from vde_dagster.semantics.refresh.linear import RowSteps
from vde_dagster.semantics.refresh.merged import GroupSteps, merge_query
from vde_dagster.semantics.refresh.methods import Refresh, find_refresh
from vde_dagster.semantics.refresh.qualified import NotRefreshableError
from vde_dagster.semantics.refresh.steps import State

ROWS, GROUPS = "(changed rows)", "(merged groups)"
"""Methods without a key."""


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


def find_method(
    query: str, schema: Schema, table: str, *, only_added: bool = False
) -> tuple[str, ...]:
    """Return how changes of a table are followed: a method that needs no key, or the key.

    Raises:
        NotRefreshableError: All rows are computed.
    """
    steps = find_refresh(query, schema, [table], only_added=only_added)
    if isinstance(steps, RowSteps):
        return (ROWS,)
    return (GROUPS,) if isinstance(steps, GroupSteps) else steps.key


def follow_tables(query: str, schema: Schema, *, only_added: bool = False) -> Refreshed:
    """Return for each table that a query reads how its changes are followed."""
    keys: dict[str, tuple[str, ...]] = {}
    reasons: dict[str, str] = {}
    for table in tables_read(query, schema):
        try:
            keys[table] = find_method(query, schema, table, only_added=only_added)
        except NotRefreshableError as error:
            reasons[table] = str(error).removesuffix(f": {error.clause}")
    return Refreshed(keys, reasons)


FORMS = ("as written", "without ORDER BY, LIMIT", "the same, only additions")


def print_shares(suite: Suite, *, listed: bool) -> None:
    """Print for a suite how many queries refresh from changes, and the reasons where not."""
    total, both = len(suite.queries), {}
    for form in FORMS:
        found = {}
        for number, query in suite.queries.items():
            query = query if form == FORMS[0] else without_order(query)
            found[number] = follow_tables(query, suite.schema, only_added=form == FORMS[2])
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
            + ", ".join(f"{count} {method}" for method, count in methods.most_common()),
            flush=True,
        )
    reasons: Counter[str] = Counter()
    queries: dict[str, set[int]] = {}
    for number, one in both[FORMS[1]].items():
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


WAYS = ("new orders", "refresh functions", "random changes")
"""Ways to change tables; the first one only adds rows."""


def compare(suite: Suite, extensions: Path, scale: float, share: float, seed: int) -> int:
    """Change tables in DuckDB, and compare refreshed rows with computed ones for each query.

    Returns:
        The number of queries whose rows differ.
    """
    wrong = 0
    for way in WAYS:
        counts: Counter[str] = Counter()
        written = total = differ = 0
        with connect(extensions) as connection:
            connection.execute(f"CALL {SUITES[suite.name]}(sf = {scale})")
            orders = ORDERS[suite.name]
            changed = [one for one in suite.schema if one in orders or way == WAYS[2]]
            for table in changed:
                change_table(connection, suite, table, share, seed, way)
            for number, query in suite.queries.items():
                query = without_order(query)
                moved = [one for one in tables_read(query, suite.schema) if one in changed]
                if not moved:
                    continue
                found = compare_query(connection, query, suite.schema, moved, way == WAYS[0])
                if isinstance(found, str):
                    counts[found] += 1
                    continue
                counts[f"equal by {found.method}" if found.wrong == 0 else "wrong"] += 1
                written, total = written + found.written, total + found.total
                differ += found.differ
                if found.wrong:
                    wrong += 1
                    print(
                        f"{suite.name} {number}, seed {seed}: {found.wrong} rows differ", flush=True
                    )
        listed = ", ".join(f"{count} {name}" for name, count in counts.items())
        print(
            f"{suite.name} at scale {scale:g}, {share:.2%} of rows by {way}: {listed}; "
            f"{written} of {total} rows written, {differ} rows differ from those before",
            flush=True,
        )
    return wrong


@dataclass(frozen=True, slots=True)
class ComparedQuery:
    """Rows of a query after a refresh, next to all of its rows.

    Args:
        method: rows, groups or keys.
        wrong: Rows that are missing or too many.
        differ: Rows that the changes added or removed.
        written: Rows that the method adds or replaces.
        total: All rows.
    """

    method: str
    wrong: int
    differ: int
    written: int
    total: int


def change_table(
    connection: duckdb.DuckDBPyConnection,
    suite: Suite,
    table: str,
    share: float,
    seed: int,
    way: str,
) -> None:
    """Create a table's rows before and after changes, and the rows that came or went.

    Refresh functions delete orders and insert copies of others under new numbers. Of randomly
    changed rows, a third each is deleted, inserted and updated.
    """
    run = connection.execute
    number = ORDERS[suite.name].get(table)
    run(f"CREATE TABLE {table}_earlier AS SELECT * FROM {table}")
    mark = f"hash({'rowid' if way == WAYS[2] else number} + {seed}) % 1000000"
    least = max(1, round(share * 1000000))
    kept = "true" if way == WAYS[0] else f"{mark} >= {least}"
    run(f"CREATE TABLE {table}_now AS SELECT * FROM {table} WHERE {kept}")
    if way != WAYS[2]:
        run(
            f"INSERT INTO {table}_now SELECT * REPLACE ({number} + 100000000 AS {number}) "
            f"FROM {table} WHERE {mark} >= 1000000 - {least}"
        )
    else:
        # Among small tables with few rows, at least one changes.
        run(f"INSERT INTO {table}_now SELECT * FROM {table} WHERE {mark} >= 1000000 - {least}")
        columns = sorted(suite.schema[table])
        column = columns[seed % len(columns)]
        run(
            f"UPDATE {table}_now SET {column} = (SELECT any_value({column}) FROM {table}) "
            f"WHERE hash(rowid + {seed + 7}) % 1000000 < {least} OR rowid = {seed % 5}"
        )
    run(
        f"CREATE TABLE {table}_signed AS SELECT *, 1 AS vde_sign FROM (SELECT * FROM {table}_now "
        f"EXCEPT ALL SELECT * FROM {table}_earlier) UNION ALL SELECT *, -1 FROM "
        f"(SELECT * FROM {table}_earlier EXCEPT ALL SELECT * FROM {table}_now)"
    )


def compare_query(
    connection: duckdb.DuckDBPyConnection,
    query: str,
    schema: Schema,
    moved: Collection[str],
    only_added: bool,
) -> ComparedQuery | str:
    """Compare a query's refreshed rows after changes with all of its rows; or return why not."""
    try:
        steps = find_refresh(query, schema, moved, only_added=only_added)
    except NotRefreshableError:
        return "whole"

    def relation(table: str, state: State) -> str:
        if state == "changed":
            return f"SELECT * EXCEPT (vde_sign) FROM {table}_signed"
        return f"SELECT * FROM {table}_{state}" if table in moved else f"SELECT * FROM {table}"

    try:
        before = _read(connection, _at_state(query, moved, "earlier"))
        after = _read(connection, _at_state(query, moved, "now"))
        if isinstance(steps, GroupSteps):
            old = _at_state(query, moved, "earlier")
            changes = steps.write(relation)
            text = merge_query(steps.key, steps.totals, steps.count, old, changes)
        else:
            text = steps.write(relation)
        found = _read(connection, text)
    except duckdb.Error as error:
        return f"not run by DuckDB ({type(error).__name__})"
    method = {KeySteps: "keys", RowSteps: "rows", GroupSteps: "groups"}[type(steps)]
    made, written = refreshed_rows(steps, before, after, found)
    wrong = ((made - after) + (after - made)).total()
    differ = ((before - after) + (after - before)).total()
    return ComparedQuery(method, wrong, differ, written, after.total())


Row = tuple[tuple[str, object], ...]
"""Values with their columns, in lower case."""


def refreshed_rows(
    steps: Refresh, before: Counter[Row], after: Counter[Row], found: Counter[Row]
) -> tuple[Counter[Row], int]:
    """Return the rows of a table after a refresh, and how many rows it adds or replaces.

    Args:
        found: Affected keys, changed rows or merged groups.
    """
    if isinstance(steps, RowSteps):
        rows = Counter(before)
        for row, count in found.items():
            rows[row[:-1]] += count * int(str(row[-1][1]))
        return Counter({row: n for row, n in rows.items() if n}), found.total()
    names = steps.key
    if isinstance(steps, KeySteps):
        replaced = {tuple(value for _, value in row) for row in found}
    else:
        replaced = {tuple(dict(row)[name] for name in names) for row in found}

    def is_kept(row: Row) -> bool:
        values = dict(row)
        return tuple(values[name] for name in names) not in replaced

    kept = Counter({row: n for row, n in before.items() if is_kept(row)})
    if isinstance(steps, KeySteps):
        new = Counter({row: n for row, n in after.items() if not is_kept(row)})
        return kept + new, new.total()
    order = [name for name, _ in next(iter(after or before), ())]
    for row, count in found.items():
        merged = dict(row)
        if not merged["vde_gone"] or merged["vde_lost"]:
            kept[tuple((name, merged[name]) for name in order)] += count
    return kept, found.total()


def _at_state(query: str, moved: Collection[str], state: State) -> str:
    """Return a query over the changed tables at a state."""
    tree = sqlglot.parse_one(query, read="spark")
    for table in list(tree.find_all(exp.Table)):
        if table.name.lower() in moved:
            alias = table.alias_or_name
            table.set("this", exp.to_identifier(f"{table.name.lower()}_{state}"))
            table.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    return tree.sql("spark")


def _read(connection: duckdb.DuckDBPyConnection, query: str) -> Counter[Row]:
    """Return the rows of a query in Spark SQL; floats are rounded."""
    (text,) = sqlglot.transpile(query, read="spark", write="duckdb")
    found = connection.execute(text)
    names = [column[0].lower() for column in found.description or ()]
    return Counter(
        tuple(
            (name, float(f"{v:.9g}") if isinstance(v, float) else v)
            for name, v in zip(names, row, strict=True)
        )
        for row in found.fetchall()
    )


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
