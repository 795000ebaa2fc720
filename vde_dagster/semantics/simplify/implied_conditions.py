"""Adds implied conditions, and removes redundant conditions.

Only comparisons of columns and literals are used, because they cannot raise errors. All conditions
of a row must be true, so a condition on a column also holds for every column that is equal to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations

from sqlglot import exp

from vde_dagster.semantics.algebra.nodes import COMPARED, Leaf, Node, Terms, int_value, rewrite
from vde_dagster.semantics.simplify.facts import INTEGERS, comparable, value_type

_MOST_CONDITIONS = 40
_MOST_EQUAL = 8
_LARGEST = 2**31 - 2


def compared_columns(node: Node) -> set[Node] | None:
    """Return the columns of a comparison of columns and literals; None for other conditions."""
    tag = node.tag
    if tag in ("bool", "Null"):
        return set()
    if tag == "lit":
        return set() if value_type(node) else None
    if tag == "ref":
        return {node} if value_type(node) else None
    if tag in COMPARED:
        if not comparable(*node.parts):
            return None
        parts = list(node.parts)
    elif tag in ("and", "or", "not"):
        parts = list(node.parts)
    elif tag == "in":
        parts = [node.parts[0], *node.parts[1].parts]
        if not all(member.tag == "lit" and comparable(parts[0], member) for member in parts[1:]):
            return None
    elif tag == "Is":
        parts = [p for p in node.parts if p.__class__ is Node]
        if not any(p.tag == "Null" for p in parts):
            return None
    else:
        return None
    found: set[Node] = set()
    for part in parts:
        inner = compared_columns(part)
        if inner is None:
            return None
        found |= inner
    return found


def replace_columns(node: Node, known: dict[Node, Node], terms: Terms) -> Node:
    return rewrite(node, known.get, terms, {})


def add_implied_conditions(
    conditions: list[Node], terms: Terms, given: Iterable[Node] = ()
) -> list[Node]:
    """Add conditions that follow from `conditions`, and drop redundant conditions.

    Args:
        given: Conditions on outer rows that also hold. They are used but not returned.
    """
    given = list(given)
    if not conditions or len(conditions) + len(given) > _MOST_CONDITIONS:
        return conditions
    columns = {fact: compared_columns(fact) for fact in [*conditions, *given]}
    # No condition is derived for columns that occur only in `given`.
    own = {c for condition in conditions for c in (columns[condition] or ())}
    if not own:
        return conditions
    classes = EqualityClasses()
    for fact, names in columns.items():
        if fact.tag == "eq" and names and len(names) == 2:
            one, two = fact.parts
            if one.tag == two.tag == "ref" and value_type(one) == value_type(two):
                classes.join(one, two)
    if any(len(members) > _MOST_EQUAL for members in classes.all()):
        return conditions
    around = set(given)
    outside = {c for fact in given for c in (columns[fact] or ())}
    kept: dict[Node, None] = {}
    about: dict[Node, dict[Node, None]] = {}
    for fact, names in columns.items():
        single = names if names and len(names) == 1 else None
        if fact not in around and (single is None or single & outside):
            kept[fact] = None
        for column in single or ():
            for other in classes.members(column):
                said = fact if other is column else replace_columns(fact, {column: other}, terms)
                about.setdefault(other, {})[said] = None
    present = {
        c for fact in columns for c in fact.parts if fact.tag in COMPARED[:-1] and c.tag == "ref"
    }
    fixed: set[Node] = set()
    for column, all_said in about.items():
        found = _strongest(column, list(all_said), terms, present=column in present)
        if found is None:
            return [terms.boolean(False)]
        if any(c.tag == "eq" and _literal(c, column) is not None for c in found):
            fixed.add(column)
        if column in own and column not in outside:
            kept.update(dict.fromkeys(found))
    for members in classes.all():
        pairs = [terms.unordered("eq", list(pair)) for pair in combinations(members, 2)]
        if not given and fixed.intersection(members):
            for pair in pairs:
                kept.pop(pair, None)
        else:
            kept.update(dict.fromkeys(p for p in pairs if set(p.parts) <= own and p not in around))
    return list(kept)


def _strongest(column: Node, said: list[Node], terms: Terms, *, present: bool) -> list[Node] | None:
    """Return the conditions on one column without redundant ones, or None for a contradiction.

    `present` means that other conditions exclude NULL for the column.
    """
    if value_type(column) in INTEGERS:
        return _within_bounds(column, said, terms, present=present)
    values = {_literal(c, column) for c in said if c.tag == "eq"} - {None}
    if len(values) > 1 and value_type(column) == exp.DType.TEXT:
        return None
    strict = present or any(_rejects(c, column) for c in said)
    return _without_nullness(column, said, strict=strict)


def _within_bounds(
    column: Node, said: list[Node], terms: Terms, *, present: bool
) -> list[Node] | None:
    low: int | None = None
    high: int | None = None
    rest: list[Node] = []
    holes: set[int] = set()
    for condition in said:
        other = _literal(condition, column)
        value = int_value(other) if other is not None else None
        if value is None or abs(value) > _LARGEST or condition.tag == "nseq":
            rest.append(condition)
            continue
        if condition.tag == "neq":
            holes.add(value)
            continue
        step = 1 if condition.tag == "lt" else 0
        if condition.tag == "eq" or condition.parts[0] is not column:
            low = value + step if low is None else max(low, value + step)
        if condition.tag == "eq" or condition.parts[0] is column:
            high = value - step if high is None else min(high, value - step)
    while low is not None and low in holes and (high is None or low <= high):
        low += 1
    while high is not None and high in holes and (low is None or low <= high):
        high -= 1
    if low is not None and high is not None and low > high:
        return None
    made: list[Node] = []
    if low is not None and low == high:
        made.append(terms.compare("eq", column, terms.number(low)))
    else:
        if low is not None:
            made.append(terms.compare("ge", column, terms.number(low)))
        if high is not None:
            made.append(terms.compare("le", column, terms.number(high)))
    for hole in sorted(holes):
        if (low is None or hole > low) and (high is None or hole < high):
            made.append(terms.compare("neq", column, terms.number(hole)))
    strict = present or bool(made) or any(_rejects(c, column) for c in rest)
    left = _without_nullness(column, rest, strict=strict)
    return None if left is None else [*made, *left]


def _literal(condition: Node, column: Node) -> Node | None:
    if condition.tag not in COMPARED:
        return None
    one: Node
    two: Node
    one, two = condition.parts
    if one is column and two.tag == "lit":
        return two
    return one if two is column and one.tag == "lit" else None


def _rejects(condition: Node, column: Node) -> bool:
    if condition.tag in ("eq", "neq", "lt", "le"):
        return column in condition.parts
    if condition.tag == "or":
        return all(_rejects(part, column) for part in condition.parts)
    return condition.tag == "in" and condition.parts[0] is column


def _without_nullness(column: Node, facts: list[Node], *, strict: bool) -> list[Node] | None:
    """Drop an implied IS NOT NULL. Return None if IS NULL contradicts another condition."""
    if not strict:
        return facts
    if any(_is_null(c, column) for c in facts):
        return None
    return [c for c in facts if not (c.tag == "not" and _is_null(c.parts[0], column))]


def _is_null(condition: Node, column: Node) -> bool:
    return condition.tag == "Is" and column in condition.parts


EQUAL = ("eq", "nseq")


class EqualityClasses:
    """Sets of expressions that are equal in every row."""

    def __init__(self) -> None:
        self._of: dict[Node, list[Node]] = {}

    def join(self, one: Node, two: Node) -> None:
        first, second = self.members(one), self.members(two)
        if first is second:
            return
        merged = list(dict.fromkeys([*first, *second]))
        for member in merged:
            self._of[member] = merged

    def members(self, node: Node) -> list[Node]:
        return self._of.get(node) or [node]

    def all(self) -> list[list[Node]]:
        """Return the sets with more than one expression."""
        return list({id(members): members for members in self._of.values()}.values())


def find_interchangeable(conditions: Iterable[Node]) -> EqualityClasses:
    """Return sets of equal columns that can replace each other."""
    # Equal values of these columns are identical.
    return _joined(conditions, _alike)


def _alike(one: Node, two: Node) -> bool:
    return one.tag == two.tag == "ref" and value_type(one) == value_type(two) is not None


def find_equal_values(conditions: Iterable[Node]) -> EqualityClasses:
    """Return sets of equal columns and literals. Numbers may have different types."""
    return _joined(conditions, _like)


def _like(one: Node, two: Node) -> bool:
    """Return whether the equality of two values is transitive.

    This is true for columns and literals of the same exact type or of integer types, and for two
    references to the same column of a table.
    """
    if not {one.tag, two.tag} <= {"ref", "lit"}:
        return False
    left, right = value_type(one), value_type(two)
    if left is not None and right is not None:
        return left == right or {left, right} <= INTEGERS
    return one.tag == two.tag == "ref" and _column(one) == _column(two) is not None


def _column(node: Node) -> tuple[str, str] | None:
    source, key = node.parts
    return (source.table, key) if isinstance(source, Leaf) else None


def _joined(conditions: Iterable[Node], may_be: Callable[[Node, Node], bool]) -> EqualityClasses:
    classes = EqualityClasses()
    for condition in conditions:
        if condition.tag in EQUAL and may_be(*condition.parts):
            classes.join(*condition.parts)
    return classes
