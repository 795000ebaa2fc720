"""Querying a version of an environment: its definitions over the data that it pinned.

No view is read, as views are those of the current version. Model names stand for what they were:
tables as of their pins, and queries of models without a table over those. External tables have no
pins; that they are read as they are now is part of the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.execution.pinned_version import PinnedVersion
from vde_dagster.execution.query_parts import (
    Expand,
    QueryResult,
    as_written,
    externals_of,
    is_of_files,
    names_in_queries,
)
from vde_dagster.planning.environment import Environment
from vde_dagster.planning.render import replace_tables
from vde_dagster.planning.table import TableRef

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse


def query_version(
    warehouse: Warehouse,
    version: Environment,
    sql: str,
    limit: int | None,
    *,
    raw: bool = False,
    expand: Expand = as_written,
) -> QueryResult:
    """Run a query over what a version of an environment showed when it was published.

    Raises:
        UsageError: The query cannot be read, does more than to read models, or reads a model whose
            data of that version are not known or gone.
    """
    from sqlglot.errors import SqlglotError

    from vde_dagster.execution.query_rules import check_query, refuse_substitution

    sql, changes = expand(warehouse, version, sql)
    names = names_in_queries(warehouse.settings, externals_of(warehouse, version).values())
    if not raw:
        check_query(sql, version.entries.keys() | changes.keys(), names)
    reader = PinnedVersion(warehouse, version)

    def relation_of(name: ModelName) -> str | None:
        return f"SELECT * FROM {changes[name]}" if name in changes else reader.relation(name)

    try:
        rendered = replace_tables(sql, relation_of, names)
    except SqlglotError as error:
        raise UsageError(
            f"the query cannot be read: {str(error).splitlines()[0]}",
            hint="write it in Spark SQL",
        ) from error
    if not raw:
        refuse_substitution(rendered)

    def may_have_failed(error: Exception) -> set[TableRef]:
        return {table.ref for table in reader.tables.values()} if is_of_files(error) else set()

    with warehouse.lakehouse.naming_damage(may_have_failed):
        columns, rows = warehouse.engine().query(rendered, limit)
    live = tuple(sorted(map(str, reader.live)))
    return QueryResult(tuple(columns), tuple(rows), version.publication_id, version.version, live)
