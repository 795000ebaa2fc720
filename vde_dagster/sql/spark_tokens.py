"""From SQLGlot's tokens to tokens by which its parser reads Spark SQL as it was written.

SQLGlot's parser makes one class of several functions, units, formats and literals, so that what
was written can no longer be told. Here every call gets a name that the parser does not know, and
becomes an `exp.Anonymous`; every literal keeps its text, quotes and all; and the syntax that only
some functions have (`EXTRACT(DAY FROM d)`) becomes a plain call. A parser of our own by
inheritance is impossible: compiled classes take no interpreted children.

The rules follow Spark's grammar (`SqlBaseParser.g4` and `SqlBaseLexer.g4` of Spark 4.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from vde_dagster.sql.spark_calls import BEFORE_OPERAND, Calls
from vde_dagster.sql.spark_literals import (
    LITERAL_TYPES,
    interval_literal,
    literal_call,
    prefixed_literal,
    string_run,
)
from vde_dagster.sql.token_kinds import COMPARISONS, GENERIC, PREFIXED, STRINGS, like, retext

T = TokenType
_NOTED = (
    STRINGS
    | PREFIXED
    | GENERIC
    | {*(T.NUMBER, T.INTERVAL, T.GT, T.COLON, T.COLLATE, T.UNKNOWN, T.PLUS)}
)
_NOTED_BEHIND = STRINGS | {T.L_PAREN}
"""Tokens that are looked at, and what tokens in front of them are looked at for."""
_BEFORE_SIGN = COMPARISONS | {
    *(T.STAR, T.SLASH, T.MOD, T.DIV, T.PLUS, T.DASH, T.DPIPE, T.AMP, T.CARET, T.PIPE, T.TILDE),
    *(T.PIPE_SLASH, T.L_BRACKET, T.NOT, T.BETWEEN, T.LIKE, T.PARTITION_BY, T.CASE),
}
"""Behind which, too, a plus is a sign."""


class AsWritten(NamedTuple):
    """Tokens for SQLGlot's parser.

    Args:
        tokens: The tokens; their offsets are those of the text.
        doubt: What they do not tell about the query, if anything: it has to be opaque.
    """

    tokens: list[Token]
    doubt: str | None


def as_written(text: str, tokens: Iterable[Token]) -> AsWritten:
    """Make tokens that keep what was written.

    Args:
        text: The query.
        tokens: What SQLGlot's tokenizer for Spark makes of it; they are changed.
    """
    return _Reader(text, list(tokens)).read()


class _Reader:
    """Reads one query's tokens, once from left to right."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self._text = text
        self._in = tokens
        self._kinds: list[TokenType | None] = [*(token.token_type for token in tokens), None]
        self._out: list[Token] = []
        self._doubt: str | None = None
        self._calls = Calls(tokens)

    def read(self) -> AsWritten:
        tokens, kinds, out, text = self._in, self._kinds, self._out, self._text
        calls, changes = self._calls, self._calls.changes
        index, size = 0, len(tokens)
        while index < size:
            token, kind, following = tokens[index], kinds[index], kinds[index + 1]
            if kind not in _NOTED and following not in _NOTED_BEHIND and not changes:
                out.append(token)
                index += 1
                continue
            if kind in STRINGS:
                index, written = string_run(text, tokens, index)
                retext(token, T.STRING, written)
                out.append(token)
                continue
            change = changes.get(index)
            if change is not None:
                change(token)
                if token.token_type != T.SPACE:
                    out.append(token)
            elif kind == T.NUMBER:
                token.text = text[token.start : token.end + 1]
                out.append(token)
                while index + 1 < size and tokens[index + 1].start <= token.end:
                    index += 1  # A number such as 1L is three tokens in one place.
            elif kind in PREFIXED:
                out += prefixed_literal(text, token)
            elif kind == T.PLUS:
                out.append(self._plus(token, following))
            elif following == T.L_PAREN:
                calls.before_bracket(index)
                out.append(token)
            elif following in STRINGS and token.text.upper() in LITERAL_TYPES:
                index, written = string_run(text, tokens, index + 1)
                out += literal_call(token, token.text.lower(), written)
                continue
            elif kind == T.INTERVAL:
                index, made = interval_literal(text, tokens, index)
                out += made
                continue
            elif kind == T.GT and following == T.GT:
                index = self._shift(index)
                continue
            elif kind == T.COLON:
                index = self._path(index)
                continue
            elif following == T.LT and kind in GENERIC:
                index = self._type(index)
                continue
            else:
                self._other(token, kind)
            index += 1
        return AsWritten(out, self._doubt or calls.doubt)

    def _other(self, token: Token, kind: TokenType | None) -> None:
        if kind == T.COLLATE:
            self._doubt = "COLLATE"
        elif kind == T.UNKNOWN and self._after_is():
            retext(token, T.STRING, "UNKNOWN")
        self._out.append(token)

    def _plus(self, token: Token, following: TokenType | None) -> Token:
        """Give a sign, which SQLGlot drops, that of an operator which Spark has not (`|/`).

        In Spark ``+x`` makes a DOUBLE of texts and of NULL. A number's sign changes nothing.
        """
        before = self._out[-1].token_type if self._out else None
        number = following == T.NUMBER and T.DCOLON not in self._kinds
        signs = before in BEFORE_OPERAND or before in _BEFORE_SIGN
        return like(token, T.PIPE_SLASH, "+") if signs and not number else token

    def _after_is(self) -> bool:
        before = [t.token_type for t in self._out[-2:]]
        return before[-1:] == [T.IS] or before == [T.IS, T.NOT]

    def _type(self, index: int) -> int:
        """Take a type such as `ARRAY<DECIMAL(9, 2)>` as it stands."""
        depth = 0
        for end in range(index, len(self._in)):
            token = self._in[end]
            depth += (token.token_type == T.LT) - (token.token_type == T.GT)
            self._out.append(token)
            if depth == 0 and end > index:
                return end + 1
        return len(self._in)

    def _shift(self, index: int) -> int:
        """Give `>>>`, which SQLGlot does not know, the sign of an operator that Spark has not."""
        run = self._in[index : index + 3]
        if [t.token_type for t in run] == [T.GT] * 3 and run[2].end == run[0].start + 2:
            self._out.append(like(run[0], T.DQMARK, "??"))
            return index + 3
        self._out.append(self._in[index])
        return index + 1

    def _path(self, index: int) -> int:
        """Write `v:a.b[0]` as `v[':a.b[0]']`; no string of the author's begins with a colon."""
        tokens, end = self._in, index + 1
        kinds = [token.token_type for token in self._out[-2:]]
        value = kinds[:1] == [T.DCOLON] or (
            bool(kinds) and kinds[-1] in (T.VAR, T.IDENTIFIER, T.R_PAREN, T.R_BRACKET)
        )
        if not value or end >= len(tokens):
            self._out.append(tokens[index])
            return index + 1
        while end < len(tokens):
            kind = tokens[end].token_type
            if kind == T.L_BRACKET:
                while end < len(tokens) and tokens[end].token_type != T.R_BRACKET:
                    end += 1
                end += 1
            elif kind == T.DOT or tokens[end - 1].token_type in (T.DOT, T.COLON):
                end += 1
            else:
                break
        path = "".join(self._text[token.start : token.end + 1] for token in tokens[index:end])
        self._out += [
            like(tokens[index], T.L_BRACKET, "["),
            like(tokens[index], T.STRING, path),
            like(tokens[index], T.R_BRACKET, "]"),
        ]
        return end
