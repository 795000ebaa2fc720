"""How many published pairs of equal queries get one semantic version, and whether any does wrongly.

python -m benchmarks.equal_pairs --file calcite_tests.json [--show missed] [--databases 200]

The file is a list of `{"name", "q1", "q2"}`, such as the 232 pairs over Apache Calcite's EMP and
DEPT that SPES and EQUITAS publish (github.com/georgia-tech-db/spes, testData/calcite_tests.json).
They were printed by machine: what a printer made of a name is repaired, a pair that cannot be read
after that counts as missed. EMPNO and DEPTNO are keys, which the pairs rely on. All queries with
one version are run on DuckDB, on random rows with NULLs and duplicates: other rows are an error.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import duckdb
import sqlglot

from vde_dagster.semantics.analysis import analyze
from vde_dagster.semantics.errors import SemanticError
from vde_dagster.semantics.versions.version import SemanticVersion, leaf_version

_TABLES = {
    "EMP": """EMPNO INT, ENAME STRING, JOB STRING, MGR INT, HIREDATE INT, SAL INT, COMM INT,
        DEPTNO INT, SLACKER INT""",
    "DEPT": "DEPTNO INT, NAME STRING",
    "BONUS": "ENAME STRING, JOB STRING, SAL INT, COMM INT",
    "ACCOUNT": "ACCTNO INT, TYPE STRING, BALANCE INT",
    "T": """K0 INT, C1 INT, F1_A0 INT, F2_A0 INT, F0_C0 INT, F1_C0 INT, F0_C1 INT, F1_C2 INT,
        F2_C3 INT""",
}
SCHEMA = {
    table: dict(column.split() for column in columns.split(","))
    for table, columns in _TABLES.items()
}
KEYS = {"EMP": "EMPNO", "DEPT": "DEPTNO"}
_NUMBERS = (0, 2, 4, 5, 7, 8, 9, 10, 11, 13, 15, 20, 30, 34, 99, 100, 101, 200, 1000, 2000, 5001)
_NUMBER = re.compile(r"(?<![\w.+] )(?<![\w.])(\d+)(?! \+)\b")
"""A number that is an expression of GROUP BY in Calcite; in Spark it is a position."""
_TEXTS = ("", "foo", "Charlie", "Clerk", "b", "d", "zz", "Manager")


@dataclass(frozen=True, slots=True)
class Side:
    """One query of a pair: as published, as Spark SQL, and its version or why it has none."""

    pair: str
    text: str
    version: SemanticVersion | None
    why: str | None

    @property
    def identity(self) -> tuple[str, ...] | None:
        """What is equal of queries that return equal rows, columns by position."""
        if self.version is None:
            return None
        return (self.version.rows, *self.version.columns.values())


def main() -> int:
    """Compare the pairs; the exit code is the number of wrong ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--show", choices=("missed", "recognised", "unread"), help="print these")
    parser.add_argument("--databases", type=int, default=100, help="random contents to run on")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    sqlglot.logger.disabled = True
    pairs = [
        (side(p["name"], in_spark(p["q1"])), side(p["name"], in_spark(p["q2"], p["q1"])))
        for p in json.loads(args.file.read_text())
    ]
    found: dict[str, list[tuple[Side, Side]]] = {"recognised": [], "missed": [], "unread": []}
    for one, two in pairs:
        read = one.version is not None and two.version is not None
        same = "recognised" if one.identity == two.identity else "missed"
        found[same if read else "unread"].append((one, two))
    for one, two in found.get(args.show, []):
        print(f"{one.pair}\n  {one.text}\n  {two.text}")
        print("".join(f"  {s.why}\n" for s in (one, two) if s.why), end="")
    wrong = unequal([s for pair in pairs for s in pair], args.databases, args.seed)
    for one, two in wrong:
        print(f"wrong: {one.pair}, {two.pair}\n  {one.text}\n  {two.text}")
    counts = ", ".join(f"{len(some)} {name}" for name, some in found.items())
    print(f"{len(pairs)} pairs: {counts}, {len(wrong)} wrong")
    return len(wrong)


