"""After an upgrade: the stored definitions, hashed again with today's code.

Hashes are compared only with hashes of the same canonicaliser. A model whose definition is the
same gets the same new hashes on both sides, and so keeps its table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from vde_dagster.base.names import ModelName
from vde_dagster.planning.environment import Environment
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.table import PhysicalTable
from vde_dagster.planning.warehouse_state import WarehouseState
from vde_dagster.project.model import Model

Revise = Callable[[Snapshot], Snapshot]
Build = Callable[[Mapping[ModelName, Model], "Revise | None"], dict[ModelName, Snapshot]]
"""Makes the snapshots of a set of definitions with today's canonicaliser."""


def rehash(
    state: WarehouseState, canonicaliser: str, build: Build
) -> tuple[WarehouseState, list[PhysicalTable]]:
    """Hash what the environments hold again, where another canonicaliser hashed it.

    Args:
        state: The state as it is stored.
        canonicaliser: Today's.
        build: Hashes definitions.

    Returns:
        The state in today's hashes (its snapshots under their stored ids), and the tables whose
        hashes changed, to be stored. Tables that no environment names keep their old hashes.
    """
    snapshots = dict(state.snapshots)
    tables = dict(state.tables)
    changed: dict[str, PhysicalTable] = {}
    for environment in (state.production, state.target):
        if environment is None or not _is_outdated(environment, state, canonicaliser):
            continue
        models = {
            name: state.snapshots[entry.snapshot_id].model
            for name, entry in environment.entries.items()
        }
        stored = {
            name: state.snapshots[entry.snapshot_id] for name, entry in environment.entries.items()
        }
        extend = any(snapshot.forward is not None for snapshot in stored.values())
        for name, new in build(models, _extending(stored) if extend else None).items():
            entry = environment.entries[name]
            old = state.snapshots[entry.snapshot_id]
            snapshots[old.id] = new
            if entry.table_id is not None:
                table = tables[entry.table_id]
                if table.mixed or table.preview is not None:
                    continue
                again = _rehash_table(table, old, new)
                if again != table:
                    tables[table.id] = changed[table.id] = again
    return replace(state, snapshots=snapshots, tables=tables), list(changed.values())


def _extending(stored: Mapping[ModelName, Snapshot]) -> Revise:
    """Return what makes of new hashes those of snapshots that go on with another one's table.

    What they inherited names a mixture, and goes on to name it; children compare nothing else.
    """

    def revise(plain: Snapshot) -> Snapshot:
        old = stored[plain.name]
        if old.forward is None:
            return plain
        made = {name for name, _ in old.forward.columns}
        forward = replace(
            old.forward,
            own_id=plain.id,
            rows=plain.version.rows,
            fill_version=plain.fill_version,
            columns=tuple(pair for pair in plain.own_columns if pair[0] in made),
        )
        return replace(old, canonicaliser=plain.canonicaliser, reads=plain.reads, forward=forward)

    return revise


def _is_outdated(environment: Environment, state: WarehouseState, canonicaliser: str) -> bool:
    return any(
        state.snapshots[entry.snapshot_id].canonicaliser != canonicaliser
        for entry in environment.entries.values()
    )


def _rehash_table(table: PhysicalTable, old: Snapshot, new: Snapshot) -> PhysicalTable:
    now = {column.name: column.version for column in new.columns}
    versions = {column.version: now[column.name] for column in old.columns if column.name in now}
    columns = tuple(
        column._replace(
            version=versions[column.version],
            earlier=tuple(dict.fromkeys((column.version, *column.earlier))),
        )
        if versions.get(column.version, column.version) != column.version
        else column
        for column in table.columns
    )
    return replace(table, fill_version=new.fill_version, columns=columns)
