"""Operations on published environments: list versions, roll back, freeze, audit, drop."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName, current_user
from vde_dagster.base.texts import listed
from vde_dagster.errors import UsageError
from vde_dagster.execution.apply.virtual_update import run_virtual_update
from vde_dagster.execution.changes.view_updates import update_change_views
from vde_dagster.execution.environments.compare import VersionChange, changes_until
from vde_dagster.execution.plans.gather_state import complete_state
from vde_dagster.execution.plans.plan_file import PlanFiles
from vde_dagster.execution.published_version import (
    environment_not_found,
    named_environment,
    require_environment,
    stored_snapshots,
)
from vde_dagster.lakehouse.publishing.publication import Publication
from vde_dagster.planning.environments.environment import (
    PRODUCTION,
    Entry,
    Environment,
    ViewNames,
    environment_name,
)
from vde_dagster.planning.rendering.views import statements_after_publication
from vde_dagster.state.db.leases import environment_lease, lease_owner, table_lease

if TYPE_CHECKING:
    from datetime import timedelta

    from vde_dagster.execution.environments.audit_environment import AuditReport
    from vde_dagster.execution.environments.compare_tables import Comparison
    from vde_dagster.execution.environments.rollback import RollbackResult
    from vde_dagster.execution.events import VirtualUpdateRan
    from vde_dagster.execution.handles import Handles
    from vde_dagster.planning.snapshots.snapshot import Snapshot
    from vde_dagster.state.environments.pins import Pin


@dataclass(frozen=True, slots=True)
class FreezeResult:
    """A frozen environment, with its number of tables.

    Args:
        live: External tables that the frozen queries read in their current state, without a pin.
    """

    environment: Environment
    tables: int
    live: tuple[ModelName, ...]
    failed_statements: tuple[VirtualUpdateRan, ...] = ()


@dataclass(frozen=True, slots=True)
class Environments:
    handles: Handles

    def named(self, text: str) -> Environment:
        """Find an environment's current version (`dev`) or a given version (`prod@41`).

        Raises:
            UsageError: The environment or version does not exist.
        """
        return named_environment(self.handles, text)

    def snapshots(self, environment: Environment) -> dict[ModelName, Snapshot]:
        """Return the models' definitions in an environment's version, parents before children."""
        return stored_snapshots(self.handles, environment)

    def column_spelling(self, environment: Environment, model: ModelName) -> dict[str, str]:
        """Map a published model's column names in lower case to their original spelling."""
        from vde_dagster.planning.snapshots.spelling import column_spelling

        settings = self.handles.settings
        functions = (*settings.functions, *settings.scalar_functions)
        return column_spelling(model, self.snapshots(environment), functions)

    def history(self, environment: str, limit: int | None = None) -> list[VersionChange]:
        """Return the versions of an environment with their changes, newest first.

        Raises UsageError if the environment does not exist.
        """
        name, store = environment_name(environment), self.handles.store
        changes = changes_until(store, self.handles.lakehouse, name, None, limit)
        if not changes:
            raise environment_not_found(store, name)
        found = PlanFiles(self.handles).attached_to([one.version.plan_id or "" for one in changes])
        return [replace(one, attached=found.get(one.version.plan_id or "", "")) for one in changes]

    def views(self, environment: str) -> ViewNames:
        """Return an environment's view names. The settings define them for a new environment."""
        current, settings = self.handles.store.environments.get(environment), self.handles.settings
        suffix, mode = settings.environment_suffix_target, settings.virtual_environment_mode
        return current.views if current else ViewNames(environment, suffix, mode)

    def compare_rows(
        self, model: ModelName, environments: str, limit: int = 10
    ) -> Comparison | None:
        """Compare the rows of a model in two environments (`dev:prod`). See `compare_model`."""
        from vde_dagster.execution.environments.compare_tables import compare_model

        return compare_model(self.handles, model, environments, limit)

    def rollback(
        self,
        environment: str,
        version: int | None = None,
        *,
        who: str | None = None,
        definitions_only: bool = False,
        dry_run: bool = False,
    ) -> RollbackResult:
        """Publish an earlier version of an environment again, with its data, in one transaction.

        Args:
            version: By default, the latest version that differs from the current one.
            who: Name for the environment's history; the system user by default.

        Raises:
            UsageError: The environment or version does not exist, or its data is gone.
            ConflictError: Another process is changing the environment or one of its tables.
        """
        from vde_dagster.execution.environments.rollback import Rollback, find_partly_filled

        handles, store = self.handles, self.handles.store
        name, who = environment_name(environment), who or current_user()
        store.project.require_own()
        if not dry_run:
            store.rights.require_change(name, f"roll back '{name}'")
        store.environments.require_changeable(name)
        if not store.environments.exists(name):
            raise environment_not_found(store, name)
        owner = lease_owner(f"{who}, rollback")
        work = Rollback(handles, name, version, who, definitions_only)
        if dry_run:
            return work.prepare()[1]
        with store.leases.holding(environment_lease(name), owner) as held:
            handles.lakehouse.recover()
            publication, result = work.prepare()
            tables = (table_lease(one.table_id) for one in publication.returns)
            with store.leases.holding_all(tables, owner) as leases:
                store.tables.note_parts(find_partly_filled(publication))
                published = handles.lakehouse.publish(
                    replace(publication, leases=(held.lease, *leases))
                )
        failed = run_virtual_update(handles, name, owner)
        update_change_views(handles, name, who)
        return replace(result, environment=published, failed_statements=failed)

    def freeze(
        self, source: str, name: str, keep: timedelta | None = None, *, who: str | None = None
    ) -> FreezeResult:
        """Publish a version of an environment permanently under another name.

        The frozen environment cannot be planned, run or rolled back.

        Args:
            source: The version: `prod@41`, `prod@2026-11-01T06:00`, or `prod` (its latest).
            keep: How long to keep the frozen environment; by default until it is dropped.
            who: Name for the environment's history; the system user by default.

        Raises:
            UsageError: The version does not exist, its data is unknown or gone, or the name is
                taken.
            ConflictError: The version was deleted meanwhile, or another process creates the same
                name.
        """
        # No row is copied and no table moves, because the views select the version's pins.
        from vde_dagster.execution.apply.publish import define_views
        from vde_dagster.execution.pinned_reads import with_pinned_tables

        handles, store = self.handles, self.handles.store
        name, who = environment_name(name), who or current_user()
        store.project.require_own()
        store.rights.require_change(name, f"create the environment '{name}'")
        shown = named_environment(handles, source)
        version = f"{shown.name}@{shown.version}"
        owner = lease_owner(f"{who}, freeze {version}")
        with store.leases.holding(environment_lease(name), owner) as held:
            handles.lakehouse.recover()
            _require_free(handles, name)
            if store.versions.is_before_end(shown.name, shown.version):
                raise UsageError(
                    f"{version} cannot be frozen: the environment was dropped since, and the next "
                    "cleanup deletes its data",
                    hint=f"freeze a later version: vde history {shown.name}",
                )
            entries = _pinned_entries(shown, store.pins.at(shown.name, shown.version))
            now = store.database.clock.now()
            frozen = Environment(
                name=name,
                version=1,
                entries=entries,
                publication_id=uuid.uuid4().hex,
                published_at=now,
                published_by=who,
                expires_at=now + keep if keep is not None else None,
                note=f"frozen {version}",
                suffix=handles.settings.environment_suffix_target,
                frozen=version,
                kept=shown.kept,
            )
            state = complete_state(store, frozen, None, ())
            gone = [n for n, e in entries.items() if e.table_id and e.table_id not in state.tables]
            if gone:
                raise UsageError(
                    f"{version} cannot be frozen: the tables of {listed(sorted(gone), 5)} were "
                    "cleaned up",
                    hint="freeze a later version",
                )
            production = store.environments.get(PRODUCTION)
            frozen.views.require_free(entries, production.entries if production else entries)
            try:
                resolver = with_pinned_tables(handles, state.resolver(frozen))
            except UsageError as error:
                message = f"{version} cannot be frozen: {error.message}"
                raise UsageError(message, hint=error.hint) from None
            published = handles.lakehouse.publish(
                Publication(
                    environment=frozen,
                    base_version=0,
                    views=define_views(resolver, handles),
                    leases=(held.lease,),
                    snapshots=state.snapshots,
                    statements=statements_after_publication(
                        resolver, None, handles.settings.catalog, now
                    ),
                    sources=((shown.name, shown.version),),
                )
            )
        failed = run_virtual_update(handles, name, owner)
        return FreezeResult(
            published,
            len(published.pinned_states),
            _external_parents(entries, state.snapshots),
            failed,
        )

    def audit(
        self, environment: str, *, select: Sequence[str] = (), labels: Collection[str] | None = None
    ) -> AuditReport:
        """Run the audits of an environment's published tables.

        Args:
            select: Patterns of models; all by default.
            labels: Labels of the audits to run; all by default.

        Raises:
            UsageError: The environment does not exist, or a pattern matches nothing.
            ExecutionError: Spark failed, or the work was canceled.
        """
        from vde_dagster.execution.environments.audit_environment import audit_environment

        name, what = environment_name(environment), "run audits and store their results"
        self.handles.store.rights.require_change(name, what)
        return audit_environment(self.handles, name, select, labels)

    def drop(self, environment: str) -> None:
        """Mark an environment as expired. The janitor drops its views and unshared tables.

        Raises:
            UsageError: The environment does not exist, or it is production.
        """
        name, store = environment_name(environment), self.handles.store
        if name == PRODUCTION:
            raise UsageError(
                "production cannot be dropped",
                hint="roll production back, or drop another environment",
            )
        store.project.require_own()
        store.rights.require_change(name, f"drop '{name}'")
        store.environments.invalidate(require_environment(store, name))


