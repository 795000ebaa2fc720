"""Resolution of the names of tables, columns and struct fields in a scope."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlglot import exp

from vde_dagster.base.hashing import digest_values
from vde_dagster.base.texts import closest, did_you_mean
from vde_dagster.errors import Fix, Hint
from vde_dagster.semantics.algebra.nodes import Correlation, Derived, FullJoin, Leaf, Node, Terms
from vde_dagster.semantics.errors import SemanticError
from vde_dagster.semantics.spark_functions import ALIASES, WITHOUT_PARENTHESES

if TYPE_CHECKING:
    from vde_dagster.semantics.binding.binder import Binder
    from vde_dagster.semantics.binding.ctes import VisibleCtes


_NO_NAME = "a subquery"
"""Words for a subquery without an alias."""


@dataclass(slots=True, eq=False)
class NamedSource:
    """A table or subquery in FROM, with its columns and its name in the query.

    Args:
        parts: The alias, or the parts of the table's name.
        nodes: Expressions of columns by name.
        open: Whether the columns are unknown, so that any name may exist.
        rest: The table with unknown columns that this subquery includes with a star.
        wraps: Outer joins that can replace this source's rows by NULLs, the innermost first.
        hidden: Columns that USING merged, in the order of the joins.
        written: Column names in their original case, by lower-case name.
    """

    parts: tuple[str, ...]
    names: list[str]
    # The expressions of a table's columns are created when they are first needed.
    nodes: dict[str, Node]
    types: dict[str, Any]
    leaf: Leaf | None = None
    leaf_names: dict[str, str] = field(default_factory=dict)
    open: bool = False
    rest: NamedSource | None = None
    wraps: list[Derived | FullJoin] = field(default_factory=list)
    # The star `*` omits these columns of this table, and `t.*` returns them first.
    hidden: dict[str, None] = field(default_factory=dict)
    repeated: set[str] = field(default_factory=set)
    written: dict[str, str | None] = field(default_factory=dict)

    @property
    def name_in_messages(self) -> str:
        return ".".join(self.parts) or _NO_NAME

    def has(self, name: str) -> bool:
        return name in self.types

    def get(self, name: str, terms: Terms) -> Node:
        """Return a column's expression, which outer joins around the table may make NULL."""
        node = self.nodes.get(name)
        if node is None and self.rest is not None:
            node = self.nodes[name] = self.rest.get(name, terms)
        if node is None:
            assert self.leaf is not None
            physical = self.leaf_names.get(name, name)
            if physical not in self.leaf.columns:
                self.leaf.columns[physical] = digest_values("column", self.leaf.rows, physical)
            node = self.nodes[name] = terms.make("ref", self.leaf, physical)
        for wrap in self.wraps:
            node = terms.make("ref", wrap, wrap.export(node))
        return node


@dataclass(slots=True, eq=False)
class Scope:
    """The tables, aliases and CTEs that a SELECT can name, and facts found while binding it."""

    parent: Scope | None
    ctes: VisibleCtes
    entries: list[NamedSource] = field(default_factory=list)
    merged: dict[str, tuple[Node, Any]] = field(default_factory=dict)
    aliases: dict[str, tuple[Node, Any]] = field(default_factory=dict)
    windows: dict[str, Any] = field(default_factory=dict)
    group_keys: frozenset[Node] | None = None
    clause: str = "select"
    in_aggregate: int = 0
    in_window: int = 0
    correlation: Correlation = field(default_factory=Correlation)
    has_aggregate: bool = False
    has_window: bool = False
    ungrouped: list[Node] = field(default_factory=list)
    lambdas: list[dict[str, Node]] = field(default_factory=list)
    rest: list[NamedSource] = field(default_factory=list)
    in_sets: bool = False
    """Whether the query has grouping sets, whose keys Spark distinguishes by their text."""


class ResolvedColumn(NamedTuple):
    """The column that a dotted name such as `o.item.price` refers to.

    Args:
        fields: Number of parts after the column that are struct fields.
    """

    node: Node
    type: Any
    fields: int = 0


class NotFound(Exception):
    """No table has the column, and the columns of all tables are known."""


class Ambiguous(Exception):
    def __init__(self, tables: list[str]) -> None:
        super().__init__(", ".join(tables))
        self.tables = tables


