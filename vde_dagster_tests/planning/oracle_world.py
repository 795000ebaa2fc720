"""A warehouse with data in which plans are applied and compared with a rebuild."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from graphlib import CycleError

import duckdb
from sqlglot.errors import SqlglotError

from vde_dagster.base.names import ModelName
from vde_dagster.errors import VdeError
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.planning.environments.environment import PRODUCTION
from vde_dagster.planning.plan.plan import Change, Plan
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster_tests.planning.oracle_data import Models
from vde_dagster_tests.planning.oracle_lake import (
    Contents,
    ExternalTable,
    Lake,
    RepeatedNameError,
)
from vde_dagster_tests.planning.simulate import MemoryMemo, Warehouse

MOST_ROWS = 600
Rebuilt = dict[ModelName, Contents]


class WrongSkipError(AssertionError):
    """After a plan was applied, a model does not show what a rebuild would."""

    def __init__(self, model: ModelName, message: str) -> None:
        super().__init__(message)
        self.model = model


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens: a plan of a project, or (without one) a run of what is due."""

    environment: str
    models: Models | None
    now: datetime
    edits: tuple[str, ...] = ()


@dataclass(slots=True)
class Tally:
    """What the oracle saw."""

    projects: int = 0
    plans: int = 0
    compared: int = 0
    skipped: int = 0
    builds: int = 0
    needless: int = 0
    harmless: Counter[str] = field(default_factory=Counter)
    recognised: Counter[str] = field(default_factory=Counter)
    needless_by_edit: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)


class World:
    """A warehouse with data, in which steps are taken and checked.

    Args:
        tables: The external tables.
        tally: Counts what happens.
    """

    def __init__(self, tables: Mapping[str, ExternalTable], tally: Tally | None = None) -> None:
        self.tally = tally or Tally()
        self.lake = Lake(tables)
        self.warehouse = Warehouse()
        self.memo = MemoryMemo()
        self.rebuilt: dict[str, Rebuilt] = {}

    def snapshots(self, models: Models) -> dict[ModelName, Snapshot]:
        """The project's snapshots.

        Raises:
            VdeError: A query is wrong.
        """
        return build_snapshots(models, lambda name: None, memo=self.memo)

    def try_out(self, models: Models, now: datetime) -> bool:
        """Say whether a project is valid for the planner and for DuckDB, and not too big."""
        try:
            rebuilt = self.lake.rebuild(self.snapshots(models), now)
        except (VdeError, duckdb.Error, SqlglotError, CycleError, RepeatedNameError):
            return False
        return all(contents.rows.total() <= MOST_ROWS for contents in rebuilt.values())

    def rows_of(self, models: Models, name: ModelName, now: datetime) -> int:
        """Count a model's rows."""
        return self.lake.rebuild(self.snapshots(models), now)[name].rows.total()

    def take(self, step: Step) -> Plan:
        """Plan, fill, publish, and compare with a rebuild.

        Raises:
            WrongSkipError: Something is not as a rebuild makes it.
        """
        if step.models is None:
            plan = self.warehouse.plan_run(step.environment, now=step.now)
        else:
            snapshots = self.snapshots(step.models)
            plan = self.warehouse.plan_snapshots(snapshots, step.environment, now=step.now)
        base = self.rebuilt.get(step.environment) or self.rebuilt.get(PRODUCTION)
        self.lake.apply(self.warehouse, plan)
        target = {name: plan.snapshots[entry.snapshot_id] for name, entry in plan.entries.items()}
        truth = self.lake.rebuild(target, step.now)
        served = self.lake.served(self.warehouse, step.environment)
        self.rebuilt[step.environment] = truth
        self.tally.plans += 1
        for planned in plan.models:
            name = planned.name
            if name not in served:
                continue
            self.tally.compared += 1
            self.tally.skipped += not planned.builds
            if served[name] != truth[name]:
                raise WrongSkipError(name, _difference(plan, name, served[name], truth[name]))
        if step.models is not None and base is not None:
            self._count(plan, step, base, truth)
        return plan

    def _count(self, plan: Plan, step: Step, base: Rebuilt, truth: Rebuilt) -> None:
        needless = 0
        harmless = True
        for planned in plan.models:
            if planned.change is Change.REMOVED or planned.name not in truth:
                continue
            old = base.get(planned.name)
            previous = self.warehouse.snapshots.get(planned.previous_snapshot_id or "")
            had_table = previous is not None and (previous.has_table or planned.table is None)
            same = old is not None and had_table and could_serve(old, truth[planned.name])
            harmless = harmless and (same or planned.change is Change.ADDED)
            if planned.builds and planned.change is not Change.ADDED and "stamp" not in step.edits:
                self.tally.builds += 1
                if same:
                    needless += 1
                    self.tally.examples.append(
                        f"{','.join(step.edits)}: {planned.name} {list(planned.reasons)}"
                    )
        self.tally.needless += needless
        if len(step.edits) == 1:
            edit = step.edits[0]
            if needless:
                self.tally.needless_by_edit[edit] += needless
            if harmless and edit != "stamp":
                self.tally.harmless[edit] += 1
                self.tally.recognised[edit] += not plan.builds

    def close(self) -> None:
        """Free the data."""
        self.lake.close()


def could_serve(old: Contents, new: Contents) -> bool:
    """Say whether some columns of the old contents hold the new ones, under whatever names."""
    matches = []
    for name in new.columns:
        values = new.column(name)
        alike = [column for column in old.columns if old.column(column) == values]
        if not alike:
            return False
        matches.append(name if name in alike else alike[0])
    return old.under(matches).rows == new.rows


def _difference(plan: Plan, name: ModelName, served: Contents, truth: Contents) -> str:
    said = "\n".join(
        f"    {m.name}: {m.change.value} {m.category.value if m.category else '-'}"
        f"{' builds ' + str(m.table.ref) if m.builds and m.table else ''} {list(m.reasons)}"
        for m in plan.models
    )
    return (
        f"{name} does not show what a rebuild would\n"
        f"  shown:   {served.columns} {sorted(served.rows.items(), key=str)}\n"
        f"  rebuilt: {truth.columns} {sorted(truth.rows.items(), key=str)}\n"
        f"  the plan ({plan.kind.value} {plan.environment}):\n{said}"
    )
