"""Which physical table each model of a plan has: one that serves it, or a new one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.planning.cadence import ALWAYS
from vde_dagster.planning.environment import PRODUCTION, Environment
from vde_dagster.planning.missing import Window, missing_intervals
from vde_dagster.planning.serve import (
    TablesByContent,
    choose_filler,
    choose_table,
    extended,
    new_preview,
    new_table,
    preview_version,
)
from vde_dagster.planning.snapshot import Forward, Snapshot
from vde_dagster.planning.table import PhysicalTable, TableRef

if TYPE_CHECKING:
    from vde_dagster.planning.warehouse_state import WarehouseState


def assign_tables(
    environment: str,
    snapshots: Mapping[ModelName, Snapshot],
    state: WarehouseState,
    window: Window,
    starts: Mapping[ModelName, datetime],
    unique_id: Callable[[], str],
) -> dict[ModelName, PhysicalTable]:
    """Give every snapshot that owns data a physical table.

    A table whose missing intervals nobody can fill any more serves only while none is missing.
    Two models of the same meaning share one table. What is made from a preview is made for those
    alone who see the preview. No environment shows a table and a preview of it, or two previews of
    it: a publication changes the pointer of an Iceberg table once.

    Raises:
        UsageError: A table that is changed in place is gone, or two models would have previews of
            one.
    """
    assignment = _Assignment(environment, snapshots, state, window, starts, unique_id)
    out: dict[ModelName, PhysicalTable] = {}
    for name, snapshot in snapshots.items():
        table = assignment.table_of(name, snapshot) if snapshot.has_table else None
        if table is not None:
            out[name] = table
        assignment.note(name, snapshot, table)
    _require_one_of_each(out, state.target)
    return out


def _require_one_of_each(
    assigned: Mapping[ModelName, PhysicalTable], target: Environment | None
) -> None:
    """Make sure that no two tables of a plan are branches of one Iceberg table.

    What the environment shows already it may go on showing, as long as others write the table.
    """
    shown = {one.name: one.table_id for one in target.entries.values()} if target else {}
    known: dict[TableRef, tuple[ModelName, str]] = {}
    for name, table in assigned.items():
        other, table_id = known.setdefault(table.ref, (name, table.id))
        is_new = shown.get(name) != table.id or shown.get(other) != table_id
        if table_id != table.id and is_new:
            raise UsageError(
                f"{other} and {name} would be shown by two branches of one table, {table.ref}",
                hint="publish the change of the one that changes in place first, or let one read "
                "the other: they mean the same",
            )


def is_deployed_already(snapshot: Snapshot, state: WarehouseState) -> bool:
    """Say whether production shows the meaning of a snapshot that extends its table."""
    entry = state.production.entries.get(snapshot.name) if state.production is not None else None
    if entry is None or snapshot.forward is None:
        return False
    shown = state.snapshots[entry.snapshot_id]
    if shown.forward is None:
        return False
    return (
        shown.forward.table_id == snapshot.forward.table_id
        and shown.forward.content == snapshot.forward.content
        and shown.columns == snapshot.columns
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
    """The previews that are seen through a model, by model."""

    def __post_init__(self) -> None:
        self.tables = TablesByContent(self.state.tables.values())
        self.protected = self.state.protected(self.environment)

    def table_of(self, name: ModelName, snapshot: Snapshot) -> PhysicalTable:
        """Choose or design a model's table; parents come first."""
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
            if not missing_intervals(snapshot, table.intervals, self.window, self.starts, ALWAYS):
                return True
            definition = self.state.snapshots.get(table.snapshot_id)
            return choose_filler(table, snapshot, definition, self.snapshots) is not None

        found = choose_table(snapshot, self.tables, usable)
        if found is None:
            found = replace(new_table(snapshot, self.unique_id()), computed_from=made_of)
            self.tables.add(found)
        return found

    def note(self, name: ModelName, snapshot: Snapshot, table: PhysicalTable | None) -> None:
        """Remember which previews are seen through a model."""
        if table is None:
            self.previews[name] = self._reads(snapshot)
        elif table.preview is not None:
            self.previews[name] = frozenset([table.id])
        else:
            self.previews[name] = frozenset(table.computed_from)

    def _reads(self, snapshot: Snapshot) -> frozenset[str]:
        found: frozenset[str] = frozenset()
        for parent in snapshot.parents:
            found |= self.previews.get(parent, frozenset())
        return found

    def _in_place(
        self, snapshot: Snapshot, forward: Forward, made_of: tuple[str, ...]
    ) -> PhysicalTable:
        """Return the table that a snapshot extends, or a branch of it.

        Raises:
            UsageError: The table is gone.
        """
        table = self.state.tables.get(forward.table_id)
        deployed = self.environment == PRODUCTION or is_deployed_already(snapshot, self.state)
        if not deployed:
            wanted = preview_version(snapshot) or ""
            for known in self.tables.of_version(wanted):
                if known.computed_from == made_of:
                    return known
        if table is None:
            raise UsageError(
                f"{snapshot.name} went on with a table of production's that is gone",
                hint=f"plan the project again: vde plan {self.environment}",
            )
        if deployed:
            return extended(table, snapshot)
        return new_preview(table, snapshot, self.unique_id(), made_of)

    def _kept(self, name: ModelName, snapshot: Snapshot) -> PhysicalTable | None:
        """Return a table that an environment shows for this very snapshot, though it is mixed."""
        for environment in (self.state.target, self.state.production):
            entry = environment.entries.get(name) if environment is not None else None
            if entry is None or entry.table_id is None:
                continue
            table = self.state.tables.get(entry.table_id)
            shown = self.state.snapshots[entry.snapshot_id]
            if table is not None and table.mixed and shown.id == snapshot.id:
                return table
        return None
