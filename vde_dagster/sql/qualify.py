"""QUALIFY, which Spark has not, as a filter over a subquery that computes its condition.

The author's words stay; what is added around them has names that begin with an underscore.
DISTINCT, ORDER BY and LIMIT come after the filter, so they move out of the subquery.
"""

from __future__ import annotations

from sqlglot.tokens import Token  # type: ignore[attr-defined]

from vde_dagster.sql.reading import read_statements
from vde_dagster.sql.select_pieces import ENDS, NAMES, SETS, TAIL, SelectPieces, T

_CONDITION = "`_qualify`"


def without_qualify(text: str) -> str:
    """Rewrite every QUALIFY of a query.

    Args:
        text: Spark SQL that may have QUALIFY.

    Raises:
        ParseError, TokenError: The text cannot be read.
    """
    while "qualify" in text.lower():
        tokens, _ = read_statements(text)
        found = [i for i, token in enumerate(tokens) if token.token_type == T.QUALIFY]
        if not found:
            break
        # The last one lies in no later one.
        text = _Select(text, tokens, found[-1]).rewritten()
    return text


class _Select(SelectPieces):
    """The SELECT that a QUALIFY belongs to, in pieces."""

    def __init__(self, text: str, tokens: list[Token], qualify: int) -> None:
        super().__init__(text, tokens, qualify)
        behind = self._until(qualify + 1, ENDS | TAIL | {T.WINDOW})
        self._condition = (qualify + 1, behind)
        windows = self._until(behind, ENDS | TAIL)
        self._windows = (behind, windows)
        self._tail = (windows, self._until(windows, ENDS))
        if self._is_branch():
            self._tail = (windows, windows)  # What follows sorts the whole set operation.
        self._body = (self._list[1], qualify)

    def rewritten(self) -> str:
        head = range(self._begin + 1, self._list[0])
        distinct = "DISTINCT " if any(self._kind(i) == T.DISTINCT for i in head) else ""
        hints = "".join(self._slice(i, i + 1) + " " for i in head if self._kind(i) == T.HINT)
        hidden = [f"({self._condition_text()}) AS {_CONDITION}"]
        tail, keys = self._tail_text()
        hidden += [f"{key} AS {name}" for name, key in keys]
        inner = " ".join(
            piece
            for piece in (
                f"SELECT {hints}{self._slice(*self._list)}, {', '.join(hidden)}",
                self._slice(*self._body),
                self._slice(*self._windows),
            )
            if piece
        )
        dropped = ", ".join([_CONDITION, *(name for name, _ in keys)])
        outer = f"SELECT {distinct}* EXCEPT ({dropped}) FROM ({inner}) AS `_t` WHERE {_CONDITION}"
        begin = self._tokens[self._begin].start
        end = self._tokens[self._tail[1] - 1].end + 1
        return f"{self._text[:begin]}{outer}{tail}{self._text[end:]}"

    def _is_branch(self) -> bool:
        """Say whether a set operation stands before the SELECT, at its level."""
        return self._kind(self._begin - 1) in (*SETS, T.ALL, T.DISTINCT)

    def _condition_text(self) -> str:
        """Return the condition, with expressions in place of the aliases that it names."""
        aliases = self.aliases()
        start, end = self._condition
        done = self._tokens[start].start
        pieces = []
        for index in range(start, end):
            token = self._tokens[index]
            if token.token_type not in NAMES or self._kind(index - 1) == T.DOT:
                continue
            meant = aliases.get(self._name(index))
            if meant is None or self._kind(index + 1) in (T.DOT, T.L_PAREN):
                continue
            pieces += [self._text[done : token.start], f"({meant})"]
            done = token.end + 1
        return "".join([*pieces, self._text[done : self._tokens[end - 1].end + 1]])

    def _tail_text(self) -> tuple[str, list[tuple[str, str]]]:
        """Return ORDER BY and LIMIT for outside, and the sort keys to be computed inside."""
        start, end = self._tail
        if start == end:
            return "", []
        keys: list[tuple[str, str]] = []
        pieces = []
        done = self._tokens[start].start
        index = start
        while index < end:
            if self._kind(index) not in TAIL - {T.LIMIT, T.OFFSET}:
                index += 1
                continue
            stop = min(self._until(index + 1, TAIL), end)
            for first, last in self._items(index + 1, stop):
                last = self._without_direction(first, last)
                if self._is_output(first, last):
                    continue
                name = f"`_order{len(keys)}`"
                keys.append((name, self._slice(first, last)))
                pieces += [self._text[done : self._tokens[first].start], name]
                done = self._tokens[last - 1].end + 1
            index = stop
        pieces.append(self._text[done : self._tokens[end - 1].end + 1])
        return " " + "".join(pieces), keys

    def _without_direction(self, first: int, last: int) -> int:
        words = ("ASC", "DESC", "NULLS", "FIRST", "LAST")
        while last - 1 > first and self._tokens[last - 1].text.upper() in words:
            last -= 1
        return last

    def _is_output(self, first: int, last: int) -> bool:
        """Say whether a sort key is a position, ALL, or the name of an output column."""
        if last - first != 1:
            return False
        if self._kind(first) in (T.NUMBER, T.ALL):
            return True
        outputs = set(self.aliases())
        outputs |= {self._name(b - 1) for a, b in self._items(*self._list) if b > a}
        return self._kind(first) in NAMES and self._name(first) in outputs
