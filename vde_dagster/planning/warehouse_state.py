"""What the planner has to know of what has been built and published."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from datetime import datetime

from vde_dagster.base.names import ModelName
from vde_dagster.planning.contracts import ViewTypes
from vde_dagster.planning.environment import PRODUCTION, Entry, Environment, protected_tables
from vde_dagster.planning.snapshot import Forward, Snapshot
from vde_dagster.planning.table import PhysicalTable


@dataclass(frozen=True, slots=True)
class Previewed:
    """That an environment shows a definition as a change in place, on a branch.

    Args:
        environment: The environment.
        forward: What the definition goes on with, and what it means on its own.
        anew: Environments that show the same definition with a table of its own.
    """

    environment: str
    forward: Forward
    anew: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WarehouseState:
    """What the planner has to know of what has been built and published.

    Args:
        target: The environment's current version; None when it does not exist.
        production: Production's current version, with which a new environment is compared.
        snapshots: Snapshots that these two and the tables name, by id.
        tables: Physical tables that these two name, and all those whose fill version is that of a
            snapshot of the project, by id.
        view_types: What Spark made of the VIEW models that the plan may change, as far as it is
            known, by snapshot id.
        left_out: What the environment that changes are told against shows of models whose stored
            definitions cannot be read; neither that environment's entries have them.
        guarded: Ids of the tables that production shows for such definitions.
        mended: Names of the models whose stored definitions were damaged and are written again.
        pinned: The tables that models went on with under the physical versions that they name,
            where production shows another one, by model.
        previews: What environments preview of models that can change in place, by model.
        audited: The ends of what the environment's standalone audits have looked at (UTC), by name.
    """

    target: Environment | None = None
    production: Environment | None = None
    snapshots: Mapping[str, Snapshot] = field(default_factory=dict)
    tables: Mapping[str, PhysicalTable] = field(default_factory=dict)
    view_types: ViewTypes = field(default_factory=dict)
    left_out: Mapping[ModelName, Entry] = field(default_factory=dict)
    guarded: frozenset[str] = frozenset()
    mended: tuple[ModelName, ...] = ()
    pinned: Mapping[ModelName, str] = field(default_factory=dict)
    previews: Mapping[ModelName, tuple[Previewed, ...]] = field(default_factory=dict)
    audited: Mapping[ModelName, datetime] = field(default_factory=dict)

    def protected(self, environment: str) -> frozenset[str]:
        """Return the ids of the tables that an environment may not write."""
        tables = protected_tables(environment, self.production)
        return tables if environment == PRODUCTION else tables | self.guarded

    def without(self, unreadable: Set[str]) -> WarehouseState:
        """Return the state as if nobody showed some snapshots, which cannot be read."""

        def lost(environment: Environment | None) -> dict[ModelName, Entry]:
            entries = environment.entries if environment is not None else {}
            return {name: e for name, e in entries.items() if e.snapshot_id in unreadable}

        def rest(environment: Environment | None) -> Environment | None:
            if environment is None:
                return None
            left = environment.entries.keys() - lost(environment).keys()
            entries = {name: e for name, e in environment.entries.items() if name in left}
            return replace(environment, entries=entries)

        shown = (entry.table_id for entry in lost(self.production).values())
        return replace(
            self,
            target=rest(self.target),
            production=rest(self.production),
            left_out=lost(self.base),
            guarded=frozenset(table for table in shown if table is not None),
        )

    @property
    def base(self) -> Environment | None:
        """The environment that the plan's changes are told against."""
        return self.target or self.production

    @property
    def held(self) -> frozenset[str]:
        """The ids of the snapshots that the two environments hold, as they are stored."""
        return frozenset(
            entry.snapshot_id
            for environment in (self.target, self.production)
            if environment is not None
            for entry in environment.entries.values()
        )
