"""What the planner has to know of what has been built and published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vde_dagster.planning.contracts import ViewTypes
from vde_dagster.planning.environment import Environment
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.table import PhysicalTable


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
    """

    target: Environment | None = None
    production: Environment | None = None
    snapshots: Mapping[str, Snapshot] = field(default_factory=dict)
    tables: Mapping[str, PhysicalTable] = field(default_factory=dict)
    view_types: ViewTypes = field(default_factory=dict)

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
