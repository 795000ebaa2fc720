"""The state of the warehouse for the planner.

Hashes are comparable only if the same canonicalizer made them. After an upgrade, the definitions of
environments are hashed again, so that unchanged models keep their tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace
from datetime import datetime

from vde_dagster.base.names import ModelName
from vde_dagster.planning.environments.contracts import ViewTypes
from vde_dagster.planning.environments.environment import (
    PRODUCTION,
    Entry,
    Environment,
    protected_tables,
)
from vde_dagster.planning.environments.resolver import Resolver
from vde_dagster.planning.snapshots.identity import with_content_id
from vde_dagster.planning.snapshots.snapshot import Forward, Snapshot
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.project.model import Model


@dataclass(frozen=True, slots=True)
class PreviewedDefinition:
    """A changed definition that an environment previews on a branch of production's table.

    Args:
        anew: Environments that have computed the same definition into a separate table.
    """

    environment: str
    forward: Forward
    anew: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WarehouseState:
    """The existing tables and published versions that a plan is compared with.

    Args:
        target: The environment's current version; None if it does not exist.
        production: Production's current version, the base of a new environment.
        snapshots: Snapshots of these two versions and of the tables, by id.
        tables: Tables of these two versions, and all tables with the fill version of a snapshot of
            the project, by id.
        view_types: Columns of the VIEW models that the plan may change, by snapshot id.
        left_out: Entries whose stored definitions cannot be read.
        guarded: Ids of production's tables whose entries are missing from `production`, because
            their stored definitions cannot be read.
        mended: Models whose damaged stored definitions are written again.
        pinned: Table ids by model. The model's `physical_version` names an earlier table, which
            production no longer shows.
        previews: Environments' previews of models that can change in place, by model.
        audited: End (UTC) of the audited range of each standalone audit in the environment.
    """

    target: Environment | None = None
    production: Environment | None = None
    snapshots: Mapping[str, Snapshot] = field(default_factory=dict)
    tables: Mapping[str, PhysicalTable] = field(default_factory=dict)
    view_types: ViewTypes = field(default_factory=dict)
    # `base` does not contain these entries.
    left_out: Mapping[ModelName, Entry] = field(default_factory=dict)
    guarded: frozenset[str] = frozenset()
    mended: tuple[ModelName, ...] = ()
    pinned: Mapping[ModelName, str] = field(default_factory=dict)
    previews: Mapping[ModelName, tuple[PreviewedDefinition, ...]] = field(default_factory=dict)
    audited: Mapping[ModelName, datetime] = field(default_factory=dict)

    def protected(self, environment: str) -> frozenset[str]:
        """Return the ids of the tables that an environment may not write."""
        tables = protected_tables(environment, self.production)
        return tables if environment == PRODUCTION else tables | self.guarded

    def without_snapshots(self, unreadable: Set[str]) -> WarehouseState:
        """Return the state without the entries of snapshots that cannot be read."""

        def lost(environment: Environment | None) -> dict[ModelName, Entry]:
            entries = environment.entries if environment is not None else {}
            return {name: e for name, e in entries.items() if e.snapshot_id in unreadable}

        def rest(environment: Environment | None) -> Environment | None:
            if environment is None:
                return None
            gone = lost(environment)
            entries = {name: e for name, e in environment.entries.items() if name not in gone}
            return replace(environment, entries=entries)

        return replace(
            self,
            target=rest(self.target),
            production=rest(self.production),
            left_out=lost(self.base),
            guarded=frozenset(e.table_id for e in lost(self.production).values() if e.table_id),
        )

    def keep_published(self, snapshots: Mapping[ModelName, Snapshot]) -> dict[ModelName, Snapshot]:
        """Replace new definitions with the published definitions of the same meaning."""
        # The environment's own definitions are preferred to production's.
        kept = dict(snapshots)
        for name, snapshot in snapshots.items():
            for environment in (self.target, self.production):
                entry = environment.entries.get(name) if environment is not None else None
                published = self.snapshots.get(entry.snapshot_id) if entry is not None else None
                if published is not None and published.means(snapshot):
                    kept[name] = published
                    break
        return kept

    def resolver(self, environment: Environment) -> Resolver:
        """Return a resolver for an environment. All of its snapshots and tables must be loaded."""
        return Resolver(
            environment.name,
            environment.entries,
            self.snapshots,
            self.tables,
            suffix=environment.suffix,
            mode=environment.mode,
        )

    @property
    def base(self) -> Environment | None:
        """The version that a plan is compared with: the target, or else production."""
        return self.target or self.production

    @property
    def published_ids(self) -> frozenset[str]:
        """Ids of the stored snapshots that the target or production shows."""
        return frozenset(
            entry.snapshot_id
            for environment in (self.target, self.production)
            if environment is not None
            for entry in environment.entries.values()
        )


Revise = Callable[[Snapshot], Snapshot]
Build = Callable[[Mapping[ModelName, Model], "Revise | None"], dict[ModelName, Snapshot]]
"""Builds the snapshots of definitions with the current canonicalizer."""


def rehash_definitions(
    state: WarehouseState, canonicaliser: str, build: Build
) -> tuple[WarehouseState, list[PhysicalTable]]:
    """Hash stored definitions again if another version of the hash rules made their hashes.

    Returns:
        The state with the new hashes, and the tables to store because their hashes changed.
    """
    # The keys of the snapshots are still the stored ids. Tables that no environment shows keep
    # their old hashes.
    snapshots = dict(state.snapshots)
    tables = dict(state.tables)
    changed: dict[str, PhysicalTable] = {}
    for environment in (state.production, state.target):
        entries = environment.entries.items() if environment is not None else ()
        stored = {name: state.snapshots[entry.snapshot_id] for name, entry in entries}
        if environment is None or all(
            snapshot.canonicaliser == canonicaliser for snapshot in stored.values()
        ):
            continue
        models = {name: snapshot.model for name, snapshot in stored.items()}
        extend = any(snapshot.forward is not None for snapshot in stored.values())
        for name, new in build(models, reconnect_to_tables(stored) if extend else None).items():
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


def reconnect_to_tables(stored: Mapping[ModelName, Snapshot]) -> Revise:
    """Return a function that lets rehashed snapshots keep the tables that they changed in place."""

    # The snapshots keep their inherited hashes, because the tables have rows of several
    # definitions.
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
            columns=tuple(pair for pair in plain.standalone_columns if pair[0] in made),
        )
        again = replace(old, canonicaliser=plain.canonicaliser, reads=plain.reads, forward=forward)
        return with_content_id(again)

    return revise


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
