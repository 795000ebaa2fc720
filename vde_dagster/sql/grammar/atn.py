"""The network of states into which ANTLR compiles a grammar, as its parsers carry it.

The format is that of ANTLR 4.10 and later (`ATNSerializer.java`, version 4).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

EPSILON, RANGE, RULE, PREDICATE, ATOM, ACTION, SET, NOT_SET, WILDCARD, PRECEDENCE = range(1, 11)
"""Kinds of edges."""
END = -1
"""The token, or the character, behind the last."""
_VERSION = 4
_BLOCK_STARTS = (3, 4, 5)
_RULE_STOP, _LOOP_END = 7, 12


class Edge(NamedTuple):
    """A way from one state to another.

    Args:
        kind: One of the kinds above.
        target: The state that it leads to; of a call, the one behind the call.
        first: A number that the kind gives meaning: the called rule's start, a predicate's rule.
        second: Another: the called rule, the predicate.
        third: Another: the precedence that is asked of the called rule.
        symbols: Ranges of the tokens or characters that it takes, both ends included.
    """

    kind: int
    target: int
    first: int
    second: int
    third: int
    symbols: tuple[tuple[int, int], ...]


class Network(NamedTuple):
    """A grammar's states.

    Args:
        edges: The edges that leave each state.
        stops: The states at which a rule ends.
        rule_of: Each state's rule.
        starts: Each rule's first state.
        token_types: The token that each rule of a lexer makes.
        highest: The highest token.
    """

    edges: list[list[Edge]]
    stops: set[int]
    rule_of: list[int]
    starts: list[int]
    token_types: list[int]
    highest: int


class UnknownFormat(Exception):
    """A network of another version of ANTLR."""


def read_network(text: str) -> Network:
    """Read a network.

    Args:
        text: The constant in which Java's parsers carry it.

    Raises:
        UnknownFormat: It is of another version.
    """
    numbers = _numbers(text)
    take = numbers.__next__
    if take() != _VERSION:
        raise UnknownFormat
    lexer = take() == 0
    highest = take()
    rule_of: list[int] = []
    stops: list[int] = []
    for state in range(take()):
        kind = take()
        rule_of.append(take() if kind else -1)
        if kind == _LOOP_END or kind in _BLOCK_STARTS:
            take()
        if kind == _RULE_STOP:
            stops.append(state)
    for _ in range(2):  # Loops that are not greedy, and rules with precedence.
        for _ in range(take()):
            take()
    starts, token_types = [], []
    for _ in range(take()):
        starts.append(take())
        if lexer:
            token_types.append(take())
    for _ in range(take()):
        take()  # Modes.
    whole = (0, 0x10FFFF) if lexer else (1, highest)
    sets = [_ranges(take) for _ in range(take())]
    edges: list[list[Edge]] = [[] for _ in rule_of]
    for source, target, kind, first, second, third in _rows(numbers, take()):
        symbols = (
            () if kind in (EPSILON, RULE) else _symbols(kind, first, second, third, sets, whole)
        )
        edges[source].append(Edge(kind, target, first, second, third, symbols))
    return Network(edges, set(stops), rule_of, starts, token_types, highest)


def _numbers(text: str) -> Iterator[int]:
    """Decode numbers of up to 31 bits from UTF-16 units: the first bit says that there are two."""
    units = array("H", text.encode("utf-16", "surrogatepass"))[1:]
    if max(units) < 0x8000:
        return iter(units)
    return _long_numbers(iter(units))


def _long_numbers(units: Iterator[int]) -> Iterator[int]:
    for unit in units:
        if unit < 0x8000:
            yield unit
            continue
        low = next(units)
        yield -1 if unit == low == 0xFFFF else (unit & 0x7FFF) << 16 | low


def _rows(numbers: Iterator[int], count: int) -> Iterator[tuple[int, ...]]:
    """Read rows of six."""
    return islice(zip(*[numbers] * 6, strict=False), count)


def _ranges(take: Callable[[], int]) -> tuple[tuple[int, int], ...]:
    count, with_end = take(), take()
    ranges = tuple((take(), take()) for _ in range(count))
    return ((END, END), *ranges) if with_end else ranges


def _symbols(
    kind: int,
    first: int,
    second: int,
    third: int,
    sets: Sequence[tuple[tuple[int, int], ...]],
    whole: tuple[int, int],
) -> tuple[tuple[int, int], ...]:
    low, high = whole
    if kind == ATOM:
        return ((END, END),) if third else ((first, first),)
    if kind == RANGE:
        return ((END if third else first, second),)
    if kind == SET:
        return sets[first]
    if kind == WILDCARD:
        return ((low, high),)
    if kind == NOT_SET:
        rest, at = [], low
        for begin, end in sorted(sets[first]):
            if begin > at:
                rest.append((at, begin - 1))
            at = max(at, end + 1)
        return (*rest, (at, high)) if at <= high else tuple(rest)
    return ()
