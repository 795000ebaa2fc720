"""Cutting a text into tokens as a lexer of ANTLR does: the longest, and of several the first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from vde_dagster.sql.grammar.compiled import PREDICATE, RULE, Network, UnknownFormat

_Config = tuple[int, tuple[int, ...], int]
"""A state, where its rules' callers go on, and the token's rule."""
_COMMENT, _HINT, _END_OF_COMMENT = "/*", "/*+", "*/"
Guard = Callable[[str, int], bool]
"""Whether a token may end, by the character behind it and how many `<` of types are open."""
_OF_NAMES = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
_GUARDS: Mapping[str, Guard] = {
    "isValidDecimal": lambda behind, _: (
        not (behind.isascii() and (behind.isalnum() or behind == "_"))
    ),
    "isShiftRightOperator": lambda _, opened: opened == 0,
}


class Lexeme(NamedTuple):
    """A token.

    Args:
        kind: Its number.
        start: Its first character's offset.
        end: The offset behind its last.
    """

    kind: int
    start: int
    end: int


class _State:
    """A set of configurations, with what was found to follow from it."""

    __slots__ = ("accepts", "configs", "moves")

    def __init__(
        self, configs: tuple[_Config, ...], accepts: tuple[tuple[int, int | None], ...]
    ) -> None:
        self.configs = configs
        self.accepts = accepts
        self.moves: dict[str, _State | None] = {}


class Lexer:
    """A lexer of Spark's kind: comments may be nested, and case does not matter.

    Args:
        predicates: The names of its predicates by their numbers, and whether they are negated.

    Raises:
        UnknownFormat: It asks what is not known here.
    """

    def __init__(
        self,
        network: Network,
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

    def tokens(self, text: str) -> Iterator[Lexeme]:
        """Yield a text's tokens; a comment that is not closed is one, too."""
        at, size, opened = 0, len(text), 0
        upper = "".join([c if len(c.upper()) > 1 else c.upper() for c in text])
        while at < size:
            if upper.startswith(_COMMENT, at) and not upper.startswith(_HINT, at):
                end = _comment_end(upper, at)
                if end is None:
                    yield Lexeme(self._comment, at, size)
                    return
                at = end
                continue
            kind, end = self._longest(upper, at, opened)
            if kind not in self._hidden:
                yield Lexeme(kind, at, end)
            if kind in self._opens:
                opened += 1
            elif kind == self._closes:
                opened = max(0, opened - 1)
            at = end

    def _longest(self, text: str, at: int, opened: int) -> tuple[int, int]:
        state: _State | None = self._start
        kind, end, size = 0, at + 1, len(text)
        while state is not None:
            for token, predicate in state.accepts:
                if predicate is None or self._holds(predicate, text[at : at + 1], opened):
                    kind, end = token, at
                    break
            if at == size:
                break
            symbol = text[at]
            if symbol not in state.moves:
                state.moves[symbol] = self._move(state, symbol)
            state = state.moves[symbol]
            at += 1
        return kind, end

    def _holds(self, predicate: int, behind: str, opened: int) -> bool:
        name, negated = self._predicates[predicate]
        return _GUARDS[name](behind, opened) is not negated

    def _start_state(self) -> _State:
        rules = {
            rule: start
            for rule, start in enumerate(self._network.starts)
            if self._network.token_types[rule] not in (0, self._comment)
        }
        return self._closed([(start, (), rule) for rule, start in rules.items()])

    def _move(self, state: _State, symbol: str) -> _State | None:
        code = ord(symbol)
        reached = [
            (edge.target, stack, rule)
            for at, stack, rule in state.configs
            for edge in self._network.edges[at]
            if any(low <= code <= high for low, high in edge.symbols)
        ]
        return self._closed(reached) if reached else None

    def _closed(self, configs: list[_Config]) -> _State:
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
                raise UnknownFormat
            if config in found:
                continue
            if any(edge.symbols for edge in network.edges[at]):
                found[config] = None
            for edge in reversed(network.edges[at]):
                if edge.kind == RULE:
                    todo.append(((edge.first, (*stack, edge.target), rule), guard))
                elif edge.kind == PREDICATE:
                    todo.append(((edge.target, stack, rule), edge.second))
                elif not edge.symbols:
                    todo.append(((edge.target, stack, rule), guard))
        key = tuple(found)
        state = self._states.get(key)
        if state is None or state.accepts != tuple(accepts):
            state = self._states[key] = _State(key, tuple(accepts))
        return state


def _comment_end(text: str, at: int) -> int | None:
    """The end of a comment that may nest others."""
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
