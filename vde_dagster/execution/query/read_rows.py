"""Rows of a published model, read by PyIceberg without an engine and a JVM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import find_column
from vde_dagster.errors import UsageError
from vde_dagster.execution.pinned_reads import not_pinned_error
from vde_dagster.execution.published_version import (
    named_environment,
    published_version,
    require_entry,
)
from vde_dagster.lakehouse.metadata.table_metadata import columns_of, head_of
from vde_dagster.lakehouse.publishing.pins import as_pinned, pinned_metadata
from vde_dagster.planning.environments.environment import Entry, Environment, environment_name
from vde_dagster.planning.environments.resolver import column_map, nested_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table

    from vde_dagster.execution.handles import Handles
    from vde_dagster.lakehouse.rows.bind_filter import RowTest
    from vde_dagster.lakehouse.rows.scan import FileState
    from vde_dagster.planning.snapshots.snapshot import Snapshot
    from vde_dagster.planning.tables.nested_fields import ShownFields
    from vde_dagster.planning.tables.table import PhysicalTable


@dataclass(frozen=True, slots=True)
class TableRows:
    """The rows of a model's table at one Iceberg snapshot.

    Args:
        table: The table at this snapshot, with the model's column names.
        table_columns: The column of `table` that holds each column of the model.
        types: Spark SQL types of the table's columns.
    """

    table: Table
    table_columns: Mapping[str, str]
    types: Mapping[str, str]

    @property
    def schema(self) -> pa.Schema:
        import pyarrow as pa

        own = self.table.schema().as_arrow()
        return pa.schema(
            [
                pa.field(name, own.field(table_columns).type)
                for name, table_columns in self.table_columns.items()
            ]
        )

    def files_shared_with(self, other: TableRows) -> frozenset[FileState]:
        """Return the data files that contain the same rows at both Iceberg snapshots."""
        from vde_dagster.lakehouse.rows.scan import file_states

        one, two = self.table, other.table
        if (
            one.name() != two.name()
            or self.table_columns != other.table_columns
            or one.schema() != two.schema()
        ):
            return frozenset()
        return file_states(one) & file_states(two)

    def batches(
        self, columns: Sequence[str] = (), without: Set[FileState] = frozenset()
    ) -> Iterator[pa.Table]:
        """Read the rows in batches, in file order, except for the files in `without`."""
        from pyiceberg.expressions import AlwaysTrue

        from vde_dagster.lakehouse.rows.scan import narrowed, scan_rows

        selected = list(columns or self.table_columns)
        wanted = list(dict.fromkeys(self.table_columns[one] for one in selected))
        schema = narrowed(self.table.schema().as_arrow(), wanted)
        for rows in scan_rows(self.table, schema, (), AlwaysTrue(), without):
            yield rows.select([self.table_columns[one] for one in selected]).rename_columns(
                selected
            )


State = tuple[int | None, int | None]
"""Two ids: of an Iceberg snapshot (None for no rows) and of a schema (None for the current one)."""


@dataclass(frozen=True, slots=True)
class ModelRows:
    """Rows read from a model, and the version of the environment with these rows.

    Args:
        columns: (name, Spark SQL type) in order.
    """

    columns: tuple[tuple[str, str], ...]
    rows: pa.Table
    version: int


def rows_as_tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    """Convert an Arrow table to tuples of Python values. A TIMESTAMP is a datetime in UTC."""
    from vde_dagster.lakehouse.rows.row_values import python_values

    return list(zip(*map(python_values, table.columns), strict=True))


def read_rows(
    handles: Handles,
    environment: str,
    model: str,
    columns: Sequence[str] = (),
    *,
    where: str | None = None,
    order_by: Sequence[str] = (),
    limit: int | None = None,
    at: str | None = None,
) -> ModelRows:
    """Read rows of a model's table with PyIceberg, without Spark.

    Args:
        environment: The environment. `prod@41` and `prod@2026-11-01T06:00` refer to a version.
        columns: The columns, in order; all by default.
        where: A condition in the syntax of `parse_filter`.
        order_by: Columns to sort by, with a minus sign for descending. The default is the order of
            the files.
        at: A time (UTC), for the version current at that time.

    Raises:
        UsageError: The environment, version, model or column does not exist; the condition is
            invalid, or has a value that does not fit its column's type; the model has no table; or
            the version's data is gone.
    """
    if limit is not None and limit < 0:
        raise UsageError(f"the limit {limit} is negative", hint="use 0, or a larger number")
    version = published_version(handles.store, environment, at)
    past = version is not None
    version = version or named_environment(handles, environment_name(environment))
    name = ModelName.parse(model, handles.settings.default_namespace)
    with open_reading(handles, version, name, pinned=past) as read:
        return read.rows(version.version, columns, where, order_by, limit)


@contextmanager
def open_reading(
    handles: Handles, version: Environment, name: ModelName, *, pinned: bool
) -> Iterator[_Reading]:
    """Open a model's table for the block. `pinned` reads the version's pinned state."""
    entry = require_entry(version, name)
    if entry.table_id is None:
        shown = f"{version.name}@{version.version}" if pinned else version.name
        raise UsageError(
            f"{name} has no table and can only be read by an engine",
            hint=f'run `vde query {shown} "SELECT * FROM {name}"` to read it with Spark; or use '
            "another kind of model, such as FULL",
        )
    snapshot = handles.store.snapshots.load([entry.snapshot_id])[entry.snapshot_id]
    table = handles.store.tables.get(entry.table_id)
    with handles.lakehouse.naming_damage(lambda _: [table.ref]):
        metadata = handles.lakehouse.table_metadata(table.ref)
        state = (
            _pinned_state(handles, version, entry)
            if pinned
            else _current_state(metadata, entry, table)
        )
        yield _Reading(handles, name, snapshot, table, metadata, state)


def _pinned_state(handles: Handles, version: Environment, entry: Entry) -> State:
    assert entry.table_id is not None
    pin = handles.store.pins.at(version.name, version.version).get(entry.table_id)
    if pin is None:
        raise not_pinned_error(entry.name, version)
    return pin.snapshot_id, pin.schema_id


def _current_state(metadata: dict[str, Any], entry: Entry, table: PhysicalTable) -> State:
    if entry.held is not None:
        return entry.held.snapshot_id, entry.held.schema_id
    return head_of(metadata, table.branch), None


@dataclass(frozen=True, slots=True)
class _Reading:
    # Columns with equal values share a column of the table, and are read once.
    handles: Handles
    name: ModelName
    snapshot: Snapshot
    table: PhysicalTable
    metadata: dict[str, Any]
    state: State

    def rows(
        self,
        version: int,
        columns: Sequence[str],
        where: str | None,
        order_by: Sequence[str],
        limit: int | None,
    ) -> ModelRows:
        import pyarrow as pa
        from pyiceberg.expressions import AlwaysTrue

        from vde_dagster.lakehouse.rows.row_order import SortKey, first_rows, require_sortable
        from vde_dagster.lakehouse.rows.scan import narrowed, scan_rows

        opened = self.to_rows()
        found, table_columns = opened.table, opened.table_columns
        selected = [find_column(self.name, column, table_columns) for column in columns] or list(
            table_columns
        )
        tests = (
            [self._bind_condition(where, found.schema(), table_columns)]
            if where is not None
            else []
        )
        keys = [
            SortKey(
                table_columns[find_column(self.name, text.removeprefix("-"), table_columns)],
                text.startswith("-"),
            )
            for text in order_by
        ]
        wanted = list(
            dict.fromkeys(
                [*(table_columns[one] for one in selected), *(key.column for key in keys)]
            )
        )
        schema = narrowed(found.schema().as_arrow(), wanted)
        require_sortable(keys, schema)
        scanned = scan_rows(found, schema, tests, AlwaysTrue())
        if limit is not None:
            rows = first_rows(scanned, schema, keys, limit, None)
        else:
            rows = pa.concat_tables([schema.empty_table(), *scanned])
            if keys:  # Sort once, not batch by batch.
                rows = first_rows([rows], schema, keys, rows.num_rows, None)
        return ModelRows(
            tuple((column, opened.types[table_columns[column]]) for column in selected),
            rows.select([table_columns[column] for column in selected]).rename_columns(selected),
            version,
        )

    def to_rows(self) -> TableRows:
        table = as_pinned(self.table, self.metadata, self.state[1])
        physical = dict(column_map(self.snapshot, table))
        read: dict[str, str] = {}
        for column, own in physical.items():
            read.setdefault(own, column)
        fields = nested_columns(self.snapshot, table)
        metadata = self._pinned_metadata([(column, own) for own, column in read.items()], fields)
        table_columns = {column: read[own] for column, own in physical.items()}
        found = self.handles.lakehouse.table_from_metadata(metadata, self.table.ref)
        return TableRows(found, table_columns, columns_of(metadata, None))

    def _pinned_metadata(
        self, columns: list[tuple[str, str]], fields: Mapping[str, ShownFields]
    ) -> dict[str, Any]:
        uuid = str(self.metadata["table-uuid"])
        found = pinned_metadata(self.metadata, *self.state, columns, {}, uuid, {}, fields)
        if found is None:
            raise UsageError(
                f"the data of {self.name} is gone: a program other than vde expired it",
                hint="run `vde fsck` to find the damage; read another version, or restore a backup",
            )
        return found

    def _bind_condition(self, where: str, schema: Any, table_columns: Mapping[str, str]) -> RowTest:
        from vde_dagster.lakehouse.rows.bind_filter import bind_filter
        from vde_dagster.lakehouse.rows.row_filters import parse_filter, with_columns

        sources = {one.lower(): read for one, read in table_columns.items() if one != read}
        condition = with_columns(parse_filter(where), sources)
        return bind_filter(condition, schema, "the condition")