def in_spark(text: str, other: str | None = None) -> str:
    """Write a published query as Spark SQL.

    Args:
        text: The query.
        other: What it should equal: an empty VALUES has the columns of that.
    """
    empty = "(SELECT * FROM EMP WHERE FALSE)"
    if other and text.startswith("SELECT * FROM (VALUES)"):
        empty = f"(SELECT * FROM ({in_spark(other)}) WHERE FALSE)"
    for alias in set(re.findall(r"\b(t\d*)\.", text)):
        if not re.search(rf"\bAS {alias}\b", text):
            text = re.sub(rf"\b{alias}\.", "", text)
    text = re.sub(r"(?<![\w`])(\w*\$\w+)", r"`\1`", text)
    text = re.sub(r"GROUP BY [\w., +]*", lambda m: _NUMBER.sub(r"(\1 + 0)", m[0]), text)
    text = re.sub(r"(?i)\b(AS |\bt\d*\.)(case)\b", r"\1`\2`", text)
    text = re.sub(r"FETCH NEXT (\d+) ROWS ONLY", r"LIMIT \1", text)
    text = re.sub(r"OFFSET (\d+) ROWS", r"OFFSET \1", text)
    text = text.replace("IS NOT DISTINCT FROM", "<=>").replace("(VALUES) AS", f"{empty} AS")
    if " UNION ALL " in text:
        text = re.sub(r"SELECT [^()]* ORDER BY [^()]*?(?= UNION ALL |\))", r"(\g<0>)", text)
    return re.sub(r"\(VALUES\s+(\([^()]*\))((?:,\s*\([^()]*\))*)\) AS (t\d*)", _named, text)


def _named(values: re.Match[str]) -> str:
    names = ", ".join(f"`EXPR${i}`" for i in range(values[1].count(",") + 1))
    return f"(VALUES {values[1]}{values[2]}) AS {values[3]}({names})"


def side(pair: str, text: str) -> Side:
    """Read one query of a pair."""
    parents = {
        table: replace(
            leaf_version(table, columns), unique_keys=(frozenset({KEYS[table].lower()}),)
        )
        for table, columns in SCHEMA.items()
        if table in KEYS
    }
    try:
        version = analyze(text, SCHEMA, parents=parents).version
    except SemanticError as error:
        return Side(pair, text, None, str(error))
    if version.opaque:
        return Side(pair, text, None, version.opaque)
    return Side(pair, text, version, None)


def unequal(sides: list[Side], databases: int, seed: int) -> list[tuple[Side, Side]]:
    """The queries of one version that return different rows on some random contents."""
    groups: dict[tuple[str, ...], dict[str, Side]] = {}
    for one in sides:
        if one.identity is not None:
            groups.setdefault(one.identity, {}).setdefault(one.text, one)
    doubtful = [p for g in groups.values() for p in combinations(list(g.values())[:6], 2)]
    rng = random.Random(seed)
    wrong: dict[tuple[Side, Side], None] = {}
    for _ in range(databases):
        connection = database(rng)
        results = {s.text: _rows(connection, s.text) for pair in doubtful for s in pair}
        for one, two in doubtful:
            first, second = results[one.text], results[two.text]
            if first is not None and second is not None and first != second:
                wrong[one, two] = None
    return list(wrong)


def database(rng: random.Random) -> duckdb.DuckDBPyConnection:
    """The tables with few random rows: NULLs everywhere but in keys, and duplicates."""
    connection = duckdb.connect(":memory:", config={"threads": 1})
    numbers = rng.sample(_NUMBERS, 3)
    for table, columns in SCHEMA.items():
        listed = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        connection.execute(f"CREATE TABLE {table} ({listed})")
        keys = rng.sample(_NUMBERS, 6)
        for key in keys[: rng.randint(0, 6)]:
            values = [
                rng.choice([None, *(rng.sample(_TEXTS, 2) if kind == "STRING" else numbers)])
                for kind in columns.values()
            ]
            if table in KEYS:
                values[list(columns).index(KEYS[table])] = key
            marks = ", ".join("?" * len(values))
            connection.execute(f"INSERT INTO {table} VALUES ({marks})", values)
    return connection


def _rows(connection: duckdb.DuckDBPyConnection, text: str) -> Counter[tuple[object, ...]] | None:
    """What DuckDB returns, or None where it refuses the query."""
    try:
        translated = sqlglot.transpile(text, read="spark", write="duckdb")[0]
        return Counter(connection.execute(translated).fetchall())
    except (duckdb.Error, sqlglot.errors.SqlglotError):
        return None


if __name__ == "__main__":
    raise SystemExit(main())
