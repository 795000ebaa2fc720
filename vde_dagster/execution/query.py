"""Querying an environment: model names mean its views, and one answer shows one publication."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ConflictError, UsageError
from vde_dagster.planning.environment import PRODUCTION, Environment, ViewNames
from vde_dagster.planning.external_table import ExternalTable, external_table
from vde_dagster.project.settings import Settings
from vde_dagster.project.table_names import TableNames

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse

ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The answer to a query.

    Args:
        columns: (name, Spark SQL type) in order.
        rows: The rows, as tuples of Python values.
        publication_id: The publication that the whole answer was read from.
        version: The version of the environment that it made.
        read_live: External tables that were read as they are now, though the version is past.
    """

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Any, ...], ...]
    publication_id: str
    version: int
    read_live: tuple[str, ...] = ()


def as_written(
    warehouse: Warehouse, version: Environment, sql: str
) -> tuple[str, dict[ModelName, str]]:
    """Return a query without calls of table functions as it is."""
    return sql, {}


Expand = Callable[["Warehouse", Environment, str], tuple[str, dict[ModelName, str]]]
"""Replaces calls of table functions by names of tables, and returns what each stands for."""


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
        columns, rows = warehouse.engine().query(rendered, limit)
        after = warehouse.store.environments.get(environment)
        if after is not None and after.publication_id == before.publication_id:
            return QueryResult(tuple(columns), tuple(rows), before.publication_id, before.version)
    raise ConflictError(
        f"environment '{environment}' was published {ATTEMPTS} times while the query ran",
        hint="query again",
    )


def externals_of(warehouse: Warehouse, environment: Environment) -> dict[ModelName, ExternalTable]:
    """Return the external tables that an environment's models read: they have no views."""
    ids = {e.snapshot_id: e.name for e in environment.entries.values() if e.table_id is None}
    snapshots = warehouse.store.snapshots.load(ids)
    return {
        name: external_table(snapshots[snapshot].model)
        for snapshot, name in ids.items()
        if snapshot in snapshots and snapshots[snapshot].model.kind.is_external
    }


def names_in_queries(settings: Settings, externals: Iterable[ExternalTable]) -> TableNames:
    """Say what names mean in a query: an environment may know other catalogs than the files."""
    catalogs = {table.catalog.lower(): table.catalog for table in externals if table.catalog}
    return TableNames(settings.catalog, "default", catalogs)
