"""A publication as a value: everything that becomes visible together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from vde_dagster.base.names import ModelName
from vde_dagster.planning.engine_tasks import ViewDefinition
from vde_dagster.planning.environments.environment import Environment
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.planning.plan.affected_intervals import Changed
from vde_dagster.planning.plan.plan import EnvironmentStatements
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PhysicalTable, TableRef
from vde_dagster.state.db.leases import Lease


@dataclass(frozen=True, slots=True)
class FastForward:
    """A table whose `main` moves to what a plan wrote on a branch.

    Args:
        expected_main: The snapshot that `main` has to be at; None when it is enough that it is
            among the branch's ancestors, so that nothing on it is lost.
    """

    ref: TableRef
    table_id: str
    branch: str
    expected_main: int | None = None
    into: str | None = None


@dataclass(frozen=True, slots=True)
class Return:
    """A table that goes back to what it held, with what counted as filled then.

    Args:
        expected: The snapshot that they see until then; whoever writes meanwhile is told.
        into: The branch that moves in place of `main`, for a preview.
        as_of: What became outdated later than that (UTC) is not, as what it was made of goes back
            with it; None where that may stay as it is.
    """

    ref: TableRef
    table_id: str
    snapshot_id: int | None
    filled: IntervalSet
    expected: int | None
    into: str | None = None
    as_of: datetime | None = None
    left: frozenset[int] = frozenset()
    found: frozenset[int] = frozenset()

    @property
    def moves(self) -> bool:
        """Whether its rows change, and not only what counts as filled."""
        return self.snapshot_id != self.expected


@dataclass(frozen=True, slots=True)
class Deployment:
    """A table that another definition fills from now on."""

    table: PhysicalTable
    widened: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Holding:
    """Another environment, which goes on showing what tables held that move.

    Args:
        views: Its views, as far as they may change.
    """

    environment: Environment
    base_version: int
    views: tuple[ViewDefinition, ...]


@dataclass(frozen=True, slots=True)
class Publication:
    """One transaction's worth of change to what readers see.

    Args:
        dropped: Views to remove; names that no publication made are left alone.
        ends_environment: Whether this drops the environment: every view of it goes.
        changed: What a restatement computed again, so that what others made of it is outdated.
        snapshots: The environment's snapshots as far as they are at hand, by id.
        before_and_after: What later runs of the environment do before and after all else; None to
            leave it as it is.
        sources: (environment, version) whose pins its entries hold; they have to be kept until
            it commits.
    """

    environment: Environment
    base_version: int
    views: tuple[ViewDefinition, ...] = ()
    dropped: tuple[TableRef, ...] = ()
    fast_forwards: tuple[FastForward, ...] = ()
    plan_id: str | None = None
    leases: tuple[Lease, ...] = ()
    statements: tuple[tuple[ModelName, str], ...] = ()
    ends_environment: bool = False
    changed: Changed | None = None
    snapshots: Mapping[str, Snapshot] = field(default_factory=dict)
    deployments: tuple[Deployment, ...] = ()
    returns: tuple[Return, ...] = ()
    holding: tuple[Holding, ...] = ()
    before_and_after: EnvironmentStatements | None = None
    sources: tuple[tuple[str, int], ...] = ()
