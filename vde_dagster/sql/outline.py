"""Finding the clauses of a SELECT in a query's text, and rewriting QUALIFY as a filter.

The author's words stay, and added names begin with an underscore. A query with QUALIFY becomes a
subquery with a filter around it. DISTINCT, ORDER BY and LIMIT apply after the filter, so they move
to the outer query.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from vde_dagster.sql.edits import Edit, apply_edits
from vde_dagster.sql.reading import end_of_with, read_statements
from vde_dagster.sql.trees import plain_dialect

T = TokenType


def with_clause(text: str) -> str | None:
    return text[: end_of_with(plain_dialect("spark").tokenize(text))] or None


SETS = frozenset({T.UNION, T.EXCEPT, T.INTERSECT})
ENDS = SETS | {T.SEMICOLON, T.PIPE_GT}
TAIL = frozenset({T.ORDER_BY, T.SORT_BY, T.CLUSTER_BY, T.DISTRIBUTE_BY, T.LIMIT, T.OFFSET})
NAMES = frozenset({T.VAR, T.IDENTIFIER})
_VALUE_ENDS = NAMES | {T.R_PAREN, T.R_BRACKET, T.STRING, T.NUMBER, T.END, T.NULL, T.TRUE, T.FALSE}


class SelectPieces:
    """Clauses of a SELECT as ranges of tokens.

    Args:
        inside: Index of a token of the SELECT, outside of nested SELECTs.
    """

    def __init__(self, text: str, tokens: list[Token], inside: int) -> None:
        self._text = text
        self._tokens = tokens
        self._begin = self._back_to_select(inside)
        start = self._begin + 1
        while self._kind(start) in (T.HINT, T.DISTINCT, T.ALL):
            start += 1
        self._list = (start, self._until(start, {T.FROM, T.QUALIFY} | ENDS | TAIL))

    def _kind(self, index: int) -> TokenType | None:
        return self._tokens[index].token_type if 0 <= index < len(self._tokens) else None

    def _slice(self, start: int, end: int, edits: Iterable[Edit] = ()) -> str:
        """Apply edits, with offsets in the whole query, to the text of a range of tokens."""
        if start >= end:
            return ""
        first, last = self._tokens[start].start, self._tokens[end - 1].end + 1
        inside = (Edit(edit.start - first, edit.end - first, edit.text) for edit in edits)
        return apply_edits(self._text[first:last], inside)

    def _back_to_select(self, index: int) -> int:
        depth = 0
        while index:
            index -= 1
            kind = self._kind(index)
            depth += (kind == T.R_PAREN) - (kind == T.L_PAREN)
            if kind == T.SELECT and depth == 0:
                break
        return index

    def _until(self, index: int, kinds: frozenset[TokenType] | set[TokenType]) -> int:
        depth = 0
        while index < len(self._tokens):
            kind = self._kind(index)
            if depth == 0 and (kind in kinds or kind == T.R_PAREN):
                break
            depth += (kind == T.L_PAREN) - (kind == T.R_PAREN)
            index += 1
        return index

    def _items(self, start: int, end: int) -> list[tuple[int, int]]:
        items, depth, begin = [], 0, start
        for index in range(start, end):
            kind = self._kind(index)
            depth += (kind in (T.L_PAREN, T.L_BRACKET)) - (kind in (T.R_PAREN, T.R_BRACKET))
            if kind == T.COMMA and depth == 0:
                items.append((begin, index))
                begin = index + 1
        return [*items, (begin, end)]

    def _name(self, index: int) -> str:
        token = self._tokens[index]
        written = self._text[token.start : token.end + 1]
        return written.strip("`").lower()

    def aliases(self) -> dict[str, str]:
        found = {}
        for start, end in self._items(*self._list):
            if end - start < 2 or self._kind(end - 1) not in NAMES:
                continue
            if self._kind(end - 2) == T.ALIAS:
                found[self._name(end - 1)] = self._slice(start, end - 2)
            elif self._kind(end - 2) in _VALUE_ENDS:
                found[self._name(end - 1)] = self._slice(start, end - 1)
        return found


_CONDITION = "`_qualify`"
_DIRECTIONS = ("ASC", "DESC", "NULLS", "FIRST", "LAST")


def replace_qualify(text: str) -> str:
    """Rewrite every QUALIFY as a filter. Raise ParseError or TokenError for invalid queries."""
    while "qualify" in text.lower():
        tokens, _ = read_statements(text)
        found = [i for i, token in enumerate(tokens) if token.token_type == T.QUALIFY]
        if not found:
            break
        # The last one lies in no later one.
        text = _QualifyRewriter(text, tokens, found[-1]).rewrite()
    return text


class _QualifyRewriter(SelectPieces):
    def __init__(self, text: str, tokens: list[Token], qualify: int) -> None:
        super().__init__(text, tokens, qualify)
        behind = self._until(qualify + 1, ENDS | TAIL | {T.WINDOW})
        self._condition = (qualify + 1, behind)
        windows = self._until(behind, ENDS | TAIL)
        self._windows = (behind, windows)
        self._tail = (windows, self._until(windows, ENDS))
        if self._kind(self._begin - 1) in (*SETS, T.ALL, T.DISTINCT):
            self._tail = (windows, windows)  # What follows sorts the whole set operation.
        self._body = (self._list[1], qualify)

    def rewrite(self) -> str:
        head = range(self._begin + 1, self._list[0])
        distinct = "DISTINCT " if any(self._kind(i) == T.DISTINCT for i in head) else ""
        hints = "".join(self._slice(i, i + 1) + " " for i in head if self._kind(i) == T.HINT)
        hidden = [f"({self._condition_text()}) AS {_CONDITION}"]
        tail, keys = self._tail_text()
        hidden += [f"{key} AS {name}" for name, key in keys]
        select = f"SELECT {hints}{self._slice(*self._list)}, {', '.join(hidden)}"
        pieces = (select, self._slice(*self._body), self._slice(*self._windows))
        inner = " ".join(piece for piece in pieces if piece)
        dropped = ", ".join([_CONDITION, *(name for name, _ in keys)])
        outer = f"SELECT {distinct}* EXCEPT ({dropped}) FROM ({inner}) AS `_t` WHERE {_CONDITION}"
        begin = self._tokens[self._begin].start
        end = self._tokens[self._tail[1] - 1].end + 1
        return f"{self._text[:begin]}{outer}{tail}{self._text[end:]}"

    def _condition_text(self) -> str:
        """Return the condition of QUALIFY, with aliases of the SELECT replaced by expressions."""
        aliases = self.aliases()
        edits = []
        for index in range(*self._condition):
            token = self._tokens[index]
            if token.token_type not in NAMES or self._kind(index - 1) == T.DOT:
                continue
            meant = aliases.get(self._name(index))
            if meant is not None and self._kind(index + 1) not in (T.DOT, T.L_PAREN):
                edits.append(Edit(token.start, token.end + 1, f"({meant})"))
        return self._slice(*self._condition, edits)

    def _tail_text(self) -> tuple[str, list[tuple[str, str]]]:
        """Return the outer query's ORDER BY and LIMIT, and hidden sort keys for its subquery."""
        start, end = self._tail
        if start == end:
            return "", []
        keys: list[tuple[str, str]] = []
        edits = []
        index = start
        while index < end:
            if self._kind(index) not in TAIL - {T.LIMIT, T.OFFSET}:
                index += 1
                continue
            stop = min(self._until(index + 1, TAIL), end)
            for first, last in self._items(index + 1, stop):
                while last - 1 > first and self._tokens[last - 1].text.upper() in _DIRECTIONS:
                    last -= 1
                if self._is_output(first, last):
                    continue
                name = f"`_order{len(keys)}`"
                keys.append((name, self._slice(first, last)))
                begin, behind = self._tokens[first].start, self._tokens[last - 1].end + 1
                edits.append(Edit(begin, behind, name))
            index = stop
        return f" {self._slice(start, end, edits)}", keys

    def _is_output(self, first: int, last: int) -> bool:
        if last - first != 1:
            return False
        if self._kind(first) in (T.NUMBER, T.ALL):
            return True
        outputs = set(self.aliases())
        outputs |= {self._name(b - 1) for a, b in self._items(*self._list) if b > a}
        return self._kind(first) in NAMES and self._name(first) in outputs
