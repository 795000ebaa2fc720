"""Random histories of models that fill parts of units at odd minutes: crashes, crons, rollbacks.

Rows are sums of events by hour or day, and every model reads others'. Whatever was filled in which
parts and by whom, the units that count as whole hold what all events of them add up to; and so does
the unit that goes on, where a model and all that it reads are filled as far.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.planning.environments.environment import Environment
from vde_dagster.planning.intervals.cadence import ALWAYS
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.plan.missing_intervals import add_lookback, intervals_left_to_fill
from vde_dagster.planning.plan.plan import Plan, PlannedModel
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster_tests.planning.simulate import Warehouse
from vde_dagster_tests.projects import ProjectFolder

START = datetime(2024, 3, 1, tzinfo=timezone.utc)
EXTERNAL = {"lake.events": [("at", "TIMESTAMP"), ("n", "INT")]}
KINDS = {
    "time": "INCREMENTAL_BY_TIME_RANGE (time_column at{})",
    "key": "INCREMENTAL_BY_UNIQUE_KEY (unique_key at{})",
    "partition": "INCREMENTAL_BY_PARTITION{}",
    "added": "INCREMENTAL_UNMANAGED{}",
    "full": "FULL{}",
}
HOURLY = "cron '@hourly'"
PARTS = "interval_unit day, allow_partials true"
OF_DAYS = (
    f"{HOURLY}, {PARTS}",
    f"cron '*/30 * * * *', {PARTS}",
    f"cron '0 */5 * * *', {PARTS}",
    "cron '@daily', allow_partials true",
    "cron '@daily'",
    "cron '0 5 * * *'",
)
OF_HOURS = (HOURLY, f"cron '*/15 * * * *', {PARTS.replace('day', 'hour')}", *OF_DAYS)

Rows = Counter[datetime]
"""Sums by when they are of (UTC)."""


@dataclass
class Made:
    """A model: how its rows are made, and what its table holds."""

    kind: str
    sums: timedelta
    parent: str | None
    path: str
    header: str
    rows: Rows = field(default_factory=Counter)


@dataclass
class History:
    """A project, its tables and the events so far; `said` is for people."""

    rng: random.Random
    folder: ProjectFolder
    warehouse: Warehouse = field(default_factory=lambda: Warehouse(EXTERNAL))
    now: datetime = START + timedelta(hours=30, minutes=17)
    models: dict[str, Made] = field(default_factory=dict)
    dead: dict[str, tuple[Interval, Rows]] = field(default_factory=dict)
    versions: list[Environment] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def add(self, name: str) -> None:
        """Make up a model."""
        rng = self.rng
        parent = rng.choice([None, *self.models, *self.models])
        kind = rng.choice(["time", "time", *KINDS])
        hours = kind == "added" or rng.random() < 0.5
        # A batch of hours would replace its day, which is the partition: whose query says so.
        when = rng.choice(OF_HOURS if hours and kind != "partition" else OF_DAYS)
        sums = timedelta(hours=1) if hours else timedelta(days=1)
        said = []
        if kind in ("time", "key", "partition"):
            said += ["lookback 1"] * (rng.random() < 0.3)
        if kind not in ("full", "added") and rng.random() < 0.3:
            said.append("batch_size 1")
        text = ", ".join(said)
        text = f", {text}" if text and kind in ("time", "key") else f" ({text})" if text else ""
        extra = ", partitioned_by (day)" if kind == "partition" else ""
        header = f"start '2024-03-01', kind {KINDS[kind].format(text)}{extra}"
        made = Made(kind, sums, parent, f"models/{name}.sql", header)
        self.models[name] = made
        self.write(name, when)

    def write(self, name: str, when: str) -> None:
        """Write a model's file, with a cron."""
        made = self.models[name]
        trunc = "HOUR" if made.sums < timedelta(days=1) else "DAY"
        where = "" if made.kind == "full" else "WHERE s.at BETWEEN @start_ts AND @end_ts "
        source = f"m.{made.parent}" if made.parent else "lake.events"
        made.header = made.header.partition(", cron")[0] + f", {when}"
        self.folder.write(
            made.path,
            f"MODEL (name m.{name}, {made.header});\n"
            f"SELECT date_trunc('{trunc}', s.at) AS at, CAST(date_trunc('{trunc}', s.at) AS DATE) "
            f"AS day, CAST(SUM(s.n) AS INT) AS n, '{name}' AS who FROM {source} AS s {where}"
            "GROUP BY 1, 2",
        )

    def step(self) -> None:
        """Let time pass and run, perhaps by another or an earlier cron, perhaps with a death."""
        self.now += timedelta(minutes=self.rng.choice((7, 31, 60, 61, 120, 333, 600, 1440, 1507)))
        changed = (n for n, m in self.models.items() if m.kind != "added")
        hourly = [n for n in changed if self.models[n].sums < timedelta(days=1)]
        if hourly and self.rng.random() < 0.1:
            name = self.rng.choice(hourly)
            days = self.models[name].kind == "partition"
            self.write(name, self.rng.choice(OF_DAYS if days else OF_HOURS))
            self.fill(self.warehouse.plan(self.folder.root, now=self.now))
        if self.rng.random() < 0.1:
            old = replace(self.rng.choice(self.versions), version=len(self.versions))
            self.warehouse.environments["prod"] = old
            self.said.append("definitions are rolled back")
        dies = not self.dead and self.rng.random() < 0.15
        self.fill(self.warehouse.plan_run(now=self.now), dies=dies)

    def fill(self, plan: Plan, *, dies: bool = False) -> None:
        """Do what an apply does, model by model; of a process that dies one commit is left."""
        self.said.append(f"{self.now:%d %H:%M} {plan.kind.value}{' dies' * dies}")
        before = {name: made.rows for name, made in self.models.items()}
        if dies:
            self.warehouse.begin(plan)
        for model in plan.builds:
            assert model.snapshot_id is not None
            assert model.table is not None
            snapshot = plan.snapshots[model.snapshot_id]
            name = snapshot.name.name
            for batch in self.batches(model, snapshot):
                self.said.append(f"  {name} {batch}")
                self.write_rows(name, batch)
                if dies and snapshot.is_incremental and snapshot.model.kind.batch_size is None:
                    self.dead[model.table.id] = batch, self.models[name].rows
                    for other, rows in before.items():
                        self.models[other].rows = rows
                    return
        self.warehouse.apply(plan)
        self.versions.append(self.warehouse.environments["prod"])

    def batches(self, model: PlannedModel, snapshot: Snapshot) -> list[Interval]:
        """Return the ranges that a fill computes."""
        assert model.table is not None
        known = self.warehouse.tables.get(model.table.id)
        unit = snapshot.cadence.unit
        filled = known.with_ranges_for_unit(unit).intervals if known else IntervalSet()
        longer = known.parts_of_longer(unit) if known else IntervalSet()
        if model.catches_up:
            filled = IntervalSet()
        missing = intervals_left_to_fill(snapshot, model.intervals, filled)
        left = self.dead.pop(model.table.id, None)
        if left is not None and (missing - longer).contains(left[0]):
            self.models[snapshot.name.name].rows = left[1]
            missing = intervals_left_to_fill(snapshot, missing, IntervalSet((left[0],)))
        missing = add_lookback(snapshot, missing, model.intervals)
        return snapshot.cadence.batches(missing, snapshot.model.kind.batch_size)

    def write_rows(self, name: str, batch: Interval) -> None:
        """Compute a range of a model as its kind does."""
        made = self.models[name]
        found = self.read(made, None if made.kind == "full" else batch)
        kept = made.rows
        if made.kind == "time":
            found = Counter({at: n for at, n in found.items() if batch.start <= at < batch.end})
            kept = Counter({a: n for a, n in kept.items() if not batch.start <= a < batch.end})
        elif made.kind == "partition":
            days = {at.date() for at in found}
            kept = Counter({at: n for at, n in kept.items() if at.date() not in days})
        elif made.kind == "key":
            kept = Counter({at: n for at, n in kept.items() if at not in found})
        elif made.kind == "full":
            kept = Counter()
        made.rows = kept + found

    def read(self, made: Made, batch: Interval | None) -> Rows:
        """Return what a model's query makes."""
        source = self.models[made.parent].rows if made.parent else events(self.now)
        out: Rows = Counter()
        for at, n in source.items():
            if batch is None or batch.start <= at < batch.end:
                out[START + (at - START) // made.sums * made.sums] += n
        return out

    def truth(self, name: str, until: datetime) -> Rows:
        """Return what all events before an instant add up to."""
        made = self.models[name]
        source = self.truth(made.parent, until) if made.parent else events(until)
        out: Rows = Counter()
        for at, n in source.items():
            out[START + (at - START) // made.sums * made.sums] += n
        return out

    def check(self) -> None:
        """Compare every model that keeps rows by interval with what it should hold."""
        for name, made in self.models.items():
            filled = self.filled(name)
            if made.kind == "full" or not filled:
                continue
            snapshot = self.snapshot(name)
            whole = snapshot.cadence.fully_filled(filled, ALWAYS)
            end = whole.ranges[0].end if whole else START
            if made.kind == "added":  # Its rows are those of the hours of which it has all.
                end = filled.ranges[0].end
                end -= (end - START) % timedelta(hours=1)
            self.compare(name, end, end)
            ends = {self.filled(one).ranges[-1].end for one in self.above(name)}
            if len(ends) == 1:
                self.compare(name, filled.ranges[-1].end, filled.ranges[-1].end)

    def compare(self, name: str, until: datetime, of: datetime) -> None:
        rows = Counter({at: n for at, n in self.models[name].rows.items() if at < until})
        wanted = Counter({at: n for at, n in self.truth(name, of).items() if at < until})
        models = [f"{n}: {m.parent} {m.header} {m.sums}" for n, m in self.models.items()]
        wrong = [
            str(sorted((one - other).items())) for one, other in ((rows, wanted), (wanted, rows))
        ]
        assert rows == wanted, "\n".join([name, *models, *self.said, str(until), *wrong])

    def above(self, name: str) -> list[str]:
        made = self.models[name]
        return [name, *(self.above(made.parent) if made.parent else [])]

    def filled(self, name: str) -> IntervalSet:
        entry = self.warehouse.environments["prod"].entries[ModelName("m", name)]
        assert entry.table_id is not None
        return self.warehouse.tables[entry.table_id].intervals

    def snapshot(self, name: str) -> Snapshot:
        entry = self.warehouse.environments["prod"].entries[ModelName("m", name)]
        return self.warehouse.snapshots[entry.snapshot_id]


def events(until: datetime) -> Rows:
    """One event every ten minutes, of its own weight."""
    minutes = range(0, int((until - START).total_seconds()) // 60, 10)
    return Counter({START + timedelta(minutes=m): 1 + m % 97 for m in minutes})


def play(root: Path, seed: int, steps: int) -> None:
    rng = random.Random(seed)
    history = History(rng, ProjectFolder(root / f"p{seed}"))
    for number in range(rng.randint(3, 6)):
        history.add(f"t{number}")
    history.fill(history.warehouse.plan(history.folder.root, now=history.now))
    history.check()
    for _ in range(steps):
        history.step()
        history.check()
    history.now = (history.now + timedelta(days=2)).replace(hour=12)
    for _ in range(2):
        history.fill(history.warehouse.plan_run(now=history.now))
        history.check()
    late = history.now.replace(hour=0, minute=0)
    for name in history.models:
        assert history.filled(name).ranges[-1].end >= late, "\n".join([name, *history.said])


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(8))
def test_units_hold_all_of_their_rows_in_whatever_parts_they_were_filled(
    tmp_path: Path, seed: int
) -> None:
    play(tmp_path, seed, 10)


@pytest.mark.turns(10)
@pytest.mark.proof
@pytest.mark.parametrize("seed", range(1000, 1030))
def test_long_histories_of_parts_hold_all_rows_too(tmp_path: Path, seed: int) -> None:
    play(tmp_path, seed, 30)
