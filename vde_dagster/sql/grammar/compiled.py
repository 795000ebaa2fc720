"""Reader of the installed Spark's compiled parser.

The parser's class files contain the grammar as ANTLR's network of states. Chapter 4 of the Java
Virtual Machine Specification describes class files. The network has the format of ANTLR 4.10 and
later (`ATNSerializer.java`, version 4).
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import NamedTuple


@lru_cache(maxsize=1)
def spark_jar() -> Path | None:
    """Return the path of the JAR with the installed Spark's parser, or None if missing."""
    home = os.environ.get("SPARK_HOME")
    spec = None if home else find_spec("pyspark")
    places = [home] if home else list((spec and spec.submodule_search_locations) or ())
    jars = [jar for place in places for jar in Path(place).glob("jars/spark-sql-api_*.jar")]
    return jars[0] if len(jars) == 1 else None


_reasons: list[str] = []
"""The reason why the grammar of the installed Spark is not used."""


def remember_unusable(reason: str) -> None:
    """Remember why Spark's grammar cannot be used, for `grammar_warnings`."""
    _reasons[:] = [reason]


def grammar_warnings() -> tuple[str, ...]:
    """Return a warning if the installed Spark's grammar could not be used, otherwise nothing."""
    return tuple(
        f"the grammar of the installed Spark could not be read from {spark_jar()} ({reason}); "
        "syntax that only Spark refuses is reported when a query runs"
        for reason in _reasons
    )


_WIDTHS = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4}
_WIDTHS |= {18: 4, 19: 2, 20: 2}
"""Number of bytes of a constant, by its tag; a text (1) begins with its length."""
_UTF8, _INTEGER, _LONG, _DOUBLE = 1, 3, 5, 6
_ALOAD_0, _IFEQ, _IFNE, _TABLESWITCH, _LOOKUPSWITCH, _IRETURN, _FIELD_OR_METHOD = (
    *(0x2A, 0x99, 0x9A, 0xAA, 0xAB, 0xAC),
    (0xB4, 0xB6),
)


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition in the grammar: the name of a setting or method, possibly negated."""

    name: str
    negated: bool


class ClassFile:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 8
        self._pool = self._read_constants()
        self._skip(6)
        self._skip(2 * self._read_u2())
        self.integers: dict[str, int] = {}
        """Constants of whole numbers, by their names, in the order of the file."""
        self.texts: dict[str, str] = {}
        """Constants of text, by their names."""
        self._methods: dict[str, bytes] = {}
        for _ in range(self._read_u2()):
            self._read_field()
        for _ in range(self._read_u2()):
            self._read_method()

    def predicates(self, suffix: str) -> dict[int, Predicate]:
        """Return predicates by number, from methods whose names end with `suffix`."""
        found: dict[int, Predicate] = {}
        for name, code in self._methods.items():
            if name.endswith(suffix):
                for number, at in _read_cases(code):
                    test = self._read_predicate(code, at)
                    if test is not None:
                        found[number] = test
        return found

    def _read_predicate(self, code: bytes, at: int) -> Predicate | None:
        if code[at] != _ALOAD_0 or code[at + 1] not in _FIELD_OR_METHOD:
            return None
        end = code[at + 4]
        if end not in (_IRETURN, _IFEQ, _IFNE):
            return None
        (member,) = struct.unpack_from(">H", code, at + 2)
        _, name_and_type = struct.unpack(">HH", self._value(member))
        name, _ = struct.unpack(">HH", self._value(name_and_type))
        return Predicate(self._text(name), end == _IFNE)

    def _read_constants(self) -> list[tuple[int, bytes]]:
        pool: list[tuple[int, bytes]] = [(0, b"")]
        count = self._read_u2()
        while len(pool) < count:
            tag = self._data[self._at]
            self._at += 1
            width = self._read_u2() if tag == _UTF8 else _WIDTHS[tag]
            pool.append((tag, self._data[self._at : self._at + width]))
            self._at += width
            if tag in (_LONG, _DOUBLE):
                pool.append((0, b""))
        return pool

    def _value(self, index: int) -> bytes:
        return self._pool[index][1]

    def _text(self, index: int) -> str:
        # Java's UTF-8: NUL has two bytes, and each half of a surrogate pair three.
        data = self._value(index).replace(b"\xc0\x80", b"\0")
        return data.decode("utf-8", "surrogatepass")

    def _read_field(self) -> None:
        name, attributes = self._read_member()
        for attribute, body in attributes:
            if attribute != "ConstantValue":
                continue
            tag, value = self._pool[struct.unpack(">H", body)[0]]
            if tag == _INTEGER:
                self.integers[name] = struct.unpack(">i", value)[0]
            elif len(value) == 2:
                self.texts[name] = self._text(struct.unpack(">H", value)[0])

    def _read_method(self) -> None:
        name, attributes = self._read_member()
        for attribute, body in attributes:
            if attribute == "Code":
                (length,) = struct.unpack_from(">I", body, 4)
                self._methods[name] = body[8 : 8 + length]

    def _read_member(self) -> tuple[str, list[tuple[str, bytes]]]:
        self._skip(2)
        name = self._text(self._read_u2())
        self._skip(2)
        found = []
        for _ in range(self._read_u2()):
            attribute = self._text(self._read_u2())
            (length,) = struct.unpack_from(">I", self._data, self._at)
            self._at += 4
            found.append((attribute, self._data[self._at : self._at + length]))
            self._at += length
        return name, found

    def _read_u2(self) -> int:
        (value,) = struct.unpack_from(">H", self._data, self._at)
        self._at += 2
        return int(value)

    def _skip(self, width: int) -> None:
        self._at += width


def _read_cases(code: bytes) -> list[tuple[int, int]]:
    """Return the case numbers of a method that begins with a `switch`, and their targets."""
    kind, at = code[1], 4
    if kind == _TABLESWITCH:
        low, high = struct.unpack_from(">ii", code, at + 4)
        jumps = struct.unpack_from(f">{high - low + 1}i", code, at + 12)
        return [(low + i, 1 + jump) for i, jump in enumerate(jumps)]
    if kind == _LOOKUPSWITCH:
        (count,) = struct.unpack_from(">i", code, at + 4)
        pairs = struct.unpack_from(f">{2 * count}i", code, at + 8)
        return [(number, 1 + jump) for number, jump in zip(pairs[::2], pairs[1::2], strict=True)]
    return []


EPSILON, RANGE, RULE, PREDICATE, ATOM, ACTION, SET, NOT_SET, WILDCARD, PRECEDENCE = range(1, 11)
"""Kinds of edges."""
END = -1
"""The number of the input's end, which follows the last token or character."""
_VERSION = 4
_BLOCK_STARTS = (3, 4, 5)
_RULE_STOP, _LOOP_END = 7, 12


