"""Syntax trees of queries: their parameters and tables, Spark SQL written from them, and their
memory.

SQLGlot's own generator changes two meanings. Spark has no QUALIFY: SQLGlot (30.30,
`transforms.eliminate_qualify`) rewrites it by bare column names, so that `PARTITION BY c.k` becomes
the expression of an output named `k`, and it leaves DISTINCT, ORDER BY and LIMIT before the filter.
SQLGlot also lifts every nested WITH to the top (`transforms.move_ctes_to_top_level`) whatever the
names, though Spark reads nested ones.

Trees that were just read are kept by who loads a project and then plans it: loading fills
`ParsedQueries`, planning takes them out again. Who only loads gives none, and none are kept.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vde_dagster.sql.scanner import SourceText, too_deep

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.dialects.dialect import Dialect


QUERY_WORDS = ("SELECT", "WITH", "FROM", "VALUES", "(")
"""How a query can begin."""

_PREFIX = "__vde_param_"
_PLACEHOLDER = _PREFIX + "{}__"
_PLACEHOLDER_NAME = re.compile(r"__vde_param_(\w+?)__$")


def placeholder(name: str) -> str:
    """Return the identifier that stands for `@name` while SQLGlot parses (any dialect)."""
    return _PLACEHOLDER.format(name)


def restore_parameter_text(text: str) -> str:
    """Turn placeholders in text that SQLGlot cannot parse back into `@name`."""
    return re.sub(r"__vde_param_(\w+?)__(?!\w)", r"@\1", text)


def has_placeholder(text: str) -> bool:
    """Say whether a text may contain a placeholder."""
    return _PREFIX in text


def restore_parameters(tree: exp.Expr) -> exp.Expr:
    """Turn placeholders into parameters, in place; return the tree."""
    from sqlglot import exp

    for identifier in list(tree.find_all(exp.Identifier)):
        found = _PLACEHOLDER_NAME.match(identifier.name)
        if found is None:
            continue
        parameter = exp.Parameter(this=exp.Var(this=found[1]))
        owner = identifier.parent
        if isinstance(owner, exp.Column) and not owner.args.get("table"):
            if owner is tree:
                return parameter
            owner.replace(parameter)
        else:
            identifier.replace(parameter)
    return tree


def with_variables(tree: exp.Expr) -> exp.Expr:
    """Return a copy of a tree whose parameters every dialect writes as `@name`."""
    return tree.transform(_parameter_to_variable)


def _parameter_to_variable(node: exp.Expr) -> exp.Expr:
    from sqlglot import exp

    return exp.Var(this="@" + node.name) if isinstance(node, exp.Parameter) else node


def bracketed(text: str, dialect: str) -> str:
    """Put brackets around text that is an operator's expression and nothing more."""
    from sqlglot import exp, parse_one
    from sqlglot.errors import SqlglotError

    if "@" in text or text.isidentifier() or too_deep(SourceText(Path("macro"), text)) is not None:
        return text  # What is too deep is refused with the place of the call.
    try:
        tree = parse_one(text, dialect=dialect)
    except SqlglotError:  # not an expression of its own: a clause, a list, part of a statement
        return text
    loose = exp.Binary | exp.Not | exp.Neg | exp.Between | exp.In
    if isinstance(tree, loose) and not isinstance(tree, exp.Paren | exp.Dot | exp.Func):
        return f"({text})"
    return f"({text})" if isinstance(tree, exp.Connector) else text


def query_sql(tree: exp.Expr, *, copy: bool = True) -> str:
    """Write a tree as one line of Spark SQL without comments, parameters as `@name`."""
    return spark_sql(tree.copy() if copy else tree)


def tables_read(tree: exp.Expr) -> Iterator[exp.Table]:
    """Yield the tables that a query reads: no CTEs, table functions, hints or parameters."""
    from sqlglot import exp

    withs = _Withs()
    for table in _tables(tree):
        if not isinstance(table.this, exp.Identifier) or not table.name:
            continue
        if table.find_ancestor(exp.Hint) is not None or withs.define(table):
            continue
        yield table


def _tables(tree: exp.Expr) -> list[exp.Table]:
    """Find all tables, breadth first; twice as fast as SQLGlot's own walk, which visits names."""
    from sqlglot.expressions import Expr, Identifier, Literal, Table

    ends = {Identifier, Literal, str, bool, type(None)}
    nodes = [tree]
    for node in nodes:
        for value in node.args.values():
            if value.__class__ is list:
                nodes += [item for item in value if isinstance(item, Expr)]
            elif value.__class__ not in ends and isinstance(value, Expr):
                nodes.append(value)
    return [node for node in nodes if isinstance(node, Table)]


