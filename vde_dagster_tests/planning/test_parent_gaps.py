"""Random histories of plans and runs in which parents fall due at other times than their children.

The model remembers with every fill what each parent held then, by ranges, and knows nothing of
what fills remember of themselves. After a run, what a table that is made whole was made of has to
be all that its parents hold of what its slot reaches over; and nothing may be made without need.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError, UsageError
from vde_dagster.planning.environments.environment import PRODUCTION
from vde_dagster.planning.intervals.cadence import BEGINNING, FAR
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.plan.missing_intervals import Window, infer_starts
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.snapshots.snapshot import Snapshot, sort_parents_first
from vde_dagster_tests.planning.simulate import Warehouse
from vde_dagster_tests.projects import ProjectFolder

FIRST = datetime(2024, 3, 5, 12, tzinfo=timezone.utc)
CRONS = (
    "cron '*/5 * * * *'",
    "cron '@hourly'",
    "cron '@daily'",
    "cron '@daily', cron_tz 'America/Los_Angeles'",
    "cron '@daily', cron_tz 'Asia/Tokyo'",
    "cron '0 5 * * *'",
    "cron '0 0 * * 0'",
    "cron '0 6 * * 1'",
    "cron '@monthly'",
)
EXTERNAL = {"lake.events": [("at", "TIMESTAMP"), ("amount", "INT")]}
RANGE = "WHERE at BETWEEN @start_ts AND @end_ts"
SEED = {
    "models/seed.sql": "MODEL (name m.seed, kind SEED (path '../seeds/seed.csv'));",
    "seeds/seed.csv": "at,amount\n2024-01-01,1\n",
}

Seen = dict[ModelName, IntervalSet]
"""What a reader of a model finds (UTC), by the model whose rows they are."""


def random_project(rng: random.Random) -> dict[str, str]:
    """Make a project of five to eight models: intervals, whole tables, histories and views."""
    files = dict(SEED)
    names = ["m.seed"]
    for number in range(rng.randint(5, 8)):
        name = f"m.t{number}"
        source = "lake.events" if number < 2 else rng.choice([*names[1:], *names[-2:]])
        kinds = ["time", "time", "full", "full", "full", "view", "history", "forward"]
        kind = "time" if number < 2 and rng.random() < 0.8 else rng.choice(kinds)
        head = {
            "time": "kind INCREMENTAL_BY_TIME_RANGE (time_column at), start '2024-03-01'",
            "forward": "kind INCREMENTAL_BY_TIME_RANGE (time_column at, forward_only true), "
            "start '2024-03-01'",
            "full": "kind FULL",
            "view": "kind VIEW",
            "history": "kind SCD_TYPE_2_BY_COLUMN (unique_key at, columns (amount), batch_size 9), "
            "start '2024-03-01'",
        }[kind]
        cron = "" if kind == "view" else f", {rng.choice(CRONS)}"
        other = rng.choice(names)
        joined = f" CROSS JOIN {other} AS o" if rng.random() < 0.3 and other != source else ""
        where = " " + RANGE.replace("at B", "s.at B") if kind in ("time", "forward") else ""
        files[f"models/t{number}.sql"] = (
            f"MODEL (name {name}, {head}{cron});\n"
            f"SELECT s.at, s.amount + {number}0 AS amount FROM {source} AS s{joined}{where}"
        )
        names.append(name)
    return files


@dataclass
class History:
    """A project, what its environments show, and what its tables were made of.

    Args:
        folder: The project.
        rng: What happens next.
        warehouse: Where plans are applied.
        now: The present (UTC).
        made: What a table that is made whole was made of, by its id.
        said: What happened, for people.
    """

    folder: ProjectFolder
    rng: random.Random
    warehouse: Warehouse = field(default_factory=lambda: Warehouse(EXTERNAL))
    now: datetime = FIRST
    made: dict[str, Seen] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    again: int = 0

    def step(self) -> None:
        """Let time pass, or not, and something happen."""
        passes = (0, 0, 5, 10, 60, 300, 720, 1440, 1441, 4000, 12000)
        self.now += timedelta(minutes=self.rng.choice(passes))
        environment = self.rng.choice([PRODUCTION, PRODUCTION, "dev"])
        if environment not in self.warehouse.environments or self.rng.random() < 0.45:
            self.edit(environment)
        else:
            self.run(environment)

    def edit(self, environment: str) -> None:
        """Publish another definition of a model, or what the files are already."""
        path = self.rng.choice(sorted(self.folder.root.glob("models/t*.sql")))
        before = path.read_text()
        known = before.split("amount + ")[1].split()[0]
        path.write_text(before.replace(f" + {known}", f" + {known[:-1]}{self.rng.randrange(4)}"))
        limits: dict[str, datetime] = {}
        if self.rng.random() < 0.25:
            limits["start"] = self.now - timedelta(days=self.rng.choice((1, 2, 3)))
        if self.rng.random() < 0.2:
            limits["end"] = self.now - timedelta(days=self.rng.choice((0, 1)), hours=3)
        self.said.append(f"{self.now:%d %H:%M} plan {environment} {path.stem} {limits}")
        try:
            plan = self.warehouse.plan(self.folder.root, environment, now=self.now, **limits)
        except (ProjectError, UsageError):  # An end before the start; one table of two models.
            path.write_text(before)
            return
        self.apply(plan)

    def run(self, environment: str) -> None:
        """Compute what is due, and check all that has to hold then."""
        plan = self.warehouse.plan_run(environment, now=self.now)
        built = [f"{m.name}{'+' if m.catches_up else ''}" for m in plan.builds]
        self.said.append(f"{self.now:%d %H:%M} run {environment}: {' '.join(built)}")
        for model in plan.builds:
            if model.catches_up:
                self.again += 1
                assert self.has_something_new(plan, model.name), self.story(model.name)
        self.apply(plan)
        for name, snapshot in self.own(plan).items():
            found, truth = self.compare(plan, name, snapshot)
            # A parent's other table may hold less; what was made of the former one serves still.
            assert not _less(found, truth), self.story(name, found, truth)
        again = self.warehouse.plan_run(environment, now=self.now)
        left = {model.name: model.intervals for model in again.builds}
        assert not left, self.story(next(iter(left)), left)

    def apply(self, plan: Plan) -> None:
        """Apply a plan model by model, and remember what whole tables are made of."""
        filled = {model.name: model.intervals for model in plan.builds}
        shown = {name: plan.snapshots[entry.snapshot_id] for name, entry in plan.entries.items()}
        starts = infer_starts(sort_parents_first(shown), Window(self.now))
        for model in plan.builds:
            snapshot = shown[model.name]
            if snapshot.is_incremental:
                self.check_waits(plan, snapshot, shown, filled, model.intervals, starts)
            else:
                assert model.table is not None
                end = model.intervals.ranges[-1].end
                self.made[model.table.id] = _until(self.seen(plan, snapshot, filled), end)
        self.warehouse.apply(plan)

    def check_waits(
        self,
        plan: Plan,
        snapshot: Snapshot,
        shown: dict[ModelName, Snapshot],
        filled: dict[ModelName, IntervalSet],
        intervals: IntervalSet,
        starts: dict[ModelName, datetime],
    ) -> None:
        """Rows that are kept by interval are made of parents that lack nothing there."""
        for root, there in self.seen(plan, snapshot, filled).items():
            since = starts[root] if shown[root].is_incremental else BEGINNING
            lacking = IntervalSet((Interval(since, FAR),)) - there
            assert not lacking & intervals, self.story(snapshot.name)

    def seen(self, plan: Plan, snapshot: Snapshot, filled: dict[ModelName, IntervalSet]) -> Seen:
        """Return what a model's query finds when its turn comes."""
        found: Seen = {}
        tables = {model.name: model.table for model in plan.models}
        for parent in snapshot.parents:
            known = plan.snapshots[plan.entries[parent].snapshot_id]
            table = tables[parent]
            now = filled.get(parent, IntervalSet())
            part: Seen = {}
            if table is None:
                part = self.seen(plan, known, filled)
            else:
                table = self.warehouse.tables.get(table.id, table)
                if known.is_incremental:
                    part = {parent: table.available | now}
                elif not meaning_of(known.model.kind).filled_once:
                    there = table.intervals | now
                    end = there.ranges[-1].end if there else BEGINNING
                    whole = IntervalSet((Interval(BEGINNING, end),)) if there else IntervalSet()
                    made = self.made.get(table.id, {})
                    if now:
                        made = _until(self.seen(plan, known, filled), end)
                    part = {parent: whole, **made}
            for root, ranges in part.items():
                found[root] = found[root] & ranges if root in found else ranges
        return found

    def compare(self, plan: Plan, name: ModelName, snapshot: Snapshot) -> tuple[Seen, Seen]:
        """Return what a whole table was made of, and what it would be made of now."""
        table_id = plan.entries[name].table_id
        assert table_id is not None
        end = self.warehouse.tables[table_id].intervals.ranges[-1].end
        return self.made[table_id], _until(self.seen(plan, snapshot, {}), end)

    def has_something_new(self, plan: Plan, name: ModelName) -> bool:
        """Say whether a parent holds more, or is going to, than a table was made of."""
        filled = {model.name: model.intervals for model in plan.builds if model.name != name}
        table_id = plan.entries[name].table_id
        assert table_id is not None
        end = self.warehouse.tables[table_id].intervals.ranges[-1].end
        snapshot = plan.snapshots[plan.entries[name].snapshot_id]
        now = _until(self.seen(plan, snapshot, filled), end)
        return _less(self.made[table_id], now)

    def own(self, plan: Plan) -> dict[ModelName, Snapshot]:
        """Return the models whose whole tables an environment may fill."""
        production = self.warehouse.environments.get(PRODUCTION)
        held = production.tables if production and plan.environment != PRODUCTION else frozenset()
        return {
            name: plan.snapshots[entry.snapshot_id]
            for name, entry in plan.entries.items()
            if entry.table_id is not None
            and entry.table_id not in held
            and not plan.snapshots[entry.snapshot_id].is_incremental
            and not meaning_of(plan.snapshots[entry.snapshot_id].model.kind).filled_once
        }

    def story(self, name: ModelName, *compared: Seen) -> str:
        """Say what happened."""
        self.said += [f"{root}: {ranges}" for one in compared for root, ranges in one.items()]
        files = "\n".join(path.read_text() for path in sorted(self.folder.root.glob("models/*")))
        return "\n".join([str(name), files, *self.said])


def _until(seen: Seen, end: datetime) -> Seen:
    """What a slot does not reach over is not missed by anybody."""
    later = IntervalSet((Interval(end, FAR),))
    return {root: ranges | later for root, ranges in seen.items()}


def _less(found: Seen, wanted: Seen) -> bool:
    """Say whether something that is wanted is not found."""
    return any(ranges - found.get(root, IntervalSet()) for root, ranges in wanted.items())


def play(root: Path, seed: int, steps: int) -> History:
    rng = random.Random(seed)
    history = History(ProjectFolder(root / f"p{seed}", random_project(rng)), rng)
    for _ in range(steps):
        history.step()
    return history


@pytest.mark.parametrize("seed", range(4))
def test_after_a_run_whole_tables_are_made_of_all_that_their_slots_reach_over(
    tmp_path: Path, seed: int
) -> None:
    play(tmp_path, seed, 12)


@pytest.mark.turns(10)
@pytest.mark.proof
@pytest.mark.parametrize("seed", range(1000, 1100))
def test_long_histories_leave_nothing_out_either(tmp_path: Path, seed: int) -> None:
    play(tmp_path, seed, 40)
