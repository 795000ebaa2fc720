"""Expansion of macros in SQL text, with the origin of every piece.

A macro can replace a table, a clause or part of a statement, so expansion happens before parsing;
an expression that a macro returns is put in brackets if precedence requires it. Time variables and
`@this_model` become placeholders (`sql.trees.placeholder`).

Spark's own parameters are refused: `${x}` would come from Spark's configuration, which is not part
of versions, and `:x` and `?` have no value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from vde_dagster.base.texts import closest, count, did_you_mean
from vde_dagster.errors import ProjectError, Unknown, UsageError
from vde_dagster.project.macros import conditions
from vde_dagster.project.macros.scope import MacroScope, UserMacro
from vde_dagster.project.macros.templates import template
from vde_dagster.project.macros.variables import KIND_NAME, TIME_VARIABLES, bare, with_values
from vde_dagster.sql.edits import NOTHING, Expanded
from vde_dagster.sql.expressions import add_brackets
from vde_dagster.sql.scanner import (
    CLOSING,
    NESTED,
    NESTED_HINT,
    OPENING,
    SourceText,
    Token,
    find_at_sign,
    find_too_deep,
    scan,
    split_top_level,
    unquote,
)
from vde_dagster.sql.templates import JINJA, JINJA_HINT, find_jinja
from vde_dagster.sql.trees import placeholder

_PARAMETERS = TIME_VARIABLES | {"this_model"}
_MAX_DEPTH = 50
_MOST_TEXT = 500_000
"""Maximum length of a macro's result, enough for several thousand columns."""
_MOST_MADE = 4_000_000
"""Maximum total length of the texts that the macros of one `Expander` create."""
_UNITS_PER_CALL = 100
"""Characters added to the total for each text, so that many short texts also reach the limit."""
_NO_MACRO = "define it in a Python file of macros/, under @macro()"
_NO_NAME = ("there is no name after '@'", "write @name or @macro(…)")


