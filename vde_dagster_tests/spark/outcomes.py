"""What expressions come to on Spark: the type and the value of each, or that it fails.

Dozens of expressions are analysed as one query; where one of them cannot be analysed, the others
are found by halving. Those that read nothing are then evaluated one by one without a job, and what
has a value is computed once more by a job, with the code that Spark generates and without folding
constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from vde_dagster_tests.spark.registry import analysed, settings

Outcome = tuple[str, bytes | None] | str
"""The type as JSON and the value as text, or ``no type`` or ``no value``."""

FAILURES = (Py4JError, PySparkException)
"""What Spark raises; a Java exception is a `Py4JError` or is translated."""

_COMPUTED = {
    # The optimizer would compute the constants itself, and the job only hand them over.
    "spark.sql.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.catalyst.optimizer.{rule}"
        for rule in ("ConstantFolding", "ConvertToLocalRelation")
    )
}

_T = TypeVar("_T")


def outcomes(session: Any, expressions: Sequence[str]) -> dict[str, Outcome]:
    """Analyse and evaluate expressions that read no table.

    Args:
        session: A Spark session; its settings are those that they are evaluated under.
        expressions: Their texts.
    """

    catalyst = session._jvm.org.apache.spark.sql.catalyst

    def evaluate(part: Sequence[str]) -> list[Outcome]:
        # Not the check that follows analysis: it fails for all if one is of a wrong type.
        plan = analysed(session, f"SELECT {_columns(part)}", check=False)
        rules = catalyst.optimizer
        ready = rules.ReplaceExpressions.apply(rules.ComputeCurrentTime.apply(plan))
        columns, values = plan.projectList(), ready.projectList()
        results: list[Outcome] = []
        for i in range(len(part)):
            column = columns.apply(i)
            if column.resolved():
                results.append(_evaluated(catalyst, _type(column), values.apply(i).child()))
            else:
                results.append("no type")
        return results

    parser = session._jsparkSession.sessionState().sqlParser()
    return _by_halves(expressions, 64, evaluate, "no type", parser)


def resolved(session: Any, expressions: Sequence[str], source: str) -> list[str]:
    """Return those of some expressions that Spark can give a type.

    Args:
        session: A Spark session.
        expressions: Their texts.
        source: What follows SELECT: FROM and the rest.
    """

    def analyse(part: Sequence[str]) -> list[bool]:
        query = f"SELECT {', '.join(_named(part))} {source}"
        columns = analysed(session, query, check=False).expressions()
        return [bool(columns.apply(i).resolved()) for i in range(len(part))]

    found = _by_halves(expressions, 64, analyse, False)
    return [e for e in expressions if found[e]]


def computed(
    session: Any, expressions: Sequence[str], source: str = ""
) -> dict[str, bytes | str | None]:
    """Compute expressions by jobs.

    Args:
        session: A Spark session.
        expressions: Their texts.
        source: What follows SELECT.

    Returns:
        The first row's value of each as text, or ``no value``.
    """

    def compute(part: Sequence[str]) -> list[bytes | str | None]:
        row = session.sql(f"SELECT {_columns(part, binary=True)} {source}").collect()[0]
        return [None if value is None else bytes(value) for value in row]

    with settings(session, _COMPUTED):
        return _by_halves(expressions, 256, compute, "no value")


def _by_halves(
    expressions: Sequence[str],
    size: int,
    run: Callable[[Sequence[str]], list[_T]],
    failed: _T,
    parser: Any = None,
) -> dict[str, _T]:
    found: dict[str, _T] = {}
    unique = list(dict.fromkeys(expressions))
    parts = [unique[start : start + size] for start in range(0, len(unique), size)]
    while parts:
        part = parts.pop()
        try:
            found.update(zip(part, run(part), strict=True))
        except FAILURES:
            if len(part) == size and parser is not None:
                good = [e for e in part if _parses(parser, e)]
                found.update((e, failed) for e in set(part) - set(good))
                part = good
            if len(part) == 1:
                found[part[0]] = failed
            else:
                half = len(part) // 2
                parts += [piece for piece in (part[:half], part[half:]) if piece]
    return found


def _parses(parser: Any, expression: str) -> bool:
    try:
        parser.parseExpression(f"({expression})")
    except FAILURES:
        return False
    return True


def _columns(expressions: Sequence[str], *, binary: bool = False) -> str:
    ends = "CAST(CAST(({}) AS STRING) AS BINARY)" if binary else "CAST(({}) AS STRING)"
    return ", ".join(_named([ends.format(e) for e in expressions]))


def _named(expressions: Sequence[str]) -> list[str]:
    return [f"{e} AS c{i}" for i, e in enumerate(expressions)]


def _type(column: Any) -> str:
    """The type below the alias and the cast of `_columns`."""
    return str(column.child().child().dataType().json())


def _evaluated(catalyst: Any, kind: str, expression: Any) -> Outcome:
    # `TryEval` gives NULL for a failure, at a hundredth of what an exception costs here.
    value = catalyst.expressions.TryEval(expression).eval(None)
    if value is not None:
        return (kind, bytes(value.getBytes()))
    null = catalyst.expressions.TryEval(catalyst.expressions.IsNull(expression)).eval(None)
    return "no value" if null is None else (kind, None)
