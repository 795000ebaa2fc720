"""Searches for rows that a refresh by rows or by merged groups gets wrong, with seeds.

`python -m benchmarks refresh_methods --seeds 20000` compares random queries in DuckDB;
`--spark 300` compares queries over values that are hard to add and to compare on Spark: decimals
at their bounds, the largest BIGINT, NaN and -0.0, NULLs, duplicates, and empty tables.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vde_dagster.semantics.refresh.linear import find_row_steps
from vde_dagster.semantics.refresh.merged import find_group_steps, merge_query
from vde_dagster.semantics.refresh.qualified import NotRefreshableError, qualify
from vde_dagster.semantics.refresh.steps import State
from vde_dagster_tests.by_changes.searches import search

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = {
    "t": {"k": "INT", "n": "BIGINT", "p": "DECIMAL(38,2)", "q": "DECIMAL(9,2)", "x": "DOUBLE"},
    "u": {"k": "INT", "s": "STRING", "f": "FLOAT"},
}
_VALUES: dict[str, list[Any]] = {
    "INT": [None, 1, 2],
    "BIGINT": [None, 1, -5, 2**63 - 1, -(2**63)],
    "DECIMAL(38,2)": [None, Decimal("0.01"), Decimal("9" * 36 + ".99"), Decimal("-" + "9" * 36)],
    "DECIMAL(9,2)": [None, Decimal("9999999.99"), Decimal("-0.01")],
    "DOUBLE": [None, 0.0, -0.0, float("nan"), 1.5],
    "FLOAT": [None, 0.0, -0.0, float("nan")],
    "STRING": [None, "a", "A", ""],
}
ROWS = (
    "SELECT k, n, q FROM t WHERE n > 0 OR q IS NULL",
    "SELECT x, CAST(x AS STRING) AS text, p FROM t",
    "SELECT t.k, u.s, u.f FROM t LEFT JOIN u ON t.k <=> u.k",
    "SELECT u.s, t.p FROM t RIGHT JOIN u ON t.k = u.k AND t.q > 0",
    "SELECT k, v FROM t LATERAL VIEW OUTER explode(array(x, CAST(n AS DOUBLE))) AS v",
    "SELECT p FROM t UNION ALL SELECT q FROM t UNION ALL SELECT k FROM u",
    "SELECT a.x, b.x AS y FROM t AS a JOIN t AS b ON a.x = b.x",
    "SELECT u.f FROM u LEFT ANTI JOIN t ON t.k = u.k",
)
GROUPS = (
    "SELECT count(*) AS n, count(n) AS m, sum(n) AS s FROM t",
    "SELECT k, count(*) AS n, count(p) AS m, sum(p) AS s FROM t GROUP BY k",
    "SELECT s, count(*) AS n, count(q) AS m, sum(q) AS q FROM t JOIN u USING (k) GROUP BY s",
    "SELECT q, p, count(*) AS n, count_if(x > 0) AS m FROM t GROUP BY q, p",
    "SELECT k, max(s) AS a, min(s) AS b, bool_or(f > 0) AS c FROM u GROUP BY k",
    "SELECT max(p) AS a, min(q) AS b, sum(k) AS s FROM t",
)


def main() -> None:
    """Print for each method the numbers of queries, refreshes, and changed rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--spark", type=int, default=0, help="histories on Spark")
    args = parser.parse_args()
    for name, queries, refreshed, rows in search(range(args.first, args.first + args.seeds)):
        print(f"{name}: {queries} queries, {refreshed} refreshed, {rows} rows changed, 0 wrong")
    if args.spark:
        from vde_dagster.spark.engine import SparkEngine
        from vde_dagster_tests.conftest import small_spark

        with tempfile.TemporaryDirectory() as folder:
            engine = SparkEngine(small_spark(Path(folder)))
            print_on_spark(engine.session, range(args.first, args.first + args.spark))
            engine.close()


def print_on_spark(session: SparkSession, seeds: range) -> None:
    """Run histories on Spark, and print their numbers."""
    found = Counter(spark_history(session, seed) for seed in seeds)
    for outcome, count in sorted(found.items()):
        print(f"{outcome}: {count}")


