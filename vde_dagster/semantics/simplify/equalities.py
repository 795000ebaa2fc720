"""Which columns conditions make equal in every row."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from vde_dagster.semantics.algebra import Leaf, Node
from vde_dagster.semantics.simplify.values import INTEGERS, value_type

EQUAL = ("eq", "nseq")


class Classes:
    """Expressions of which each is equal to all others of its class."""

    def __init__(self) -> None:
        self._of: dict[Node, list[Node]] = {}

    def join(self, one: Node, two: Node) -> None:
        """Make one class of those of two expressions."""
        first, second = self.of(one), self.of(two)
        if first is second:
            return
        merged = list(dict.fromkeys([*first, *second]))
        for member in merged:
            self._of[member] = merged

    def of(self, node: Node) -> list[Node]:
        """The class of an expression."""
        return self._of.get(node) or [node]

    def all(self) -> list[list[Node]]:
        """The classes of more than one expression."""
        return list({id(members): members for members in self._of.values()}.values())


def one_for_another(conditions: Iterable[Node]) -> Classes:
    """Columns of which each may stand for the other: of one type, whose equal values are one."""
    return _joined(conditions, _alike)


def _alike(one: Node, two: Node) -> bool:
    """Whether two columns that are equal have one value."""
    return one.tag == two.tag == "ref" and value_type(one) == value_type(two) is not None


def equal_values(conditions: Iterable[Node]) -> Classes:
    """Columns and literals that are equal, if only after numbers have been made wider."""
    return _joined(conditions, _like)


def _like(one: Node, two: Node) -> bool:
    """Whether two expressions have types between which equality goes from one pair to the next."""
    if not {one.tag, two.tag} <= {"ref", "lit"}:
        return False
    left, right = value_type(one), value_type(two)
    if left is not None and right is not None:
        return left == right or {left, right} <= INTEGERS
    return one.tag == two.tag == "ref" and _column(one) == _column(two) is not None


def _column(node: Node) -> tuple[str, str] | None:
    source, key = node.parts
    return (source.table, key) if isinstance(source, Leaf) else None


def _joined(conditions: Iterable[Node], may_be: Callable[[Node, Node], bool]) -> Classes:
    """Classes of what conditions say to be equal, of the pairs that a rule takes."""
    classes = Classes()
    for condition in conditions:
        if condition.tag in EQUAL and may_be(*condition.parts):
            classes.join(*condition.parts)
    return classes
