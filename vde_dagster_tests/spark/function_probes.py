"""Probes of Spark's functions: calls with arguments of many types, and the types of their results.

Calls are analyzed, not run. Random calls compare the package's types with those of Spark.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, product
from typing import Any

from py4j import java_gateway
from py4j.protocol import Py4JJavaError, get_return_value

from vde_dagster.errors import VdeError
from vde_dagster.semantics import spark_functions
from vde_dagster.semantics._sqlglot import data_type, type_key
from vde_dagster.semantics.analysis import analyze
from vde_dagster.semantics.function_types import (
    LAMBDA,
    NULL,
)
from vde_dagster_tests.spark.registry import EVERYTHING, built_ins, settings

MODES: dict[str, dict[str, str]] = {
    "ansi": {"spark.sql.ansi.enabled": "true"},
    "not ansi": {"spark.sql.ansi.enabled": "false"},
}


@dataclass(frozen=True, slots=True)
class Probe:
    """An argument: its letter in the table, its text, and the types in it by their forms.

    Args:
        rare: Whether it is tried beside the first probes of other letters only.
    """

    letter: str
    text: str
    type: str = ""
    element: str = ""
    key: str = ""
    value: str = ""
    rare: bool = False


def _columns(letter: str, *types: str) -> list[Probe]:
    return [Probe(letter, f"c_{letter}{n}", kind, rare=n > 0) for n, kind in enumerate(types)]


def _literals(letter: str, *texts: str) -> list[Probe]:
    return [Probe(letter, text, rare=True) for text in texts]


_STRUCT = "STRUCT<x: INT, y: STRING>"
_ARRAYS = (
    "INT",
    "STRING",
    "BIGINT",
    "DECIMAL(10,2)",
    "STRUCT<x: INT>",
    "ARRAY<DOUBLE>",
    "DATE",
    "ARRAY<STRING>",
)
_MAPS = (("STRING", "INT"), ("INT", "ARRAY<STRING>"), ("DATE", "DATE"))
COLUMNS: list[Probe] = [
    *_columns("i", "INT"),
    *_columns("l", "BIGINT"),
    *_columns("d", "DOUBLE"),
    *_columns("e", "DECIMAL(10,2)", "DECIMAL(5,0)", "DECIMAL(20,0)", "DECIMAL(38,10)"),
    Probe("e", "c_e4", "DECIMAL(18,18)", rare=True),
    *_columns("t", "STRING"),
    *_columns("b", "BINARY"),
    *_columns("o", "BOOLEAN"),
    *_columns("a", "DATE"),
    *_columns("z", "TIMESTAMP"),
    *_columns("n", "TIMESTAMP_NTZ"),
    *(
        Probe("@", f"c_array{n}", f"ARRAY<{kind}>", element=kind, rare=n > 1)
        for n, kind in enumerate(_ARRAYS)
    ),
    *(
        Probe("%", f"c_map{n}", f"MAP<{key}, {value}>", key=key, value=value, rare=n > 0)
        for n, (key, value) in enumerate(_MAPS)
    ),
    Probe("&", "c_struct0", _STRUCT),
    Probe("&", "c_struct1", "STRUCT<a: DATE>", rare=True),
    *_columns("y", "TINYINT"),
    *_columns("s", "SMALLINT"),
    *_columns("f", "FLOAT"),
    *_columns("h", "TIME(6)"),
    *_columns("p", "INTERVAL DAY TO SECOND", "INTERVAL HOUR", "INTERVAL MINUTE TO SECOND"),
    *_columns("u", "INTERVAL DAY"),
    *_columns("q", "INTERVAL YEAR TO MONTH", "INTERVAL MONTH"),
    *_columns("j", "VARIANT"),
    *(Probe(letter, f"c_{letter}0", kind) for letter, kind in (("r", "INTERVAL"),)),
    Probe("c", "c_collated", "STRING COLLATE UTF8_LCASE"),
]
NULLS = [Probe(NULL, "NULL", "VOID")]
LITERALS = [
    *_literals("i", "1", "0", "2", "30", "-1"),
    *_literals("l", "1L", "2L"),
    *_literals("d", "0.5D", "0.25D"),
    *_literals("e", "0.5", "1.0", "12.345"),
    *_literals("t", "'a'", "'1'", "'year'", "'SECOND'", "'999'", "'S9.99'", "'a INT'", "'hex'"),
    *_literals(
        "t", "'2020-01-01'", "'yyyy'", "'$.a'", "'{\"a\": 1}'", "'utf-8'", "'GCM'", "'DAYS'"
    ),
    *_literals("o", "true", "false"),
    *_literals("a", "DATE'2020-01-01'"),
    Probe("@", "array(0.25D, 0.5D)", element="DOUBLE", rare=True),
    Probe("@", "array(0.1D)", element="DOUBLE", rare=True),
    Probe("@", "array('a')", element="STRING", rare=True),
]
_SHORT = [
    p for p in LITERALS if p.text in {"1", "2", "0.5", "1.0", "'a'", "'1'", "'year'", "'999'"}
]
LAMBDAS = [
    Probe(LAMBDA, text)
    for text in ("x -> true", "x -> 1", "(x, y) -> true", "(x, y) -> 1", "(x, y) -> y")
] + [Probe(LAMBDA, "(x, y, w) -> 1"), Probe(LAMBDA, "(x, y, w) -> 'a'")]
WITH_LAMBDA = frozenset(
    {"transform", "filter", "exists", "forall", "aggregate", "reduce", "zip_with", "array_sort"}
    | {"map_filter", "map_zip_with", "transform_keys", "transform_values"}
)
_WITH_UNIT = frozenset(
    {"dateadd", "date_add", "datediff", "date_diff", "timestampadd", "timestampdiff", "timediff"}
)
_FIELDS = frozenset({"extract", "date_part", "datepart"})
_PARSED = frozenset({"timestampadd", "timestampdiff", "timediff"})
OPERATORS = {
    **{sign: f"({{0}} {sign} {{1}})" for sign in ("+", "-", "*", "/", "&", "|", "^", "div")},
    "[]": "{0}[{1}]",
    "~": "(~ {0})",
}
_TRIMS = {
    f"trim {side}": (f"trim({side.upper()} FROM {{0}})", f"trim({side.upper()} {{0}} FROM {{1}})")
    for side in ("both", "leading", "trailing")
}
_SKIPPED = frozenset({"generator", "table function", "grouping"})
_NAMING = frozenset({"struct", "named_struct", "arrays_zip"})
"""Functions whose results have the names of their arguments' columns in them."""
MOST_ARGUMENTS = 7


