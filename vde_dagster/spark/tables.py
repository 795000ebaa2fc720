"""Creating physical tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vde_dagster.errors import ConflictError, ExecutionError
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.table import PhysicalTable
from vde_dagster.project.names import quote
from vde_dagster.spark.iceberg import create_table_with_branch, load_table
from vde_dagster.spark.identifiers import rename_columns, string_literal
from vde_dagster.spark.strategies import find_strategy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_NAMESPACE = ("SCHEMA_NOT_FOUND", "Namespace does not exist", "NoSuchNamespaceException")
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
    branch: str | None = None,
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
        branch: The branch that is written first; made at once where that is cheaper.

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
    new = _NewTable.of(table, snapshot, columns, location + location_suffix)

    def create() -> bool:
        if branch is not None and not new.partitions and not snapshot.model.clustered_by:
            return create_table_with_branch(
                session,
                catalog,
                table.ref,
                new.columns,
                new.location,
                new.all_properties,
                branch,
            )
        try:
            session.sql(new.statement(target))
        except AnalysisException as error:
            if "TABLE_OR_VIEW_ALREADY_EXISTS" in str(error):
                return False
            raise
        return True

    try:
        created = create()
    except Exception as error:
        if not any(text in str(error) for text in _NO_NAMESPACE):
            raise
        session.sql(f"CREATE NAMESPACE IF NOT EXISTS {quote(catalog)}.{quote(table.ref.namespace)}")
        created = create()
    if not created:
        _check_same(session, catalog, table)
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


@dataclass(frozen=True, slots=True)
class _NewTable:
    """How a table is to be made, in Spark's words."""

    columns: str
    partitions: str
    location: str
    comment: str | None
    properties: dict[str, str]

    @classmethod
    def of(
        cls,
        table: PhysicalTable,
        snapshot: Snapshot,
        columns: tuple[tuple[str, str], ...],
        location: str,
    ) -> _NewTable:
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
        return cls(
            columns=", ".join(_definition(name, type_, comments) for name, type_ in columns),
            partitions=", ".join(rename_columns(text, physical) for text in partitioned_by),
            location=location,
            comment=model.description,
            properties={**properties, "vde.table": table.id},
        )

    @property
    def all_properties(self) -> dict[str, str]:
        """The properties, with the comment among them as Iceberg keeps it."""
        return {**self.properties, **({"comment": self.comment} if self.comment else {})}

    def statement(self, target: str) -> str:
        """Write the table as a statement."""
        pairs = (f"{string_literal(k)} = {string_literal(v)}" for k, v in self.properties.items())
        clauses = [
            f"CREATE TABLE {target} ({self.columns}) USING iceberg",
            f"PARTITIONED BY ({self.partitions})" if self.partitions else "",
            f"LOCATION {string_literal(self.location)}",
            f"COMMENT {string_literal(self.comment)}" if self.comment else "",
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
