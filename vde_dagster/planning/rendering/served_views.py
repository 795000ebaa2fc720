"""Definitions of the views in an environment's own catalog.

An Iceberg schema contains each column once. A model that shows one column of its table under two
names is therefore served as a view over a table that contains the column once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

from sqlglot import exp
from sqlglot.errors import SqlglotError

from vde_dagster.base.names import ModelName, quote, quote_as
from vde_dagster.planning.engine_tasks import ViewDefinition
from vde_dagster.planning.environments.resolver import Binding, Resolver
from vde_dagster.planning.rendering.render import replace_tables
from vde_dagster.planning.rendering.view_dialects import WRITERS
from vde_dagster.project.model import Model
from vde_dagster.sql.reading import read_query

_NO_CATALOG = "\0"
"""Catalog that no table is in, so that names with three parts are never translated."""


@dataclass(frozen=True, slots=True)
class RepeatedColumns:
    """A model whose view shows one physical column under two names.

    Args:
        table: The table in the catalog that has each column once.
        columns: (name in the view, column of that table), in the view's order.
    """

    table: ModelName
    columns: tuple[tuple[str, str], ...]


def define_served_view(
    name: ModelName,
    resolver: Resolver,
    types: Iterable[tuple[str, str]],
    properties: Mapping[str, str] = MappingProxyType({}),
    doubled: Mapping[ModelName, RepeatedColumns] = MappingProxyType({}),
) -> ViewDefinition:
    """Define the view of a model that has no table, or that shows one column under two names."""
    snapshot = resolver.resolve(name).snapshot
    columns = tuple(types)
    if name in doubled:
        sql = _select_once(doubled[name])
    else:
        sql = served_query(snapshot.model, resolver, doubled)
    translated = {
        dialect: text
        for dialect, writer in WRITERS.items()
        if (text := writer.query(sql, columns, _NO_CATALOG, _NO_CATALOG)) is not None
    }
    descriptions = {column.name: column.description for column in snapshot.columns}
    return ViewDefinition(
        namespace=name.namespace,
        name=name.name,
        columns=tuple((out, type_, descriptions.get(out)) for out, type_ in columns),
        queries={"spark": sql, **translated},
        query_columns=tuple(out for out, _ in columns),
        properties=tuple(properties.items()),
        comment=snapshot.model.description,
    )


def served_query(
    model: Model,
    resolver: Resolver,
    doubled: Mapping[ModelName, RepeatedColumns] = MappingProxyType({}),
) -> str:
    """Write a model's query over tables of the environment's catalog, with other models inlined."""
    assert model.query is not None

    def relation_of(name: ModelName) -> str | None:
        if name not in resolver.entries:
            return None
        if name in doubled:
            return _select_once(doubled[name])
        return _relation(resolver.resolve(name), resolver, doubled)

    return replace_tables(model.query, relation_of)


def _select_once(doubled: RepeatedColumns) -> str:
    columns = ", ".join(quote_as(column, name) for name, column in doubled.columns)
    return f"SELECT {columns} FROM {quote(*doubled.table)}"


def _relation(
    binding: Binding, resolver: Resolver, doubled: Mapping[ModelName, RepeatedColumns]
) -> str | None:
    external, model = binding.external, binding.snapshot.model
    if external is not None:
        place = (external.namespace, external.name)
        parts = place if external.catalog is None else (external.catalog, *place)
        return f"SELECT * FROM {quote(*parts)}"
    if binding.table is not None:
        columns = ", ".join(quote(name) for name, _ in binding.columns)
        return f"SELECT {columns} FROM {quote(*model.name)}"
    return served_query(model, resolver, doubled) if model.query is not None else None


_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class Selection:
    """A query that only selects columns of one relation.

    Args:
        items: (output name, column of the relation), or None for a star.
    """

    source: ModelName
    items: tuple[tuple[str, str] | None, ...]

    def columns(self, source: Mapping[str, str]) -> tuple[tuple[str, str], ...] | None:
        """Return (output name, column) pairs, with stars replaced by the relation's columns.

        Returns None if a column is not in the relation, or if a column or a name occurs twice.

        Args:
            source: The column to return for each column of the relation, such as `p` for `x`.

        >>> one = Selection(ModelName("a", "b"), (("id", "X"), None))
        >>> one.columns({"y": "p", "z": "q"}) is one.columns({"id": "p", "x": "q"}) is None
        True
        >>> Selection(ModelName("a", "b"), (("id", "X"), ("y", "y"))).columns({"x": "p", "y": "q"})
        (('id', 'p'), ('y', 'q'))
        """
        known = {name.lower(): column for name, column in source.items()}
        found: list[tuple[str, str]] = []
        for item in self.items:
            if item is None:
                found += source.items()
            elif item[1].lower() in known:
                found.append((item[0], known[item[1].lower()]))
            else:
                return None
        names, columns = ({pair[i].lower() for pair in found} for i in (0, 1))
        return tuple(found) if len(names) == len(columns) == len(found) else None


@lru_cache(maxsize=_KEPT)
def read_selection(query: str) -> Selection | None:
    """Parse a query that only selects columns of one relation, possibly renamed.

    The query is Spark SQL as it is stored: without comments, with at most two parts in names.

    >>> read_selection("SELECT id AS number, o.day FROM raw.orders AS o").items
    (('number', 'id'), ('day', 'day'))
    >>> read_selection("SELECT id + 1 AS id FROM raw.orders") is None
    True
    """
    # Most queries do more, which shows before they are parsed.
    if "(" in query or not {"WHERE", "JOIN", "UNION", "GROUP"}.isdisjoint(query.upper().split()):
        return None

    try:
        tree = read_query(query).tree
    except SqlglotError:
        return None
    if not isinstance(tree, exp.Select) or _has_more(tree, "expressions", "from_"):
        return None
    table = tree.args["from_"].this if tree.args.get("from_") else None
    if not isinstance(table, exp.Table) or _has_more(table, "this", "db", "alias"):
        return None
    alias = table.args.get("alias")
    if alias is not None and _has_more(alias, "this"):
        return None
    items = [_item(item, table) for item in tree.expressions]
    if any(item is False for item in items):
        return None
    source = ModelName.parse(quote(*(part.name for part in table.parts)))
    return Selection(source, tuple(item for item in items if item is not False))


def _has_more(node: exp.Expr, *parts: str) -> bool:
    return any(value for key, value in node.args.items() if key not in parts)


def _item(item: exp.Expr, table: exp.Table) -> tuple[str, str] | Literal[False] | None:
    """Return a selected column as (name, column), None for a star, or False for anything else."""
    name = None
    if isinstance(item, exp.Alias):
        name, item = item.alias, item.this
    if isinstance(item, exp.Star):
        return False if name is not None or _has_more(item) else None
    if not isinstance(item, exp.Column) or _has_more(item, "this", "table", "db"):
        return False
    if not _is_qualifier([part.name.lower() for part in item.parts[:-1]], table):
        return False
    if isinstance(item.this, exp.Star):
        return False if name is not None or _has_more(item.this) else None
    return (name or item.name, item.name)


def _is_qualifier(parts: list[str], table: exp.Table) -> bool:
    """Return whether the prefix of a column names the table, and not a struct column."""
    alias = table.args.get("alias")
    if alias is not None:
        return parts in ([], [alias.name.lower()])
    own = [part.name.lower() for part in table.parts]
    return parts in ([], own[1:], own)
