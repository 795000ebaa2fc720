"""One model in one version of an environment: how its rows are read, and which columns it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.execution.pinned_version import PinnedVersion
from vde_dagster.lakehouse.change_line import identifier_columns
from vde_dagster.lakehouse.table_metadata import columns_of
from vde_dagster.planning.changes.columns import ViewColumn
from vde_dagster.planning.repeatable import why_not_repeatable
from vde_dagster.planning.resolver import column_map
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.table import PhysicalTable
from vde_dagster.state.pins import Pin

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse
    from vde_dagster.planning.environment import Environment


class TableAtPin(NamedTuple):
    """A table as a version shows it.

    Args:
        table: The table.
        pin: What the version shows of it.
        metadata: The table's metadata now.
    """

    table: PhysicalTable
    pin: Pin
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Side:
    """What a version shows of a model.

    Args:
        query: Spark SQL that reads its rows as they were.
        columns: Its columns, in order.
        keys: Sets of columns that tell rows apart, those that people declared first.
        shown: The table that serves it; None for a query.
        uncertain: Why the query need not return what the version showed, or None.
    """

    query: str
    columns: tuple[ViewColumn, ...]
    keys: tuple[frozenset[str], ...]
    shown: TableAtPin | None
    uncertain: str | None


def read_side(
    warehouse: Warehouse,
    version: Environment,
    name: ModelName,
    reader: PinnedVersion | None = None,
) -> Side | None:
    """Find out how a model is read as a version showed it.

    Args:
        warehouse: The project's warehouse.
        version: The version.
        name: The model.
        reader: What is known of the version already.

    Returns:
        None where the version does not show the model.

    Raises:
        UsageError: The data of the version are not known, or gone.
    """
    entry = version.entries.get(name)
    if entry is None:
        return None
    reader = reader or PinnedVersion(warehouse, version)
    query = reader.relation(name)
    snapshot = reader.snapshots[entry.snapshot_id]
    if query is None or not snapshot.model.kind.is_shown:
        raise UsageError(
            f"{name} is {snapshot.model.kind.name}: environments show nothing of it",
            hint="ask for the changes of a model that reads it",
        )
    keys = [frozenset(name.lower() for name in grain) for grain in snapshot.model.grains]
    keys += sorted(snapshot.version.unique_keys, key=lambda key: (len(key), sorted(key)))
    if entry.table_id is None:
        types = warehouse.engine().analyze(query)
        made = snapshot.version.columns
        columns = tuple(
            ViewColumn(column, type_, made.get(column.lower(), "")) for column, type_ in types
        )
        return Side(query, columns, tuple(keys), None, _uncertain(reader, snapshot))
    table = reader.tables[entry.table_id]
    assert reader.pins is not None
    metadata = warehouse.lakehouse.table_metadata(table.ref)
    shown = TableAtPin(table, reader.pins[table.id], metadata)
    columns = _of_table(snapshot, shown)
    named = {column.place: column.name.lower() for column in columns}
    identifiers = identifier_columns(metadata)
    if identifiers and all(place in named for place in identifiers):
        keys.append(frozenset(named[place] for place in identifiers))
    return Side(query, columns, tuple(keys), shown, None)


def _of_table(snapshot: Snapshot, shown: TableAtPin) -> tuple[ViewColumn, ...]:
    types = columns_of(shown.metadata, shown.pin.schema_id)
    versions = {column.name: column.version for column in snapshot.columns}
    return tuple(
        ViewColumn(output, types[place], versions[output], place)
        for output, place in column_map(snapshot, shown.table)
    )


def _uncertain(reader: PinnedVersion, snapshot: Snapshot) -> str | None:
    if reader.live:
        tables = ", ".join(sorted(map(str, reader.live)))
        return f"it reads {tables}, which others write and versions do not pin"
    by_name = {one.name: one for one in reader.snapshots.values()}
    why = why_not_repeatable(snapshot, by_name)
    return f"its query {why}" if why is not None else None