class Edge(NamedTuple):
    """A transition from a state of the grammar's network to another.

    Args:
        target: The next state; for a call, the state after the call.
        first: For a call, the called rule's first state; for a predicate, the predicate's rule.
        second: For a call, the called rule's number; for a predicate, its number.
        third: For a call, the minimum precedence that is passed to the rule.
        symbols: Ranges of the accepted tokens or characters, both ends included.
    """

    kind: int
    target: int
    first: int
    second: int
    third: int
    symbols: tuple[tuple[int, int], ...]


class Network(NamedTuple):
    """A grammar as a network: edges by state, and rules with their first and last states."""

    edges: list[list[Edge]]
    stops: set[int]
    rule_by_state: list[int]
    starts: list[int]
    token_types: list[int]


class UnknownFormat(Exception):
    """The network has an unknown format or unknown content."""


def read_network(text: str) -> Network:
    """Decode the grammar (ANTLR's transition network) in a constant of a compiled parser.

    Raises:
        UnknownFormat: The constant is from another version of ANTLR.
    """
    numbers = _decode_numbers(text)
    take = numbers.__next__
    version = take()
    if version != _VERSION:
        raise UnknownFormat(f"its network has version {version}, not {_VERSION}")
    lexer = take() == 0
    highest = take()
    rule_by_state: list[int] = []
    stops: list[int] = []
    for state in range(take()):
        kind = take()
        rule_by_state.append(take() if kind else -1)
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
    sets = [_read_ranges(take) for _ in range(take())]
    edges: list[list[Edge]] = [[] for _ in rule_by_state]
    rows = islice(zip(*[numbers] * 6, strict=False), take())
    for source, target, kind, first, second, third in rows:
        symbols = (
            () if kind in (EPSILON, RULE) else _symbols(kind, first, second, third, sets, whole)
        )
        edges[source].append(Edge(kind, target, first, second, third, symbols))
    return Network(edges, set(stops), rule_by_state, starts, token_types)


def _decode_numbers(text: str) -> Iterator[int]:
    # A number above 15 bits takes two units.
    units = array("H", text.encode("utf-16", "surrogatepass"))[1:]
    if max(units) < 0x8000:
        return iter(units)
    return _decode_long_numbers(iter(units))


def _decode_long_numbers(units: Iterator[int]) -> Iterator[int]:
    for unit in units:
        if unit < 0x8000:
            yield unit
            continue
        low = next(units)
        yield -1 if unit == low == 0xFFFF else (unit & 0x7FFF) << 16 | low


def _read_ranges(take: Callable[[], int]) -> tuple[tuple[int, int], ...]:
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