class UnclearName(Exception):
    """The meaning of a name depends on the engine or on columns that are not known."""


def resolve(parts: tuple[str, ...], scope: Scope, terms: Terms) -> ResolvedColumn:
    """Return the column that a lower-case dotted name refers to.

    Raises:
        NotFound, Ambiguous, UnclearName: See these classes.
    """
    first = _in_tables(parts, scope, terms)
    if len(parts) == 1 or first is None:
        unseen = scope.clause in ("where", "on") or (
            scope.clause == "having" and scope.in_aggregate
        )
        alias = scope.aliases.get(parts[0])
        if alias is not None and not unseen:
            first = _choose_column_or_alias(
                first, ResolvedColumn(alias[0], alias[1], len(parts) - 1), scope
            )
    if first is not None:
        return first
    unknown = [entry for entry in scope.entries if entry.open]
    if unknown:
        if len(unknown) > 1:
            raise UnclearName(f"column {'.'.join(parts)} may belong to several unknown tables")
        if scope.parent is not None:
            raise UnclearName(f"column {'.'.join(parts)} may belong to an outer query")
        entry = unknown[0]
        entry.types[parts[0]] = None
        return ResolvedColumn(entry.get(parts[0], terms), None, len(parts) - 1)
    if scope.parent is not None:
        found = resolve(parts, scope.parent, terms)
        scope.correlation.found = True
        return found
    raise NotFound(".".join(parts))


def _choose_column_or_alias(
    column: ResolvedColumn | None, alias: ResolvedColumn, scope: Scope
) -> ResolvedColumn:
    # The choice is the same as Spark's in each clause.
    if column is None or column.node is alias.node:
        return alias
    if scope.clause in ("select", "group"):
        return column
    if scope.clause == "order":
        return column if scope.in_aggregate else alias
    keys = scope.group_keys
    if scope.clause == "having" and keys is not None and column.node not in keys:
        return alias  # the column could not stand here
    raise UnclearName("a name in HAVING or QUALIFY is both a column and an alias")


def _in_tables(parts: tuple[str, ...], scope: Scope, terms: Terms) -> ResolvedColumn | None:
    for size in range(min(3, len(parts) - 1), 0, -1):
        entry = _find_qualified_table(parts[:size], scope)
        if entry is None:
            continue
        name = parts[size]
        if name in entry.repeated:
            raise Ambiguous([".".join(entry.parts)] * 2)
        if entry.has(name):
            return ResolvedColumn(entry.get(name, terms), entry.types[name], len(parts) - size - 1)
        if entry.open:
            entry.types[name] = None
            return ResolvedColumn(entry.get(name, terms), None, len(parts) - size - 1)
    name = parts[0]
    if name in scope.merged:
        node, kind = scope.merged[name]
        return ResolvedColumn(node, kind, len(parts) - 1)
    having = [entry for entry in scope.entries if entry.has(name)]
    if len(having) > 1 or (having and name in having[0].repeated):
        raise Ambiguous([".".join(entry.parts) for entry in having])
    if having:
        return ResolvedColumn(having[0].get(name, terms), having[0].types[name], len(parts) - 1)
    return None


def _find_qualified_table(qualifier: tuple[str, ...], scope: Scope) -> NamedSource | None:
    found: NamedSource | None = None
    size = len(qualifier)
    for entry in scope.entries:
        if entry.parts[-1] == qualifier[-1] and entry.parts[-size:] == qualifier:
            if found is not None:
                raise UnclearName(f"several tables are called {'.'.join(qualifier)}")
            found = entry
    return found


def bind_column(binder: Binder, e: exp.Column, scope: Scope) -> Node:
    identifiers = e.parts
    if isinstance(identifiers[-1], exp.Star):
        return binder.give_up("a star inside an expression")
    parts = tuple([part.name.lower() for part in identifiers])
    if len(parts) == 1:
        for names in reversed(scope.lambdas):
            if parts[0] in names:
                return names[parts[0]]
    try:
        found = resolve(parts, scope, binder.terms)
    except Ambiguous as error:
        return binder.record_mistake(_ambiguous(e, parts, error))
    except NotFound:
        if len(parts) == 1 and parts[0] in WITHOUT_PARENTHESES:
            return binder.terms.make("session", ALIASES.get(parts[0], parts[0]))
        return binder.record_mistake(_missing(e, parts, scope))
    except UnclearName as error:
        return binder.give_up(str(error))
    if found.fields:
        written = tuple(part.name for part in identifiers[-found.fields :])
        e.type = field_type(found.type, written)
        return bind_struct_fields(binder, found.node, written, found.type)
    if found.type is not None:
        e.type = found.type
    if scope.in_sets and found.node.tag != "ref":
        return _separate_subquery_column(binder, parts, found.node, scope)
    return found.node