def _require_free(handles: Handles, name: str) -> None:
    if name == PRODUCTION:
        raise UsageError(
            f"a frozen environment cannot be named '{PRODUCTION}'",
            hint="choose another name, such as month_end",
        )
    if handles.store.environments.exists(name):
        raise UsageError(
            f"environment '{name}' already exists",
            hint=f"choose another name, or delete it: vde drop {name}, then vde janitor",
        )


def _pinned_entries(shown: Environment, pins: Mapping[str, Pin]) -> dict[ModelName, Entry]:
    unknown = [n for n, e in shown.entries.items() if e.table_id and e.table_id not in pins]
    if unknown:
        raise UsageError(
            f"{shown.name}@{shown.version} cannot be frozen: the data of "
            f"{listed(sorted(unknown), 5)} is unknown, because this version was published before "
            "versions pinned their data",
            hint=f"freeze a later version: vde history {shown.name}",
        )
    return {
        name: replace(entry, held=pins[entry.table_id].state_to_hold) if entry.table_id else entry
        for name, entry in shown.entries.items()
    }


def _external_parents(
    entries: Mapping[ModelName, Entry], snapshots: Mapping[str, Snapshot]
) -> tuple[ModelName, ...]:
    known = {name: snapshots[entry.snapshot_id] for name, entry in entries.items()}
    external = {name for name, one in known.items() if one.model.kind.is_external}
    queries = (one for name, one in known.items() if entries[name].table_id is None)
    read = {parent for one in queries if one.name not in external for parent in one.parents}
    return tuple(sorted(read & external))
