"""Calls of functions as plain calls of names that SQLGlot's parser does not know."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from vde_dagster.sql.token_kinds import MARK, OPERATORS, STRINGS, retext

T = TokenType
_NO_CALL_BEHIND = frozenset(
    {T.ALIAS, T.WITH, T.RECURSIVE, T.VAR, T.IDENTIFIER, T.R_PAREN, T.DCOLON}
)
"""What stands before a name with brackets that is no call: `AS t(a, b)`, `x::DECIMAL(9, 2)`."""
BEFORE_OPERAND = frozenset(
    {T.L_PAREN, T.COMMA, T.SELECT, T.WHERE, T.ON, T.HAVING, T.QUALIFY, T.WHEN, T.THEN, T.ELSE}
    | {T.AND, T.OR, T.EQ, T.NEQ, T.LT, T.LTE, T.GT, T.GTE, T.GROUP_BY, T.ORDER_BY, T.DISTINCT}
)
"""What no operator stands behind, so that `AND(a, b)` there is a call."""
_QUANTIFIERS = frozenset({"ANY", "SOME", "ALL"})
_OPERATORS = frozenset({"AND", "OR", "LIKE", "ILIKE", "RLIKE", "DIV"})
_QUERIES = frozenset({T.SELECT, T.WITH, T.FROM, T.VALUES, T.TABLE})
_WITH_UNIT = frozenset(
    {"TIMESTAMPADD", "DATEADD", "DATE_ADD", "TIMESTAMPDIFF", "DATEDIFF", "DATE_DIFF"} | {"TIMEDIFF"}
)
"""Functions whose first of three arguments is a unit, written as a word."""
_KEYWORDS = {
    # What stands for a comma in a call's brackets, outside of inner ones.
    "EXTRACT": ("FROM",),
    "TRIM": ("FROM",),
    "SUBSTRING": ("FROM", "FOR"),
    "SUBSTR": ("FROM", "FOR"),
    "OVERLAY": ("PLACING", "FROM", "FOR"),
    "POSITION": ("IN",),
}
_SIDES = frozenset({"BOTH", "LEADING", "TRAILING"})
_KEPT = frozenset({"CAST", "TRY_CAST"})


@lru_cache(maxsize=1)
def known_functions() -> frozenset[str]:
    """Name the functions for which SQLGlot's parser for Spark has a class or a syntax."""
    from sqlglot.parsers.spark import SparkParser

    names = {*SparkParser.FUNCTIONS, *SparkParser.FUNCTION_PARSERS}
    names |= {*SparkParser.NO_PAREN_FUNCTION_PARSERS, "STRUCT", "ARRAY", "MAP", "INTERVAL"}
    return frozenset(names - _KEPT - {"CASE", "VALUES"})


