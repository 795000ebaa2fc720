"""Functions of other dialects over a grid of values, compared with their Spark SQL.

`python -m benchmarks.dialect_grid [--engines duckdb,postgres,trino,bigquery] [--googlesql FOLDER]
[--write] [--seed N] [--combinations N] [--only TEXT]`

Each template of `dialect_templates.txt` is filled with values of its types (NULL, empty, negative,
zero, large, Unicode, dates at edges, NaN, infinities), run on the dialect's own engine, and run on
Spark as translated. A function is verified when no value differs. The cases of the fixture
`documented_dialects.yaml`, whose values are those of vendors' documentation, are run on Spark.
`--write` writes the list of verified functions that the package reads; lines of engines that are
not asked stay. FOLDER has GoogleSQL's files for Java: see `dialect_engines`.
"""

from __future__ import annotations

import argparse
import itertools
import random
import re
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from sqlglot import parse_one
from sqlglot.errors import SqlglotError

from benchmarks.dialect_engines import (
    Answer,
    Ask,
    duckdb_engine,
    googlesql_engine,
    postgres_engine,
    spark_engine,
    trino_engine,
)
from vde_dagster.sql.other_dialects import Unwritable
from vde_dagster.sql.other_dialects.translate import write_spark_sql
from vde_dagster.sql.other_dialects.verified import FILE, signature
from vde_dagster_tests.yaml_files import read_yaml

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
    "G": [
        "CAST(NULL AS DOUBLE PRECISION)",
        *(f"CAST('{one}' AS DOUBLE PRECISION)" for one in ("0", "1.5", "-2.5", "2.5", "0.05")),
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
    "J": [  # Texts that may be JSON.
        "CAST(NULL AS VARCHAR)",
        *("'{\"a\": 1}'", '\'{"a": "x"}\'', '\'{"a": {"b": 2}}\'', "'{\"a\": [1, 2]}'"),
        *("'{\"a\": null}'", "'{\"b\": 1}'", "'{\"a\": true}'", "'{\"a\": 1.50}'", "'{}'", "'[]'"),
        *("''", "'abc'", '\'{"a": ""}\'', "'{\"a\": 1e3}'", '\'{"a": 1, "a": 2}\''),
    ],
    "U": [  # Texts that may be read as numbers.
        *("CAST(NULL AS VARCHAR)", "'1'", "' 12 '", "'1.5'", "'-2.5'", "'1e3'", "''", "'abc'"),
        *("'0x1F'", "'+7'", "'9223372036854775808'", "'NaN'", "'.5'", "'1,000'", "'1_000'"),
    ],
    "P": [  # Texts that may be read as dates or times.
        *("CAST(NULL AS VARCHAR)", "'2024-01-31'", "'2024-1-3'", "'2024-02-30'", "'20240131'"),
        *("' 2024-01-31 '", "'2024-01-31 01:02:03'", "'2024-01-31T01:02:03.5Z'", "'2024'", "''"),
        *("'01/31/2024'", "'2024-01-31 25:00:00'", "'2024-01-31 01:02'", "'2024-01'", "'abc'"),
    ],
    "W": [  # Texts that may be read as booleans.
        *("CAST(NULL AS VARCHAR)", "'t'", "'TRUE'", "'yes'", "'y'", "'on'", "'1'", "'0'", "'f'"),
        *("'no'", "'off'", "''", "' true '", "'abc'", "'2'"),
    ],
}
"""Values of a type, as DuckDB and PostgreSQL write them."""
_SPELLINGS = {
    "trino": [
        *(("DOUBLE PRECISION", "DOUBLE"), ("INTEGER[]", "ARRAY(INTEGER)")),
        *(("VARCHAR[]", "ARRAY(VARCHAR)"), ("[", "ARRAY[")),
    ],
    "bigquery": [
        *(("DOUBLE PRECISION", "FLOAT64"), ("INTEGER[]", "ARRAY<INT64>")),
        *(("VARCHAR[]", "ARRAY<STRING>"), ("VARCHAR", "STRING"), ("INTEGER", "INT64")),
        *(("DECIMAL(10, 3)", "NUMERIC"), ("TIMESTAMP", "DATETIME")),
    ],
}


def values_of(place: str, dialect: str) -> list[str]:
    """Return the values of a place, as a dialect writes them."""
    if place == "E":  # Dates of years with four digits.
        return [one for one in values_of("D", dialect) if "0001" not in one]
    if place == "Z":  # BigQuery's instants.
        return [one.replace("DATETIME", "TIMESTAMP") for one in values_of("S", dialect)]
    written = VALUES[place]
    for usual, other in _SPELLINGS.get(dialect, ()):
        written = [one.replace(usual, other) for one in written]
    return written


_PLACE = re.compile(r"\{([A-Z])\}")


@dataclass
class Result:
    """The outcome of a template: what differs, and how many values are equal or fail on Spark."""

    template: str
    keys: tuple[str, ...] = ()
    refused: str = ""
    equal: int = 0
    failed: int = 0
    different: list[tuple[str, Answer, Answer]] = field(default_factory=list)

    @property
    def verified(self) -> bool:
        """Whether nothing differs, and most values are there."""
        return not (self.refused or self.different) and self.equal > 2 * self.failed


