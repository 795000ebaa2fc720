"""Result types of calls of Spark's functions, from a table that was generated with Spark 4.1.

``python -m benchmarks.function_types --write`` calls every function on Spark with every number of
arguments of many types and literal values, and writes `function_types.txt`. A line has a function,
a result and patterns of arguments. The type of a call that matches no line is unknown.

A pattern has, per argument, a letter of a type, several letters in brackets, or units in braces:
``[az][il]`` means a DATE or TIMESTAMP, then an INT or BIGINT. ``=`` means a DECIMAL, ARRAY, MAP or
STRUCT with the type of the first argument of this kind: ``e=`` means two equal DECIMAL types,
``ee`` two different ones. ``?`` means any type, and a final ``*`` any number of further arguments.
A result is a type, or refers to an argument: ``=1`` is the first argument's type, ``@1`` an array
of this type, ``.1`` the type of the argument's elements, ``k1`` and ``v1`` the types of its keys
and values. The table has no results that differ with ANSI mode. It assumes TIMESTAMP_LTZ, the
default of ``spark.sql.timestampType``.

``--refusals`` writes `function_refusals.txt`: patterns of arguments that Spark refuses in both
modes. Each pattern has the letter of one refused type, and ``?`` for all other arguments, which do
not matter.

>>> find_result("date_add", "iz", unit="hour"), find_result("date_add", "ai")
('TIMESTAMP', 'DATE')
>>> find_result("max", "a"), find_result("max", "aa")
('=1', None)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from sqlglot import exp

from vde_dagster.base.texts import lines_by_key
from vde_dagster.semantics._sqlglot import type_key

TABLE = Path(__file__).with_name("function_types.txt")
REFUSALS = Path(__file__).with_name("function_refusals.txt")

_D = exp.DType
_PLAIN = {
    _D.TINYINT: "y",
    _D.SMALLINT: "s",
    _D.INT: "i",
    _D.BIGINT: "l",
    _D.FLOAT: "f",
    _D.DOUBLE: "d",
    _D.TEXT: "t",
    _D.BINARY: "b",
    _D.BOOLEAN: "o",
    _D.DATE: "a",
    _D.TIMESTAMPTZ: "z",
    _D.TIMESTAMPLTZ: "z",
    _D.TIMESTAMPNTZ: "n",
    _D.VARIANT: "j",
}
_WITH_PARTS = {_D.DECIMAL: "e", _D.ARRAY: "@", _D.MAP: "%", _D.STRUCT: "&"}
CLASSES = frozenset(_WITH_PARTS.values())
"""Letters that represent all types of a class."""
FORMS = "=@.kv"
"""Signs in a result for the type of an argument, or for a part of that type."""
NULL, LAMBDA, SAME, ANY, MANY = "v^=?*"
"""Letters of NULL and of lambdas, and the signs of patterns."""
_BARE = {"this", "expressions", "nested"}
_TIMES = ("DAY", "HOUR", "MINUTE", "SECOND")
_OTHERS = {
    "TIME<6>": "h",
    "INTERVAL DAY": "u",
    **{
        f"INTERVAL {first} TO {last}": "p"
        for i, first in enumerate(_TIMES)
        for last in _TIMES[i + 1 :]
    },
    **dict.fromkeys((f"INTERVAL {unit}" for unit in _TIMES[1:]), "p"),
    **dict.fromkeys(("INTERVAL YEAR TO MONTH", "INTERVAL YEAR", "INTERVAL MONTH"), "q"),
}
_BY_KEY = {f"{kind.name}<>": letter for kind, letter in _PLAIN.items()}


def letter_of_type(kind: exp.DataType | None) -> str | None:
    if kind is None:
        return None
    known = _LETTERS.get(id(kind))
    if known is None:
        if len(_LETTERS) >= _MOST_LETTERS:
            _LETTERS.clear()
        known = _LETTERS[id(kind)] = kind, _letter(kind)
    return known[1]


_MOST_LETTERS = 4096
_LETTERS: dict[int, tuple[exp.DataType, str | None]] = {}
"""Types with their letters, by `id(type)`. An entry keeps its type alive, so no id is reused."""


def _letter(kind: exp.DataType) -> str | None:
    found = _WITH_PARTS.get(kind.this) if isinstance(kind.this, _D) else None
    if found is not None:
        return found
    if kind.this in (_D.CHAR, _D.VARCHAR):
        return _PLAIN[_D.TEXT]  # Spark computes with STRING.
    if isinstance(kind.this, _D) and kind.this != _D.TIME:
        bare = kind.args.keys() <= _BARE and not kind.expressions
        return _PLAIN.get(kind.this) if bare else None
    return _OTHERS.get(type_key(kind))


_FAMILIES = {
    letter: family for family in ("ysilfde", "azn", "pu", *"tboqh@%&") for letter in family
}
"""Letters of the types that Spark converts to a type and back, by the type's letter."""
_MAP, _TEXT = "%", "t"
_CHOSEN = frozenset({"ysilfde", "azn"})
_COMPARED = _CHOSEN | {"b", "h", "o"}


def _families(kinds: Iterable[exp.DataType | None]) -> set[str]:
    letters = map(letter_of_type, kinds)
    return {_FAMILIES[letter] for letter in letters if letter is not None and letter in _FAMILIES}


def lack_common_type(kinds: Iterable[exp.DataType | None], *, ordered: bool = False) -> bool:
    """Return whether Spark refuses a CASE or COALESCE with values of these types.

    `ordered` means that the function also compares the values, as GREATEST does.
    """
    found = _families(kinds)
    if ordered:
        return len(found) > 1 or _MAP in found
    return len(found - {_TEXT}) > 1 or (_TEXT in found and not found - {_TEXT} <= _CHOSEN)