class Calls:
    """The calls of one query.

    Args:
        tokens: Its tokens; names of functions get other texts.

    Attributes:
        changes: What else has to change: by the index of a token that is still to be read.
        doubt: What the tokens cannot tell about the query, if anything.
    """

    def __init__(self, tokens: list[Token]) -> None:
        self.changes: dict[int, Callable[[Token], None]] = {}
        self.doubt: str | None = None
        self._in = tokens
        self._known = known_functions()
        self._closing: dict[int, int] | None = None

    def before_bracket(self, index: int) -> None:
        """Read a token before a bracket: a call's name, a keyword, a table with its columns."""
        token = self._in[index]
        kind, name = token.token_type, token.text.upper()
        if kind == T.GROUPING_SETS or name in ("ROLLUP", "CUBE"):
            before = self._in[index - 1].token_type if index else None
            if kind == T.GROUPING_SETS and before not in (T.GROUP_BY, T.COMMA, T.L_PAREN):
                self.doubt = "GROUP BY … GROUPING SETS without a comma"
            return
        if name in _QUANTIFIERS and self._in[index - 1].token_type in (T.LIKE, T.ILIKE):
            end = self._end_of_bracket(index + 1) + 1
            if end < len(self._in) and self._in[end].token_type in OPERATORS:
                self.doubt = "an operator behind LIKE ANY"
        if name not in self._known or (index and self._is_no_call(index, name)):
            return
        if kind != T.IDENTIFIER:
            token.token_type = T.VAR
        token.text = token.text + MARK
        if name in _KEYWORDS:
            self._plain_arguments(index, token, name)
        elif name in _WITH_UNIT:
            self._unit_argument(index)

    def _is_no_call(self, index: int, name: str) -> bool:
        before = self._in[index - 1]
        kind = before.token_type
        if kind in _NO_CALL_BEHIND and before.text.upper() not in ("OUTER", "VIEW"):
            return True
        behind = self._in[index + 2].token_type if index + 2 < len(self._in) else None
        if name in _QUANTIFIERS:
            return kind in (T.LIKE, T.ILIKE) or behind in _QUERIES
        if name == "EXISTS":
            return behind in _QUERIES
        if name == "REPLACE":
            return kind == T.STAR
        if name in _OPERATORS:
            if kind == T.NOT and index > 1:
                kind = self._in[index - 2].token_type
            return kind not in BEFORE_OPERAND
        if name in ("TRANSFORM", "MAP", "REDUCE") and kind == T.SELECT:
            end = self._end_of_bracket(index + 1) + 1
            return end < len(self._in) and self._in[end].text.upper() == "USING"
        if kind == T.COMMA:
            # A further name of WITH: f (a, b) AS (SELECT …)
            end = self._end_of_bracket(index + 1)
            kinds = [t.token_type for t in self._in[end + 1 : end + 4]]
            return kinds[:2] == [T.ALIAS, T.L_PAREN] and kinds[-1] in _QUERIES
        return False

    def _end_of_bracket(self, opening: int) -> int:
        """Return the index of the bracket that closes another."""
        if self._closing is None:
            self._closing = {}
            stack: list[int] = []
            for index, token in enumerate(self._in):
                if token.token_type == T.L_PAREN:
                    stack.append(index)
                elif token.token_type == T.R_PAREN and stack:
                    self._closing[stack.pop()] = index
        return self._closing.get(opening, len(self._in) - 1)

    def _top_level(self, index: int) -> list[int]:
        """List the tokens between a call's brackets that no inner bracket holds."""
        found = []
        at, end = index + 2, self._end_of_bracket(index + 1)
        while at < end:
            found.append(at)
            if self._in[at].token_type == T.L_PAREN:
                at = self._end_of_bracket(at)
            at += 1
        return found

    def _plain_arguments(self, index: int, token: Token, name: str) -> None:
        """Turn keywords between a call's arguments into commas."""
        inside = self._top_level(index)
        words = _KEYWORDS[name]
        borders = [i for i in inside if self._in[i].text.upper() in words]
        if not borders:
            return
        first = self._in[inside[0]]
        if name == "EXTRACT":
            self.changes[inside[0]] = _as_string
        elif name == "TRIM":
            side = first.text.upper()
            token.text = f"trim {side.lower() if side in _SIDES else 'both'}{MARK}"
            if side in _SIDES:
                self.changes[inside[0]] = _away
                if borders[0] == inside[1]:  # TRIM(BOTH FROM s)
                    self.changes[borders.pop(0)] = _away
        for border in borders:
            self.changes[border] = _as_comma

    def _unit_argument(self, index: int) -> None:
        """Turn the unit of `TIMESTAMPADD(DAY, 1, ts)` into a string."""
        inside = self._top_level(index)
        commas = [i for i in inside if self._in[i].token_type == T.COMMA]
        if len(commas) == 2 and commas[0] == index + 3 and self._in[index + 2].text.isidentifier():
            self.changes[index + 2] = _as_string


def _as_comma(token: Token) -> None:
    retext(token, T.COMMA, ",")


def _as_string(token: Token) -> None:
    if token.token_type not in STRINGS:
        retext(token, T.STRING, token.text.lower())


def _away(token: Token) -> None:
    token.token_type = T.SPACE
