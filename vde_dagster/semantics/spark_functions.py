"""Spark 4.1's built-in functions: their kinds, synonyms and numbers of arguments.

`spark_functions.txt` lists the lower-case names by kind; each name of ``SHOW FUNCTIONS`` has one
kind. ``vde_dagster_tests/spark/test_spark_functions.py`` compares the lists and synonyms with
Spark. A query with functions outside the lists and `scalar_functions` is compared as text.
(https://spark.apache.org/docs/latest/api/sql/)
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from pathlib import Path

from vde_dagster.base.texts import lines_by_key

LISTS = Path(__file__).with_name("spark_functions.txt")


def _lines(name: str) -> list[str]:
    return [line.partition("\t")[2] for line in lines_by_key(LISTS)[name]]


def _names(name: str) -> frozenset[str]:
    return frozenset(word for line in _lines(name) for word in line.split())


def _pairs(*lines: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for line in lines:
        canonical, _, aliases = line.partition(":")
        pairs.update(dict.fromkeys(aliases.split(), canonical))
    return pairs


SCALAR = _names("scalar")
"""Functions with one value per row, which depends only on the arguments and the session.

``raise_error`` and ``assert_true`` are included, because equal arguments raise the same error, like
``1 / 0``. So is ``window_time``, which reads a field of its argument.
"""

SESSION = _names("session")
"""Functions with one value per query, which differs between sessions or over time."""

SESSION_WITHOUT_ARGUMENTS = _names("session without arguments")
"""Scalar functions that, without arguments, behave like functions of `SESSION`."""

WITHOUT_PARENTHESES = _names("without parentheses")
"""Functions that can be called without parentheses, if no column has the same name."""

UNSTEADY = _names("unsteady")
"""Functions whose value may differ for equal arguments, or depends on a row's position.

This includes functions with a seed, which is combined with the number of the row's partition. Spark
marks most of these functions as non-deterministic, but not all.
"""

AGGREGATE = _names("aggregate")
"""Aggregations whose result does not depend on the order of the rows.

By convention, the last bits of float sums, and the sign of a zero as minimum or maximum, do not
count.
"""

ORDERED_AGGREGATE = _names("ordered aggregate")
"""Aggregations whose result may depend on the order of the rows.

Sketches are included: the bytes of an HLL sketch, and estimates from it, differ.
"""

RANKING = _names("ranking")
"""Window functions with equal values for rows with equal sort keys."""

TIE_BREAKING = _names("tie-breaking")
"""Window functions that distinguish rows with equal sort keys."""

GENERATORS = _names("generator")
"""Functions that return rows, allowed in SELECT, LATERAL VIEW and FROM."""

TABLE_FUNCTIONS = _names("table function")
"""Functions that return rows, allowed only in FROM."""

GROUPING = _names("grouping")
"""Functions that depend on the GROUP BY of their query.

``window`` also drops rows whose time is NULL, and repeats rows if windows overlap.
"""

OPERATORS = _names("operator")
"""Operators and keywords. All but ``!= <> || case cast`` can also be called: ``div(7, 2)``."""

PARSED = _names("parsed")
"""Functions that exist only in Spark's grammar, not in ``SHOW FUNCTIONS``.

The grammar also has ``dateadd date_add date_diff datediff`` with three arguments, of which the
first is a unit. With two arguments, these are functions in `SCALAR`.
"""

CATALOG = _names("catalog")
"""Iceberg's functions, available while an Iceberg catalog is the current catalog."""

_KINDS = {
    name: function_kind
    for function_kind in (
        *("scalar", "session", "unsteady", "aggregate", "ordered aggregate", "ranking"),
        *("tie-breaking", "generator", "table function", "grouping", "operator", "parsed"),
    )
    for name in _names(function_kind)
}


def function_kind(name: str) -> str | None:
    """Return a function's kind, such as `aggregate`, or None if Spark has no such function."""
    return _KINDS.get(name)


def function_names() -> Iterable[str]:
    return (name for name in _KINDS if name.isidentifier())


ALIASES = _pairs(*_lines("synonyms"))
"""Synonyms with the same arguments, each with its canonical name.

A column without an alias is named after the function as written, so two queries that differ only in
a synonym may differ in their column names.
"""

CASTS = {
    **{name: name.upper() for name in ("bigint", "binary", "boolean", "date", "double", "float")},
    **{name: name.upper() for name in ("int", "smallint", "string", "tinyint")},
    "decimal": "DECIMAL(10, 0)",
    "time": "TIME(6)",
    "timestamp": "TIMESTAMP_LTZ",
}
"""Functions of one argument that are casts to a type.

``timestamp(x)`` always casts to ``TIMESTAMP_LTZ``, while ``CAST(x AS TIMESTAMP)`` depends on the
setting ``spark.sql.timestampType``.
"""

