"""The relational algebra of parsed queries, with normal forms of their expressions.

A query becomes a `Rel`: output expressions over a `Group`, which is a multiset of sources and a set
of conditions. Select-project-join subqueries are merged into the surrounding group; other
subqueries (an aggregation, a LIMIT, a set operation) become separate sources. The right side of a
LEFT JOIN, a lateral subquery and a generator are sources that depend on the row of the other
sources: ``a LEFT JOIN b ON p`` adds to each row of ``a`` the rows of ``b`` that meet ``p``, or one
row of NULLs. So the order of joins does not matter, except for FULL JOIN.

Normal forms keep an expression's value on any data, including NULLs and NaNs. Sums are not
re-associated (floats round, integers overflow), decimals are not folded (their scale is part of
their type), and ``x = TRUE`` is not rewritten to ``x``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from vde_dagster.base.times import parse_day

if TYPE_CHECKING:
    from vde_dagster.semantics.binding.names import NamedSource, Scope


BOOLEAN = frozenset(
    {"and", "or", "not", "eq", "neq", "lt", "le", "nseq", "Is", "in", "in query", "exists"}
    | {"bool", "Like", "ILike", "not each"}
)
"""Tags of expressions that are certainly boolean."""
COMPARED = ("eq", "neq", "lt", "le", "nseq")
"""Tags of comparisons; a NULL operand makes the result NULL, except for `nseq`."""
AGGREGATES = ("aggregate", "ordered aggregate")
UNORDERED = frozenset({"and", "or", "eq", "neq", "nseq", "add", "mul", "in list", "keys"})
"""Tags whose operands are sorted by digest before hashing."""
_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1
_INTEGER = re.compile(r"-?[0-9]+")
_PIECES = re.compile(r"'[^'\\]*'(?: '[^'\\]*')+")


class Node:
    __slots__ = ("parts", "serial", "tag")

    def __init__(self, tag: str, parts: tuple[Any, ...], serial: int) -> None:
        self.tag = tag
        self.parts = parts
        self.serial = serial

    def __repr__(self) -> str:
        return f"<{self.tag} {self.serial}>"


class Terms:
    """Creates the expressions of one query. Equal expressions are the same object."""

    __slots__ = ("_known", "has_zoned_timestamps", "keys", "same_type")

    def __init__(self) -> None:
        self.has_zoned_timestamps = False
        """Whether TIMESTAMP certainly is the type with a time zone."""
        self._known: dict[tuple[Any, ...], Node] = {}
        self.keys: dict[Group, list[frozenset[Node]]] = {}
        """Results of `uniqueness` for completed groups."""
        self.same_type: set[Node] = set()
        """Equalities in which each value of a side equals at most one value of the other side."""

    def make(self, tag: str, *parts: Any) -> Node:
        key = (tag, *parts, *map(type, parts))  # 1 and True are equal, and two expressions
        node = self._known.get(key)
        if node is None:
            node = self._known[key] = Node(tag, parts, len(self._known))
        return node

    def nodes(self) -> list[Node]:
        return list(self._known.values())

    def free_nodes(self) -> None:
        """Remove the operands of all expressions, so that Python can free them."""
        # The parts contain reference cycles, through subqueries and scopes.
        for node in self._known.values():
            node.parts = ()

    def unordered(self, tag: str, operands: Iterable[Node]) -> Node:
        """Create an operator such as AND with sorted operands; their order has no meaning."""
        return self.make(tag, *sorted(operands, key=lambda node: node.serial))

    def boolean(self, value: bool) -> Node:
        return self.make("bool", value)

    def number(self, value: int | str) -> Node:
        return self.make("lit", "n", str(value))

    def literal(self, text: str) -> Node:
        """Create a literal in normal form: `007` -> `7`, `-0` -> `0`, `'a' 'b'` -> `'ab'`."""
        # The text has quotes or a suffix as in `sql.grammar.tokens`.
        if _INTEGER.fullmatch(text):
            return self.number(int(text))
        if _PIECES.fullmatch(text):
            text = "'{}'".format("".join(text[1:-1].split("' '")))
        return self.make("lit", "s", text) if text[-1:] in "'\"" else self.number(text.upper())

    def combine(self, tag: str, operands: Iterable[Node]) -> Node:
        neutral = tag == "and"
        # `a AND FALSE` is not reduced to FALSE here, because evaluating `a` may raise an error. The
        # same is true of `a OR TRUE`. `simplify.facts` drops `a` if that is safe.
        absorbing: Node | None = None
        flat: list[Node] = []
        for operand in operands:
            flat.extend(operand.parts if operand.tag == tag else (operand,))
        kept: list[Node] = []
        for operand in dict.fromkeys(flat):
            if operand.tag != "bool":
                kept.append(operand)
            elif operand.parts[0] != neutral:
                absorbing = operand
        if absorbing is not None:
            kept.append(absorbing)
        if not kept:
            return self.boolean(neutral)
        if len(kept) == 1 and kept[0].tag in BOOLEAN:
            return kept[0]
        return self.unordered(tag, kept)

    def negate(self, node: Node) -> Node:
        """Negate a condition. NOT is moved to the innermost conditions where possible."""
        tag, parts = node.tag, node.parts
        if tag == "not" and parts[0].tag in BOOLEAN:
            inner: Node = parts[0]
            return inner
        if tag == "bool":
            return self.boolean(not parts[0])
        if tag in ("and", "or") and all(p.tag in BOOLEAN for p in parts):
            return self.combine("or" if tag == "and" else "and", map(self.negate, parts))
        if tag in ("eq", "neq"):
            return self.make("neq" if tag == "eq" else "eq", *parts)
        # Spark and DuckDB order NaN above every number, so NOT (a < b) is b <= a.
        if tag in ("lt", "le"):
            return self.make("le" if tag == "lt" else "lt", *parts[::-1])
        return self.make("not", node)

    def compare(self, op: str, left: Node, right: Node) -> Node:
        """Create a comparison, or a literal for two INT literals: `1 < 2` -> TRUE."""
        if op in ("gt", "ge"):
            op, left, right = {"gt": "lt", "ge": "le"}[op], right, left
        a, b = int_value(left), int_value(right)
        if a is not None and b is not None:
            results = {"eq": a == b, "neq": a != b, "lt": a < b, "le": a <= b, "nseq": a == b}
            return self.boolean(results[op])
        return self.unordered(op, [left, right]) if op in UNORDERED else self.make(op, left, right)

    def arithmetic(self, op: str, left: Node, right: Node) -> Node:
        """Create a sum, difference or product; a literal for two INT literals: `1 + 2` -> `3`."""
        a, b = int_value(left), int_value(right)
        if a is not None and b is not None:
            value = a + b if op == "add" else a - b if op == "sub" else a * b
            if _INT_MIN <= value <= _INT_MAX:
                return self.number(value)
        return self.unordered(op, [left, right]) if op in UNORDERED else self.make(op, left, right)

    def is_null(self, node: Node) -> Node:
        return self.make("Is", "expression", self.make("Null"), "this", node)

    def minus(self, operand: Node) -> Node:
        """Create a unary minus, or the negative literal for an INT literal."""
        value = int_value(operand)
        if value is None or value == _INT_MIN:
            return self.make("neg", operand)
        return self.number(-value)


def int_value(node: Node) -> int | None:
    """Return the value of an INT literal, or None for other expressions and larger numbers."""
    if node.tag != "lit" or node.parts[0] != "n" or not _INTEGER.fullmatch(node.parts[1]):
        return None
    value = int(node.parts[1])
    return value if _INT_MIN <= value <= _INT_MAX else None


def conjuncts(node: Node) -> list[Node]:
    """Split a condition at its top-level ANDs: `a AND b` -> `[a, b]`, TRUE -> `[]`."""
    if node.tag == "and":
        return list(node.parts)
    return [] if node.tag == "bool" and node.parts[0] is True else [node]


_PLAIN = re.compile(r"'([^'\\]*)'")


def case_values(node: Node) -> list[Node]:
    return [*node.parts[1::2], *(node.parts[-1:] if len(node.parts) % 2 else ())]


def simple_aggregate(body: Node) -> tuple[str, Node] | None:
    """Return the name and argument of an aggregate such as `sum(a)`, else None."""
    if body.tag != "call" or len(body.parts) != 2 or body.parts[1].__class__ is not Node:
        return None
    return body.parts


def is_false(node: Node) -> bool:
    return node.tag == "bool" and not node.parts[0]


def null_test_operand(node: Node) -> Node | None:
    """Return `x` if the expression is `x IS NULL`, else None."""
    if node.tag != "Is":
        return None
    asked: list[Node] = [p for p in node.parts if p.__class__ is Node]
    return asked[1] if len(asked) == 2 and asked[0].tag == "Null" else None


def plain_string(text: str) -> str | None:
    """Return the value of a string in single quotes without escapes, or None for other literals."""
    found = _PLAIN.fullmatch(text)
    return found[1] if found else None


def is_plain_date(text: str) -> bool:
    """Return whether a literal is a string with a valid day, such as `'2024-02-29'`."""
    value = plain_string(text)
    try:
        return value is not None and bool(parse_day(value))
    except ValueError:
        return False


@dataclass(slots=True, eq=False)
class Correlation:
    """Flag that is set when a subquery uses a column of an outer query."""

    found: bool = False


@dataclass(slots=True, eq=False)
class Leaf:
    """A table that a query reads: a parent model or an external table.

    Args:
        open: Whether the table may have unknown columns.
    """

    table: str
    rows: bytes
    columns: dict[str, bytes]
    types: dict[str, Any]
    keys: tuple[frozenset[str], ...] = ()
    open: bool = False


@dataclass(slots=True, eq=False)
class Group:
    """The FROM and WHERE of one SELECT: its tables and subqueries, and the conditions on rows.

    Args:
        joins: The `conditions` that come from ON clauses.
        sorts: ORDER BY expressions of merged subqueries.
    """

    sources: list[Source] = field(default_factory=list)
    conditions: list[Node] = field(default_factory=list)
    joins: set[Node] = field(default_factory=set)
    sorts: list[Node] = field(default_factory=list)

    def absorb(self, other: Group) -> None:
        self.sources += other.sources
        self.conditions += other.conditions
        self.joins |= other.joins
        self.sorts += other.sorts

    def replace_source(self, source: Source, other: Group, *more: Source) -> None:
        """Replace one source with the sources and conditions of `other`, and with `more`."""
        at = self.sources.index(source)
        behind = self.sources[at + 1 :]  # They may depend on the rows of what stood there.
        del self.sources[at:]
        self.absorb(other)
        self.sources += [*more, *behind]

    def copied(self) -> Group:
        """Return a copy that later changes of this group do not affect."""
        return Group(list(self.sources), list(self.conditions), set(self.joins), list(self.sorts))


class _Exporting:
    __slots__ = ()
    columns: list[Node]

    def export(self, node: Node) -> int:
        if node in self.columns:
            return self.columns.index(node)
        self.columns.append(node)
        return len(self.columns) - 1


@dataclass(slots=True, eq=False)
class Derived(_Exporting):
    """A source derived from a group by the operation `op`.

    - ``agg``: a grouping. `keys` are the grouping sets, one ``keys`` node each.
    - ``limit``: the first rows. `args` are the limits and the sort order.
    - ``left``: for each outer row its matches, or one row of NULLs. `unique`: at most one match.
    - ``block``: the group itself, which is not merged into the outer group.
    """

    op: str
    group: Group
    correlation: Correlation
    keys: tuple[Node, ...] = ()
    args: tuple[Any, ...] = ()
    columns: list[Node] = field(default_factory=list)
    unique: bool = False


@dataclass(slots=True, eq=False)
class FullJoin(_Exporting):
    left: Group
    right: Group
    conditions: list[Node]
    correlation: Correlation
    columns: list[Node] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class SetOperation:
    """UNION ALL, INTERSECT or EXCEPT of queries.

    Args:
        has_common_types: Whether each column has the same simple, known type in all queries.
    """

    op: str
    branches: list[Rel]
    correlation: Correlation
    # If false, the result's types may depend on the order of the queries, and so may its values.
    has_common_types: bool


@dataclass(slots=True, eq=False)
class Generator:
    """A table function, such as explode, that is called for each row of the other sources."""

    op: str
    outer: bool
    args: list[Node]


@dataclass(slots=True, eq=False)
class Constant:
    """A VALUES list, or a table function with constant arguments such as `range(10)`."""

    op: str
    rows: list[list[Node]]


Source: TypeAlias = Leaf | Derived | FullJoin | SetOperation | Generator | Constant


@dataclass(slots=True)
class Output:
    name: str
    node: Node
    type: Any = None
    written: str | None = None

    def as_node(self, node: Node) -> Output:
        return Output(self.name, node, self.type, self.written)


@dataclass(slots=True, eq=False)
class Rel:
    """The relation that a query returns.

    Args:
        local: Whether this is the right side of a semi or anti join.
        rest: Table with unknown columns, if a star includes such a table.
    """

    group: Group
    outputs: list[Output]
    scope: Scope
    # The conditions of the right side of a semi or anti join refer to sources of the left side.
    local: bool = False
    rest: NamedSource | None = None


Replacement = Callable[[Node], Node | None]


def rewrite(node: Node, rule: Replacement, terms: Terms, memo: dict[Node, Node]) -> Node:
    """Apply a rule to an expression and its parts, outer expressions first.

    The rule returns a replacement, or None to continue with the expression's parts. The rule is not
    applied to replacements. Calls with the same rule share `memo`.
    """
    done = memo.get(node)
    if done is not None:
        return done
    new = rule(node)
    if new is None:
        if node.tag in ("ref", "lit"):
            new = node
        else:
            parts = tuple(
                rewrite(p, rule, terms, memo) if p.__class__ is Node else p for p in node.parts
            )
            new = node if parts == node.parts else terms.make(node.tag, *parts)
    memo[node] = new
    return new


def walk(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield each expression and its nested parts once, without entering inner queries."""
    seen: set[Node] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            yield node
            stack += (part for part in node.parts if part.__class__ is Node)


