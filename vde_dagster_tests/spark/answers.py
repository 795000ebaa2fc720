"""Small tables in Spark, and what queries over them answer."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

from vde_dagster_tests.semantics.other_types import KINDS, NUMBERS, literal_of

ROWS = 9


class Answer(NamedTuple):
    """What a query gave.

    Args:
        types: Type per column, as Spark writes it.
        rows: The rows, each value as text (a list of such per row).
        error: Why there are none: the class of Spark's error.
    """

    types: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    error: str | None = None

    def columns(self, positions: list[int]) -> tuple[tuple[str, ...], Counter[tuple[str, ...]]]:
        """Types and bag of rows of some columns."""
        picked = Counter(tuple(row[i] for i in positions) for row in self.rows)
        return tuple(self.types[i] for i in positions), picked


def ask(session: SparkSession, query: str) -> Answer:
    """Run a query; its errors are answers too."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        frame = session.sql(query)
        rows = tuple(tuple(repr(value) for value in row) for row in frame.collect())
    except PySparkException as error:
        return Answer(error=str(error.getCondition()))
    except Py4JJavaError:  # So it is told where a job fails whose rows are broadcast.
        return Answer(error="a job failed")
    return Answer(tuple(field.dataType.simpleString() for field in frame.schema.fields), rows)


def make_views(
    session: SparkSession,
    tables: Mapping[str, Mapping[str, str]],
    keys: Mapping[str, list[list[str]]],
    rng: random.Random,
    *,
    rows: int = ROWS,
    edges: bool = False,
) -> None:
    """Make a temporary view per table; one of two parts is named with an underscore.

    Numbers and times are at the edges of their types where that is asked for.
    """
    for table, columns in tables.items():
        literal = _edge if edges else _literal
        unique = {name for key in keys.get(table, []) for name in key}
        lines = [
            "SELECT "
            + ", ".join(
                f"CAST({literal(kind, i if name in unique else None, rng)} AS {kind}) AS {name}"
                for name, kind in columns.items()
            )
            for i in range(rows)
        ]
        frame = session.sql(" UNION ALL ".join(lines)).coalesce(1).cache()
        frame.createOrReplaceTempView(table.replace(".", "_"))


def _edge(kind: str, number: int | None, rng: random.Random) -> str:
    if number is not None or kind not in KINDS or rng.random() < 0.12:
        return _literal(kind, number, rng)
    return literal_of(kind, rng)


def _literal(kind: str, number: int | None, rng: random.Random) -> str:
    if number is None and rng.random() < 0.12:
        return "NULL"
    value = rng.randint(-1, 3) if number is None else number
    if kind in NUMBERS:
        return str(value)
    if kind == "BOOLEAN":
        return str(value > 0)
    if kind == "STRING":
        return f"'{'abcAB'[value]}'" if number is None else f"'{number}'"
    if kind == "DATE":
        return f"'2024-02-2{value + 5}'"
    if kind == "TIMESTAMP":
        return f"'2024-02-2{value + 5} 1{value + 5}:3{value + 1}:0{rng.randint(0, 9)}.123456'"
    if kind == "ARRAY<STRING>":
        return f"array({', '.join(_literal('STRING', None, rng) for _ in range(value + 1))})"
    if kind == "ARRAY<INT>":
        return f"array({', '.join(_literal('INT', None, rng) for _ in range(value + 1))})"
    if kind.startswith("MAP"):
        return "map('k', 'v', 'a', 'b')"
    if kind.startswith("STRUCT"):
        return f"named_struct('city', 'x{value}', 'zip', {value})"
    return "array(named_struct('p', 1, 'q', 'x'), named_struct('p', 2, 'q', 'y'))"


def plain(value: Any) -> Any:
    """A query of a fixture as Spark can run it: time variables and tables of two parts."""
    for name, text in (
        ("@start_ds", "'2024-02-24'"),
        ("@START_DS", "'2024-02-24'"),
        ("@end_ds", "'2024-02-27'"),
        ("@end_ts", "'2024-02-27 23:59:59'"),
    ):
        value = value.replace(name, text)
    return value
