"""Rows of a published model, read by PyIceberg: without an engine, and so without a JVM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import suggest
from vde_dagster.errors import UsageError
from vde_dagster.execution.pinned_reads import not_pinned
from vde_dagster.execution.published_version import (
    named_environment,
    published_version,
    shown_entry,
)
from vde_dagster.lakehouse.metadata.table_metadata import columns_of, head_of
from vde_dagster.lakehouse.publishing.pins import as_pinned, pinned_metadata
from vde_dagster.planning.environments.environment import environment_name
from vde_dagster.planning.environments.resolver import column_map

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table

    from vde_dagster.execution.handles import Handles
    from vde_dagster.lakehouse.rows.bind_filter import RowTest
    from vde_dagster.lakehouse.rows.scan import FileState
    from vde_dagster.planning.environments.environment import Entry, Environment
    from vde_dagster.planning.snapshots.snapshot import Snapshot
    from vde_dagster.planning.tables.table import PhysicalTable


@dataclass(frozen=True, slots=True)
class ShownRows:
    """Rows of a model in one state of its table.

    Args:
        table: The state as a table of its own, with the model's columns.
        once: By column, the one that has its values in the table.
        types: By column of the table, its Spark SQL type.
    """

    table: Table
    once: Mapping[str, str]
    types: Mapping[str, str]

    def files(self) -> frozenset[FileState]:
        """Return the files that the rows are in."""
        from vde_dagster.lakehouse.rows.scan import file_states

        return file_states(self.table)

    def batches(
        self, columns: Sequence[str] = (), without: Set[FileState] = frozenset()
    ) -> Iterator[pa.Table]:
        """Read the rows in the order of the files, without holding them.

        Args:
            columns: By their names in the model; all by default.
            without: Files to leave out.
        """
        from pyiceberg.expressions import AlwaysTrue

        from vde_dagster.lakehouse.rows.scan import narrowed, scan_rows

        shown = list(columns or self.once)
        wanted = list(dict.fromkeys(self.once[one] for one in shown))
        schema = narrowed(self.table.schema().as_arrow(), wanted)
        for rows in scan_rows(self.table, schema, (), AlwaysTrue(), without):
            yield rows.select([self.once[one] for one in shown]).rename_columns(shown)


State = tuple[int | None, int | None]
"""An Iceberg snapshot, None for no rows, and the schema that is read, None for the current one."""


@dataclass(frozen=True, slots=True)
class ModelRows:
    """Rows of a model.

    Args:
        columns: (name, Spark SQL type) in order.
        version: The version of the environment that shows them.
    """

    columns: tuple[tuple[str, str], ...]
    rows: pa.Table
    version: int


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return rows as Python has them; a TIMESTAMP is a datetime in UTC, a map a dictionary."""
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
    """Read rows of a model that has a table.

    Args:
        environment: The environment; `prod@41` and `prod@2026-11-01T06:00` mean a version of it.
        columns: The columns, in order; all by default.
        where: A condition as `parse_filter` has it.
        order_by: Columns to sort by, each with a minus sign in front where the greatest comes
            first; by default the order is that of the files.
        limit: The most rows.
        at: A time (UTC): the version that was current then.

    Raises:
        UsageError: There is no such environment, version, model or column, the condition does not
            fit, the model has no table, or what the version showed is gone.
    """
    version = published_version(handles.store, environment, at)
    past = version is not None
    version = version or named_environment(handles, environment_name(environment))
    name = ModelName.parse(model, handles.settings.default_namespace)
    with _opened(handles, version, name, pinned=past) as read:
        return read.rows(version.version, columns, where, order_by, limit)


@contextmanager
def opened_rows(handles: Handles, version: Environment, name: ModelName) -> Iterator[ShownRows]:
    """Open the rows that a version of an environment pins of a model, to be read in a block.

    Raises:
        UsageError: The version shows no such model, the model has no table, or what the version
            showed is gone.
    """
    with _opened(handles, version, name, pinned=True) as read:
        yield read.shown()


