"""Assignment of physical tables to a plan's models: existing tables if they fit, or new ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING

from vde_dagster.base.hashing import digest
from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError, UsageError
from vde_dagster.planning.environments.environment import PRODUCTION, Environment
from vde_dagster.planning.environments.resolver import changes_in_place, column_map
from vde_dagster.planning.intervals.cadence import ALWAYS, IntervalUnit
from vde_dagster.planning.plan.missing_intervals import Window, missing_intervals
from vde_dagster.planning.snapshots.snapshot import Forward, Snapshot
from vde_dagster.planning.tables import nested_fields
from vde_dagster.planning.tables.table import (
    PREVIEW_PREFIX,
    PhysicalColumn,
    PhysicalTable,
    Preview,
    TableRef,
)

if TYPE_CHECKING:
    from vde_dagster.planning.environments.warehouse_state import WarehouseState


def assign_tables(
    environment: str,
    snapshots: Mapping[ModelName, Snapshot],
    state: WarehouseState,
    window: Window,
    starts: Mapping[ModelName, datetime],
    unique_id: Callable[[], str],
) -> dict[ModelName, PhysicalTable]:
    """Assign a physical table to every snapshot whose model has a table.

    Raises:
        UsageError: A table that is changed in place no longer exists, or two models would show
            different branches of one table.
    """
    # Equal models share a table. A table that no definition can fill any more is used only if it
    # has no missing intervals. Tables computed from a preview are used only in environments that
    # show the preview. No environment shows a table and its preview, or two previews of one table,
    # because a publication changes the metadata pointer of each Iceberg table once.
    assignment = _Assignment(environment, snapshots, state, window, starts, unique_id)
    out: dict[ModelName, PhysicalTable] = {}
    for name, snapshot in snapshots.items():
        table = assignment.choose(name, snapshot) if snapshot.has_table else None
        if table is not None:
            out[name] = table
        assignment.record_choice(name, snapshot, table)
    _require_one_branch_per_table(out, state.target)
    return out


def _require_one_branch_per_table(
    assigned: Mapping[ModelName, PhysicalTable], target: Environment | None
) -> None:
    shown = {one.name: one.table_id for one in target.entries.values()} if target else {}
    known: dict[TableRef, tuple[ModelName, str]] = {}
    for name, table in assigned.items():
        other, table_id = known.setdefault(table.ref, (name, table.id))
        is_new = shown.get(name) != table.id or shown.get(other) != table_id
        if table_id != table.id and is_new:
            raise UsageError(
                f"{other} and {name} would show two branches of the same table, {table.ref}",
                hint="publish the in-place change of one of them first, or let one read the other: "
                "both compute the same rows",
            )


def is_deployed_already(snapshot: Snapshot, state: WarehouseState) -> bool:
    """Return whether production already shows the definition that a snapshot deploys in place."""
    entry = state.production.entries.get(snapshot.name) if state.production is not None else None
    shown = state.snapshots[entry.snapshot_id] if entry is not None else None
    if shown is None or shown.forward is None or snapshot.forward is None:
        return False
    return (
        shown.forward.table_id == snapshot.forward.table_id
        and shown.standalone_meaning_hash == snapshot.standalone_meaning_hash
        and shown.columns == snapshot.columns
        and shown.forward.fields == snapshot.forward.fields
    )


@dataclass(slots=True)
class _Assignment:
    environment: str
    snapshots: Mapping[ModelName, Snapshot]
    state: WarehouseState
    window: Window
    starts: Mapping[ModelName, datetime]
    unique_id: Callable[[], str]
    tables: TablesByContent = field(init=False)
    protected: frozenset[str] = field(init=False)
    previews: dict[ModelName, frozenset[str]] = field(default_factory=dict)
    """Previews that a model reads, directly or through other models."""

    def __post_init__(self) -> None:
        self.tables = TablesByContent(self.state.tables.values())
        self.protected = self.state.protected(self.environment)

    def choose(self, name: ModelName, snapshot: Snapshot) -> PhysicalTable:
        made_of = tuple(sorted(self._reads(snapshot)))
        if snapshot.forward is not None:
            return self._in_place(snapshot, snapshot.forward, made_of)
        kept = self._kept(name, snapshot)
        if kept is not None:
            return kept

        def usable(table: PhysicalTable) -> bool:
            if table.computed_from != made_of and (
                table.computed_from or table.id not in self.protected
            ):
                return False
            filled = table.with_ranges_for_unit(snapshot.cadence.unit).intervals
            if not missing_intervals(snapshot, filled, self.window, self.starts, ALWAYS):
                return True
            definition = self.state.snapshots.get(table.snapshot_id)
            return choose_filler(table, snapshot, definition, self.snapshots) is not None

        found = choose_table(snapshot, self.tables, usable)
        if found is None:
            found = replace(define_table(snapshot, self.unique_id()), computed_from=made_of)
            self.tables.add(found)
        return found

    def record_choice(
        self, name: ModelName, snapshot: Snapshot, table: PhysicalTable | None
    ) -> None:
        if table is None:
            self.previews[name] = self._reads(snapshot)
        else:
            self.previews[name] = frozenset([table.id] if table.preview else table.computed_from)

    def _reads(self, snapshot: Snapshot) -> frozenset[str]:
        known = (self.previews.get(parent, frozenset()) for parent in snapshot.parents)
        return frozenset().union(*known)

    def _in_place(
        self, snapshot: Snapshot, forward: Forward, made_of: tuple[str, ...]
    ) -> PhysicalTable:
        table = self.state.tables.get(forward.table_id)
        deployed = self.environment == PRODUCTION or is_deployed_already(snapshot, self.state)
        if not deployed:
            wanted = preview_version(snapshot) or ""
            for known in self.tables.with_fill_version(wanted):
                if known.computed_from == made_of:
                    return known
        if table is None:
            raise UsageError(
                f"{snapshot.name} reuses a production table that no longer exists",
                hint=f"plan the project again: vde plan {self.environment}",
            )
        if deployed:
            return with_added_columns(table, snapshot)
        return define_preview(table, snapshot, self.unique_id(), made_of)

    def _kept(self, name: ModelName, snapshot: Snapshot) -> PhysicalTable | None:
        """Return a table that changed in place earlier, if the model has not changed since then."""
        for environment in (self.state.target, self.state.production):
            entry = environment.entries.get(name) if environment is not None else None
            if entry is None or entry.table_id is None:
                continue
            table = self.state.tables.get(entry.table_id)
            shown = self.state.snapshots[entry.snapshot_id]
            if table is not None and table.mixed and shown.means(snapshot):
                return table
        return None


def serves_snapshot(table: PhysicalTable, snapshot: Snapshot) -> bool:
    """Return whether a table has all rows and column values that a snapshot needs."""
    # The table then has the snapshot's fill version and all of its column versions. A table with
    # rows of several definitions serves only snapshots that extend it.
    forward = snapshot.forward
    if table.mixed and (forward is None or forward.table_id != table.id):
        return False
    return _offers(table, snapshot)


def _offers(table: PhysicalTable, snapshot: Snapshot) -> bool:
    fill = snapshot.fill_version if table.preview is None else preview_version(snapshot)
    if table.fill_version != fill:
        return False
    offered = {column.version for column in table.columns}
    if not all(column.version in offered for column in snapshot.columns):
        return False
    fields = snapshot.forward.field_versions if snapshot.forward is not None else ()
    return not fields or set(fields) <= {one.version for c in table.columns for one in c.fields}


def can_be_filled_by(table: PhysicalTable, snapshot: Snapshot) -> bool:
    """Return whether a snapshot computes all columns of a table that were not added in place."""
    # It may lack columns of a table that is changed in place, which are NULL in new rows.
    if not _offers(table, snapshot):
        return False
    if changes_in_place(table, snapshot):
        return True
    made = {column.version for column in snapshot.columns}
    return all(column.version in made for column in table.columns if not column.in_place)


def preview_version(snapshot: Snapshot) -> str | None:
    """Hash the definition that a preview branch shows; None if nothing changes in place."""
    forward = snapshot.forward
    if forward is None:
        return None
    versions = (column.version for column in snapshot.columns)
    fields = (text for _, listed in forward.fields for one in listed for text in one.texts)
    return digest("preview", forward.table_id, snapshot.standalone_meaning_hash, *versions, *fields)


class TablesByContent:
    """An index of tables by the hashes of their rows and columns."""

    # Models that differ only in their columns share a fill version. There may be thousands of them.
    def __init__(self, tables: Iterable[PhysicalTable] = ()) -> None:
        self._by_fill: dict[str, list[PhysicalTable]] = {}
        self._by_column: dict[str, dict[str, list[PhysicalTable]]] = {}
        for table in tables:
            self.add(table)

    def add(self, table: PhysicalTable) -> None:
        self._by_fill.setdefault(table.fill_version, []).append(table)
        columns = self._by_column.get(table.fill_version)
        if columns is not None:
            _index(columns, table)

    def with_fill_version(self, fill_version: str) -> Sequence[PhysicalTable]:
        return self._by_fill.get(fill_version, ())

    def serving(self, snapshot: Snapshot) -> list[PhysicalTable]:
        fill = snapshot.fill_version
        candidates = self._by_fill.get(fill, [])
        if len(candidates) > 1 and snapshot.columns:
            columns = self._by_column.get(fill)
            if columns is None:
                columns = self._by_column[fill] = {}
                for table in candidates:
                    _index(columns, table)
            having = (columns.get(column.version, []) for column in snapshot.columns)
            candidates = min(having, key=len)
        return [table for table in candidates if serves_snapshot(table, snapshot)]


def _index(columns: dict[str, list[PhysicalTable]], table: PhysicalTable) -> None:
    for version in {column.version for column in table.columns}:
        columns.setdefault(version, []).append(table)


def choose_table(
    snapshot: Snapshot, tables: TablesByContent, usable: Callable[[PhysicalTable], bool]
) -> PhysicalTable | None:
    """Choose the existing table that needs the fewest fills to serve a snapshot, or None.

    Args:
        usable: Returns whether the missing intervals of a table can be filled.
    """

    # The table with the most filled time is preferred, then with the fewest surplus columns, then
    # with the first id.
    def work_left(table: PhysicalTable) -> tuple[timedelta, int, str]:
        filled = sum((one.end - one.start for one in table.intervals), timedelta())
        return -filled, len(table.columns), table.id

    fitting = (table for table in tables.serving(snapshot) if usable(table))
    return min(fitting, key=work_left, default=None)


def choose_filler(
    table: PhysicalTable,
    snapshot: Snapshot,
    definition: Snapshot | None,
    target: Mapping[ModelName, Snapshot],
) -> Snapshot | None:
    """Return a definition that can compute every column of a table, or None.

    Args:
        snapshot: The snapshot that the table serves.
        definition: The snapshot that created the table.
    """
    # The snapshot is preferred if it computes all columns. The definition is returned if it still
    # computes all columns when it is built on the target's parents.
    if can_be_filled_by(table, snapshot):
        return snapshot
    if definition is None or any(parent not in target for parent in definition.parents):
        return None
    from vde_dagster.planning.build_snapshot import build_snapshot

    try:
        again = build_snapshot(definition.model, {p: target[p] for p in definition.parents})
    except ProjectError:
        # Sources of the surplus columns no longer exist.
        return None
    return again if can_be_filled_by(table, again) else None


def with_added_columns(
    table: PhysicalTable, snapshot: Snapshot, there: Mapping[str, str] = MappingProxyType({})
) -> PhysicalTable:
    """Return a production table with the columns that a changed definition adds to it.

    Args:
        there: Spark SQL types of the columns in the catalog, if known.
    """
    table = _with_fields(table, snapshot, there)
    offered = table.column_named_by_version()
    taken = {column.name.lower() for column in table.columns}
    added = []
    for column in snapshot.columns:
        if column.version not in offered:
            name = column.name
            if name.lower() in taken:
                name = f"{name}__{column.version[:6]}"
            taken.add(name.lower())
            added.append(PhysicalColumn(name, column.version, column.type, in_place=True))
    return replace(table, columns=(*table.columns, *added)) if added else table


def _with_fields(
    table: PhysicalTable, snapshot: Snapshot, there: Mapping[str, str]
) -> PhysicalTable:
    forward = snapshot.forward
    if forward is None or not forward.fields:
        return table
    versions = {column.name: column.version for column in snapshot.columns}
    outputs = {versions[name]: name for name, _ in forward.fields}
    types = {column.name: column.type for column in snapshot.columns}
    columns = tuple(
        _with_new_fields(
            column, forward.column_fields(outputs[column.version]), type_, there.get(column.name)
        )
        if column.version in outputs and (type_ := types[outputs[column.version]]) is not None
        else column
        for column in table.columns
    )
    return table if columns == table.columns else replace(table, columns=columns)


def _with_new_fields(
    column: PhysicalColumn, shown: nested_fields.Fields, type_: str, there: str | None
) -> PhysicalColumn:
    """Return a physical column with the fields that a definition adds to the column's structs.

    Args:
        type_: The column's type in the definition.
        there: The column's type in the catalog; None for the recorded type.
    """
    # A crash may have left fields in the catalog that the state does not have. These fields are
    # never shown.
    assert column.type is not None
    has, added = there or column.type, column.fields
    known = nested_fields.typed_fields(column.type)
    left = (one.path for one in nested_fields.list_fields(has) if one.lower_path not in known)
    added += tuple(nested_fields.Field(path, "left behind") for path in left)
    new = nested_fields.missing_fields(has, added, shown, type_)
    if not new:
        return column
    fields = (*added, *(nested_fields.Field((*one.parent, one.name), one.version) for one in new))
    return column._replace(type=nested_fields.with_fields(has, new), fields=fields)


def with_deployed_definition(
    table: PhysicalTable, snapshot: Snapshot, widened: Mapping[str, str]
) -> PhysicalTable:
    """Return a table with a definition that was deployed in place, and `widened` column types."""
    types = {
        physical: widened[output]
        for output, physical in column_map(snapshot, table)
        if output in widened
    }
    columns = tuple(c._replace(type=types.get(c.name, c.type)) for c in table.columns)
    return replace(table, columns=columns, snapshot_id=snapshot.id, mixed=True)


def define_preview(
    table: PhysicalTable, snapshot: Snapshot, unique_id: str, computed_from: tuple[str, ...]
) -> PhysicalTable:
    """Define a branch of production's table that previews a change in place."""
    whole = with_added_columns(table, snapshot)
    shown = {physical for _, physical in column_map(snapshot, whole)}
    version = preview_version(snapshot)
    assert version is not None
    inherited = table.with_ranges_for_unit(
        IntervalUnit.FIVE_MINUTE
    ).intervals  # Whatever its own unit is.
    return PhysicalTable(
        id=unique_id,
        ref=table.ref,
        fill_version=version,
        columns=tuple(c._replace(in_place=False) for c in whole.columns if c.name in shown),
        snapshot_id=snapshot.id,
        # It ends with a letter: no attempt's branch does.
        preview=Preview(table.id, f"{PREVIEW_PREFIX}{unique_id[:12]}p", inherited),
        computed_from=computed_from,
    )


def define_table(snapshot: Snapshot, unique_id: str) -> PhysicalTable:
    """Return a new table with a snapshot's columns and `unique_id` in its name and location."""
    name = snapshot.name
    # Catalogs and file systems limit names to 255 bytes; the model's name is only a label here.
    label = name.name[:120]
    return PhysicalTable(
        id=unique_id,
        ref=TableRef(
            f"vde__{name.namespace}", f"{label}__{snapshot.table_version}_{unique_id[:6]}"
        ),
        fill_version=snapshot.fill_version,
        columns=tuple(PhysicalColumn(c.name, c.version, c.type) for c in snapshot.columns),
        snapshot_id=snapshot.id,
    )
