"""A lexer for Spark SQL, from the network of Spark's compiled lexer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from vde_dagster.sql.grammar import compiled

CACHE_SIZE = 2_000
"""Maximum number of cached results. Many models have the same list of tokens."""
_Config = tuple[int, tuple[int, ...], int]
"""A state, the stack of states to return to, and the rule of the token."""
_COMMENT, _HINT, _END_OF_COMMENT = "/*", "/*+", "*/"
_WORD = re.compile("[ \\n]*([A-Z_][A-Z_0-9]*)?")
"""Blanks, which are no token, and the word after them."""
_PIECE = re.compile(
    r"[ \n]*([A-Z_][A-Z_0-9]*|[0-9][0-9.A-Z_]*|'[^'\\]{0,80}'|`[^`]{0,80}`"
    r"|[<>!=]=|<>|::|\|\||[^ \n])(?=(.?))",
    re.DOTALL,
)
"""Pattern of a likely token and the next character."""
Guard = Callable[[str, int], bool]
"""Takes the next character and the number of open `<`; returns whether a token may end here."""
_GUARDS: Mapping[str, Guard] = {
    "isValidDecimal": lambda behind, _: (
        not (behind.isascii() and (behind.isalnum() or behind == "_"))
    ),
    "isShiftRightOperator": lambda _, opened: opened == 0,
}


Lexeme: TypeAlias = tuple[int, int, int]
"""A token by its number, and its offsets."""


class _State:
    __slots__ = ("accepts", "configs", "moves")

    def __init__(
        self, configs: tuple[_Config, ...], accepts: tuple[tuple[int, int | None], ...]
    ) -> None:
        self.configs = configs
        self.accepts = accepts
        self.moves: dict[str, _State | None] = {}


class Lexer:
    """A lexer for Spark SQL.

    Args:
        predicates: Each predicate's name and whether it is negated, by number.

    Raises:
        UnknownFormat: A predicate is not at the end of its token.
    """

    def __init__(
        self,
        network: compiled.Network,
        predicates: Mapping[int, tuple[str, bool]],
        names: Mapping[str, int],
    ) -> None:
        self._network = network
        self._predicates = predicates
        self._hidden = {names["SIMPLE_COMMENT"], names["WS"]}
        self._comment = names["BRACKETED_COMMENT"]
        self._opens = {names[name] for name in ("ARRAY", "MAP", "STRUCT")}
        self._closes = names["GT"]
        self._states: dict[tuple[_Config, ...], _State] = {}
        self._start = self._start_state()
        self._words: dict[str, int] = {}
        self._signs: dict[str, int] = {}
        self._pieces: dict[tuple[str, str], int | None] = {}

    def fast_tokens(self, text: str) -> tuple[int, ...] | None:
        """Return the numbers of a text's tokens, much faster than `tokens`.

        Return None for texts that need `tokens`: those with comments, other characters than ASCII,
        types with parameters, and rare spellings.
        """
        if not text.isascii() or _COMMENT in text:
            return None
        pieces, known = _PIECE.findall(text.upper()), self._pieces
        try:
            kinds = [known[one] for one in pieces]
        except KeyError:
            if len(known) >= CACHE_SIZE:
                known.clear()
            known.update({one: self._kind(*one) for one in pieces if one not in known})
            kinds = [known[one] for one in pieces]
        return None if None in kinds else tuple(kinds)  # type: ignore[arg-type]

    def _kind(self, piece: str, behind: str) -> int | None:
        kind, *ends = self._longest_token(piece + behind, 0, 0)
        is_special = kind in self._hidden or kind in self._opens
        return None if is_special or ends != [len(piece)] * 2 else kind

    def tokens(self, text: str) -> list[Lexeme]:
        """Return (number, start, end) of each token of a text, including an unclosed comment."""
        at, size, opened = 0, len(text), 0
        if text.isascii():
            upper = text.upper()
        else:
            upper = "".join([c if len(c.upper()) > 1 else c.upper() for c in text])
        words, signs, match = self._words.get, self._signs.get, _WORD.match
        hidden, opens, closes = self._hidden, self._opens, self._closes
        found: list[Lexeme] = []
        while True:
            blanks = match(upper, at)
            assert blanks is not None
            at, end = blanks.span(1)
            if end > 0:
                kind = words(upper[at : end + 1], -1)
                if kind < 0:
                    kind, end = self._read_word(upper, at, end)
            else:
                at = blanks.end()
                if at == size:
                    return found
                sign = upper[at : at + 2]
                if sign == _COMMENT and not upper.startswith(_HINT, at):
                    end_of_comment = _comment_end(upper, at)
                    if end_of_comment is None:
                        found.append((self._comment, at, size))
                        return found
                    at = end_of_comment
                    continue
                kind, end = signs(sign, 0) or self._read_sign(sign), at + 1
                if kind < 0:
                    kind, end, _ = self._longest_token(upper, at, opened)
            if kind not in hidden:
                found.append((kind, at, end))
            if kind in opens:
                opened += 1
            elif kind == closes:
                opened = max(0, opened - 1)
            at = end

    def _read_sign(self, text: str) -> int:
        """Return the number of a one-character token, or -1 if the token may be longer."""
        state = self._next_state(self._start, text[0])
        kind, guard = state.accepts[0] if state is not None and state.accepts else (-1, 0)
        if len(text) < 2 or state is None or guard is not None or self._next_state(state, text[1]):
            kind = -1
        if len(self._signs) >= CACHE_SIZE:
            self._signs.clear()
        self._signs[text] = kind
        return kind

    def _read_word(self, text: str, at: int, end: int) -> tuple[int, int]:
        kind, ends, stopped = self._longest_token(text, at, 0)  # No type is closed by a word.
        if ends == stopped == end:
            if len(self._words) >= CACHE_SIZE:
                self._words.clear()
            self._words[text[at : end + 1]] = kind
        return kind, ends

    def _longest_token(self, text: str, at: int, opened: int) -> tuple[int, int, int]:
        """Find the longest token at an offset.

        Return the token's number and its end, and the end of the characters that were examined.
        """
        state: _State | None = self._start
        kind, end, size = 0, at + 1, len(text)
        while state is not None:
            for token, predicate in state.accepts:
                if predicate is None or self._holds(predicate, text[at : at + 1], opened):
                    kind, end = token, at
                    break
            if at == size:
                break
            state = self._next_state(state, text[at])
            if state is None:
                break
            at += 1
        return kind, end, at

    def _next_state(self, state: _State, symbol: str) -> _State | None:
        moves = state.moves
        if symbol not in moves:
            moves[symbol] = self._move(state, symbol)
        return moves[symbol]

    def _holds(self, predicate: int, behind: str, opened: int) -> bool:
        name, negated = self._predicates[predicate]
        return _GUARDS[name](behind, opened) is not negated

    def _start_state(self) -> _State:
        rules = {
            rule: start
            for rule, start in enumerate(self._network.starts)
            if self._network.token_types[rule] not in (0, self._comment)
        }
        return self._create_state([(start, (), rule) for rule, start in rules.items()])

    def _move(self, state: _State, symbol: str) -> _State | None:
        code = ord(symbol)
        reached = [
            (edge.target, stack, rule)
            for at, stack, rule in state.configs
            for edge in self._network.edges[at]
            if any(low <= code <= high for low, high in edge.symbols)
        ]
        return self._create_state(reached) if reached else None

    def _create_state(self, configs: list[_Config]) -> _State:
        network = self._network
        found: dict[_Config, None] = {}
        accepts: dict[tuple[int, int | None], None] = {}
        todo: list[tuple[_Config, int | None]] = [(one, None) for one in reversed(configs)]
        while todo:
            config, guard = todo.pop()
            at, stack, rule = config
            if at in network.stops:
                if stack:
                    todo.append(((stack[-1], stack[:-1], rule), guard))
                else:
                    accepts[network.token_types[rule], guard] = None
                continue
            if guard is not None and any(edge.symbols for edge in network.edges[at]):
                raise compiled.UnknownFormat
            if config in found:
                continue
            if any(edge.symbols for edge in network.edges[at]):
                found[config] = None
            for edge in reversed(network.edges[at]):
                if edge.kind == compiled.RULE:
                    todo.append(((edge.first, (*stack, edge.target), rule), guard))
                elif edge.kind == compiled.PREDICATE:
                    todo.append(((edge.target, stack, rule), edge.second))
                elif not edge.symbols:
                    todo.append(((edge.target, stack, rule), guard))
        key = tuple(found)
        state = self._states.get(key)
        if state is None or state.accepts != tuple(accepts):
            state = self._states[key] = _State(key, tuple(accepts))
        return state


def _comment_end(text: str, at: int) -> int | None:
    depth = 0
    while True:
        opening, closing = text.find(_COMMENT, at), text.find(_END_OF_COMMENT, at)
        if closing < 0:
            return None
        if 0 <= opening < closing and not text.startswith(_HINT, opening):
            depth, at = depth + 1, opening + 2
            continue
        depth, at = depth - 1, closing + 2
        if depth == 0:
            return at
