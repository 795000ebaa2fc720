"""Values of properties in headers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import pairwise

from vde_dagster.base.cron import normalise_cron
from vde_dagster.base.names import quote
from vde_dagster.base.texts import suggest
from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.sql.scanner import (
    CLOSING,
    OPENING,
    SourceText,
    Token,
    join_text,
    split_top_level,
    unquote,
)

_CONDITIONS = ("when_matched", "merge_filter")
"""Properties whose values are conditions, which may name any column."""
_AFTER_COLUMNS = ("=", ".", ":=")


@dataclass(frozen=True, slots=True)
class Value:
    """The value of a property in a header, kept as tokens until a method reads it.

    Args:
        tokens: Tokens without comments.
        start: Offset of the property's name.
        dialect: SQLGlot dialect of SQL in the value.
        trusted: Functions of the dialect that are assumed to be equal on Spark.
    """

    source: SourceText
    name: str
    tokens: tuple[Token, ...]
    start: int
    dialect: str = "spark"
    trusted: frozenset[str] = frozenset()

    @property
    def offset(self) -> int:
        """Offset of the value in the file, or of the property's name if the value is empty."""
        return self.tokens[0].start if self.tokens else self.start

    @property
    def raw(self) -> str:
        """Text of the value in one line."""
        return join_text(list(self.tokens))

    def error(self, message: str, hint: str | None = None) -> ProjectError:
        """Create an error at the place of the value."""
        if self.name not in f"{message} {hint or ''}":
            message = f"property '{self.name}': {message}"
        return self.source.error(message, self.offset, hint)

    def location(self) -> SourceLocation:
        return self.source.location(self.offset)

    def text(self) -> str:
        """Read a single name, number or string as text."""
        return unquote(self.tokens[0]) if len(self.tokens) == 1 else self.single_word()

    def single_word(self) -> str:
        """Read a value without whitespace, such as `schema.name`, as written."""
        if not self.tokens:
            raise self.error(f"property '{self.name}' has no value", f"write {self.name} <value>")
        if self.tokens[0].text in ("(", "["):
            raise self.error(
                f"property '{self.name}' takes one value, not '{self.raw}'",
                f"write {self.name} <value>, without brackets",
            )
        for before, after in pairwise(self.tokens):
            if after.start > before.end:
                raise self.source.error(
                    f"property '{self.name}' takes one value, not '{self.raw}'",
                    after.start,
                    f"is a comma missing before '{after.text}'?",
                )
        return self.raw

    def require_comma(self, names: Collection[str]) -> None:
        """Raise a ProjectError if a comma before a property in `names` is missing."""
        if self.name in _CONDITIONS:
            return
        depth, ends = 0, (*self.tokens[2:], None)
        for before, token, after in zip(self.tokens, self.tokens[1:], ends, strict=False):
            depth += (before.text in OPENING) - (before.text in CLOSING)
            is_name = depth == 0 and token.kind == "word" and token.text.lower() in names
            follows = before.kind != "punct" or before.text in CLOSING
            if is_name and follows and after is not None and after.text not in _AFTER_COLUMNS:
                raise self.missing_comma(token, before)

    def missing_comma(self, token: Token, before: Token) -> ProjectError:
        line = self.source.text[: before.end]
        end = before.text if before.kind == "string" else f"'{line.split()[-1]}'"
        name = token.text if token.kind == "string" else f"'{token.text}'"
        hint = f"write a comma after {end}"
        return self.source.error(f"a comma is missing before {name}", token.start, hint)

    def sql_dialect(self) -> str:
        """Read the name of a SQL dialect, such as `duckdb`."""
        return self.text().partition(",")[0].strip().lower()

    def supported_dialect(self) -> str:
        """Read the name of a SQL dialect, and check that SQLGlot has it."""
        dialect = self.sql_dialect()
        if dialect == "spark":
            return dialect
        from sqlglot.dialects import DIALECTS

        known = [name.lower() for name in DIALECTS]
        if dialect not in known:
            hint = suggest(dialect, known, "dialects")
            raise self.error(f"unknown SQL dialect '{dialect}'", hint)
        return dialect

    def identifier(self) -> str:
        """Read a dotted name, whose parts may be strings: `'my schema'.name`."""
        if len(self.tokens) == 1 and self.tokens[0].text[0] == "'":
            text = unquote(self.tokens[0])
            if not text.strip():
                raise self.error(f"property '{self.name}' is empty", "write a name")
            return text
        written = self.single_word()
        if all(token.text[0] != "'" for token in self.tokens):
            return written
        parts = (quote(unquote(t)) if t.text[0] == "'" else t.text for t in self.tokens)
        return "".join(parts)

    def integer(self, least: int = 0) -> int:
        """Read a whole number from `least` to the maximum of Spark's INT."""
        text = self.raw.strip("'\"")
        hint = f"write {self.name} {max(least, 1)}"
        if not (text.isascii() and text.isdigit()):
            raise self.error(f"property '{self.name}' takes a whole number, not '{text}'", hint)
        if len(text) > 10 or not least <= int(text) < 1 << 31:
            bound = f"{least} or more" if int(text[:10]) < least else "less than 2147483648"
            raise self.error(f"property '{self.name}' must be {bound}", hint)
        return int(text)

    def boolean(self) -> bool:
        """Read `true`, `false`, or a condition of constants such as `(1 = 0)`."""
        tokens = list(self.tokens)
        if tokens and tokens[0].text == ":":
            del tokens[0]
        text = self.part(tokens).raw.strip("'\"")
        if len(tokens) > 1:  # A condition that macros have expanded.
            text = _evaluate_condition(text, self.dialect)
        text = text.lower()
        if text not in ("true", "false"):
            message = f"property '{self.name}' must be true or false, not '{text}'"
            raise self.error(message, f"write {self.name} true, or remove it")
        return text == "true"

    def cron(self) -> str:
        """Read a cron expression, and return its five fields."""
        try:
            return normalise_cron(self.raw.strip("'\""))
        except ValueError as error:
            hint = "write '@daily' or five fields such as '0 5 * * *'"
            raise self.error(f"{error}", hint) from None

    def items(self, *, angles: bool = False) -> list[Value]:
        """Split a list, in brackets or not, at commas; with `angles`, not at commas in `<…>`."""
        return [self.part(part) for part in split_top_level(self.inner(), angles=angles)]

    def texts(self) -> tuple[str, ...]:
        """Read a list of names or strings."""
        return tuple(item.text() for item in self.items())

    def raws(self) -> tuple[str, ...]:
        """Read a list of SQL expressions as texts."""
        return tuple(item.raw for item in self.items())

    def pairs(self, separator: str = "=") -> list[tuple[str, Value]]:
        """Read `(key = value, …)` as pairs."""
        pairs: list[tuple[str, Value]] = []
        for item in self.items():
            sides = split_top_level(list(item.tokens), separator)
            if len(sides) > 2 and len(sides[1]) > 1:
                raise self.missing_comma(sides[1][-1], sides[1][-2])
            if len(sides) != 2:
                raise item.error(
                    f"'{item.raw}' in '{self.name}' does not have the form key {separator} value",
                    f"write {self.name} (key {separator} value, …)",
                )
            key = "".join(unquote(token) for token in sides[0])
            pairs.append((key, self.part(sides[1], key)))
        return pairs

    def properties(self, after: int) -> dict[str, Value]:
        """Read properties `(name value, …)` that follow the first `after` tokens of the value."""
        rest = list(self.tokens[after:])
        if not rest:
            return {}
        if not self._are_in_brackets(rest, "("):
            behind = rest[self.source.closing(rest, 0) + 1 :] if rest[0].text == "(" else rest
            raise self.source.error(
                f"'{join_text(behind)}' is not expected here",
                behind[0].start,
                f"write {self.name} {self.tokens[0].text} (property value, …)",
            )
        read = read_properties(self.source, rest[1:-1])
        return {
            key: replace(value, dialect=self.dialect, trusted=self.trusted)
            for key, value in read.items()
        }

    def call(self) -> tuple[str, list[Value]]:
        """Read `name` or `name(argument, …)` as the name and its arguments."""
        if not self.tokens or self.tokens[0].kind not in ("word", "quoted"):
            message = f"'{self.raw}' in '{self.name}' is not a name or a call"
            raise self.error(message, f"write {self.name} (name, name(argument := value))")
        name, rest = unquote(self.tokens[0]), list(self.tokens[1:])
        if not rest:
            return name, []
        if not self._are_in_brackets(rest, "("):
            end = self.source.closing(rest, 0) + 1 if rest[0].text == "(" else 0
            if rest[end].kind in ("word", "quoted"):
                raise self.missing_comma(rest[end], (self.tokens[0], *rest)[end])
            message = f"'{self.raw}' in '{self.name}' is not a call"
            raise self.error(message, f"write {self.name} (name(argument := value))")
        return name, [self.part(part) for part in split_top_level(rest[1:-1])]

    def split(self, separator: str) -> list[Value]:
        """Split the value at a separator outside brackets."""
        return [self.part(part) for part in split_top_level(list(self.tokens), separator)]

    def inner(self) -> list[Token]:
        """Return the value's tokens without the brackets around them."""
        tokens = list(self.tokens)
        if not tokens:
            raise self.error(f"property '{self.name}' has no value", f"write {self.name} (…)")
        is_array = tokens[0].is_word("ARRAY") and self._are_in_brackets(tokens[1:], "([")
        if is_array and len(tokens) > 2:
            tokens = tokens[1:]
        return tokens[1:-1] if self._are_in_brackets(tokens, "([") else tokens

    def _are_in_brackets(self, tokens: list[Token], opening: str) -> bool:
        return (
            bool(tokens)
            and tokens[0].text in opening
            and self.source.closing(tokens, 0) == len(tokens) - 1
        )

    def part(self, tokens: list[Token], name: str | None = None) -> Value:
        """Return a value for some of the tokens."""
        start = tokens[0].start if tokens else self.offset
        return replace(self, name=name or self.name, tokens=tuple(tokens), start=start)