def _separate_subquery_column(
    binder: Binder, parts: tuple[str, ...], node: Node, scope: Scope
) -> Node:
    """Return a node for a subquery's column that grouping sets can set to NULL.

    The column's expression in the subquery stays unchanged.
    """
    column = _in_tables(parts, scope, binder.terms)
    if column is None or column.node is not node:
        return node
    # In a grouping set that leaves out this column, the column is NULL. The expression that
    # computes it in the subquery is not NULL, so the column needs a node of its own.
    made, alias = binder.terms.make("column", node), scope.aliases.get(parts[0])
    if scope.clause not in ("select", "group") and alias is not None and alias[0] is not made:
        return binder.give_up("a name is both a column and an alias")
    return made


def bind_struct_fields(binder: Binder, node: Node, fields: tuple[str, ...], kind: Any) -> Node:
    """Bind the fields after a column in a name such as `column.a.b`."""
    for name in fields:
        if kind is not None and kind.this not in _WITH_FIELDS:
            return binder.give_up(f"field {name} of a single value", node)
        # Spark compares names of struct fields without case. Keys of a map keep their case, and so
        # do names if the type is unknown.
        struct = kind is not None and kind.this == exp.DType.STRUCT
        node = binder.terms.make("field", name.lower() if struct else name, node)
        kind = field_type(kind, (name,))
    return node


_D = exp.DType
_WITH_FIELDS = {_D.STRUCT, _D.MAP, _D.ARRAY, _D.VARIANT, _D.UNKNOWN}
"""Types that have fields; a field of an array of structs is an array."""


def field_type(kind: Any, fields: tuple[str, ...]) -> Any:
    for name in fields:
        members = getattr(kind, "expressions", None) or []
        kind = next((m.args.get("kind") for m in members if m.name.lower() == name.lower()), None)
    return kind


def _ambiguous(e: exp.Column, parts: tuple[str, ...], error: Ambiguous) -> SemanticError:
    tables = dict.fromkeys(error.tables)
    shown = " or ".join(one or _NO_NAME for one in tables)
    qualified = [f"{one}.{parts[-1]}" for one in tables if one]
    what, hint = f"{shown} has several columns of this name", "Rename one of them: … AS name."
    if len(tables) > 1:
        what, fixes = f"it may come from {shown}", (Fix.writing(parts[-1], q) for q in qualified)
        hint = Hint(f"Qualify it with its table, as in {qualified[0]}.", *fixes)
    return SemanticError.for_column(e, f"Column '{'.'.join(parts)}' is ambiguous: {what}.", hint)


def _missing(e: exp.Column, parts: tuple[str, ...], scope: Scope) -> SemanticError:
    visible: list[str] = []
    sources: list[NamedSource] = []
    outer: Scope | None = scope
    while outer is not None:
        for entry in outer.entries:
            names = [n for n in entry.types if n not in visible]
            if len(parts) > 1 and entry.parts[-1] == parts[0]:
                names = list(entry.types)
                visible = []
            visible += names
            sources.append(entry)
        outer = outer.parent
    hint: str | None = None
    names = [entry.parts[-1] for entry in sources]
    if len(parts) > 1 and parts[0] not in names:
        near = closest(parts[0], names)
        hint = did_you_mean(parts[0], near, ask="Did you mean the table") if near else None
    if hint is None:
        close = closest(parts[-1], visible)
        hint = did_you_mean(parts[-1], close, ask="Did you mean") if close else None
    if hint is None and visible:
        shown = ", ".join(visible[:8]) + (", …" if len(visible) > 8 else "")
        hint = f"Available columns: {shown}."
    tables = ", ".join(dict.fromkeys(entry.name_in_messages for entry in sources))
    read = f" in {tables}" if tables else ""
    return SemanticError.for_column(e, f"Column '{'.'.join(parts)}' does not exist{read}.", hint)
