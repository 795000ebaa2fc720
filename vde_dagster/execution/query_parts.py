"""What queries of an environment, and of a version of one, have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName
from vde_dagster.planning.environment import Environment
from vde_dagster.planning.external_table import ExternalTable, external_table
from vde_dagster.project.settings import Settings
from vde_dagster.project.table_names import TableNames

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse


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


_OF_FILES = re.compile(
    r"NotFound|No such file|does not exist|Parquet|Avro|ORC|footer|EOF|end of|"
    r"corrupt|Failed to (open|read)|RuntimeIO|Cannot parse|JsonParse|metadata",
    re.IGNORECASE,
)


def is_of_files(error: BaseException) -> bool:
    """Say whether an error may come of a file that is missing or damaged."""
    cause: BaseException | None = error
    while cause is not None:
        if _OF_FILES.search(str(cause)):
            return True
        cause = cause.__cause__
    return False
