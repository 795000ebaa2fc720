"""Random projects run day after day, with and without skipping: their tables have to be equal.

DuckDB stands for Spark, and lists of commits for Iceberg's metadata. What is decided is decided by
the product's own code, from commits and digests; nothing here knows whether rows changed.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from vde_dagster.base.names import ModelName
from vde_dagster.execution.plan_tasks import digest_sets
from vde_dagster.planning.environments.environment import PRODUCTION
from vde_dagster.planning.environments.resolver import Columns, Resolver, TableRead, tables_read
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.kinds.repeatable import may_be_skipped
from vde_dagster.planning.plan.assign_tables import choose_filler
from vde_dagster.planning.plan.plan import Plan, PlannedModel
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.table_contents import (
    InputState,
    Output,
    Tile,
    changed_inputs,
    find_unchanged_sets,
    read_input_state,
)
from vde_dagster.planning.tables.pinned_reads import KeptCommit
from vde_dagster.project.kinds import IncrementalByTimeRange
from vde_dagster.project.model import Model
from vde_dagster_tests.planning.oracle import FIRST_DAY
from vde_dagster_tests.planning.oracle_data import EXTERNAL, Models, external_models, random_tables
from vde_dagster_tests.planning.oracle_lake import CATALOG, ExternalTable, Lake, Row, _literal
from vde_dagster_tests.planning.oracle_projects import Projects
from vde_dagster_tests.planning.oracle_world import World
from vde_dagster_tests.planning.simulate import Warehouse


@dataclass(slots=True)
class Work:
    """How many whole tables were due, and how many of them were computed.

    Args:
        due: Slots of models whose tables are made whole.
        computed: Those that were computed.
        by_time: Those that would have been where every write counts as new.
        rows: Rows that were written.
        rows_due: Rows that would have been without skipping.
    """

    due: int = 0
    computed: int = 0
    by_time: int = 0
    rows: int = 0
    rows_due: int = 0


class SkippingLake(Lake):
    """A lake that notes commits and digests, and skips what they say has nothing new."""

    def __init__(self, external: Mapping[str, ExternalTable], work: Work) -> None:
        super().__init__(external)
        self.work = work
        self.ids = itertools.count(1)
        self.lines: dict[str, tuple[KeptCommit, ...]] = {}
        self.outputs: dict[int, Output] = {}
        self.history: dict[str, list[tuple[Interval, int | None, Output | None]]] = {}
        self.inputs: dict[str, Mapping[str, InputState]] = {}
        self.touched: dict[str, int] = {}
        self.computed_at: dict[str, int] = {}
        self._sets: dict[str, tuple[Columns, ...]] = {}
        self._places: dict[str, str] = {}
        self._clock = itertools.count(1)
        for name in external:
            self.commit(name, quiet=False, ours=False)

    def commit(self, key: str, *, quiet: bool, ours: bool) -> int:
        """Add a commit to a table."""
        line = self.lines.get(key, ())
        number = next(self.ids)
        parent = line[0].snapshot_id if line else None
        self.lines[key] = (KeptCommit(number, parent, quiet, ours), *line)
        return number

    def states(self, reads: Sequence[TableRead]) -> dict[str, InputState]:
        """What tables hold now."""
        return {
            read.key: read_input_state(self.lines.get(read.key, ()), read.columns, self.outputs.get)
            for read in reads
        }

    def apply(self, warehouse: Warehouse, plan: Plan) -> None:
        """Fill what a plan says and what is not skipped."""
        tables = {**warehouse.tables}
        for model in plan.models:
            if model.table is not None:
                tables.setdefault(model.table.id, model.table)
        resolver = Resolver(plan.environment, plan.entries, plan.snapshots, tables)
        target = {name: plan.snapshots[entry.snapshot_id] for name, entry in plan.entries.items()}
        self._sets = digest_sets(plan, resolver, CATALOG)
        done: dict[str, IntervalSet] = {}
        for model in plan.models:
            if not model.builds or model.table is None:
                continue
            missing = model.intervals - done.get(model.table.id, IntervalSet())
            if missing:
                self._take_turn(warehouse, plan, model, missing, resolver, target)
            done[model.table.id] = model.intervals | done.get(model.table.id, IntervalSet())
        warehouse.apply(plan)

    def _take_turn(
        self,
        warehouse: Warehouse,
        plan: Plan,
        model: PlannedModel,
        missing: IntervalSet,
        resolver: Resolver,
        target: Mapping[ModelName, Snapshot],
    ) -> None:
        table = model.table
        assert table is not None
        snapshot = plan.snapshots[model.snapshot_id or ""]
        known = {**warehouse.snapshots, **plan.snapshots}
        filler = choose_filler(table, snapshot, known.get(table.snapshot_id), target)
        assert filler is not None
        reads = tables_read(filler, resolver, CATALOG)
        now = self.states(reads)
        counted = may_be_skipped(snapshot) and plan.kind.value == "run"
        place = f'{CATALOG}."{table.ref.namespace}"."{table.ref.name}"'
        if counted:
            self.work.due += 1
            at = self.computed_at.get(table.id, -1)
            if any(self.touched.get(read.key, 0) >= at for read in reads):
                self.work.by_time += 1
                self.computed_at[table.id] = self.touched[table.id] = next(self._clock)
        else:
            self.computed_at[table.id] = self.touched[table.id] = next(self._clock)
        was = self.inputs.get(table.id)
        if model.skippable and was is not None and not any(changed_inputs(was, now)):
            self.work.rows_due += self._count(place)
            self.inputs[table.id] = now
            return
        self._places[place] = table.id
        self._fill(warehouse, plan, model, missing, resolver, target)
        self.inputs[table.id] = now
        if counted:
            self.work.computed += 1
            self.work.rows += self._count(place)
            self.work.rows_due += self._count(place)

    def _write(
        self, place: str, source: str, model: Model, names: Mapping[str, str], batch: Interval
    ) -> None:
        if not place.startswith(CATALOG):
            return super()._write(place, source, model, names, batch)
        table_id = self._places[place]
        inside = "true"
        if isinstance(model.kind, IncrementalByTimeRange):
            column = {output.lower(): physical for output, physical in names.items()}["d"]
            inside = (
                f"\"{column}\" >= DATE '{batch.start:%Y-%m-%d}' "
                f"AND \"{column}\" < DATE '{batch.end:%Y-%m-%d}'"
            )
        exists = table_id in self.lines
        before = self._count(place, inside) if exists else 0
        super()._write(place, source, model, names, batch)
        after = self._count(place, inside)
        output = self._output(place, table_id, model, batch, inside)
        if output is not None:
            output = find_unchanged_sets(output, self.history.get(table_id, ()))
        number = self.commit(table_id, quiet=not before and not after, ours=True)
        self.history.setdefault(table_id, []).insert(0, (batch, number, output))
        if output is not None:
            self.outputs[number] = output

    def _output(
        self, place: str, table_id: str, model: Model, batch: Interval, inside: str
    ) -> Output | None:
        sets = self._sets.get(table_id, ())
        whole = meaning_of(model.kind).replaces_all
        if not isinstance(model.kind, IncrementalByTimeRange):
            whole = True  # Merged tables are read whole when a part of them was written.
        if not sets:
            return None
        digests = []
        for columns in sets:
            listed = "*" if columns is None else ", ".join(f'"{c}"' for c in columns) or "1"
            rows = self.db.execute(f"SELECT {listed} FROM {place} WHERE {inside}").fetchall()
            text = repr(sorted(Counter(map(repr, rows)).items()))
            digests.append(hashlib.sha256(text.encode()).hexdigest())
        return Output(sets, (Tile(batch, self._count(place, inside), tuple(digests)),), whole)

    def _count(self, place: str, inside: str = "true") -> int:
        found: Any = self.db.execute(f"SELECT count(*) FROM {place} WHERE {inside}").fetchone()
        return int(found[0])

    # -- what others do ----------------------------------------------------------------------

    def put(self, name: str, rows: Sequence[Row]) -> None:
        """Replace the rows of an external table, without a commit."""
        namespace, _, short = name.partition(".")
        self.db.execute(f"DELETE FROM {CATALOG}.{namespace}.{short}")
        for row in rows:
            values = ", ".join(_literal(value) for value in row)
            self.db.execute(f"INSERT INTO {CATALOG}.{namespace}.{short} VALUES ({values})")
        self.touched[name] = next(self._clock)


@dataclass(slots=True)
class Others:
    """Somebody who writes external tables: rows, nothing, and back to what was.

    Args:
        rng: Chance.
        lakes: The lakes that all see the same.
        rows: The rows by table.
    """

    rng: random.Random
    lakes: tuple[SkippingLake, ...]
    rows: dict[str, tuple[Row, ...]]
    past: dict[str, list[tuple[tuple[Row, ...], tuple[KeptCommit, ...]]]] = field(
        default_factory=dict
    )

    def act(self) -> None:
        """Do what may happen to the tables in a day."""
        for name in self.rows:
            roll = self.rng.random()
            if roll < 0.55:
                continue
            self.past.setdefault(name, []).append((self.rows[name], self.lakes[0].lines[name]))
            if roll < 0.70:
                self._write(name, self.rows[name], quiet=True)
            elif roll < 0.78:
                self._write(name, self.rows[name][1:], quiet=False)
                self._write(name, self.rows[name], quiet=False)
            elif roll < 0.86:
                rows, line = self.rng.choice(self.past[name])
                self.rows[name] = rows
                for lake in self.lakes:
                    lake.put(name, rows)
                    lake.lines[name] = line
            else:
                (made,) = (
                    table.rows for key, table in random_tables(self.rng).items() if key == name
                )
                added = tuple((len(self.rows[name]) + 100, *row[1:]) for row in made[:2])
                kept = list(self.rows[name])
                if self.rng.random() < 0.5:
                    kept.pop(self.rng.randrange(len(kept)))
                self.rows[name] = (*kept, *(added if name == "raw.a" else made[:2]))
                self._write(name, self.rows[name], quiet=False)

    def _write(self, name: str, rows: tuple[Row, ...], *, quiet: bool) -> None:
        for lake in self.lakes:
            lake.put(name, rows)
            lake.commit(name, quiet=quiet, ours=False)


class WrongSkipError(AssertionError):
    """A run that skips leaves a table otherwise than one that does not."""


def run_days(seed: int, work: Work, days: int = 30) -> None:
    """Run one random project for days, twice.

    Raises:
        WrongSkipError: Two tables are not equal.
    """
    rng = random.Random(seed)
    tables = random_tables(rng)
    trial = World(tables)
    models = _project(rng, trial)
    snapshots = trial.snapshots(models)
    trial.close()
    skipping, full = SkippingLake(tables, work), SkippingLake(tables, Work())
    one, other = Warehouse(), Warehouse()
    others = Others(rng, (skipping, full), {name: table.rows for name, table in tables.items()})
    now = FIRST_DAY
    try:
        skipping.apply(one, one.plan_snapshots(snapshots, now=now))
        full.apply(other, other.plan_snapshots(snapshots, now=now))
        for day in range(days):
            now += timedelta(days=1)
            others.act()
            skipping.apply(one, one.plan_run(now=now))
            full.apply(other, other.plan_run(now=now, full=True))
            shown, truth = skipping.served(one, PRODUCTION), full.served(other, PRODUCTION)
            for name, contents in truth.items():
                if shown[name] != contents:
                    queries = "\n".join(
                        f"  {n}: {s.model.kind.name} {s.model.query}" for n, s in snapshots.items()
                    )
                    raise WrongSkipError(
                        f"seed {seed}, day {day}: {name}\n{queries}\n  {shown[name]}\n  {contents}"
                    )
    finally:
        skipping.close()
        full.close()


def _project(rng: random.Random, trial: World) -> Models:
    maker = Projects(rng)
    models: Models = external_models()
    wanted = len(EXTERNAL) + rng.randint(5, 10)
    number = 0
    while len(models) < wanted:
        known = list(maker.known)
        number += 1
        model = maker.model(f"m.t{number}")
        bigger = {**models, model.name: model}
        if trial.try_out(bigger, FIRST_DAY):
            models = bigger
        else:
            maker.known = known
    return models
