"""Plans, environments, snapshots and tables, as values."""

from vde_dagster.planning.environments.environment import PRODUCTION, Environment, environment_name
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.plan.plan import Change, Level, Objection, Plan, PlanKind
from vde_dagster.planning.snapshots.snapshot import Snapshot

__all__ = [
    "PRODUCTION",
    "Change",
    "Environment",
    "Interval",
    "Level",
    "Objection",
    "Plan",
    "PlanKind",
    "Snapshot",
    "environment_name",
]
