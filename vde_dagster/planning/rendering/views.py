"""The virtual layer: the views of an environment, and statements that run after publication."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType

from vde_dagster.base.hashing import digest
from vde_dagster.base.names import ModelName, quote
from vde_dagster.planning.engine_tasks import AUTHORS_PROPERTIES, TableForView, ViewDefinition
from vde_dagster.planning.environments.contracts import ViewTypes
from vde_dagster.planning.environments.environment import Environment
from vde_dagster.planning.environments.resolver import Binding, Resolver, select_physical
from vde_dagster.planning.rendering.view_dialects import ViewWriter, view_writers
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.column_types import may_widen
from vde_dagster.planning.tables.nested_fields import is_nested, read_as_type
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.project.macros.variables import (
    substitute_time_variables,
    this_model_values,
    time_variable_values,
)
from vde_dagster.project.table_names import TableNames
from vde_dagster.sql.statements import replace_dotted_names


def view_signature(name: ModelName, resolver: Resolver, catalog: str) -> str | None:
    """Hash a view's query, names and properties without types; None for a model without a view."""
    binding = resolver.resolve(name)
    if not binding.snapshot.model.kind.is_shown:
        return None
    columns = [part for c in binding.snapshot.columns for part in (c.name, c.description)]
    query = view_query(binding, resolver, catalog)
    if resolver.views.are_tables and binding.table is not None:
        columns.append("table")
    properties = binding.snapshot.model.virtual_properties
    if properties:
        columns += ["properties", *(part for pair in properties for part in pair)]
    return digest("view", query, binding.snapshot.model.description, *columns)


def view_query(binding: Binding, resolver: Resolver, catalog: str) -> str:
    """Return the Spark SQL of a model's view."""
    if binding.table is not None:
        return select_physical(_with_kept_types(binding), catalog)
    from vde_dagster.planning.rendering.render import render_query

    return render_query(binding.snapshot.model, resolver, catalog)


def define_view(
    name: ModelName,
    resolver: Resolver,
    catalog: str,
    view_types: ViewTypes,
    catalog_names: Mapping[str, str] = MappingProxyType({}),
) -> ViewDefinition | None:
    """Define a model's view in an environment whose tables exist; None if it has no view.

    Args:
        catalog_names: The catalog's name by dialect, where it differs from `catalog`.
    """
    binding = _with_kept_types(resolver.resolve(name))
    if not binding.snapshot.model.kind.is_shown:
        return None
    snapshot = binding.snapshot
    writers = view_writers(catalog_names)
    descriptions = {column.name: column.description for column in snapshot.columns}
    ref = resolver.views.ref(name)
    sql = view_query(binding, resolver, catalog)
    columns: tuple[tuple[str, str, str | None], ...]
    if binding.table is not None:
        types = _types(binding)
        nested = {out: fields.shown for out, fields in binding.fields.items()}
        columns = tuple(
            (out, nested.get(out) or types[phys], descriptions[out])
            for out, phys in binding.columns
        )
        query_columns, own = tuple(out for out, _ in binding.columns), sql
        translated = {
            dialect: text
            for dialect, writer in writers.items()
            # A preview is for development, in Spark.
            if binding.branch is None
            and (text := _select(writer, binding, catalog_names.get(dialect, catalog))) is not None
        }
    else:
        analysed = view_types[snapshot.id]
        columns = tuple((out, type_, descriptions.get(out)) for out, type_ in analysed)
        own = _in_analysed_types(sql, analysed) if _reads_in_place(snapshot, resolver) else sql
        query_columns = tuple(out for out, _ in analysed)
        translated = {
            dialect: text
            for dialect, writer in writers.items()
            if (text := writer.query(sql, analysed, catalog, catalog_names.get(dialect, catalog)))
            is not None
        }
    properties = (
        ("vde.environment", resolver.environment),
        ("vde.model", str(name)),
        ("vde.snapshot", snapshot.id),
        ("vde.table", str(binding.table.ref) if binding.table else ""),
        ("vde.version", snapshot.table_version),
        *_virtual_properties(snapshot.model.virtual_properties),
    )
    return ViewDefinition(
        namespace=ref.namespace,
        name=ref.name,
        columns=columns,
        queries={"spark": own, **translated},
        query_columns=query_columns,
        properties=properties,
        comment=snapshot.model.description,
        shows=_table_for_view(binding, resolver),
    )


def _select(writer: ViewWriter, binding: Binding, catalog: str) -> str | None:
    assert binding.table is not None
    given = (binding.table.ref, binding.columns, catalog, binding.pinned)
    if writer.named is None and not any(is_nested(one.has) for one in binding.fields.values()):
        return writer.select(*given)
    return writer.named(*given, binding.fields) if writer.named is not None else None


def _types(binding: Binding) -> Mapping[str, str]:
    assert binding.table is not None
    if binding.pinned is not None:
        assert binding.pinned.columns, "the column types of a pinned table were not read"
        return binding.pinned.columns
    return {column.name: column.type or "STRING" for column in binding.table.columns}


