"""One SELECT of a text, found by its tokens: its list, its pieces and its aliases."""

from __future__ import annotations

from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

T = TokenType
SETS = frozenset({T.UNION, T.EXCEPT, T.INTERSECT})
ENDS = SETS | {T.SEMICOLON, T.PIPE_GT}
TAIL = frozenset({T.ORDER_BY, T.SORT_BY, T.CLUSTER_BY, T.DISTRIBUTE_BY, T.LIMIT, T.OFFSET})
NAMES = frozenset({T.VAR, T.IDENTIFIER})
_VALUE_ENDS = NAMES | {T.R_PAREN, T.R_BRACKET, T.STRING, T.NUMBER, T.END, T.NULL, T.TRUE, T.FALSE}


class SelectPieces:
    """The SELECT that a token belongs to, in pieces.

    Args:
        text: The text.
        tokens: Its tokens.
        inside: Index of a token of the SELECT, in no SELECT inside it.
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

    def _slice(self, start: int, end: int) -> str:
        if start >= end:
            return ""
        return self._text[self._tokens[start].start : self._tokens[end - 1].end + 1]

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
        """Return the next place of some kinds of tokens, or where the query's brackets end."""
        depth = 0
        while index < len(self._tokens):
            kind = self._kind(index)
            if depth == 0 and (kind in kinds or kind == T.R_PAREN):
                break
            depth += (kind == T.L_PAREN) - (kind == T.R_PAREN)
            index += 1
        return index

    def _items(self, start: int, end: int) -> list[tuple[int, int]]:
        """Split at commas outside brackets."""
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
        """Return the expressions of the SELECT list by their aliases."""
        found = {}
        for start, end in self._items(*self._list):
            if end - start < 2 or self._kind(end - 1) not in NAMES:
                continue
            if self._kind(end - 2) == T.ALIAS:
                found[self._name(end - 1)] = self._slice(start, end - 2)
            elif self._kind(end - 2) in _VALUE_ENDS:
                found[self._name(end - 1)] = self._slice(start, end - 1)
        return found
