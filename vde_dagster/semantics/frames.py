"""Frames of labels, by which references are hashed, and the orders in which equal sources come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, permutations, product
from math import factorial, prod
from typing import Any

from vde_dagster.semantics.algebra import Derived, FullJoin, Generator, Node, SetOperation


@dataclass(slots=True, eq=False)
class Frame:
    """Labels of the sources of one group, inside the frames of the queries around it.

    Of columns that are equal in every row, `instead` has the one that stands for all of them.
    """

    parent: Frame | None
    labels: dict[Any, bytes] = field(default_factory=dict)
    instead: dict[Node, Node] = field(default_factory=dict)
    memo: dict[Any, bytes] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Closed:
    """A hashed group: its row digest and the frame for expressions over it.

    `sole` is the source whose rows the group's rows are, if there is nothing else to it.
    """

    rows: bytes
    frame: Frame
    sole: Any = None


def is_dependent(source: Any) -> bool:
    """Whether a source's rows depend on the sources beside it or around it."""
    if isinstance(source, Derived):
        return source.op == "left" or source.correlation.found
    if isinstance(source, (SetOperation, FullJoin)):
        return source.correlation.found
    return isinstance(source, Generator)


def ways_of(classes: Iterable[list[int]]) -> int:
    """In how many orders the members of all classes can be named."""
    return prod(factorial(len(members)) for members in classes)


def told_apart(members: list[int], asked: list[bytes]) -> list[list[int]]:
    """The members in classes of which the same is asked, in the order of that."""
    found: dict[bytes, list[int]] = {}
    for i in members:
        found.setdefault(asked[i], []).append(i)
    return [found[mark] for mark in sorted(found)]


def orders_of(parts: list[list[int]]) -> Iterator[tuple[int, ...]]:
    """All orders of the members of every part, the parts one after the other."""
    for choice in product(*(permutations(members) for members in parts)):
        yield tuple(chain(*choice))
