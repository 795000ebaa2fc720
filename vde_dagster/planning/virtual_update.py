"""Statements that run once an environment's views are published."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from vde_dagster.base.names import ModelName
from vde_dagster.planning.environment import Environment
from vde_dagster.planning.resolver import Resolver
from vde_dagster.planning.views import has_view
from vde_dagster.project.macros.this_model import this_model_values
from vde_dagster.project.macros.time_variables import (
    substitute_time_variables,
    time_variable_values,
)
from vde_dagster.project.table_names import TableNames
from vde_dagster.sql.dotted_names import replace_dotted_names


def virtual_update(
    resolver: Resolver, current: Environment | None, catalog: str, now: datetime
) -> tuple[tuple[ModelName, str], ...]:
    """Say what has to run when an environment is published.

    Args:
        resolver: What the environment becomes.
        current: What it is, or None when it is new.
        catalog: The Spark catalog's name.
        now: The instant of the publication (UTC).

    Returns:
        (model, Spark SQL) of each model that the publication adds or changes, in order.
    """
    before = {}
    # Views that get other names are new ones: nothing was said to them yet.
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
    if not statements or not has_view(binding):
        return
    slot = binding.snapshot.cadence.latest_slot(now)
    values = time_variable_values(slot.start, slot.end, now)
    values |= this_model_values(resolver.views.quoted(name, catalog))
    for statement in statements:
        text = over_views(statement, resolver_views(resolver, catalog), catalog)
        yield substitute_time_variables(text, values)


def resolver_views(resolver: Resolver, catalog: str) -> Callable[[ModelName], str | None]:
    """Return what tells the quoted name of a model's view, or None for what has none."""

    def view(name: ModelName) -> str | None:
        if name not in resolver.entries or not has_view(resolver.resolve(name)):
            return None
        return resolver.views.quoted(name, catalog)

    return view


def over_views(statement: str, view_of: Callable[[ModelName], str | None], catalog: str) -> str:
    """Let the names of models mean the environment's views, wherever they stand in a statement.

    Statements such as GRANT are in no grammar that is known here, so names are found by their
    words: a schema, a dot and a name that are a model's, with its catalog or without.

    Args:
        statement: Spark SQL.
        view_of: Tells the quoted name of a model's view, or None for what has none.
        catalog: The Spark catalog's name.
    """
    names = TableNames(catalog, "default", any_catalog=True)

    def view(parts: list[str]) -> str | None:
        name = names.model_name_or_none(parts)
        return view_of(name) if name is not None else None

    return replace_dotted_names(statement, view)
