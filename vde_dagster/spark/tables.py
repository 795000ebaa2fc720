"""Creating physical tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from vde_dagster.errors import ConflictError, ExecutionError
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.table import PhysicalTable
from vde_dagster.project.names import quote
from vde_dagster.spark.iceberg import load_table
from vde_dagster.spark.identifiers import rename_columns, string_literal
from vde_dagster.spark.strategies import find_strategy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFAULTS = {
    "format-version": "2",
    # Fills of different intervals commit to one table at once; four retries are too few for that.
    "commit.retry.num-retries": "20",
    "commit.retry.min-wait-ms": "50",
    "commit.retry.max-wait-ms": "2000",
}


def create_physical_table(
    session: SparkSession,
    catalog: str,
    warehouse: str,
    table: PhysicalTable,
    snapshot: Snapshot,
    columns: tuple[tuple[str, str], ...],
    location_suffix: str = "",
) -> None:
    """Create a table with a snapshot's layout; do nothing when it exists already.

    Args:
        session: The session.
        catalog: The catalog's name.
        warehouse: URI that the table's files are put below.
        table: The table; its id is in the location, so that no two tables ever share files.
        snapshot: The definition that fills it.
        columns: (physical name, Spark SQL type) in order.
        location_suffix: Added to the location.

    Raises:
        ExecutionError: A column has no storable type, or Spark refuses the layout.
        ConflictError: Another table has the name.
    """
    from pyspark.errors import AnalysisException

    for name, type_ in columns:
        if "void" in type_.lower() or type_.lower().startswith("interval"):
            raise ExecutionError(
                f"{snapshot.name}: the column '{name}' is of type {type_}, which cannot be stored",
                hint="cast it in the query, for example CAST(NULL AS STRING)",
                location=snapshot.model.location,
            )
    target = ".".join(quote(part) for part in (catalog, table.ref.namespace, table.ref.name))
    location = f"{warehouse.rstrip('/')}/{table.ref.namespace}/{table.ref.name}-{table.id}"
    statement = _create_statement(target, location + location_suffix, table, snapshot, columns)
    try:
        session.sql(statement)
    except AnalysisException as error:
        if "SCHEMA_NOT_FOUND" in str(error) or "Namespace does not exist" in str(error):
            session.sql(
                f"CREATE NAMESPACE IF NOT EXISTS {quote(catalog)}.{quote(table.ref.namespace)}"
            )
            session.sql(statement)
        elif "TABLE_OR_VIEW_ALREADY_EXISTS" in str(error):
            _check_same(session, catalog, table)
        else:
            raise
    if snapshot.model.clustered_by:
        physical = physical_names(table, snapshot)
        order = ", ".join(rename_columns(text, physical) for text in snapshot.model.clustered_by)
        session.sql(f"ALTER TABLE {target} WRITE ORDERED BY {order}")


def physical_names(table: PhysicalTable, snapshot: Snapshot) -> dict[str, str]:
    """Return a table's physical column by a snapshot's output column in lower case."""
    by_version = table.column_named_by_version()
    own = {column.name: column.version for column in table.columns}
    return {
        column.name.lower(): (
            column.name
            if own.get(column.name) == column.version
            else by_version.get(column.version, column.name)
        )
        for column in snapshot.columns
    }


def _create_statement(
    target: str,
    location: str,
    table: PhysicalTable,
    snapshot: Snapshot,
    columns: tuple[tuple[str, str], ...],
) -> str:
    model = snapshot.model
    physical = physical_names(table, snapshot)
    comments = {
        physical[column.name.lower()]: column.description
        for column in snapshot.columns
        if column.description
    }
    types = dict(columns)
    outputs = {
        column.name: types[physical[column.name.lower()]]
        for column in snapshot.columns
        if physical[column.name.lower()] in types
    }
    layout = find_strategy(snapshot).layout(snapshot, outputs)
    partitioned_by = model.partitioned_by or layout.partitioned_by
    properties = {**_DEFAULTS, **layout.properties, **dict(model.table_properties)}
    properties["vde.table"] = table.id
    definitions = ", ".join(_definition(name, type_, comments) for name, type_ in columns)
    partitions = ", ".join(rename_columns(text, physical) for text in partitioned_by)
    pairs = (f"{string_literal(k)} = {string_literal(v)}" for k, v in properties.items())
    clauses = [
        f"CREATE TABLE {target} ({definitions}) USING iceberg",
        f"PARTITIONED BY ({partitions})" if partitions else "",
        f"LOCATION {string_literal(location)}",
        f"COMMENT {string_literal(model.description)}" if model.description else "",
        f"TBLPROPERTIES ({', '.join(pairs)})",
    ]
    return "\n".join(clause for clause in clauses if clause)


def _definition(name: str, type_: str, comments: Mapping[str, str | None]) -> str:
    comment = comments.get(name)
    return f"{quote(name)} {type_}" + (f" COMMENT {string_literal(comment)}" if comment else "")


def _check_same(session: SparkSession, catalog: str, table: PhysicalTable) -> None:
    found = load_table(session, catalog, table.ref).property("vde.table")
    if found != table.id:
        raise ConflictError(
            f"there is another table at {table.ref} (its id is {found}, not {table.id})",
            hint="drop it or rename it, then apply the plan again",
        )
