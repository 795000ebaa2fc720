"""Creation of the physical tables of models, and changes of their layout in place."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vde_dagster.base.names import quote, string_literal
from vde_dagster.errors import ConflictError, ExecutionError
from vde_dagster.lakehouse.io.locations import table_location
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.metadata.commit_summaries import TABLE_KEY
from vde_dagster.lakehouse.publishing.new_table import NewTable
from vde_dagster.planning.environments.resolver import column_map
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PhysicalTable, TableRef
from vde_dagster.spark.session.settings import SessionSettings
from vde_dagster.spark.strategies import find_strategy
from vde_dagster.spark.tables.columns import is_storable, rename_columns
from vde_dagster.spark.tables.iceberg import IcebergTable

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
    settings: SessionSettings,
    table: PhysicalTable,
    snapshot: Snapshot,
    columns: tuple[tuple[str, str], ...],
    lakehouse: Lakehouse,
    branch: str | None = None,
) -> None:
    """Create a table with a snapshot's layout, unless it exists; see `SparkEngine.create_table`."""
    for name, type_ in columns:
        if not is_storable(type_):
            raise ExecutionError(
                f"{snapshot.name}: the column '{name}' is of type {type_}, which cannot be stored",
                hint="cast the column in the query, for example CAST(NULL AS STRING)",
                location=snapshot.model.location,
            )
    layout = _TableLayout.from_snapshot(table, snapshot, columns)
    target = table.ref.quoted(settings.catalog)
    # The lakehouse creates such tables in a fraction of the time. A table's id is in its location,
    # so that no two tables ever share files.
    if layout.is_plain:
        location = lakehouse.table_location(table.ref, table.id)
        created = lakehouse.create_table(layout.new_table(table.ref, location, branch))
    else:
        statement = layout.statement(
            target, table_location(settings.warehouse, table.ref, table.id)
        )
        namespace = quote(settings.catalog, table.ref.namespace)
        created = _create_by_statement(session, statement, namespace)
    if not created:
        found = lakehouse.table_metadata(table.ref).get("properties", {}).get(TABLE_KEY)
        if found != table.id:
            raise ConflictError(
                f"there is another table at {table.ref} (its id is {found}, not {table.id})",
                hint="drop or rename the existing table, then apply the plan again: "
                "vde apply ENV --plan ID",
            )
    if layout.order:
        session.sql(f"ALTER TABLE {target} WRITE ORDERED BY {layout.order}")


def _create_by_statement(session: SparkSession, statement: str, namespace: str) -> bool:
    from pyspark.errors import AnalysisException

    def create() -> bool:
        try:
            session.sql(statement)
        except AnalysisException as error:
            if "TABLE_OR_VIEW_ALREADY_EXISTS" in str(error):
                return False
            raise
        return True

    try:
        return create()
    except Exception as error:
        if not any(text in str(error) for text in _NO_NAMESPACE):
            raise
        session.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
        return create()


def _physical_names(table: PhysicalTable, snapshot: Snapshot) -> dict[str, str]:
    return {output.lower(): physical for output, physical in column_map(snapshot, table)}


