"""Querying an environment: model names mean its views, and one answer shows one publication."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ConflictError, UsageError
from vde_dagster.execution.query_parts import (
    Expand,
    QueryResult,
    as_written,
    externals_of,
    is_of_files,
    names_in_queries,
)
from vde_dagster.planning.environment import PRODUCTION, ViewNames
from vde_dagster.planning.external_table import ExternalTable

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse
    from vde_dagster.planning.environment import Environment
    from vde_dagster.planning.table import TableRef

ATTEMPTS = 5


def query_environment(
    warehouse: Warehouse,
    environment: str,
    sql: str,
    limit: int | None,
    *,
    raw: bool = False,
    expand: Expand = as_written,
) -> QueryResult:
    """Run a query over an environment's views; see `Workspace.query`.

    Spark loads a query's views one by one, so a query can straddle a publication. The
    publication's id is compared before and after, and the query is run again when it moved.
    """
    from sqlglot.errors import SqlglotError

    from vde_dagster.execution.query_rules import check_query, refuse_substitution
    from vde_dagster.planning.render import render_environment_query

    written = sql
    for _ in range(ATTEMPTS):
        before = warehouse.store.environments.get(environment)
        if before is None:
            raise UsageError(
                f"there is no environment '{environment}'",
                hint=f"plan and apply it first: vde apply {environment}",
            )
        if not warehouse.lakehouse.catalog.promises.keeps_views:
            from vde_dagster.execution.query_version import query_version

            return query_version(warehouse, before, written, limit, raw=raw, expand=expand)
        sql, changes = expand(warehouse, before, written)
        externals = externals_of(warehouse, before)
        table_names = names_in_queries(warehouse.settings, externals.values())
        names, shown = set(before.entries), before.views
        production = warehouse.store.environments.get(PRODUCTION)
        elsewhere = set(production.entries) - names if production else set()

        def view(
            name: ModelName,
            names: set[ModelName] = names,
            elsewhere: set[ModelName] = elsewhere,
            externals: dict[ModelName, ExternalTable] = externals,
            views: ViewNames = shown,
            changes: dict[ModelName, str] = changes,
        ) -> str | None:
            if name in changes:
                return changes[name]
            if name in externals:
                return externals[name].quoted(warehouse.settings.catalog)
            if name in names:
                return views.quoted(name, warehouse.settings.catalog)
            if name in elsewhere:
                # Left as it is, the name would silently mean production's view.
                raise UsageError(
                    f"environment '{environment}' has no model {name}, only production has",
                    hint=f"query '{PRODUCTION}', or plan '{environment}' with the model",
                )
            return None

        if not raw:
            # What production alone has is told apart below, with a message of its own.
            check_query(sql, names | elsewhere | changes.keys(), table_names)
        try:
            rendered = render_environment_query(sql, view, table_names)
        except SqlglotError as error:
            raise UsageError(
                f"the query cannot be read: {str(error).splitlines()[0]}",
                hint="write it in Spark SQL",
            ) from error
        if not raw:
            refuse_substitution(rendered)  # What was escaped in a string is written out here.
        with warehouse.lakehouse.naming_damage(partial(_read, warehouse, before)):
            columns, rows = warehouse.engine().query(rendered, limit)
        after = warehouse.store.environments.get(environment)
        if after is not None and after.publication_id == before.publication_id:
            return QueryResult(tuple(columns), tuple(rows), before.publication_id, before.version)
    raise ConflictError(
        f"environment '{environment}' was published {ATTEMPTS} times while the query ran",
        hint="query again",
    )


def _read(warehouse: Warehouse, environment: Environment, error: Exception) -> set[TableRef]:
    """Return the places of an environment's views and tables, where a file may have failed."""
    if not is_of_files(error):
        return set()
    tables = warehouse.store.tables.load(environment.tables)
    views = warehouse.lakehouse.published_views(environment.name)
    return {table.ref for table in tables.values()} | set(views)
