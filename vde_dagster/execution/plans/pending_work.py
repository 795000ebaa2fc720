"""Pending work where there is nothing to publish, and the command that computes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import count
from vde_dagster.planning.environments.environment import PRODUCTION
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.planning.plan.missing_intervals import Window
from vde_dagster.planning.plan.parent_coverage import due_intervals
from vde_dagster.planning.plan.plan import Plan

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class Missing:
    """Missing ranges, by the environment whose run computes them.

    Args:
        by_environment: Ranges (UTC) by model; production's tables are production's to fill.
        units: How many intervals each model misses.
    """

    by_environment: Mapping[str, Mapping[ModelName, IntervalSet]] = field(default_factory=dict)
    units: Mapping[ModelName, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.units)

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return {
            "models": {
                str(name): ranges.to_json()
                for models in self.by_environment.values()
                for name, ranges in models.items()
            },
            "commands": [command(name) for name in self.by_environment],
        }

    def sentence(self) -> str:
        """Return the missing work and its command: `2 models miss 14 intervals …`."""
        parts = []
        for environment, models in self.by_environment.items():
            intervals = sum(self.units[name] for name in models)
            parts.append(
                f"{count(len(models), 'model')} with {count(intervals, 'interval')}, "
                f"computed by: {command(environment)}"
            )
        return "missing or due: " + "; ".join(parts)


def command(environment: str) -> str:
    """Return the command that computes what is due in an environment."""
    return f"vde run {environment}"


def pending_work(warehouse: Warehouse, plan: Plan, *, ignore_cron: bool = False) -> Missing:
    """Return the work that a plan without changes leaves undone.

    Args:
        warehouse: For the tables that production shows, which only production fills.
        plan: The plan, of a project that is what the environment shows.
        ignore_cron: Whether whole intervals are due before the cron has ticked.
    """
    window = Window(
        plan.created_at, default_start=warehouse.settings.start_time, ignore_cron=ignore_cron
    )
    due = due_intervals(plan, window)
    if not due:
        return Missing()
    shown: frozenset[str] = frozenset()
    if plan.environment != PRODUCTION:
        production = warehouse.store.environments.get(PRODUCTION)
        entries = production.entries.values() if production else ()
        shown = frozenset(entry.table_id for entry in entries if entry.table_id)
    tables = {model.name: model.table.id for model in plan.models if model.table}
    found: dict[str, dict[ModelName, IntervalSet]] = {}
    units: dict[ModelName, int] = {}
    for name, ranges in due.items():
        environment = PRODUCTION if tables[name] in shown else plan.environment
        found.setdefault(environment, {})[name] = ranges
        snapshot = plan.snapshots[plan.entries[name].snapshot_id]
        unit = snapshot.cadence.unit
        units[name] = sum(map(unit.count, ranges)) if snapshot.is_incremental else 1
    return Missing(found, units)