class SparkTypes:
    """Asks Spark's analyzer for the types of expressions.

    Args:
        session: A classic session of Spark.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        listed = ", ".join(f"CAST(NULL AS {p.type}) AS {p.text}" for p in COLUMNS)
        with settings(session, EVERYTHING):
            session.sql(f"SELECT {listed}").createOrReplaceTempView("probes")
        self._state = session._jsparkSession.sessionState()
        session._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(
            session._jsparkSession
        )

    def ask(self, expressions: Sequence[str]) -> list[str | None]:
        """Return the type of each expression over the probes' columns; None for one refused."""
        if not expressions:
            return []
        text = ", ".join(expressions)
        try:
            plan = self._state.sqlParser().parsePlan(f"SELECT {text} FROM probes")
            plan = self._state.analyzer().execute(plan)
            listed = (
                plan.aggregateExpressions()
                if plan.getClass().getSimpleName() == "Aggregate"
                else plan.projectList()
            )
            if listed.size() == len(expressions):
                return [_type_of(listed.apply(n)) for n in range(listed.size())]
        except Py4JJavaError:
            pass  # One of the expressions is not even read: they are asked for in parts.
        if len(expressions) == 1:
            return [self._checked(expressions[0])]
        size = -(-len(expressions) // 8)
        parts = [expressions[at : at + size] for at in range(0, len(expressions), size)]
        return list(chain(*map(self.ask, parts)))

    def _checked(self, expression: str) -> str | None:
        """Ask for one expression, whose plan has another form than a list."""
        try:
            plan = self._state.sqlParser().parsePlan(f"SELECT {expression} FROM probes")
            return str(self._state.analyzer().execute(plan).schema().apply(0).dataType().sql())
        except Py4JJavaError:
            return None


@contextmanager
def errors_of_java() -> Iterator[None]:
    """Raise Spark's errors as they come; PySpark asks Java a dozen times to describe one."""
    described = java_gateway.get_return_value
    java_gateway.get_return_value = get_return_value
    try:
        yield
    finally:
        java_gateway.get_return_value = described


def _type_of(expression: Any) -> str | None:
    return (
        str(expression.dataType().sql()).replace(" NOT NULL", "") if expression.resolved() else None
    )


def functions(session: Any) -> dict[str, str | None]:
    """Return the names that are probed, with how each is called where it is not by brackets."""
    found: dict[str, str | None] = {}
    for name in [*built_ins(session), *_PARSED]:
        kind = spark_functions.function_kind(name)
        callable_ = name.isidentifier() and kind != "operator"
        if (
            kind not in _SKIPPED
            and callable_
            and name not in _NAMING
            and name not in spark_functions.ALIASES
        ):
            found[name] = None
    return found | dict.fromkeys([*OPERATORS, *_TRIMS])


def call_text(name: str, arguments: Sequence[str]) -> str:
    """Write a call."""
    if name in OPERATORS:
        return OPERATORS[name].format(*arguments)
    if name == "extract":
        return f"extract({arguments[0]} FROM {arguments[1]})"
    if name in _TRIMS:
        return _TRIMS[name][len(arguments) - 1].format(*arguments)
    text = f"{name}({', '.join(arguments)})"
    if spark_functions.function_kind(name) in ("ranking", "tie-breaking"):
        text += " OVER (ORDER BY c_i0)"
    return text


def counts(name: str) -> list[int]:
    """Return the numbers of arguments that a function is probed with."""
    if name in OPERATORS:
        return [1] if name == "~" else [2]
    if name in _TRIMS:
        return [1, 2]
    if name in _PARSED:
        return [3]
    if spark_functions.function_kind(name) == "ranking":
        return [0]
    return [n for n in range(MOST_ARGUMENTS + 1) if spark_functions.accepts_argument_count(name, n)]


def units(name: str, count: int) -> list[tuple[str, str]]:
    """Return the units that are the first argument, canonical and as written."""
    if name in _FIELDS and count == 2:
        quote = "'{}'" if name != "extract" else "{}"
        return [(unit, quote.format(word)) for word, unit in spark_functions.UNITS[name][0].items()]
    if name in _WITH_UNIT and count == 3:
        return [(unit, word) for word, unit in spark_functions.UNITS[name][0].items()]
    return []


def probes(name: str, count: int) -> Iterator[tuple[Probe, ...]]:
    """Yield the arguments that a function is probed with."""
    named = units(name, count)
    if named:
        rest = [*COLUMNS, *NULLS, *LITERALS[:6]]
        small = [p for p in rest if not p.rare]
        for unit, word in named:
            others = product(rest, small) if count == 3 else ((p,) for p in rest)
            for given in others:
                yield (Probe(unit, word), *given)
        if name == "extract" or name in _PARSED or name in _WITH_UNIT:
            return
    yield from _plain_probes(name, count)


def _plain_probes(name: str, count: int) -> Iterator[tuple[Probe, ...]]:
    lambdas = LAMBDAS if name in WITH_LAMBDA else []
    common = [p for p in [*COLUMNS, *NULLS] if not p.rare]
    rare = [p for p in [*COLUMNS, *LITERALS] if p.rare]
    few = [p for p in common if p.letter in {*"idetazno@", NULL}]
    if count == 0:
        yield ()
    elif count == 1:
        yield from ((p,) for p in [*common, *rare, *lambdas])
    elif count == 2:
        yield from product(common, [*common, *lambdas])
        parts = [p for p in rare if p.type]
        yield from chain(product(parts, [*common, *parts, *lambdas]), product(common, parts))
        yield from chain(product(LITERALS, few), product(few, LITERALS))
        yield from product(_SHORT, _SHORT)
    elif count == 3:
        yield from product(few, few, [*few, *lambdas])
        fewer = [p for p in few if p.letter in {*"idtz"}]
        for one, two, literal in product(fewer, fewer, LITERALS):
            yield from ((literal, one, two), (one, literal, two), (one, two, literal))
        for one, two in product(LITERALS, _SHORT):
            yield from ((p, *given) for p in fewer for given in ((one, two), (two, one)))
        by_letter = {p.letter: p for p in few}
        number, text, truth = (by_letter[letter] for letter in "ito")
        for p in [*common, *(p for p in rare if p.type)]:
            yield from ((p, number, number), (p, p, p), (truth, p, p), (text, number, p))
            yield from ((p, number, p), (p, text, text), (text, p, number), (text, text, p))
            yield from ((p, p, number), (p, p, text), (number, p, p))
    elif count == 4:
        some = [p for p in few if p.letter in {*"idto@"}]
        yield from product(some, repeat=4)
        if lambdas:
            yield from product(some, some, lambdas, lambdas)
    if count > 3:
        plain = [p for p in common if p.letter in {*"it"}]
        for p in [*common, *(p for p in rare if p.type)]:
            yield (p,) * count
            for place, other in product(range(count), plain):
                yield (*[other] * place, p, *[other] * (count - place - 1))
    if count > 4:
        some = [p for p in common if p.letter in {"i", "t"}]
        last = [p for p in common if p.letter in {"i", "t", "d", "l"}]
        yield from product(*[some] * (count - 2), last, last)


def random_probes(count: int, rng: random.Random) -> Iterator[tuple[Probe, ...]]:
    """Yield random arguments for functions that take any number of them."""
    every = [*COLUMNS, *NULLS, *LITERALS]
    for number in (count, count + 1, 11):
        for _ in range(100):
            yield tuple(rng.choice(every) for _ in range(number))
        for probe in every:
            yield (probe,) * number


@dataclass(frozen=True, slots=True)
class Sample:
    """Random calls, and those to which the package gives another type than Spark.

    Args:
        asked: How many calls Spark takes.
        known: How many of them have a known type here.
        refused: How many calls Spark refuses.
        refused_here: How many of those the package refuses for their types.
        wrong: Calls with both types, and calls that only the package refuses.
    """

    asked: int
    known: int
    refused: int
    refused_here: int
    wrong: tuple[str, ...]


def random_calls(session: Any, rng: random.Random, number: int) -> list[str]:
    """Return random calls of all functions by all of their names, operators among them."""
    names = [*functions(session), *(n for n in spark_functions.ALIASES if n.isidentifier())]
    every = [*COLUMNS, *NULLS, *LITERALS]
    found: list[str] = []
    for _ in range(number):
        name = rng.choice(names)
        count = rng.choice(counts(name))
        named = units(name, count)
        given = [rng.choice(every) for _ in range(count)]
        if rng.random() < 0.5 and count:
            given = [rng.choice(given)] * count
        if named and rng.random() < 0.9:
            given[0] = Probe(NULL, rng.choice(named)[1])
        if count and name in WITH_LAMBDA:
            given[-1] = rng.choice(LAMBDAS)
        found.append(call_text(name, [p.text for p in given]))
    return found


def compare_calls(spark: SparkTypes, session: Any, rng: random.Random, number: int) -> Sample:
    """Type random calls here and by Spark, in all modes."""
    schema = {"probes": {p.text: p.type for p in COLUMNS}}
    calls = random_calls(session, rng, number)
    ours = [_type_here(call, schema) for call in calls]
    taken: set[str] = set()
    wrong: list[str] = []
    for mode in MODES.values():
        with settings(session, mode | EVERYTHING), errors_of_java():
            for at in range(0, len(calls), 100):
                part = calls[at : at + 100]
                for call, here, there in zip(part, ours[at:], spark.ask(part), strict=False):
                    taken |= {call} if there is not None else set()
                    told_apart = here == REFUSED or not _same_types(str(here), str(there))
                    if None not in (here, there) and told_apart:
                        wrong.append(f"{call}: {here} here, {there} there")
    typed = dict(zip(calls, ours, strict=True))
    left = [call for call in calls if call not in taken]
    return Sample(
        asked=len(calls) - len(left),
        known=sum(typed[call] is not None for call in calls if call in taken),
        refused=len(left),
        refused_here=sum(typed[call] == REFUSED for call in left),
        wrong=tuple(dict.fromkeys(wrong)),
    )


REFUSED = "refused"
_REASONS = ("does not take", "a type that has none")


def _type_here(call: str, schema: dict[str, dict[str, str]]) -> str | None:
    """Return the type that the package derives, `REFUSED`, or None."""
    try:
        found = analyze(f"SELECT {call} AS x FROM probes", schema)
    except (VdeError, ValueError):
        return None
    if any(reason in (found.version.opaque or "") for reason in _REASONS):
        return REFUSED
    (kind,) = found.output_types.values()
    return None if "UNKNOWN" in kind else kind


def _same_types(here: str, there: str) -> bool:
    one, other = data_type(here), data_type(there)
    return one is not None and other is not None and type_key(one) == type_key(other)
