"""Changing a table's partitioning, sort order and properties in place; no data is rewritten."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vde_dagster.base.names import quote
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.table import PhysicalTable
from vde_dagster.spark.identifiers import rename_columns, string_literal
from vde_dagster.spark.strategies import find_strategy
from vde_dagster.spark.tables import physical_names
from vde_dagster.spark.tables_of_sessions import load_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from vde_dagster.lakehouse import Lakehouse

_PLURAL = {"year": "years", "month": "months", "day": "days", "hour": "hours"}


def evolve_layout(
    session: SparkSession,
    catalog: str,
    table: PhysicalTable,
    snapshot: Snapshot,
    previous: Snapshot,
    lakehouse: Lakehouse | None = None,
) -> None:
    """Give an existing table a snapshot's layout; doing it twice is harmless.

    Files that exist stay as they are, Iceberg keeps the layout that each was written with.

    Args:
        session: The session.
        catalog: The catalog's name.
        table: The table.
        snapshot: Says how the table is to be laid out.
        previous: The snapshot whose properties the table has; those that are gone are unset.
        lakehouse: The same catalog without Spark, for sessions without a JVM.
    """
    target = ".".join(quote(part) for part in (catalog, table.ref.namespace, table.ref.name))
    for statement in _statements(session, catalog, target, table, snapshot, previous, lakehouse):
        session.sql(statement)


def _statements(
    session: SparkSession,
    catalog: str,
    target: str,
    table: PhysicalTable,
    snapshot: Snapshot,
    previous: Snapshot,
    lakehouse: Lakehouse | None,
) -> list[str]:
    physical = physical_names(table, snapshot)
    handle = load_table(session, catalog, table.ref, lakehouse)
    types = handle.types()
    outputs = {c.name: types[physical[c.name.lower()]] for c in snapshot.columns}
    default = find_strategy(snapshot).layout(snapshot, outputs)
    wanted = [
        rename_columns(text, physical)
        for text in snapshot.model.partitioned_by or default.partitioned_by
    ]
    current = {_plain(_transform(*field)): field[0] for field in handle.partition_fields()}
    keep = {_plain(text) for text in wanted}
    out = [
        f"ALTER TABLE {target} DROP PARTITION FIELD {quote(name)}"
        for text, name in current.items()
        if text not in keep
    ]
    out += [
        f"ALTER TABLE {target} ADD PARTITION FIELD {text}"
        for text in wanted
        if _plain(text) not in current
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
    return out


def _transform(name: str, transform: str, column: str) -> str:
    """Write one of Iceberg's partition fields as Spark SQL."""
    match = re.fullmatch(r"(\w+)\[(\d+)\]", transform)
    if match:
        return f"{match.group(1)}({match.group(2)}, {column})"
    return column if transform == "identity" else f"{_PLURAL.get(transform, transform)}({column})"


def _plain(text: str) -> str:
    """Return a partition expression without quotes, spaces, case and the spelling of its unit."""
    plain = re.sub(r"[`\s]", "", text).lower()
    match = re.fullmatch(r"(year|month|day|hour|date|date_hour)\((.*)\)", plain)
    if match:
        unit = {"date": "day", "date_hour": "hour"}.get(match.group(1), match.group(1))
        return f"{_PLURAL[unit]}({match.group(2)})"
    return plain