@contextmanager
def _opened(
    handles: Handles, version: Environment, name: ModelName, *, pinned: bool
) -> Iterator[_Reading]:
    entry = shown_entry(version, name)
    if entry.table_id is None:
        raise UsageError(
            f"{name} has no table of its own, so it can only be read by an engine",
            hint=f'`vde query {version.name} "SELECT * FROM {name}"` reads it with Spark; or give '
            "its model another kind, such as FULL",
        )
    snapshot = handles.store.snapshots.load([entry.snapshot_id])[entry.snapshot_id]
    table = handles.store.tables.get(entry.table_id)
    with handles.lakehouse.naming_damage(lambda _: [table.ref]):
        metadata = handles.lakehouse.table_metadata(table.ref)
        state = _pinned(handles, version, entry) if pinned else _shown(metadata, entry, table)
        yield _Reading(handles, name, snapshot, table, metadata, state)


def _pinned(handles: Handles, version: Environment, entry: Entry) -> State:
    assert entry.table_id is not None
    pin = handles.store.pins.at(version.name, version.version).get(entry.table_id)
    if pin is None:
        raise not_pinned(entry.name, version)
    return pin.snapshot_id, pin.schema_id


def _shown(metadata: dict[str, Any], entry: Entry, table: PhysicalTable) -> State:
    if entry.held is not None:
        return entry.held.snapshot_id, entry.held.schema_id
    return head_of(metadata, table.branch), None


@dataclass(frozen=True, slots=True)
class _Reading:
    """A state of a table, under the names that a model's columns have.

    Columns of the same values are one in the table, and are read once.
    """

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
        """Read what is asked of it."""
        import pyarrow as pa
        from pyiceberg.expressions import AlwaysTrue

        from vde_dagster.lakehouse.rows.row_order import SortKey, first_rows, require_sortable
        from vde_dagster.lakehouse.rows.scan import narrowed, scan_rows

        opened = self.shown()
        found, once = opened.table, opened.once
        shown = [self._known(column, once) for column in columns] or list(once)
        tests = [self._test(where, found.schema(), once)] if where is not None else []
        keys = [
            SortKey(once[self._known(text.removeprefix("-"), once)], text.startswith("-"))
            for text in order_by
        ]
        wanted = list(dict.fromkeys([*(once[one] for one in shown), *(key.column for key in keys)]))
        schema = narrowed(found.schema().as_arrow(), wanted)
        require_sortable(keys, schema)
        scanned = scan_rows(found, schema, tests, AlwaysTrue())
        if limit is not None:
            rows = first_rows(scanned, schema, keys, limit, None)
        else:
            rows = pa.concat_tables([schema.empty_table(), *scanned])
            if keys:  # Sorted once, and not batch by batch.
                rows = first_rows([rows], schema, keys, rows.num_rows, None)
        return ModelRows(
            tuple((column, opened.types[once[column]]) for column in shown),
            rows.select([once[column] for column in shown]).rename_columns(shown),
            version,
        )

    def shown(self) -> ShownRows:
        """Return the state under the model's names."""
        table = as_pinned(self.table, self.metadata, self.state[1])
        physical = dict(column_map(self.snapshot, table))
        read: dict[str, str] = {}
        for column, own in physical.items():
            read.setdefault(own, column)
        metadata = self._metadata([(column, own) for own, column in read.items()])
        once = {column: read[own] for column, own in physical.items()}
        found = self.handles.lakehouse.table_from_metadata(metadata, self.table.ref)
        return ShownRows(found, once, columns_of(metadata, None))

    def _known(self, column: str, columns: Mapping[str, str]) -> str:
        named = {one.lower(): one for one in columns}
        if column.lower() not in named:
            hint = suggest(column, columns, "columns")
            raise UsageError(f"{self.name} has no column '{column}'", hint=hint)
        return named[column.lower()]

    def _metadata(self, columns: list[tuple[str, str]]) -> dict[str, Any]:
        uuid = str(self.metadata["table-uuid"])
        found = pinned_metadata(self.metadata, *self.state, columns, {}, uuid, {})
        if found is None:
            raise UsageError(
                f"the data of {self.name} that are shown are gone: another program than vde "
                "expired them",
                hint="`vde fsck` says what is damaged; read another version, or restore a backup",
            )
        return found

    def _test(self, where: str, schema: Any, once: Mapping[str, str]) -> RowTest:
        from vde_dagster.lakehouse.rows.bind_filter import bind_filter
        from vde_dagster.lakehouse.rows.row_filters import parse_filter, with_columns

        doubled = {one.lower(): read for one, read in once.items() if one != read}
        condition = with_columns(parse_filter(where), doubled)
        return bind_filter(condition, schema, "the condition")