def are_not_comparable(kinds: Iterable[exp.DataType | None]) -> bool:
    """Return whether Spark refuses to compare values of these types."""
    found = _families(kinds)
    others = found - {_TEXT}
    return len(others) > 1 or _MAP in found or (_TEXT in found and not others <= _COMPARED)


_NOT_CAST = {
    **dict.fromkeys("ysile", "ban@%&"),
    **dict.fromkeys("fd", "banuq@%&"),
    **dict.fromkeys("an", "ysilfdebouq@%&"),
    "z": "bouq@%&",
    "o": "baznuq@%&",
    "b": "ysilfdeoaznuq@%&",
}
"""By letter of a target type, the letters of types that Spark does not cast to it in ANSI mode."""


def is_refused_cast(kind: exp.DataType | None, target: exp.DataType) -> bool:
    letter, to = letter_of_type(kind), letter_of_type(target)
    return letter is not None and letter in _NOT_CAST.get(to or "", "")


def has_no_text(kind: exp.DataType | None) -> bool:
    """Return whether Spark cannot use values of a type as texts, for example in LIKE."""
    return not _families((kind,)).isdisjoint("@%&")


def letter_of_key(key: str | None) -> str | None:
    if key is None:
        return None
    return "e" if key.startswith("DECIMAL<") else _BY_KEY.get(key)


def encode_argument_types(letters: Sequence[str | None], types: Sequence[object]) -> str | None:
    """Return the `letters` argument of `find_result`, or None if a type is unknown.

    A DECIMAL, ARRAY, MAP or STRUCT (`CLASSES`) with the type of the first argument of this kind
    gets `=`: two equal DECIMAL types give `e=`, two different ones `ee`.

    Args:
        letters: The letter of each argument's type; None if unknown.
        types: The type of each argument, to compare by `==`.
    """
    first: dict[str, object] = {}
    made: list[str] = []
    for letter, kind in zip(letters, types, strict=True):
        if letter is None:
            return None
        if letter in CLASSES and letter in first and first[letter] == kind:
            letter = SAME
        first.setdefault(letter, kind)
        made.append(letter)
    return "".join(made)


@lru_cache(maxsize=8192)
def find_result(
    name: str, letters: str | None, count: int | None = None, unit: str | None = None
) -> str | None:
    """Look up the result type of a function call, or None if no line of the table matches.

    Args:
        name: The function's canonical name (`spark_functions.ALIASES`).
        letters: The result of `encode_argument_types` for the arguments without the unit.
        count: The number of arguments, including the unit; required if the letters are unknown.
        unit: The canonical unit, such as `hour`, if the first argument is a unit.
    """
    if count is None:
        count = len(letters or "") + (unit is not None)
    rows = [row for row in find_rows(name) if row.allows(count)]
    for row in rows:
        if row.is_free:
            return row.result
    if letters is None:
        return None
    ways = [list(letters)] if unit is None else [[unit, *letters], ["t", *letters]]
    return next((row.result for way in ways for row in rows if row.covers(way)), None)


@lru_cache(maxsize=8192)
def is_refused_call(name: str, letters: str) -> bool:
    """Return whether Spark certainly refuses a call because of the types of its arguments.

    `name` is canonical; `letters` has `ANY` for an unknown type.

    >>> is_refused_call("sum", "o"), is_refused_call("sum", "?"), is_refused_call("sum", "i")
    (True, False, False)
    """
    return any(row.allows(len(letters)) and row.covers(letters) for row in _refusals(name))


class SignatureRow(NamedTuple):
    """A line of the function table: a pattern of argument types, and the result type."""

    places: tuple[frozenset[str], ...]
    many: bool
    result: str

    @property
    def is_free(self) -> bool:
        return all(ANY in place for place in self.places)

    def allows(self, count: int) -> bool:
        return count == len(self.places) or (self.many and count > len(self.places) > 0)

    def covers(self, given: Sequence[str]) -> bool:
        places = [*self.places, *self.places[-1:] * (len(given) - len(self.places))]
        return all(
            ANY in place or letter in place for letter, place in zip(given, places, strict=True)
        )


@lru_cache(maxsize=1024)
def find_rows(name: str) -> tuple[SignatureRow, ...]:
    rows: list[SignatureRow] = []
    for line in lines_by_key(TABLE).get(name, ()):
        _, result, patterns = line.split("\t")
        rows += [read_pattern(pattern, result) for pattern in patterns.split(" ")]
    return tuple(rows)


@lru_cache(maxsize=1024)
def _refusals(name: str) -> tuple[SignatureRow, ...]:
    return tuple(
        read_pattern(pattern, "")
        for line in lines_by_key(REFUSALS).get(name, ())
        for pattern in line.split("\t")[1].split(" ")
    )


def read_pattern(pattern: str, result: str) -> SignatureRow:
    """Parse the arguments of one line of the function table.

    >>> read_pattern("{day,hour}[az]*", "DATE").covers(["day", "z"])
    True
    """
    many = pattern.endswith(MANY)
    text = pattern[:-1] if many else pattern
    text = "" if text == "()" else text
    places: list[frozenset[str]] = []
    at = 0
    while at < len(text):
        end = text.find({"[": "]", "{": "}"}.get(text[at], text[at]), at)
        inner = text[at + 1 : end]
        places.append(
            frozenset(
                inner.split(",") if text[at] == "{" else inner if text[at] == "[" else text[at]
            )
        )
        at = end + 1
    return SignatureRow(tuple(places), many, result)
