"""Hashes of the relational algebra.

Every group gets a frame, which has a label for each source. A label consists of the source's row
version and a number that distinguishes equal sources (self joins). The hash of a column reference
consists of the number of enclosing queries between the reference and its source, the source's
label, and the column's version. Equal sources are numbered in all possible orders, if these are at
most 24, and the smallest hash is kept, so that their order in the query does not matter.

>>> from vde_dagster.semantics.analysis import analyze
>>> def rows(query):
...     return analyze(query, {"t": {"a": "INT", "k": "INT"}}).version.rows
>>> one = rows("SELECT x.a FROM t AS x JOIN t AS y ON x.k = y.a")
>>> one == rows("SELECT n.a FROM t AS m JOIN t AS n ON m.a = n.k")
True
>>> one == rows("SELECT x.a FROM t AS x JOIN t AS y ON x.k = y.k")
False
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, permutations, product
from math import factorial, prod
from typing import Any

from vde_dagster.base.hashing import digest_tagged, digest_values
from vde_dagster.semantics.algebra.nodes import (
    UNORDERED,
    Derived,
    FullJoin,
    Generator,
    Group,
    Leaf,
    Node,
    Rel,
    SetOperation,
    is_false,
    sources_in,
)
from vde_dagster.semantics.algebra.uniqueness import is_lookup
from vde_dagster.semantics.simplify.implied_conditions import EQUAL, find_interchangeable

_MAX_NUMBERINGS = 24

_ARITHMETIC = ("add", "mul")

Branches = list[tuple[bytes, list[bytes]]]


class Digester:
    """Hashes one bound query. Call `digest_query` only once."""

    def __init__(self) -> None:
        # By frame and source; what is the same in every frame, by None and source.
        self._closed: dict[tuple[Frame | None, Any], HashedGroup] = {}
        self._branches_of: dict[tuple[Frame | None, Any], Branches] = {}
        self._lasting: dict[Any, bytes] = {}
        self._of_sets: dict[tuple[Frame, Derived], Frame] = {}

    def digest_query(self, rel: Rel) -> tuple[bytes, list[bytes]]:
        return self._rel(rel, None)

    def _rel(self, rel: Rel, parent: Frame | None) -> tuple[bytes, list[bytes]]:
        closed = self._close(rel.group, parent, [o.node for o in rel.outputs])
        return closed.rows, [self._output(o.node, closed) for o in rel.outputs]

    def _output(self, node: Node, closed: HashedGroup) -> bytes:
        if closed.sole is not None and node.tag == "ref" and node.parts[0] is closed.sole:
            return self._column(node.parts[0], node.parts[1], closed.frame)
        return self.node(node, closed.frame)

    # groups

    def _close(self, group: Group, parent: Frame | None, tail: list[Any]) -> HashedGroup:
        """Hash a group. The hashes of the expressions `tail` break ties between equal sources."""
        free = [s for s in group.sources if not _is_dependent(s)]
        probe = Frame(parent)
        rows = [self._rows(source, probe) for source in free]

        def numbered(numbers: dict[int, int]) -> HashedGroup:
            labels = {s: digest_values("source", rows[i], numbers[i]) for i, s in enumerate(free)}
            return self._numbered(group, Frame(parent, labels), rows)

        classes: dict[bytes, list[int]] = {}
        for i, row in enumerate(rows):
            classes.setdefault(row, []).append(i)
        ways = _count_orders(classes.values())
        alike = [[members] for members in classes.values()]
        if ways > _MAX_NUMBERINGS:
            asked = self._condition_marks(group, parent, free, rows)
            alike = [_split_by_conditions(members, asked) for members in classes.values()]
            ways = _count_orders(members for parts in alike for members in parts)
        if ways == 1 or ways > _MAX_NUMBERINGS:
            numbers = {i: n for parts in alike for n, i in enumerate(chain(*parts))}
            return numbered(numbers)
        best: tuple[Any, HashedGroup] | None = None
        for choice in product(*(product(*map(permutations, parts)) for parts in alike)):
            numbers = {i: n for orders in choice for n, i in enumerate(chain(*orders))}
            closed = numbered(numbers)
            key = (closed.rows, [self.node(node, closed.frame) for node in tail])
            if best is None or key < best[0]:
                best = key, closed
        assert best is not None
        return best[1]

    def _condition_marks(
        self, group: Group, parent: Frame | None, free: list[Any], rows: list[bytes]
    ) -> list[bytes]:
        own = set(group.sources)
        conditions = [c for c in group.conditions if sources_in(c) & own <= set(free)]
        marks = rows
        for _ in free:
            found: list[bytes] = []
            for i, mark in enumerate(marks):
                labels = {s: digest_values("source", marks[j], i == j) for j, s in enumerate(free)}
                frame = Frame(parent, labels)
                asked = sorted({self.node(c, frame) for c in conditions})
                found.append(digest_tagged("asked", [mark, *asked]))
            if len(set(found)) == len(set(marks)):
                break
            marks = found
        return marks

    def _numbered(self, group: Group, frame: Frame, rows: list[bytes]) -> HashedGroup:
        free = list(frame.labels)
        equal = self._equalities(group, frame)
        labels = sorted(frame.labels.values())
        repeated: dict[bytes, int] = {}
        dependent: list[bytes] = []
        for source in group.sources:
            if source in frame.labels:
                continue
            row = self._rows(source, frame)
            if is_lookup(source):
                frame.labels[source] = digest_values("lookup", row)
                continue
            number = repeated[row] = repeated.get(row, -1) + 1
            label = frame.labels[source] = digest_values("dependent", row, number)
            dependent.append(label)
        if group.conditions and all(map(is_false, group.conditions)):
            return HashedGroup(digest_values("no rows"), frame)
        asked = {self.node(c, frame) for c in group.conditions if c not in equal}
        where = sorted(asked.union(equal.values()))
        if len(free) == 1 and not dependent and not where:
            return HashedGroup(rows[0], frame, free[0])
        parts: list[Any] = [len(labels), *labels, len(dependent), *sorted(dependent), *where]
        return HashedGroup(digest_tagged("group", parts), frame)

    def _equalities(self, group: Group, frame: Frame) -> dict[Node, bytes]:
        """Hash the conditions that make columns equal, and fill `Frame.instead`."""
        own = frame.labels
        made: dict[Node, bytes] = {}
        of: dict[Node, bytes] = {}
        for c in group.conditions:
            if c.tag not in EQUAL or any(p.tag != "ref" or p.parts[0] not in own for p in c.parts):
                continue
            if find_interchangeable([c]).all():
                of.update({p: self._reference(p, frame) for p in c.parts})
                made[c] = digest_tagged(c.tag, sorted(of[p] for p in c.parts))
        for members in find_interchangeable(made).all():
            frame.instead.update(dict.fromkeys(members, min(members, key=of.__getitem__)))
        return made

    # sources

    def _inner(self, source: Derived, frame: Frame) -> HashedGroup:
        around = frame if _is_dependent(source) else None
        closed = self._closed.get((around, source))
        if closed is None:
            tail = [*source.keys, *source.args, *source.columns]
            closed = self._closed[around, source] = self._close(source.group, around, tail)
        return closed

    def _keyed(self, source: Derived, frame: Frame) -> Frame:
        """Return a frame with unique hashes for the keys of grouping sets."""
        if len(source.keys) < 2:
            return frame
        known = self._of_sets.get((frame, source))
        if known is None:
            known = Frame(frame.parent, frame.labels)
            digests: dict[Node, bytes] = {
                key: self.node(key, known)
                for key in chain.from_iterable(k.parts for k in source.keys)
            }
            # Keys with equal values are not interchangeable, nor are a key and an equal literal. A
            # grouping set may leave out only one of the keys, which is then NULL.
            numbers: dict[bytes, int] = {}
            for key, digest in digests.items():
                number = numbers[digest] = numbers.get(digest, -1) + 1
                if number or not sources_in(key):
                    digest = digest_values("key", digest, number)
                known.memo[key] = digest
            self._of_sets[frame, source] = known
        return known

    def _rows(self, source: Any, frame: Frame) -> bytes:
        if source.__class__ is Leaf:
            rows: bytes = source.rows
            return rows
        known: bytes | None = frame.memo.get(source) or self._lasting.get(source)
        if known is None:
            known = self._made_rows(source, frame)
            if _is_dependent(source):
                frame.memo[source] = known
            else:
                self._lasting[source] = known
        return known

    def _made_rows(self, source: Any, frame: Frame) -> bytes:
        if isinstance(source, Derived):
            closed = self._inner(source, frame)
            inside = closed.frame
            if source.op == "agg":
                inside = self._keyed(source, inside)
                keys = sorted(self.node(k, inside) for k in source.keys)
                return digest_tagged("agg", [closed.rows, *keys])
            if source.op == "left":
                return digest_values("left", closed.rows)
            if source.op == "block":
                return closed.rows
            args = [self.node(a, inside) for a in source.args]
            order = self._order(source.group, inside)
            return digest_tagged(source.op, [closed.rows, order, *args])
        if isinstance(source, SetOperation):
            branches = self._branches(source, frame)
            parts: list[Any] = [len(branches)]
            for rows, columns in branches:
                parts += [rows, *columns] if source.op != "union" else [rows]
            return digest_tagged(source.op, parts)
        if isinstance(source, FullJoin):
            return self._full(source, frame).rows
        if isinstance(source, Generator):
            args = [self.node(a, frame) for a in source.args]
            return digest_tagged("generator", [source.op, source.outer, *args])
        if source.op == "values":
            return digest_values("values", len(source.rows))
        return digest_tagged(source.op, [self.node(c, frame) for c in source.rows[0]])

    def _branches(self, source: SetOperation, frame: Frame) -> Branches:
        key = (frame if _is_dependent(source) else None, source)
        made = self._branches_of.get(key)
        if made is None:
            made = [self._rel(branch, frame) for branch in source.branches]
            if source.has_common_types and not source.op.startswith("except"):
                made.sort()
            self._branches_of[key] = made
        return made

    def _full(self, source: FullJoin, frame: Frame) -> HashedGroup:
        known = self._closed.get((frame, source))
        if known is not None:
            return known
        sides = [self._close(side, frame, []) for side in (source.left, source.right)]
        sides.sort(key=lambda side: side.rows)
        ways = [sides, sides[::-1]] if sides[0].rows == sides[1].rows else [sides]
        made = [self._joined(source, way, frame) for way in ways]
        best = min(made, key=lambda c: (c.rows, [self.node(n, c.frame) for n in source.columns]))
        self._closed[frame, source] = best
        return best

    def _joined(self, source: FullJoin, sides: list[HashedGroup], frame: Frame) -> HashedGroup:
        inside = Frame(frame)
        for i, side in enumerate(sides):
            for one, label in side.frame.labels.items():
                inside.labels[one] = digest_values("side", i, side.rows, label)
        where = sorted({self.node(c, inside) for c in source.conditions})
        return HashedGroup(digest_tagged("full", [*(side.rows for side in sides), *where]), inside)

    def _column(self, source: Any, key: Any, frame: Frame) -> bytes:
        if source.__class__ is Leaf:
            column: bytes = source.columns[key]
            return column
        if isinstance(source, Derived):
            closed = self._inner(source, frame)
            if source.op == "block":
                return self._output(source.columns[key], closed)
            node = source.columns[key]
            version = self.node(node, self._keyed(source, closed.frame))
            if node.tag == "ordered aggregate":
                return digest_values("ordered", version, self._order(source.group, closed.frame))
            return version
        if isinstance(source, SetOperation):
            branches = self._branches(source, frame)
            return digest_tagged(
                "branches", [source.op, *(columns[key] for _, columns in branches)]
            )
        if isinstance(source, FullJoin):
            return self.node(source.columns[key], self._full(source, frame).frame)
        if isinstance(source, Generator):
            return digest_values("generated", key)
        if source.op == "values":
            return digest_tagged("values", [self.node(row[key], frame) for row in source.rows])
        return digest_values("table function column", key)

    def _order(self, group: Group, frame: Frame) -> bytes:
        parts: list[Any] = []
        for source in group.sources:
            if is_lookup(source):
                continue
            parts.append(self._rows(source, frame))
            if isinstance(source, Derived):
                inside = self._inner(source, frame)
                parts.append(self._order(source.group, inside.frame))
            elif isinstance(source, SetOperation):
                for branch in source.branches:
                    closed = self._close(branch.group, frame, [o.node for o in branch.outputs])
                    parts += [closed.rows, self._order(branch.group, closed.frame)]
            elif isinstance(source, FullJoin):
                parts += [self._close(s, frame, []).rows for s in (source.left, source.right)]
        return digest_tagged("order", [*parts, *(self.node(s, frame) for s in group.sorts)])

    # expressions

    def node(self, node: Node, frame: Frame) -> bytes:
        known = frame.memo.get(node)
        if known is None:
            known = frame.memo[node] = self._node(node, frame)
        return known

    def _node(self, node: Node, frame: Frame) -> bytes:
        tag = node.tag
        if tag == "ref":
            return self._reference(node, frame)
        if tag == "window":
            return self._window(node, frame)
        if tag == "column":
            return self.node(node.parts[0], frame)
        if tag == "exists":
            return digest_values("exists", self._close(node.parts[0].group, frame, []).rows)
        parts: list[Any] = []
        for part in node.parts:
            kind = part.__class__
            if kind is Node:
                parts.append(self.node(part, frame))
            elif kind is Rel:
                rows, columns = self._rel(part, frame)
                parts += [rows, len(columns), *columns]
            else:
                parts.append(part)
        if tag in UNORDERED:
            parts = sorted(set(parts)) if tag not in _ARITHMETIC else sorted(parts)
        return digest_tagged(tag, parts)

    def _reference(self, node: Node, frame: Frame) -> bytes:
        level, home = frame.find_home(node.parts[:1])
        source, key = home.instead.get(node, node).parts
        return digest_values("ref", level, home.labels[source], self._column(source, key, home))

    def _window(self, node: Node, frame: Frame) -> bytes:
        group: Group = node.parts[0]
        ties: bool = node.parts[1]
        level, home = frame.find_home(group.sources)
        terms = [p for p in node.parts[2:] if isinstance(p, Node)]
        closed = self._close(group, home.parent, terms)
        parts: list[Any] = [level, closed.rows]
        for source in sorted(group.sources, key=lambda s: closed.frame.labels[s]):
            if not is_lookup(source):
                parts.append(home.labels[source])
        parts += [self.node(term, closed.frame) for term in terms]
        if ties:
            parts.append(self._order(group, closed.frame))
        return digest_tagged("window", parts)


@dataclass(slots=True, eq=False)
class Frame:
    """Labels for hashing references to the tables of a query.

    Args:
        parent: The frame of the enclosing query.
        instead: By column, the column that represents all columns with the same values.
    """

    parent: Frame | None
    labels: dict[Any, bytes] = field(default_factory=dict)
    instead: dict[Node, Node] = field(default_factory=dict)
    memo: dict[Any, bytes] = field(default_factory=dict)

    def find_home(self, sources: Iterable[Any]) -> tuple[int, Frame]:
        """Return (steps outward, frame) for the nearest frame with labels of all sources.

        Zero steps mean this frame itself.
        """
        level, home = 0, self
        while not all(map(home.labels.__contains__, sources)):
            if home.parent is None:
                raise LookupError("a reference to a source that no outer query contains")
            level, home = level + 1, home.parent
        return level, home


@dataclass(slots=True, eq=False)
class HashedGroup:
    """The hash of a group's rows, and the frame with its labels.

    `sole` is the group's only source if the group has exactly the rows of this source.
    """

    rows: bytes
    frame: Frame
    sole: Any = None


def _is_dependent(source: Any) -> bool:
    if isinstance(source, Derived):
        return source.op == "left" or source.correlation.found
    if isinstance(source, (SetOperation, FullJoin)):
        return source.correlation.found
    return isinstance(source, Generator)


def _count_orders(classes: Iterable[list[int]]) -> int:
    return prod(factorial(len(members)) for members in classes)


def _split_by_conditions(members: list[int], asked: list[bytes]) -> list[list[int]]:
    found: dict[bytes, list[int]] = {}
    for i in members:
        found.setdefault(asked[i], []).append(i)
    return [found[mark] for mark in sorted(found)]
