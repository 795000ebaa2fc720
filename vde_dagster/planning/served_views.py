"""Views as a catalog of one environment has them: over that catalog's own tables, by two parts.

Iceberg's schemas have each column once. A model's table that has one twice, under two names, is a
view over a table that has it once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from vde_dagster.base.names import ModelName, quote
from vde_dagster.planning.render import replace_tables
from vde_dagster.planning.resolver import Binding, Resolver
from vde_dagster.planning.view_dialects import WRITERS
from vde_dagster.planning.work import ViewDefinition
from vde_dagster.project.model import Model

_NO_CATALOG = "\0"
"""Names have two parts; one with three is of another catalog, and not translated."""


@dataclass(frozen=True, slots=True)
class Doubled:
    """A model whose table has a column under two names.

    Args:
        table: The table in the catalog that has each column once.
        columns: (name, column of that table) in order.
    """

    table: ModelName
    columns: tuple[tuple[str, str], ...]


def serve_view(
    name: ModelName,
    resolver: Resolver,
    types: Iterable[tuple[str, str]],
    properties: Mapping[str, str] = MappingProxyType({}),
    doubled: Mapping[ModelName, Doubled] = MappingProxyType({}),
) -> ViewDefinition:
    """Define the view of a model without a table, or of one whose table has a column twice.

    Args:
        name: The model.
        resolver: The version of the environment.
        types: (column, Spark SQL type) of the model.
        properties: The view's properties.
        doubled: The models whose tables have columns twice.
    """
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
    model: Model, resolver: Resolver, doubled: Mapping[ModelName, Doubled] = MappingProxyType({})
) -> str:
    """Write a model's query over the tables that the environment's catalog has.

    Models without a table are inlined, so that a view reads tables only.

    Args:
        model: A model with a query.
        resolver: The version of the environment.
        doubled: The models whose tables have columns twice.
    """
    assert model.query is not None

    def relation_of(name: ModelName) -> str | None:
        if name not in resolver.entries:
            return None
        if name in doubled:
            return _select_once(doubled[name])
        return _relation(resolver.resolve(name), resolver, doubled)

    return replace_tables(model.query, relation_of)


def _select_once(doubled: Doubled) -> str:
    columns = ", ".join(
        quote(column) if column == name else f"{quote(column)} AS {quote(name)}"
        for name, column in doubled.columns
    )
    return f"SELECT {columns} FROM {_quoted(*doubled.table)}"


def _relation(
    binding: Binding, resolver: Resolver, doubled: Mapping[ModelName, Doubled]
) -> str | None:
    external, model = binding.external, binding.snapshot.model
    if external is not None:
        place = (external.namespace, external.name)
        parts = place if external.catalog is None else (external.catalog, *place)
        return f"SELECT * FROM {_quoted(*parts)}"
    if binding.table is not None:
        columns = ", ".join(quote(name) for name, _ in binding.columns)
        return f"SELECT {columns} FROM {_quoted(*model.name)}"
    return served_query(model, resolver, doubled) if model.query is not None else None


def _quoted(*parts: str) -> str:
    return ".".join(quote(part) for part in parts)