_TRUNCATIONS = _pairs(*_lines("truncations"))
_FIELDS = _pairs(*_lines("fields"))
_CLOCK_UNITS = {name: name for name in ("microsecond", "millisecond", "second", "minute", "hour")}
_DIFFERENCES = _CLOCK_UNITS | {name: name for name in ("day", "week", "month", "quarter", "year")}
_ADDITIONS = _DIFFERENCES | {"dayofyear": "day"}
_DAYS = _pairs(*_lines("days"))

UNITS: dict[str, dict[int, dict[str, str]]] = {
    "date_trunc": {0: _TRUNCATIONS | _CLOCK_UNITS | _pairs("day: day dd")},
    "trunc": {1: _TRUNCATIONS},
    "next_day": {1: _DAYS},
    **{name: {0: _CLOCK_UNITS} for name in ("time_trunc", "time_diff")},
    **{name: {0: _FIELDS} for name in ("extract", "date_part", "datepart")},
    **{name: {0: _ADDITIONS} for name in ("timestampadd", "dateadd", "date_add")},
    **{name: {0: _DIFFERENCES} for name in ("timestampdiff", "timediff", "datediff", "date_diff")},
}
"""Arguments that name a unit: function, index of the argument, literal, canonical literal.

Other literals are compared as written. Spark ignores case. The unit is a string, but a bare word in
``extract(F FROM x)``, in ``timestampadd`` and in the functions after it in this table; ``dateadd
date_add datediff date_diff`` have a unit only with three arguments.
"""

DEFAULTS: dict[str, tuple[int, tuple[str, ...]]] = {
    name: (int(first), tuple(values))
    for named, *values in (line.split("\t") for line in _lines("defaults"))
    for first, _, functions in (named.partition(":"),)
    for name in functions.split()
}
"""Index of the first argument with a default, and the defaults as literals, by function."""

CONSTANTS = {
    name: tuple(map(int, places.split(",")))
    for name, places in _pairs(*_lines("constants")).items()
}
"""Indexes of arguments that Spark accepts only as constants, not as columns."""

ARGUMENTS = _pairs(*_lines("arguments"))
"""Numbers of arguments: ``2-3`` is two or three; unlisted functions take one.

Generated by calling Spark 4.1's `functionRegistry.lookupFunction` for each name with 0 to 16 NULLs:
wrong numbers fail with WRONG_NUM_ARGS. Calls of `dateadd` and similar functions with three
arguments, of which the first is a unit, were added.
"""
_UNCOUNTED = OPERATORS | PARSED | CATALOG


def accepts_argument_count(name: str, count: int) -> bool:
    """Return whether a function accepts this number of arguments; true if unknown.

    >>> accepts_argument_count("date_trunc", 1), accepts_argument_count("my_function", 5)
    (False, True)
    """
    name = ALIASES.get(name, name)
    if name not in _KINDS or name in _UNCOUNTED:
        return True
    for part in _counts(name):
        least, _, most = part.rstrip("+").partition("-")
        if int(least) <= count <= (inf if part.endswith("+") else int(most or least)):
            return True
    return False


def arguments_text(name: str) -> str:
    """Write the number of arguments that a function takes, such as "2 to 3"."""
    counts = " or ".join(_counts(ALIASES.get(name, name)))
    return {"0": "none"}.get(counts, counts.replace("-", " to ").replace("+", " or more"))


def argument_counts(name: str) -> tuple[int, int | None]:
    """Return the least and largest number of arguments, with None for an unlimited number."""
    counts = _counts(ALIASES.get(name, name))
    ends = [one.partition("-") for one in counts]
    least = min(int(first.rstrip("+")) for first, _, _ in ends)
    if any(one.endswith("+") for one in counts):
        return least, None
    return least, max(int(last or first) for first, _, last in ends)


def _counts(name: str) -> list[str]:
    return ARGUMENTS.get(name, "1").split(",")


def canonical_unit(function: str, index: int, literal: str) -> str | None:
    """Return the canonical name of a unit such as 'YY' in `date_trunc('YY', d)`, else None."""
    if not literal.isascii():  # the Kelvin sign is a "k" in lower case here, but not for Spark
        return None
    return UNITS.get(function, {}).get(index, {}).get(literal.lower())


SYNTAX_CLASSES = frozenset(
    {"Div", "IntDiv", "Mod", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "Like"}
    | {"ILike", "Escape", "Is", "Tuple", "Var", "Kwarg"}
)
"""SQLGlot's classes whose name and arguments determine their meaning."""

GENERATOR_KINDS = {
    name: (name.removesuffix("_outer"), name.endswith("_outer")) for name in GENERATORS
}
"""Generator functions: by name, the name without `_outer`, and whether `_outer` was removed."""