class Expander:
    """Expands macros and variables in one file's text; the `MacroContext` of its macros."""

    def __init__(self, source: SourceText, scope: MacroScope) -> None:
        self.source = source
        self.scope = scope
        self._depth = 0
        self.is_condition = False
        self.is_not_for_loading = False
        self._call_offset = 0
        self._total_length = 0

    def expand(self, start: int = 0, end: int | None = None, *, whole: bool = False) -> Expanded:
        """Expand the macros in a part of the file, and record where each piece comes from.

        With `whole`, the part is one statement. If the statement is only a macro call, the macro
        may return a list, which becomes several statements.
        """
        end = len(self.source.text) if end is None else end
        expanded = Expanded.build(
            self._expand_pieces(self.source, start, end, top=True, whole=whole)
        )
        if expanded.text.strip() == NOTHING:
            return Expanded("")
        self._check(expanded)
        return expanded

    def statements(self, start: int, end: int) -> list[Expanded]:
        """Expand a statement; a macro call that returns a list gives a statement per item."""
        expanded = self.expand(start, end, whole=True)
        if ";" not in expanded.text:
            return [expanded] if expanded.text.strip() else []
        parts = split_top_level(self.tokens(expanded.text), ";")
        return [expanded.part(part[0].start, part[-1].end) for part in parts if part]

    def _check(self, expanded: Expanded) -> None:
        source = SourceText(self.source.path, expanded.text)
        backslash = self.scope.backslash
        found = find_jinja(source, backslash=backslash)
        if found is not None:
            raise self.source.error(JINJA, expanded.origin(found), JINJA_HINT)
        found = find_too_deep(source, backslash=backslash)
        if found is not None:
            raise self.source.error(NESTED, expanded.origin(found), NESTED_HINT)
        parameter = _find_parameter(source) if self.scope.dialect == "spark" else None
        if parameter is not None:
            found, text = parameter
            message = f"unknown variable '{text}'"
            raise self.source.error(message, expanded.origin(found), _PARAMETER_HINT)

    def expand_text(self, text: str) -> str:
        self._count_length(text)
        if "@" not in text:
            return text
        if self._depth > _MAX_DEPTH:
            raise self.error("macros call each other without end")
        self._depth += 1
        try:
            inner = SourceText(self.source.path, text)
            made = "".join(
                piece[0] for piece in self._expand_pieces(inner, 0, len(text), top=False)
            )
        finally:
            self._depth -= 1
        self._count_length(made)
        return made

    def _count_length(self, text: str) -> None:
        self._total_length += _UNITS_PER_CALL + len(text)
        if len(text) > _MOST_TEXT or self._total_length > _MOST_MADE:
            most = _MOST_TEXT if len(text) > _MOST_TEXT else _MOST_MADE
            raise self.error(
                f"macros create more than {most:,} characters of SQL",
                "use shorter lists, or a Python model that returns the rows",
            )

    def error(
        self, message: str, hint: str | None = None, *, unknown: Unknown | None = None
    ) -> ProjectError:
        return self.source.error(message, self._call_offset, hint, unknown=unknown)

    def tokens(self, text: str) -> list[Token]:
        inner = SourceText(self.source.path, text)
        return Token.split(inner, self.scope.dialect)

    def split_arguments(self, text: str) -> list[str]:
        parts = split_top_level(self.tokens(text))
        return [text[part[0].start : part[-1].end] if part else "" for part in parts]

    def _expand_pieces(
        self, source: SourceText, start: int, end: int, *, top: bool, whole: bool = False
    ) -> list[tuple[str, int]]:
        if "@" not in source.text:
            return [(source.text[start:end], start)]
        backslash = self.scope.backslash
        pieces: list[tuple[str, int]] = []
        mistakes: list[ProjectError] = []
        done = start
        while (at := find_at_sign(source, done, end, backslash=backslash)) is not None:
            tokens = call_tokens(scan(source, at, end, backslash=backslash), before_bracket=2)
            if top:
                self._call_offset = at
            if len(tokens) == 1:
                raise self.error(*_NO_NAME)
            before, behind = source.text[done:at], None
            within = (start, end) if whole else None
            # The `@x` of `k_@x` continues a name.
            glued = before[-1:].isalnum() or before[-1:] == "_"
            try:
                text, used = self._expand_at(source, tokens, within, glued=glued)
                behind = tokens[used - 1].end
                if text is None:
                    text, behind = "", self._end_of_clause(source, tokens, end)
                    before = conditions.SIDES.sub("", before)
            except ProjectError as error:
                if not top:
                    raise
                mistakes.append(error)
                behind = tokens[-1].end if is_call(tokens[1:]) or tokens[1].text == "{" else None
                text, behind = "NULL", behind or tokens[1].end
            pieces += self._expand_identifiers(before, done)
            pieces.append((text, ~self._call_offset))
            done = behind
        if mistakes:
            raise ProjectError.combine(mistakes)
        return pieces + self._expand_identifiers(source.text[done:end], done)

    def _expand_identifiers(self, text: str, offset: int) -> list[tuple[str, int]]:
        if "@" not in text:
            return [(text, offset)]
        pieces: list[tuple[str, int]] = []
        done = 0
        for token in self.tokens(text):
            is_name = token.kind == "quoted" or (
                token.kind == "string" and not token.is_string(self.scope.dialect)
            )
            if "@" not in token.text or not is_name:
                continue
            own = with_values(token.text, self.scope.variables)
            if own != token.text:
                pieces += [
                    (text[done : token.start], offset + done),
                    (own, ~(offset + token.start)),
                ]
                done = token.end
        return [*pieces, (text[done:], offset + done)]

    def _end_of_clause(self, source: SourceText, tokens: list[Token], end: int) -> int:
        behind = tokens[source.closing(tokens, 2)].end
        following = scan(source, behind, end, backslash=self.scope.backslash)
        rest = [token for token in following if token.kind != "comment"]
        return conditions.clause_end(rest, tokens[1].text.lower(), end)

    def _expand_at(
        self,
        source: SourceText,
        tokens: list[Token],
        within: tuple[int, int] | None,
        *,
        glued: bool,
    ) -> tuple[str | None, int]:
        """Expand the macro at the start of `tokens`.

        Returns:
            The expansion (None to remove the clause), and the number of the macro's tokens.
        """
        following = tokens[1]
        if following.start != tokens[0].end:
            raise self.error(*_NO_NAME)
        if following.kind == "string":
            return template(self, unquote(following)), 2
        if following.text == "{":
            closing = source.closing(tokens, 1)
            name = source.text[following.end : tokens[closing].start].strip()
            return self._expand_name(name), closing + 1
        if following.kind != "word":
            raise self.error(f"'@{following.text}' is not a macro", "write @name or @macro(…)")
        name = following.text
        if is_call(tokens[1:]):
            closing = source.closing(tokens, 2)
            arguments = source.text[tokens[2].end : tokens[closing].start]
            if name.lower() in conditions.CLAUSES and name.lower() not in self.scope.macros:
                clause = conditions.CLAUSES[name.lower()] if self.is_true(arguments) else None
                return clause, closing + 1
            whole = within is not None and not (
                source.text[within[0] : tokens[0].start].strip()
                or source.text[tokens[closing].end : within[1]].strip()
            )
            return self._call(name, arguments, whole=whole), closing + 1
        return self._expand_name(name) if glued else self.variable(name), 2

    def is_true(self, condition: str) -> bool:
        before, self.is_condition = self.is_condition, True
        try:
            return self.is_constant_true(self.expand_text(condition))
        finally:
            self.is_condition = before

    def is_constant_true(self, condition: str) -> bool:
        return bool(self.constant(condition, "condition"))

    def constant(self, text: str, what: str = "expression") -> Any:
        from sqlglot.errors import SqlglotError

        from vde_dagster.sql.reading import parse_plain

        if text.strip() in ("", NOTHING):
            return None
        try:
            return conditions.evaluate_constant(parse_plain(text, self.scope.dialect))
        except SqlglotError as error:
            reason = str(error).splitlines()[0]
            raise self.error(f"the {what} '{text}' is invalid: {reason}") from error
        except conditions.NotConstantError:
            raise self.error(
                f"the {what} '{text}' is not a constant",
                "it is evaluated when the project is loaded; use CASE for conditions on data",
            ) from None

    def _expand_name(self, name: str) -> str:
        if name.lower() in _PARAMETERS and name.lower() not in self.scope.variables:
            if name.lower() == "this_model":
                return placeholder(name.lower())
            raise self.error(
                f"@{{{name}}} has no value before the query runs, and cannot be part of a name",
                f"write @{name} for the value",
            )
        return bare(self.variable(name))

    def is_defined(self, name: str) -> bool:
        return name.lower() in self.scope.variables or name.lower() in _PARAMETERS

    def variable(self, name: str) -> str:
        key = name.lower()
        if key in self.scope.variables:
            return self.scope.variables[key]
        if key in _PARAMETERS:
            return placeholder(key)
        from vde_dagster.project.macros.builtins import BUILTINS
        from vde_dagster.project.macros.functions import LISTS

        near = closest(key, {*self.scope.variables, *_PARAMETERS})
        hint = did_you_mean(name, near) if near else f"set {name} under [tool.vde.variables]"
        if key in BUILTINS or key in LISTS or self.macro(key) is not None:
            hint = f"call the macro with parentheses: @{name}()"
        if key == KIND_NAME:
            hint = "use it after the header, in a model whose kind is written as a literal"
        raise self.error(f"unknown variable '@{name}'", hint, unknown=Unknown("variable", name))

    def _call(self, name: str, arguments: str, *, whole: bool) -> str:
        from vde_dagster.project.macros.builtins import BUILTINS, PLUGINS
        from vde_dagster.project.macros.calls import BETWEEN_STATEMENTS, call_user_macro
        from vde_dagster.project.macros.functions import LISTS, call_function

        key = name.lower()
        function = self.scope.functions.get(key)
        if function is not None:
            values = [self.expand_text(value) for value in self.split_arguments(arguments)]
            if len(values) != len(function.names):
                wanted = count(len(function.names), "argument")
                raise self.error(f"@{name} takes {wanted}, not {len(values)}")
            return add_brackets(call_function(function, self, values), self.scope.dialect)
        if self.macro(key) is not None:
            return self.expand_text(call_user_macro(self, name, arguments, statement=whole))
        given = self.split_arguments(arguments)
        if key in LISTS:
            return (BETWEEN_STATEMENTS if whole else ", ").join(LISTS[key](self, given)) or NOTHING
        builtin = BUILTINS.get(key)
        if builtin is None:
            known = {*self.scope.macros, *self.scope.functions}
            known |= {b.upper() for b in (*BUILTINS, *LISTS, *conditions.CLAUSES, *PLUGINS.names())}
            near = closest(name, known)
            hint = did_you_mean(name, near) if near else _NO_MACRO
            raise self.error(f"unknown macro '@{name}'", hint, unknown=Unknown("macro", name))
        return builtin(self, given)

    def macro(self, name: str) -> UserMacro | None:
        from vde_dagster.project.macros.builtins import BUILTINS, PLUGINS
        from vde_dagster.project.macros.functions import LISTS

        key = name.lower()
        own = self.scope.macros.get(key)
        if own is not None or key in BUILTINS or key in LISTS or key in conditions.CLAUSES:
            return own
        try:
            return PLUGINS.find(key)
        except UsageError as problem:
            raise self.error(problem.message, problem.hint) from problem

    @contextmanager
    def bound(self, values: Mapping[str, str]) -> Iterator[None]:
        before = self.scope.variables
        self.scope.variables = {**before, **values}
        try:
            yield
        finally:
            self.scope.variables = before