def complete_windows(nodes: list[Node], group: Group, terms: Terms) -> list[Node]:
    """Set `group` as the rows over which window functions are computed."""
    completion = _Completion(group, terms)
    return [rewrite(node, completion, terms, completion.memo) for node in nodes]


class _Completion:
    def __init__(self, group: Group, terms: Terms) -> None:
        self._group = group
        self._terms = terms
        self.memo: dict[Node, Node] = {}

    def __call__(self, node: Node) -> Node | None:
        if node.tag != "pending window":
            return None
        inner = [
            rewrite(p, self, self._terms, self.memo) if p.__class__ is Node else p
            for p in node.parts
        ]
        return self._terms.make("window", self._group, *inner)


PARTS: dict[type, Callable[[Any], Iterable[Any]]] = {
    Node: lambda node: node.parts,
    Leaf: lambda leaf: (),
    Group: lambda group: (*group.sources, *group.conditions, *group.sorts),
    Rel: lambda rel: (rel.group, *(output.node for output in rel.outputs)),
    Derived: lambda made: (made.group, *made.keys, *made.args, *made.columns),
    FullJoin: lambda join: (join.left, join.right, *join.conditions, *join.columns),
    SetOperation: lambda operation: operation.branches,
    Generator: lambda generator: generator.args,
    Constant: lambda constant: (cell for row in constant.rows for cell in row),
}
"""Parts of a query's nodes, by class; other values, such as texts, have no parts."""


def sources_in(part: Any) -> set[Any]:
    found: set[Any] = set()
    seen: set[Any] = set()
    stack = [part]
    while stack:
        item = stack.pop()
        parts = PARTS.get(item.__class__)
        if parts is None or item in seen:
            continue
        seen.add(item)
        if item.__class__ is not Node:
            stack.extend(parts(item))
        elif item.tag == "ref":
            found.add(item.parts[0])
        else:
            stack.extend(item.parts)
    return found