class _Withs:
    """The scopes of names defined by a query's WITH clauses, each clause visited once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[dict[str, int], dict[int, int]]] = {}

    def define(self, table: exp.Table) -> bool:
        """Say whether a name means a CTE where it stands.

        A CTE is in reach of the query that owns the WITH and of later CTEs of the same WITH; of
        itself only in WITH RECURSIVE.
        """
        from sqlglot import exp

        if table.args.get("db"):
            return False
        name = table.name.lower()
        below: exp.Expr = table
        inside: exp.CTE | None = None
        node = table.parent
        while node is not None:
            if isinstance(node, exp.CTE):
                inside = node
            elif isinstance(node, exp.With):
                first, places = self._of(node)
                place = first.get(name)
                here = places[id(inside)] + bool(node.args.get("recursive"))
                if place is not None and place < here:
                    return True
            else:
                owned = node.args.get("with_")
                owner = owned if isinstance(owned, exp.With) and owned is not below else None
                if owner is not None and name in self._of(owner)[0]:
                    return True
            below, node = node, node.parent
        return False

    def _of(self, with_: exp.With) -> tuple[dict[str, int], dict[int, int]]:
        """The first place of each name, and the place of each definition."""
        known = self._known.get(id(with_))
        if known is None:
            first: dict[str, int] = {}
            for place, cte in enumerate(with_.expressions):
                first.setdefault(cte.alias.lower(), place)
            places = {id(cte): place for place, cte in enumerate(with_.expressions)}
            known = self._known[id(with_)] = first, places
        return known


_CONDITION = "_qualify"
_AFTER_THE_FILTER = ("with_", "distinct", "order", "limit", "offset", "sort", "cluster")


def spark_sql(tree: exp.Expr) -> str:
    """Write a query as one line of Spark SQL without comments.

    Args:
        tree: The query as SQLGlot's own dialects read it, with time formats of Python's; it is
            changed. Its parameters are time variables, to be written as `@name`: SQLGlot's
            generator would write `${name}`, which is another thing in Spark.
    """
    from sqlglot import exp

    # One walk for everything: on a project of a thousand models, walks are what loading costs.
    found = list(tree.find_all(exp.Select, exp.CTE, exp.Parameter))
    tree = _write_parameters(tree, [n for n in found if isinstance(n, exp.Parameter)])
    filtered = [n for n in found if isinstance(n, exp.Select) and n.args.get("qualify")]
    if filtered:
        tree = _rewrite_qualify(tree, filtered)
        found = list(tree.find_all(exp.CTE))  # It makes copies.
    _name_ctes_apart(tree, [n for n in found if isinstance(n, exp.CTE)])
    return tree.sql(dialect="spark", comments=False, copy=False)


def _write_parameters(tree: exp.Expr, parameters: list[exp.Parameter]) -> exp.Expr:
    from sqlglot import exp

    for parameter in parameters:
        text = exp.Var(this="@" + parameter.name)
        if parameter is tree:
            tree = text
        else:
            parameter.replace(text)
    return tree


def _rewrite_qualify(tree: exp.Expr, selects: list[exp.Select]) -> exp.Expr:
    """Turn each QUALIFY into a filter over a subquery that computes its condition."""
    for select in reversed(selects):
        new = _filtered(select)
        if select is tree:
            tree = new
    return tree


def _filtered(select: exp.Select) -> exp.Select:
    from sqlglot import exp

    condition = select.args["qualify"].pop().this
    aliases = {
        item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)
    }
    holder = exp.Paren(this=condition)
    for column in list(holder.find_all(exp.Column)):
        meant = aliases.get(column.name.lower()) if not column.table else None
        if meant is not None:
            column.replace(exp.Paren(this=meant.copy()))
    moved = {key: select.args.get(key) for key in _AFTER_THE_FILTER if select.args.get(key)}
    for key in moved:
        select.set(key, None)
    outputs = _outputs(select)
    hidden = [exp.alias_(holder.this, _CONDITION, quoted=True)]
    hidden += _order_outside(moved.get("order"), outputs)
    outer = exp.Select(expressions=_named(outputs, hidden))
    if select.parent is not None:
        select.replace(outer)
    select.set("expressions", [*select.expressions, *hidden])
    outer.set("from_", exp.From(this=select.subquery("_t", copy=False)))
    outer.set("where", exp.Where(this=exp.column(_CONDITION, quoted=True)))
    for key, value in moved.items():
        outer.set(key, value)
    return outer


def _outputs(select: exp.Select) -> list[str] | None:
    """Name every output; None when there is a star, whose columns are not known here."""
    from sqlglot import exp

    if any(item.is_star for item in select.expressions):
        return None
    names = []
    for number, item in enumerate(select.expressions):
        if not isinstance(item, exp.Alias | exp.Column):
            item.replace(exp.alias_(item.copy(), f"_c{number}", quoted=True))
        names.append(select.expressions[number].alias_or_name)
    return names


def _named(outputs: list[str] | None, hidden: list[exp.Expr]) -> list[exp.Expr]:
    from sqlglot import exp

    if outputs is None:
        names = [exp.to_identifier(item.alias, quoted=True) for item in hidden]
        return [exp.Star(except_=names)]
    return [exp.column(name, quoted=True) for name in outputs]


def _order_outside(order: exp.Expr | None, outputs: list[str] | None) -> list[exp.Expr]:
    """Let the order, which now stands outside, read hidden columns for what is no output."""
    from sqlglot import exp

    if order is None:
        return []
    known = {name.lower() for name in outputs or ()}
    hidden: list[exp.Expr] = []
    for key in order.expressions:
        value = key.this if isinstance(key, exp.Ordered) else key
        plain = isinstance(value, exp.Column) and not value.table and value.name.lower() in known
        if plain or isinstance(value, exp.Literal):
            continue
        name = f"_order{len(hidden)}"
        hidden.append(exp.alias_(value.copy(), name, quoted=True))
        value.replace(exp.column(name, quoted=True))
    return hidden


def _name_ctes_apart(tree: exp.Expr, ctes: list[exp.CTE]) -> None:
    """Give common table expressions names of their own where one WITH lies within another."""
    from sqlglot import exp
    from sqlglot.optimizer.scope import traverse_scope

    if len({id(cte.parent) for cte in ctes}) < 2:
        return
    top = tree.args.get("with_")
    taken = {table.name.lower() for table in tree.find_all(exp.Table) if not table.db}
    kept = {cte.alias.lower() for cte in ctes if cte.parent is top}
    names: dict[int, str] = {}
    for cte in ctes:
        if cte.parent is not top:
            names[id(cte)] = _free(cte.alias, taken | kept)
            kept.add(names[id(cte)].lower())
    renamed = []
    for scope in traverse_scope(tree):
        for table in scope.tables:
            source = scope.cte_sources.get(table.name) if not table.db else None
            new = names.get(id(source.expression.parent)) if source is not None else None
            if new is not None:
                renamed.append((table, new))
    for table, new in renamed:
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
        table.set("this", exp.to_identifier(new, quoted=True))
    for cte in ctes:
        if id(cte) in names:
            cte.args["alias"].set("this", exp.to_identifier(names[id(cte)], quoted=True))


def _free(name: str, taken: set[str]) -> str:
    number = 2
    while f"{name}_{number}".lower() in taken:
        number += 1
    return f"{name}_{number}"


@lru_cache(maxsize=16)
def untranslated(dialect: str) -> Dialect:
    """Return a dialect that neither translates the formats it reads nor those it writes.

    SQLGlot translates every format to Python's and back, which makes one of `'y'` and `'yyyy'`,
    though Spark pads the year of the second only.

    Raises:
        ValueError: SQLGlot knows no such dialect.
    """
    from sqlglot.dialects.dialect import Dialect

    base = Dialect.get_or_raise(dialect).__class__
    changed: Any = type(f"Vde{base.__name__}", (base,), {"TIME_MAPPING": {}, "FORMAT_MAPPING": {}})
    made: Dialect = changed()
    return made


_MOST = 900_000


class ParsedQueries:
    """Trees by their queries' texts, up to a size: parsing is what a first load costs most.

    Args:
        most: How many characters of queries to keep trees of. A character takes about 130 bytes.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._room = most
        self._trees: dict[str, exp.Expr] = {}

    def keep(self, query: str, tree: exp.Expr) -> None:
        """Keep a query's tree if there is room; otherwise it is of no use any longer."""
        if len(query) > self._room or query in self._trees:
            dismantle(tree)
            return
        self._room -= len(query)
        self._trees[query] = tree

    def take(self, query: str) -> exp.Expr | None:
        """Hand over a query's tree; it is not kept any longer."""
        tree = self._trees.pop(query, None)
        if tree is not None:
            self._room += len(query)
        return tree

    def clear(self) -> None:
        """Forget all that nobody took."""
        for query in list(self._trees):
            tree = self.take(query)
            if tree is not None:
                dismantle(tree)


_ALLOCATIONS = 1_500_000
"""More than the objects of all trees that `ParsedQueries` keeps, about a million."""


def collect_rarely() -> None:
    """Let the garbage collector of this process look seldom.

    Only for a process that is all ours and ends soon: a syntax tree is some thousand objects, and
    with Python's threshold of 700 each is looked at several times for nothing.
    """
    gc.set_threshold(_ALLOCATIONS, 20, 20)


def dismantle(tree: exp.Expr) -> None:
    """Take a tree apart that nobody needs: nodes know their parents, so none is freed by itself."""
    for node in list(tree.walk()):
        node.parent = None
