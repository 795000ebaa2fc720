"""A recognizer for ANTLR grammars. It accepts or refuses a text but builds no tree.

Each pair of a rule and a precedence is an automaton, so that common prefixes of alternatives are
read once. Its states are created when they are first reached. As in GLL (Scott and Johnstone,
2010), the matches of a rule at a position are computed once for all rules that call it there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from vde_dagster.sql.grammar.compiled import PRECEDENCE, PREDICATE, RULE, Network

_Call = tuple[int, int]
"""A rule's first state, and the required precedence."""
_Move = tuple["_State | None", tuple[tuple["_State", "_State"], ...]]
"""The state after a token (or None), and the rules that may begin with the token.

Each rule is a pair: the first state of the rule, and the state after the rule.
"""


class Exclusions(NamedTuple):
    # The grammar itself allows these tokens and rules.
    tokens: Collection[int]
    rules: Collection[int]


_NOTHING = Exclusions((), ())


class _State:
    __slots__ = ("calls", "final", "moves", "precedence", "symbols")

    def __init__(
        self,
        precedence: int,
        final: bool,
        symbols: tuple[tuple[int, int], ...],
        calls: tuple[tuple[_Call, frozenset[int]], ...],
    ) -> None:
        self.precedence = precedence
        self.final = final
        self.symbols = symbols
        self.calls = calls
        self.moves: dict[int, _Move] = {}


class _Search:
    """The search for matches of a rule that begin at one position.

    Args:
        ends: The ends of the matches that were found.
        waiting: Callers to inform of each further match.
    """

    __slots__ = ("ends", "seen", "waiting")

    def __init__(self) -> None:
        self.ends: dict[int, None] = {}
        self.seen: set[tuple[_State, int]] = set()
        self.waiting: list[tuple[_Search, _State]] = []


