"""Parser of conditions on rows, which come as text from a request or from an access token."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from vde_dagster.errors import UsageError

_LONGEST = 2_000
_MOST_BRACKETS = 100

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<bytes>[xX]'(?:[^']*)')
    | (?P<text>'(?:[^']|'')*')
    | (?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,6})?(?![\w.]))
    | (?P<name>[^\W\d][\w$]*)
    | "(?P<quoted>(?:[^"]|"")+)"
    | (?P<sign><=|>=|<>|!=|==|[=<>(),.])
    )""",
    re.VERBOSE,
)
_SAME = {"==": "=", "<>": "!="}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
_WORDS = frozenset(["and", "or", "not", "is", "in", "null", "true", "false"])

Value = bool | Decimal | str | bytes
"""A literal: TRUE or FALSE, a number, `'text'`, or bytes, `X'00ff'`."""


@dataclass(frozen=True, slots=True)
class Always:
    """The condition TRUE or FALSE."""

    value: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """A condition such as `price >= 7.5` or `address.city = 'Rome'`.

    Args:
        column: The column's name, and the names of nested fields.
        sign: One of = != < <= > >=.
    """

    column: tuple[str, ...]
    sign: str
    value: Value


@dataclass(frozen=True, slots=True)
class Among:
    """A condition such as `country IN ('DE', 'FR')`."""

    column: tuple[str, ...]
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Like:
    r"""A condition with LIKE: % is any text, _ any character, \ escapes the next character."""

    column: tuple[str, ...]
    pattern: str


@dataclass(frozen=True, slots=True)
class Is:
    """A condition `column IS NULL` or `column IS NAN`."""

    column: tuple[str, ...]
    nan: bool = False


@dataclass(frozen=True, slots=True)
class Not:
    part: Condition


@dataclass(frozen=True, slots=True)
class Both:
    """Conditions joined by AND, or by OR if `either` is set."""

    parts: tuple[Condition, ...]
    either: bool = False


Condition = Always | Comparison | Among | Like | Is | Not | Both


def with_columns(condition: Condition, names: Mapping[str, str]) -> Condition:
    """Rename the columns of a condition. `names` maps old lower-case names to new names."""
    if isinstance(condition, Both):
        parts = tuple(with_columns(part, names) for part in condition.parts)
        return replace(condition, parts=parts)
    if isinstance(condition, Not):
        return Not(with_columns(condition.part, names))
    if isinstance(condition, Always):
        return condition
    first, *fields = condition.column
    return replace(condition, column=(names.get(first.lower(), first), *fields))


def parse_filter(text: str) -> Condition:
    """Parse a condition with comparisons, IN, BETWEEN, LIKE, IS NULL, IS NAN, AND, OR and NOT.

    Raises:
        UsageError: The condition is invalid, or too long.
    """
    if len(text) > _LONGEST:
        raise UsageError(
            f"a filter of {len(text)} characters is too long", hint=f"use at most {_LONGEST}"
        )
    return _Parser(text, tuple(_tokens(text))).whole()


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int

    @property
    def word(self) -> str:
        return self.text.lower() if self.kind in ("name", "sign") else ""


def _tokens(text: str) -> Sequence[_Token]:
    found, at = [], 0
    end = len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise _unreadable(text, at + len(text[at:]) - len(text[at:].lstrip()))
        kind = match.lastgroup
        found.append(_Token(kind, match[kind], match.start(kind) - (kind == "quoted")))
        at = match.end()
    return [*found, _Token("end", "", len(text))]