def is_call(tokens: list[Token]) -> bool:
    """Return whether an opening bracket follows the first token directly."""
    return len(tokens) > 1 and tokens[1].text == "(" and tokens[1].start == tokens[0].end


def call_tokens(tokens: Iterable[Token], *, before_bracket: int) -> list[Token]:
    """Return the tokens of a call without comments, up to its closing bracket.

    `before_bracket` is the number of tokens before the opening bracket: 2 for `@name(…)`. If no
    bracket follows them, the token after them is the last one.
    """
    taken: list[Token] = []
    depth = 0
    for token in tokens:
        if token.kind == "comment":
            continue
        taken.append(token)
        depth += (token.text in OPENING) - (token.text in CLOSING)
        if len(taken) > before_bracket and depth <= 0:
            break
    return taken


_PARAMETER_HINT = "write @name, and define it under [tool.vde] variables in pyproject.toml"

_MAYBE = re.compile(r"\$\{|(?<!:):[A-Za-z_]|\?")


def _find_parameter(source: SourceText) -> tuple[int, str] | None:
    """Return offset and text of the first Spark parameter, or None.

    Strings, quoted identifiers, comments and time variables do not count.
    """
    if _MAYBE.search(source.text) is None:
        return None
    tokens = Token.split(source)
    for index, token in enumerate(tokens):
        if token.kind != "punct":
            continue
        if token.text == "?":
            return token.start, "?"
        following = tokens[index + 1 : index + 4]
        if token.text == ":" and following and following[0].kind == "word":
            # Right after a value it is a path into that value: `document:field`.
            before = source.text[token.start - 1 : token.start]
            is_path = before.isalnum() or (before != "" and before in "_`)]'\"")
            if following[0].start == token.end and not is_path:
                return token.start, f":{following[0].text}"
        if token.text == "$" and len(following) == 3 and following[0].text == "{":
            name = following[1].text
            if following[2].text == "}" and name.lower() not in TIME_VARIABLES:
                return token.start, f"${{{name}}}"
    return None