class Recogniser:
    """Tests whether a grammar accepts a sequence of tokens.

    Args:
        holds: Returns whether a predicate of the grammar, given its number, is true.
        barred: By rule, the tokens and rules to refuse, although the grammar accepts them.
    """

    def __init__(
        self, network: Network, holds: Callable[[int], bool], barred: Mapping[int, Exclusions]
    ) -> None:
        self._network = network
        self._holds = holds
        self._barred = barred
        self._states: dict[tuple[int, frozenset[int]], _State] = {}
        self._empty: dict[_Call, bool] = {}
        self._begins: dict[_Call, tuple[int, int]] = {}

    def find_refused(self, rule: int, kinds: Sequence[int]) -> tuple[int, int] | None:
        """Find the first token that a rule refuses, or None if the rule accepts all tokens.

        Return its index, or len(kinds) if more tokens are needed, and a bit mask of the tokens that
        the rule accepts at this place.
        """
        size = len(kinds)
        tokens = (*kinds, 0)
        state = self._start((self._network.starts[rule], 0))
        root = _Search()
        known: dict[tuple[_State, int], _Search] = {}
        todo: list[tuple[_Search, _State, int]] = [(root, state, 0)]
        far = 0
        states: list[_State] = []
        push = todo.append
        while todo:
            search, state, at = todo.pop()
            if (state, at) in search.seen:
                continue
            search.seen.add((state, at))
            if at >= far:
                if at > far:
                    far, states = at, []
                states.append(state)
            token = tokens[at]
            if state.final and at not in search.ends:
                if search is root and at == size:
                    return None
                search.ends[at] = None
                for waiting, behind in search.waiting:
                    push((waiting, behind, at))
            move = state.moves.get(token)
            if move is None:
                move = self._move(state, token)
            following, calls = move
            if following is not None:
                push((search, following, at + 1))
            for called, behind in calls:
                child = known.get((called, at))
                if child is None:
                    child = known[called, at] = _Search()
                    push((child, called, at))
                child.waiting.append((search, behind))
                for end in child.ends:
                    push((search, behind, end))
        expected = 0
        for state in states:
            expected |= self._first(state)
        return far, expected

    def first_tokens(self, rule: int) -> int:
        """Return a bit mask of the tokens that a rule can begin with."""
        return self._first(self._start((self._network.starts[rule], 0)))

    def _start(self, call: _Call) -> _State:
        return self._state(call[1], frozenset([call[0]]))

    def _state(self, precedence: int, heads: frozenset[int]) -> _State:
        state = self._states.get((precedence, heads))
        if state is None:
            state = self._states[precedence, heads] = self._create_state(precedence, heads)
        return state

    def _create_state(self, precedence: int, heads: frozenset[int]) -> _State:
        edges, stops = self._network.edges, self._network.stops
        seen, todo = set(heads), list(heads)
        final = False
        symbols: list[tuple[int, int]] = []
        calls: dict[_Call, set[int]] = {}

        def reach(target: int) -> None:
            if target not in seen:
                seen.add(target)
                todo.append(target)

        while todo:
            at = todo.pop()
            if at in stops:
                final = True
            barred = self._barred.get(self._network.rule_by_state[at], _NOTHING)
            for edge in edges[at]:
                if edge.kind == RULE:
                    if edge.second in barred.rules:
                        continue
                    call = (edge.first, edge.third)
                    calls.setdefault(call, set()).add(edge.target)
                    if self._is_empty(call):
                        reach(edge.target)
                elif edge.kind == PRECEDENCE:
                    if edge.first >= precedence:
                        reach(edge.target)
                elif edge.kind == PREDICATE:
                    if self._holds(edge.second):
                        reach(edge.target)
                elif edge.symbols:
                    mask = 0
                    for low, high in edge.symbols:
                        low, high = max(low, 0), max(high, 0)  # The end of the text is 0 here.
                        mask |= (1 << high + 1) - (1 << low)
                    for token in barred.tokens:
                        mask &= ~(1 << token)
                    symbols.append((mask, edge.target))
                else:
                    reach(edge.target)
        return _State(
            precedence,
            final,
            tuple(symbols),
            tuple((call, frozenset(behind)) for call, behind in calls.items()),
        )

    def _move(self, state: _State, token: int) -> _Move:
        bit = 1 << token
        targets = {target for mask, target in state.symbols if mask & bit}
        called = []
        for call, behind in state.calls:
            alone, begins = self._first_tokens(call)
            if alone & bit:
                targets |= behind
            if begins & bit:
                called.append((self._start(call), self._state(state.precedence, behind)))
        following = self._state(state.precedence, frozenset(targets)) if targets else None
        move = state.moves[token] = (following, tuple(called))
        return move

    def _is_empty(self, call: _Call) -> bool:
        known = self._empty.get(call)
        if known is None:
            self._empty[call] = False  # It calls itself only behind a token.
            known = self._empty[call] = self._start(call).final
        return known

    def _first_tokens(self, call: _Call) -> tuple[int, int]:
        """Return two bit masks of the tokens that a rule can begin with.

        A token of the first mask is a whole match of the rule; a token of the second mask begins a
        longer match.
        """
        known = self._begins.get(call)
        if known is not None:
            return known
        self._begins[call] = (0, 0)
        start = self._start(call)
        alone = longer = 0
        for mask, behind in self._first_steps(start):
            if behind.final:
                alone |= mask
            if behind.symbols or behind.calls:
                longer |= mask
        for called, _ in start.calls:
            longer |= self._first_tokens(called)[1]
        self._begins[call] = (alone, longer)
        return alone, longer

    def _first_steps(self, state: _State) -> Iterator[tuple[int, _State]]:
        for mask, target in state.symbols:
            yield mask, self._state(state.precedence, frozenset([target]))
        for call, behind in state.calls:
            yield self._first_tokens(call)[0], self._state(state.precedence, behind)

    def _first(self, state: _State) -> int:
        mask = 0
        for own, _ in state.symbols:
            mask |= own
        for call, _ in state.calls:
            alone, longer = self._first_tokens(call)
            mask |= alone | longer
        return mask