def templates(dialect: str, *, typed: bool = False) -> list[str]:
    """Return the templates of a dialect, in the file's order.

    Args:
        typed: Whether to return those whose difference depends on the types of columns, which no
            function's name tells; their lines begin with `~`.
    """
    lines = (HERE / "dialect_templates.txt").read_text(encoding="utf-8").splitlines()
    found = []
    for line in lines:
        names, _, template = line.partition(" ")
        if template and line.startswith("~") is typed and dialect in names.lstrip("~").split(","):
            found.append(template)
    return found


def filled(template: str, dialect: str, combinations: int, seed: int) -> list[str]:
    """Fill a template's places: all combinations, or a seeded sample of them."""
    places = _PLACE.findall(template)
    values = [values_of(one, dialect) for one in places]
    product = list(itertools.islice(itertools.product(*values), 20_000))
    if len(product) > combinations and (len(places) > 1 or len(product) > combinations * 2):
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
            pairs = [
                (one, _translated(one, dialect)) for one in filled(template, dialect, count, seed)
            ]
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


def keys_of(template: str, dialect: str) -> tuple[str, ...]:
    """Return the signatures of the functions in a template, the outermost first."""
    values = tuple(values_of(place, dialect)[-1] for place in _PLACE.findall(template))
    tree = parse_one(f"SELECT {_with(template, values)}", dialect=dialect)
    return tuple(dict.fromkeys(key for node in tree.walk() if (key := signature(node))))


def _translated(expression: str, dialect: str) -> str:
    tree = parse_one(f"SELECT {expression} AS v", dialect=dialect)
    return write_spark_sql(tree, dialect, trusted=None)


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
        text = re.sub(r"(\+00(:00)?| UTC)?$", "", text)
        return (
            re.sub(r"(\.\d*?)0+$", r"\1", text)
            .removesuffix(".")
            .removesuffix(" 00:00:00")
            .lstrip("+0")
        )
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
    if re.match(r"(tiny|small|big|huge|u)?int|double|float|real|decimal|(big)?numeric", name):
        return "number"
    return name


def names() -> list[str]:
    """Return the names of Spark's own functions."""
    from pyspark.sql import SparkSession

    rows = SparkSession.builder.getOrCreate().sql("SHOW SYSTEM FUNCTIONS").collect()
    return sorted(row[0] for row in rows if row[0].isidentifier())


DOCUMENTED = HERE.parent / "vde_dagster_tests" / "fixtures" / "documented_dialects.yaml"


def documented(spark: Ask) -> dict[str, set[str]]:
    """Return the functions by dialect whose documented values Spark has; print the others."""
    cases = read_yaml(DOCUMENTED)["documented"]
    texts = [_translated(case["written"], case["dialect"]) for case in cases]
    good: dict[str, set[str]] = {}
    for case, answer in zip(cases, spark(texts), strict=True):
        keys = keys_of(case["written"], case["dialect"])
        if answer is not None and answer[1] == case["gives"]:
            good.setdefault(case["dialect"], set()).update(keys)
        else:
            print(f"{case['dialect']} {case['written']}: {answer}, {case['source']}")
    return good


def main(spark: Ask | None = None) -> int:
    """Compare all templates; print what differs, and the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the package's list")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--combinations", type=int, default=12, help="values of one template")
    parser.add_argument("--only", default="", help="templates with this text")
    parser.add_argument("--engines", default="duckdb,postgres", help="dialects that are run")
    parser.add_argument("--googlesql", type=Path, help="a folder with GoogleSQL's files for Java")
    given = parser.parse_args()
    ask = spark or spark_engine()
    print(f"seed {given.seed}")
    found: dict[str, set[str]] = documented(ask)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        for dialect in given.engines.split(","):
            engine = _started(dialect, stack, Path(folder), given.googlesql)
            asked = [one for one in templates(dialect) if given.only in one]
            results = run(dialect, asked, engine, ask, given.combinations, given.seed)
            found[dialect] = verified_keys(results)
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
                f"{len(found[dialect])} functions; {values} values equal, {wrong} different"
            )
    if given.write:
        found["spark"] = set(names())
        write(found)
    return 0


def verified_keys(results: list[Result]) -> set[str]:
    """Return the functions of verified templates that no other template blames."""
    good = {key for result in results if result.verified for key in result.keys}
    return good - {key for result in results if result.different for key in _blamed(result, good)}


_CARRIERS = ("MAX(this)", "MIN(this)")
"""Functions by which a template reads the rows of a query."""


def _blamed(result: Result, good: set[str]) -> set[str]:
    """Return the functions of a template that may differ: those that are verified nowhere else.

    Where all are, it is the outermost one.
    """
    unknown = set(result.keys) - good
    if unknown:
        return unknown
    tested = [key for key in result.keys if key not in _CARRIERS] or list(result.keys)
    return set(tested[:1])


def write(found: dict[str, set[str]]) -> None:
    """Write the package's list; lines of dialects that were not asked stay."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if line.partition(" ")[0] not in found]
    lines = kept + [f"{dialect} {key}" for dialect, keys in found.items() for key in keys]
    FILE.write_text("\n".join(sorted(lines)) + "\n", encoding="utf-8")


def _started(dialect: str, stack: ExitStack, folder: Path, jars: Path | None) -> Ask:
    """Start the engine of a dialect until the stack ends."""
    if dialect == "trino":
        return stack.enter_context(trino_engine())
    if dialect == "bigquery":
        if jars is None:
            raise SystemExit("bigquery needs --googlesql FOLDER")
        return googlesql_engine(jars)
    if dialect == "postgres":
        return stack.enter_context(postgres_engine(folder / "pg"))
    return duckdb_engine()


if __name__ == "__main__":
    raise SystemExit(main())