class _Parser:
    def __init__(self, text: str, tokens: Sequence[_Token]) -> None:
        self._text, self._tokens = text, tokens
        self._next = self._depth = 0

    def whole(self) -> Condition:
        found = self._either()
        if self._token.kind != "end":
            raise self._wrong()
        return found

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _either(self) -> Condition:
        parts = [self._all()]
        while self._accept("or"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else Both(tuple(parts), either=True)

    def _all(self) -> Condition:
        parts = [self._factor()]
        while self._accept("and"):
            parts.append(self._factor())
        return parts[0] if len(parts) == 1 else Both(tuple(parts))

    def _factor(self) -> Condition:
        negated = False
        while self._accept("not"):
            negated = not negated
        if self._accept("("):
            self._depth += 1
            if self._depth > _MOST_BRACKETS:
                raise UsageError(
                    f"a filter with more than {_MOST_BRACKETS} levels of brackets is too deep",
                    hint="remove unnecessary brackets",
                )
            found = self._either()
            self._must(")")
            self._depth -= 1
        else:
            found = self._predicate()
        return Not(found) if negated else found

    def _predicate(self) -> Condition:
        if self._is_value:
            value = self._value()
            if isinstance(value, bool) and self._token.word not in _MIRRORED | _SAME:
                return Always(value)
            sign = self._sign()
            return Comparison(self._column(), _MIRRORED[sign], value)
        column = self._column()
        if self._accept("is"):
            negated, nan = self._accept("not"), self._accept("nan")
            if not nan:
                self._must("null")
            return _negated(Is(column, nan), negated)
        negated = self._accept("not")
        if self._accept("in"):
            self._must("(")
            values = [self._value()]
            while self._accept(","):
                values.append(self._value())
            self._must(")")
            return _negated(Among(column, tuple(values)), negated)
        if self._accept("like"):
            if self._token.kind != "text":
                raise self._wrong()
            return _negated(Like(column, str(self._value())), negated)
        if self._accept("between"):
            low = self._value()
            self._must("and")
            bounds = Comparison(column, ">=", low), Comparison(column, "<=", self._value())
            return _negated(Both(bounds), negated)
        if negated:
            raise self._wrong()
        return Comparison(column, self._sign(), self._value())

    def _column(self) -> tuple[str, ...]:
        names = [self._name()]
        while self._accept("."):
            names.append(self._name())
        return tuple(names)

    def _name(self) -> str:
        token = self._token
        if token.kind not in ("name", "quoted") or token.word in _WORDS:
            raise self._wrong()
        self._next += 1
        return token.text.replace('""', '"') if token.kind == "quoted" else token.text

    def _sign(self) -> str:
        sign = self._token.word
        if sign not in _MIRRORED and sign not in _SAME:
            raise self._wrong()
        self._next += 1
        return _SAME.get(sign, sign)

    @property
    def _is_value(self) -> bool:
        token = self._token
        return token.kind in ("bytes", "text", "number") or token.word in ("true", "false")

    def _value(self) -> Value:
        token = self._token
        if not self._is_value:
            raise self._wrong("use IS NULL" if token.word == "null" else None)
        self._next += 1
        if token.kind == "text":
            return token.text[1:-1].replace("''", "'")
        if token.kind == "number":
            return Decimal(token.text)
        if token.kind == "bytes":
            try:
                return bytes.fromhex(token.text[2:-1])
            except ValueError:
                self._next -= 1
                raise self._wrong() from None
        return token.word == "true"

    def _accept(self, word: str) -> bool:
        if self._token.word != word:
            return False
        self._next += 1
        return True

    def _must(self, word: str) -> None:
        if not self._accept(word):
            raise self._wrong()

    def _wrong(self, hint: str | None = None) -> UsageError:
        return _unreadable(self._text, self._token.at, hint)


def _negated(condition: Condition, negated: bool) -> Condition:
    return Not(condition) if negated else condition


def _unreadable(text: str, at: int, hint: str | None = None) -> UsageError:
    rest = text[at : at + 30].strip()
    return UsageError(
        f"the filter '{text}' cannot be read: " + (f"at '{rest}'" if rest else "it ends too early"),
        hint=hint or "write it as: tenant = 7 AND day >= '2026-01-01'",
    )
