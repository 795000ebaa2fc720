"""Expressions of equal versions on Spark, over values at the edges of their types."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vde_dagster.semantics.analysis import analyze
from vde_dagster_tests.semantics.random_expressions import Expressions
from vde_dagster_tests.spark.answers import ask

ROWS = 60

_NEAR = {
    "INT": "0 1 2 3 5",
    "BIGINT": "0 1 2 3 5",
    "SMALLINT": "0 1 5",
    "DOUBLE": "0 1 2 2.5",
    "FLOAT": "0 1 2.5",
    "DECIMAL(10, 2)": "0 1 2.5",
    "STRING": "'a' 'b' 'ab' 'abc' 'abcz' 'xyz' 'A' 'mn'",
    "BOOLEAN": "TRUE FALSE TRUE FALSE",
    "DATE": "'2024-02-24' '2024-02-25'",
    "TIMESTAMP": "'2024-02-24' '2024-02-24T10:00:00'",
}
_FAR = {
    "INT": "-2147483648 2147483647 -1",
    "BIGINT": "-9223372036854775808 4294967297",
    "SMALLINT": "-32768 32767",
    "DOUBLE": "'NaN' '-0.0' 'Infinity' '-Infinity' '4.9E-324' '9.007199254740993E15'",
    "FLOAT": "'NaN' '-0.0' '-Infinity' '3.4028235E38'",
    "DECIMAL(10, 2)": "-0.05 99999999.99",
    "STRING": "'' '%' 'a%' '_' 'ß' 'İstanbul' 'ΑΣ' '2024-02-24' '5' 'a\\u0000'",
    "BOOLEAN": "TRUE",
    "DATE": "'0001-01-01' '9999-12-31'",
    "TIMESTAMP": "'1883-11-18' '2038-01-19'",
}
"""Values as texts between blanks; those of `_NEAR` are met by the expressions, `_FAR` are edges."""


def make_tables(
    session: Any, tables: Mapping[str, Mapping[str, str]], seed: int, *, overflow: bool
) -> None:
    """Make temporary views of random rows, NULLs among them.

    Args:
        session: A session of its own.
        tables: Name to columns and their types.
        seed: Of the values.
        overflow: Whether there are integers to which none can be added.
    """
    rng = random.Random(seed)
    for name, columns in tables.items():
        _make_table(session, name, columns, rng, overflow=overflow)


def _make_table(
    session: Any, name: str, columns: Mapping[str, str], rng: random.Random, *, overflow: bool
) -> None:
    lines = [
        ", ".join(
            f"CAST({_value(kind, i, rng, overflow=overflow)} AS {kind}) AS {column}"
            for column, kind in columns.items()
        )
        for i in range(ROWS)
    ]
    frame = session.sql(" UNION ALL ".join(f"SELECT {line}" for line in lines))
    # As data, not as the query that made it, which Spark would plan again for every reader.
    made = session.createDataFrame(frame.toArrow(), frame.schema)
    made.createOrReplaceTempView(name)


def _value(kind: str, number: int, rng: random.Random, *, overflow: bool) -> str:
    if number == 0 or rng.random() < 0.15:
        return "NULL"
    near = rng.random() < 0.6 or ("INT" in kind and not overflow)
    return rng.choice((_NEAR if near else _FAR)[kind].split())


def answers(session: Any, queries: Sequence[str]) -> list[tuple[str, Counter[str]]]:
    """The type and the rows of each query, asked as one."""
    whole = " UNION ALL ".join(
        f"SELECT {i} AS n, to_json(struct(*)) AS line FROM ({query})"
        for i, query in enumerate(queries)
    )
    rows: list[Counter[str]] = [Counter() for _ in queries]
    for row in session.sql(whole).collect():
        rows[row.n][row.line] += 1
    kinds = [session.sql(query).schema.simpleString() for query in queries]
    return list(zip(kinds, rows, strict=True))


@dataclass(frozen=True, slots=True)
class Compared:
    """How many expressions share a version with another, and those whose values differ."""

    expressions: int
    compared: int
    wrong: tuple[str, ...]


def compare_random_expressions(
    session: Any, columns: Mapping[str, str], seed: int, expressions: int
) -> Compared:
    """Compute random expressions in one query, and compare those of one version.

    Args:
        session: A session with a table `t` of these columns.
        columns: Name to type.
        seed: Of the expressions.
        expressions: How many to make.
    """
    of = {kind: [n for n, k in columns.items() if k == kind] for kind in columns.values()}
    made = Expressions(
        random.Random(seed),
        of["INT"],
        of["STRING"],
        of["BOOLEAN"],
        of.get("DOUBLE", []),
        of.get("DATE", []),
    )
    alike: dict[str, list[str]] = defaultdict(list)
    for text in {made.any(): None for _ in range(expressions)}:
        version = analyze(f"SELECT {text} AS x FROM t", {"t": dict(columns)}).version
        alike[version.columns["x"]].append(text)
    groups = [texts[:6] for texts in alike.values() if len(texts) > 1]
    wrong: list[str] = []
    for start in range(0, len(groups), 40):
        some = groups[start : start + 40]
        listed = [f"{text} AS x{i}_{j}" for i, g in enumerate(some) for j, text in enumerate(g)]
        answer = ask(session, f"SELECT {', '.join(listed)} FROM t")
        if answer.error:
            wrong.append(f"{answer.error}: {listed}")
            continue
        at = 0
        for group in some:
            values = {
                (answer.types[at + j], *(row[at + j] for row in answer.rows))
                for j in range(len(group))
            }
            at += len(group)
            if len(values) > 1:
                wrong.append("\n  ".join([*group, *map(str, values)]))
    return Compared(expressions, sum(map(len, groups)), tuple(wrong))