def spark_history(session: SparkSession, seed: int) -> str:
    """Refresh a query on Spark after random changes; return the outcome.

    Raises:
        AssertionError: The rows differ from those of the whole query.
    """
    from pyspark.errors import PySparkException

    chance = random.Random(seed)
    query = chance.choice(ROWS + GROUPS)
    before = {name: _rows(name, chance) for name in SCHEMA}
    after = {name: list(rows) for name, rows in before.items()}
    only_added = chance.random() < 0.4
    for _ in range(chance.randrange(1, 4)):
        rows = after[chance.choice(sorted(SCHEMA))]
        if rows and not only_added and chance.random() < 0.6:
            rows.pop(chance.randrange(len(rows)))
        else:
            name = next(name for name, own in after.items() if own is rows)
            rows.append(_row(name, chance))
    signed = {name: _signed(before[name], after[name]) for name in SCHEMA}
    only_added = all(row[-1] > 0 for rows in signed.values() for row in rows)
    moved = [name for name, rows in signed.items() if rows]

    def relation(table: str, state: State) -> str:
        if state == "signed":
            return _relation({**SCHEMA[table], "vde_sign": "INT"}, signed[table])
        return _relation(SCHEMA[table], (before if state == "earlier" else after)[table])

    known = qualify(query, SCHEMA)
    types = {name.lower(): type_ for name, type_ in known.types(known.tree).items()}
    try:
        if query in ROWS:
            row_steps = find_row_steps(known, moved)
        else:
            group_steps = find_group_steps(known, moved, only_added=only_added, types=types)
    except NotRefreshableError:
        return "not refreshable"
    wholes = []
    for state in (before, after):
        for name, rows in state.items():
            session.sql(_relation(SCHEMA[name], rows)).createOrReplaceTempView(name)
        try:
            wholes.append(_read(session, query))
        except PySparkException:
            return "the whole query fails"
    old, new = wholes
    try:
        if query in ROWS:
            net = Counter(old)
            for row, count in _read(session, row_steps.write(relation)).items():
                net[row[:-1]] += int(row[-1]) * count
            assert {row: n for row, n in net.items() if n} == dict(new), (
                seed,
                query,
                before,
                after,
            )
            return "rows: equal"
        for name, rows in before.items():
            session.sql(_relation(SCHEMA[name], rows)).createOrReplaceTempView(name)
        steps = group_steps
        changes = steps.write(relation)
        merged = merge_query(steps.key, steps.totals, steps.count, query, changes)
        frame = session.sql(merged)
        frame = frame.selectExpr(*types, "vde_lost", "vde_gone")
        kept: Counter[tuple[str, ...]] = Counter()
        for row in frame.collect():
            if row["vde_lost"] and any(total.open for total in steps.totals):
                return "falls back to all rows"
            assert not row["vde_lost"], (seed, query, before, after)
            kept[tuple(map(repr, row[:-2]))] += not row["vde_gone"]
    except PySparkException:
        return "falls back to all rows"
    keys = [number for number, name in enumerate(types) if name in steps.key]
    touched = {tuple(row[n] for n in keys) for row in kept}
    for row, count in new.items():
        if tuple(row[n] for n in keys) not in touched:
            kept[row] += count
    gone = {row for row in old if tuple(row[n] for n in keys) not in touched}
    assert +kept == new, (seed, query, before, after, gone)
    return "groups: equal"


def _read(session: SparkSession, query: str) -> Counter[tuple[str, ...]]:
    return Counter(tuple(map(repr, row)) for row in session.sql(query).collect())


def _signed(before: list[tuple[Any, ...]], after: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the rows that came or went with their signs; 0.0 and -0.0 differ, NaN equals NaN."""
    rows = {repr(row): row for row in (*before, *after)}
    old, new = (Counter(map(repr, one)) for one in (before, after))
    came = [(*rows[row], 1) for row in (new - old).elements()]
    return came + [(*rows[row], -1) for row in (old - new).elements()]


def _rows(table: str, chance: random.Random) -> list[tuple[Any, ...]]:
    return [_row(table, chance) for _ in range(chance.randrange(5))]


def _row(table: str, chance: random.Random) -> tuple[Any, ...]:
    return tuple(chance.choice(_VALUES[type_]) for type_ in SCHEMA[table].values())


def _relation(columns: dict[str, str], rows: list[tuple[Any, ...]]) -> str:
    """Write rows as a query."""
    selects = [
        "SELECT "
        + ", ".join(_value(v, t, c) for v, (c, t) in zip(row, columns.items(), strict=True))
        for row in rows
    ]
    nothing = ", ".join(f"CAST(NULL AS {type_}) AS {name}" for name, type_ in columns.items())
    return " UNION ALL ".join(selects) or f"SELECT {nothing} WHERE false"


def _value(value: Any, type_: str, name: str) -> str:
    return f"CAST({'NULL' if value is None else repr(str(value))} AS {type_}) AS {name}"


if __name__ == "__main__":
    main()