def read_properties(
    source: SourceText, tokens: list[Token], *, last_counts: bool = False
) -> dict[str, Value]:
    """Read `name value, …`; with `last_counts`, the last value of a repeated name counts."""
    properties: dict[str, Value] = {}
    key = ""
    for part in split_top_level(tokens):
        if not part:
            raise source.error("there is no property before a comma", tokens[0].start, "remove it")
        name = part[0]
        if key == "when_matched" and (
            name.is_word("WHEN") or (len(part) > 1 and part[1].text in (".", "="))
        ):
            # MERGE clauses may have no brackets, and contain commas.
            comma = Token("punct", ",", source.text.rfind(",", 0, name.start))
            properties[key] = properties[key].part([*properties[key].tokens, comma, *part])
            continue
        if name.kind not in ("word", "quoted"):
            raise source.error(
                f"'{name.text}' is not the name of a property",
                name.start,
                "write property value, property value, …",
            )
        key = unquote(name).lower()
        if key in properties and not last_counts:
            raise source.error(f"property '{key}' is given twice", name.start, "remove one of them")
        properties[key] = Value(source, key, tuple(part[1:]), name.start)
    return properties


def _evaluate_condition(text: str, dialect: str) -> str:
    from sqlglot.errors import SqlglotError

    from vde_dagster.project.macros.conditions import NotConstantError, evaluate_constant
    from vde_dagster.sql.reading import parse_plain

    try:
        value = evaluate_constant(parse_plain(text, dialect))
    except (SqlglotError, NotConstantError):
        return text
    return str(value).lower()