def _table_for_view(binding: Binding, resolver: Resolver) -> TableForView | None:
    # A model that shows a physical column under two names keeps its view, because an Iceberg schema
    # contains each column once.
    if not resolver.views.are_tables or binding.table is None:
        return None
    if len({physical for _, physical in binding.columns}) < len(binding.columns):
        return None
    fields = ((name, one) for name, one in binding.fields.items() if is_nested(one.has))
    return TableForView(binding.table.ref, tuple(binding.columns), tuple(fields))


def _with_kept_types(binding: Binding) -> Binding:
    # Spark refuses a view whose query returns a wider type than the view declares. Until the table
    # is widened, the optimizer removes the cast.
    in_place = binding.snapshot.model.kind.changes_in_place
    if binding.table is None or binding.pinned is not None or not in_place:
        return binding
    types = _types(binding)
    kept = {
        output: read_as_type(type_, type_)
        for output, physical in binding.columns
        if output not in binding.fields and may_widen(type_ := types[physical])
    }
    return replace(binding, fields={**binding.fields, **kept}) if kept else binding


def _in_analysed_types(sql: str, columns: Iterable[tuple[str, str]]) -> str:
    """Cast the columns of a VIEW model's query to the types that Spark reported earlier."""
    # Without the casts, the view would break when a table's column gets a wider type.
    given = tuple(columns)
    if not any(may_widen(type_) for _, type_ in given):
        return sql
    listed = ", ".join(
        f"CAST({quote(name)} AS {type_}) AS {quote(name)}" if may_widen(type_) else quote(name)
        for name, type_ in given
    )
    return f"SELECT {listed} FROM (\n{sql}\n)"


def _reads_in_place(snapshot: Snapshot, resolver: Resolver) -> bool:
    """Return whether a query reads a table whose types may widen, directly or through views."""
    bindings = (resolver.resolve(p) for p in snapshot.model.depends_on if p in resolver.entries)
    return any(
        one.snapshot.model.kind.changes_in_place
        if one.table is not None
        else one.external is None and _reads_in_place(one.snapshot, resolver)
        for one in bindings
    )


def _virtual_properties(given: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Add a property with the names of the given properties, so that they can be removed later."""
    if not given:
        return ()
    return (*given, (AUTHORS_PROPERTIES, json.dumps([name for name, _ in given])))


def view_refs(resolver: Resolver) -> dict[ModelName, TableRef]:
    """Return the name of every view of an environment."""
    return {
        name: resolver.views.ref(name)
        for name in resolver.entries
        if resolver.resolve(name).snapshot.model.kind.is_shown
    }


def statements_after_publication(
    resolver: Resolver, current: Environment | None, catalog: str, now: datetime
) -> tuple[tuple[ModelName, str], ...]:
    """Return the `on_virtual_update` statements as (model, Spark SQL), in the order to run.

    Args:
        current: The environment's current version; None if it is new.
    """
    # Only models that the publication adds or changes have statements to run.
    before = {}
    # Renamed views are new: their statements have not run yet.
    if current is not None and current.views.same_as(resolver.views):
        before = current.entries
    return tuple(
        (name, statement)
        for name, entry in resolver.entries.items()
        if before.get(name) != entry
        for statement in _statements(name, resolver, catalog, now)
    )


def _statements(name: ModelName, resolver: Resolver, catalog: str, now: datetime) -> Iterator[str]:
    binding = resolver.resolve(name)
    statements = binding.snapshot.model.on_virtual_update
    if not statements or not binding.snapshot.model.kind.is_shown:
        return
    slot = binding.snapshot.cadence.latest_slot(now)
    values = time_variable_values(slot.start, slot.end, now)
    values |= this_model_values(resolver.views.quoted(name, catalog))
    for statement in statements:
        text = replace_models_by_views(statement, view_name_function(resolver, catalog), catalog)
        yield substitute_time_variables(text, values)


def view_name_function(resolver: Resolver, catalog: str) -> Callable[[ModelName], str | None]:
    """Return a function that maps a model to its view's quoted name, or to None."""

    def view(name: ModelName) -> str | None:
        is_shown = name in resolver.entries and resolver.resolve(name).snapshot.model.kind.is_shown
        return resolver.views.quoted(name, catalog) if is_shown else None

    return view


def replace_models_by_views(
    statement: str, view_of: Callable[[ModelName], str | None], catalog: str
) -> str:
    """Replace the models' names in a statement with the names of the environment's views."""
    # Statements such as GRANT are not parsed, so names are found by their tokens: a model's schema,
    # a dot and its name, with or without the catalog.
    names = TableNames(catalog, "default", any_catalog=True)

    def view(parts: list[str]) -> str | None:
        name = names.model_name_or_none(parts)
        return view_of(name) if name is not None else None

    return replace_dotted_names(statement, view)
