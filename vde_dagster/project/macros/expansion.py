"""Expanding macros in SQL text, keeping track of where every piece came from.

Expansion works on text, before any SQL parser, so that a macro may stand for a table, a clause or
half a statement. What a macro returns as an expression is put in brackets where precedence asks
for it. Time variables and `@this_model` become placeholders (see `sql.placeholder`).
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vde_dagster.base.suggestions import closest, suggest
from vde_dagster.errors import ProjectError, Unknown
from vde_dagster.project.macros.parameters import PARAMETER_HINT, find_parameter
from vde_dagster.project.macros.time_variables import TIME_VARIABLES
from vde_dagster.sql.jinja import JINJA, JINJA_HINT, find_jinja
from vde_dagster.sql.nesting import NESTED, NESTED_HINT, too_deep
from vde_dagster.sql.scanner import (
    BACKSLASH_DIALECTS,
    CLOSING,
    OPENING,
    SourceText,
    Token,
    matching,
    next_at,
    scan,
    split_top_level,
    unquote,
)
from vde_dagster.sql.trees import placeholder

_PARAMETERS = TIME_VARIABLES | {"this_model"}
_MAX_DEPTH = 50
_ALONE = ("'@' stands alone", "write @name or @macro(…)")

UserMacro = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Expanded:
    """Text without macros.

    Args:
        text: The text.
        starts: Offsets in `text` where a piece begins, ascending.
        origins: Per piece, the offset in the file, and whether offsets inside it run along.
    """

    text: str
    starts: tuple[int, ...]
    origins: tuple[tuple[int, bool], ...]

    def origin(self, offset: int) -> int:
        """Return the offset in the file that a character of the text came from."""
        if not self.starts:
            return 0
        index = max(bisect.bisect_right(self.starts, offset) - 1, 0)
        base, verbatim = self.origins[index]
        return base + (offset - self.starts[index]) if verbatim else base

    def was_replaced(self, offset: int) -> bool:
        """Say whether a character of the text came from a macro."""
        index = max(bisect.bisect_right(self.starts, offset) - 1, 0)
        return bool(self.starts) and not self.origins[index][1]


@dataclass(slots=True)
class MacroScope:
    """What a query's macros and variables mean.

    Args:
        macros: User macros by name in lower case.
        variables: SQL text by variable name in lower case (`@name`).
        dialect: SQLGlot dialect of the text.
        lambdas: Macros that `@DEF(f, x -> …)` has made: parameters and body text.
        settings: Values that `evaluator.var('name')` returns.
    """

    macros: Mapping[str, UserMacro]
    variables: dict[str, str]
    dialect: str = "spark"
    lambdas: dict[str, tuple[list[str], str]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


class Expander:
    """Expands the macros of one file.

    Args:
        source: The file.
        scope: Macros and variables; `@DEF` adds to it.
    """

    def __init__(self, source: SourceText, scope: MacroScope) -> None:
        self.source = source
        self.scope = scope
        self._depth = 0
        self._call_offset = 0

    def expand(self, start: int, end: int) -> Expanded:
        """Expand a part of the file.

        Raises:
            ProjectError: A macro is unknown or fails; points at the call.
        """
        pieces = self._pieces(self.source, start, end, top=True)
        starts: list[int] = []
        origins: list[tuple[int, bool]] = []
        position = 0
        for text, origin, verbatim in pieces:
            starts.append(position)
            origins.append((origin, verbatim))
            position += len(text)
        expanded = Expanded("".join(p[0] for p in pieces), tuple(starts), tuple(origins))
        self._check(expanded)
        return expanded

    def _check(self, expanded: Expanded) -> None:
        """Refuse what no parser should see, be it in the file or returned by a macro."""
        source = SourceText(self.source.path, expanded.text)
        backslash = self.scope.dialect in BACKSLASH_DIALECTS
        found = find_jinja(source, backslash=backslash)
        if found is not None:
            raise self.source.error(JINJA, expanded.origin(found), JINJA_HINT)
        found = too_deep(source, backslash=backslash)
        if found is not None:
            raise self.source.error(NESTED, expanded.origin(found), NESTED_HINT)
        parameter = find_parameter(source) if self.scope.dialect == "spark" else None
        if parameter is not None:
            found, text = parameter
            message = f"unknown variable '{text}'"
            raise self.source.error(message, expanded.origin(found), PARAMETER_HINT)

    def expand_text(self, text: str) -> str:
        """Expand the macros of a macro's argument or result."""
        if "@" not in text:
            return text
        if self._depth > _MAX_DEPTH:
            raise self.error("macros call each other without end")
        self._depth += 1
        try:
            inner = SourceText(self.source.path, text)
            return "".join(piece[0] for piece in self._pieces(inner, 0, len(text), top=False))
        finally:
            self._depth -= 1

    def error(
        self, message: str, hint: str | None = None, *, unknown: Unknown | None = None
    ) -> ProjectError:
        """Make an error that points at the macro call being expanded."""
        return self.source.error(message, self._call_offset, hint, unknown=unknown)

    def tokens(self, text: str) -> tuple[SourceText, list[Token]]:
        """Scan a text of this file's dialect, without comments."""
        inner = SourceText(self.source.path, text)
        backslash = self.scope.dialect in BACKSLASH_DIALECTS
        return inner, [t for t in scan(inner, backslash=backslash) if t.kind != "comment"]

    def split_arguments(self, text: str) -> list[str]:
        """Split a call's arguments at top-level commas."""
        inner, tokens = self.tokens(text)
        return [
            inner.text[part[0].start : part[-1].end] if part else ""
            for part in split_top_level(tokens)
        ]

    def _pieces(
        self, source: SourceText, start: int, end: int, *, top: bool
    ) -> list[tuple[str, int, bool]]:
        if "@" not in source.text:
            return [(source.text[start:end], start if top else self._call_offset, top)]
        backslash = self.scope.dialect in BACKSLASH_DIALECTS
        pieces: list[tuple[str, int, bool]] = []
        mistakes: list[ProjectError] = []
        done = start
        while (at := next_at(source, done, end, backslash=backslash)) is not None:
            tokens = _call_tokens(scan(source, at, end, backslash=backslash))
            if top:
                self._call_offset = at
            if len(tokens) == 1:
                raise self.error(*_ALONE)
            try:
                text, used = self._replace(source, tokens)
            except ProjectError as error:
                if not top:
                    raise
                mistakes.append(error)
                text, used = "NULL", _length(tokens)
            pieces.append((source.text[done:at], done if top else self._call_offset, top))
            pieces.append((text, self._call_offset, False))
            done = tokens[used - 1].end
        if mistakes:
            raise ProjectError.of(mistakes)
        pieces.append((source.text[done:end], done if top else self._call_offset, top))
        return pieces

    def _replace(self, source: SourceText, tokens: list[Token]) -> tuple[str, int]:
        """Return what the macro at the first token stands for, and how many tokens it takes."""
        following = tokens[1]
        if following.start != tokens[0].end:
            raise self.error(*_ALONE)
        if following.kind == "string":
            return "'" + self._template(unquote(following)).replace("'", "''") + "'", 2
        if following.text == "{":
            closing = matching(source, tokens, 1)
            name = source.text[following.end : tokens[closing].start].strip()
            return self._bare(self._variable(name)), closing + 1
        if following.kind != "word":
            raise self.error(f"'@{following.text}' is not a macro", "write @name or @macro(…)")
        name = following.text
        if len(tokens) > 2 and tokens[2].text == "(" and tokens[2].start == following.end:
            closing = matching(source, tokens, 2)
            arguments = source.text[tokens[2].end : tokens[closing].start]
            return self._call(name, arguments), closing + 1
        return self._variable(name), 2

    def _variable(self, name: str) -> str:
        key = name.lower()
        if key in self.scope.variables:
            return self.scope.variables[key]
        if key in _PARAMETERS:
            return placeholder(key)
        from vde_dagster.project.macros.builtins import BUILTINS

        near = closest(key, {*self.scope.variables, *_PARAMETERS})
        hint = f"did you mean '{near}'?" if near else f"set {name} under [tool.vde.variables]"
        if key in self.scope.macros or key in BUILTINS:
            hint = f"call the macro with parentheses: @{name}()"
        raise self.error(f"unknown variable '@{name}'", hint, unknown=Unknown("variable", name))

    def _call(self, name: str, arguments: str) -> str:
        from vde_dagster.project.macros.builtins import BUILTINS
        from vde_dagster.project.macros.calls import call_user_macro

        key = name.lower()
        if key in self.scope.lambdas:
            return self._call_lambda(name, *self.scope.lambdas[key], arguments)
        if key in self.scope.macros:
            return self.expand_text(call_user_macro(self, name, arguments))
        builtin = BUILTINS.get(key)
        if builtin is None:
            known = {*self.scope.macros, *self.scope.lambdas, *(b.upper() for b in BUILTINS)}
            hint = suggest(name, known, "macros")
            raise self.error(f"unknown macro '@{name}'", hint, unknown=Unknown("macro", name))
        return builtin(self, self.split_arguments(arguments))

    def _call_lambda(self, name: str, names: list[str], body: str, arguments: str) -> str:
        values = [self.expand_text(value) for value in self.split_arguments(arguments)]
        if len(values) != len(names):
            raise self.error(f"@{name} takes {len(names)} arguments, not {len(values)}")
        return self.expand_text(self.bind(body, dict(zip(names, values, strict=True))))

    def bind(self, body: str, values: Mapping[str, str]) -> str:
        """Replace a lambda's parameters in its body: `@x`, `@{x}` and the bare name `x`."""
        lowered = {name.lower(): value for name, value in values.items()}
        inner, tokens = self.tokens(body)
        pieces: list[str] = []
        done = 0
        for index, token in enumerate(tokens):
            before = tokens[index - 1] if index else None
            after = tokens[index + 1] if index + 1 < len(tokens) else None
            if token.kind == "string" and before is not None and before.text == "@":
                text = token.text
                for name, own in lowered.items():
                    text = text.replace(f"@{{{name}}}", self._bare(own))
                pieces += [inner.text[done : token.start], text]
                done = token.end
                continue
            value = lowered.get(token.text.lower()) if token.kind == "word" else None
            if value is None:
                continue
            start, end = token.start, token.end
            if before is not None and before.text == "{" and index > 1:
                value, start, end = self._bare(value), tokens[index - 2].start, token.end + 1
            elif before is not None and before.text == "@":
                start = before.start
            elif (before is not None and (before.text == "." or before.is_word("AS"))) or (
                after is not None and after.text in ("(", ".")
            ):
                continue
            pieces += [inner.text[done:start], value]
            done = end
        return "".join([*pieces, inner.text[done:]])

    def _bare(self, text: str) -> str:
        """Return a value without the quotes around it, to be glued to other text."""
        text = text.strip()
        if len(text) >= 2 and text[0] == text[-1] and text[0] in "'`\"":
            return text[1:-1]
        return text

    def _template(self, text: str) -> str:
        import re

        return re.sub(
            r"@\{(\w+)\}|@(\w+)", lambda m: self._bare(self._variable(m[1] or m[2])), text
        )


def _length(tokens: list[Token]) -> int:
    """Count the tokens of a macro call that cannot be expanded."""
    name = tokens[1]
    called = len(tokens) > 2 and tokens[2].text == "(" and tokens[2].start == name.end
    return len(tokens) if called or name.text == "{" else 2


def _call_tokens(tokens: Iterable[Token]) -> list[Token]:
    """Take what may belong to one macro call: `@`, a name, and all that brackets hold."""
    taken: list[Token] = []
    depth = 0
    for token in tokens:
        if token.kind == "comment":
            continue
        taken.append(token)
        depth += (token.text in OPENING) - (token.text in CLOSING)
        if len(taken) > 2 and depth <= 0:
            break
    return taken