@dataclass(frozen=True, slots=True)
class _TableLayout:
    columns: tuple[tuple[str, str, str | None], ...]
    partitions: str
    order: str
    comment: str | None
    properties: dict[str, str]

    @classmethod
    def from_snapshot(
        cls, table: PhysicalTable, snapshot: Snapshot, columns: tuple[tuple[str, str], ...]
    ) -> _TableLayout:
        model = snapshot.model
        physical = _physical_names(table, snapshot)
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
            columns=tuple((name, type_, comments.get(name)) for name, type_ in columns),
            partitions=", ".join(rename_columns(text, physical) for text in partitioned_by),
            order=", ".join(rename_columns(text, physical) for text in model.clustered_by),
            comment=model.description,
            properties={**properties, TABLE_KEY: table.id},
        )

    @property
    def is_plain(self) -> bool:
        """Whether the table needs only columns and properties, in format version 2."""
        variants = any("variant" in type_.lower() for _, type_, _ in self.columns)
        version = self.properties.get("format-version")
        return not (self.partitions or self.order or variants) and version == "2"

    def new_table(self, ref: TableRef, location: str, branch: str | None) -> NewTable:
        comment = {"comment": self.comment} if self.comment else {}
        return NewTable(ref, self.columns, location, {**self.properties, **comment}, branch)

    def statement(self, target: str, location: str) -> str:
        pairs = (f"{string_literal(k)} = {string_literal(v)}" for k, v in self.properties.items())
        columns = (
            f"{quote(name)} {type_}" + (f" COMMENT {string_literal(comment)}" if comment else "")
            for name, type_, comment in self.columns
        )
        clauses = [
            f"CREATE TABLE {target} ({', '.join(columns)}) USING iceberg",
            f"PARTITIONED BY ({self.partitions})" if self.partitions else "",
            f"LOCATION {string_literal(location)}",
            f"COMMENT {string_literal(self.comment)}" if self.comment else "",
            f"TBLPROPERTIES ({', '.join(pairs)})",
        ]
        return "\n".join(clause for clause in clauses if clause)


_PLURAL = {"year": "years", "month": "months", "day": "days", "hour": "hours"}


def evolve_layout(
    handle: IcebergTable, table: PhysicalTable, snapshot: Snapshot, previous: Snapshot
) -> None:
    """Give an existing table the partitions, order and properties of a snapshot.

    `previous` is the snapshot that gave the table its current properties. Calls may be repeated.
    """
    physical, target = _physical_names(table, snapshot), handle.quoted
    types = handle.types()
    outputs = {c.name: types[physical[c.name.lower()]] for c in snapshot.columns}
    default = find_strategy(snapshot).layout(snapshot, outputs)
    wanted = [
        rename_columns(text, physical)
        for text in snapshot.model.partitioned_by or default.partitioned_by
    ]
    current = {_normalize(_transform_text(*field)): field[0] for field in handle.partition_fields()}
    keep = {_normalize(text) for text in wanted}
    out = [
        f"ALTER TABLE {target} DROP PARTITION FIELD {quote(name)}"
        for text, name in current.items()
        if text not in keep
    ]
    out += [
        f"ALTER TABLE {target} ADD PARTITION FIELD {text}"
        for text in wanted
        if _normalize(text) not in current
    ]
    order = ", ".join(rename_columns(text, physical) for text in snapshot.model.clustered_by)
    if snapshot.model.clustered_by != previous.model.clustered_by:
        out.append(
            f"ALTER TABLE {target} WRITE " + (f"ORDERED BY {order}" if order else "UNORDERED")
        )
    before, after = dict(previous.model.table_properties), dict(snapshot.model.table_properties)
    if after:
        pairs = ", ".join(f"{string_literal(k)} = {string_literal(v)}" for k, v in after.items())
        out.append(f"ALTER TABLE {target} SET TBLPROPERTIES ({pairs})")
    gone = ", ".join(string_literal(key) for key in before if key not in after)
    if gone:
        out.append(f"ALTER TABLE {target} UNSET TBLPROPERTIES IF EXISTS ({gone})")
    for statement in out:
        handle.session.sql(statement)


def _transform_text(name: str, transform: str, column: str) -> str:
    """Write a partition field of Iceberg as Spark SQL, such as `bucket(16, id)`."""
    match = re.fullmatch(r"(\w+)\[(\d+)\]", transform)
    if match:
        return f"{match.group(1)}({match.group(2)}, {column})"
    return column if transform == "identity" else f"{_PLURAL.get(transform, transform)}({column})"


def _normalize(text: str) -> str:
    """Normalize a partition expression: lower case, no quotes or spaces, and `days` for `day`."""
    plain = re.sub(r"[`\s]", "", text).lower()
    match = re.fullmatch(r"(year|month|day|hour|date|date_hour)\((.*)\)", plain)
    if match:
        unit = {"date": "day", "date_hour": "hour"}.get(match.group(1), match.group(1))
        return f"{_PLURAL[unit]}({match.group(2)})"
    return plain
