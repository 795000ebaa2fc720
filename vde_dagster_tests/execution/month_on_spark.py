"""A month of a random project on Spark and Iceberg, once with skipping and once with `--full`.

Both worlds see the same days: others write the tables, models are edited, ranges computed again,
and where runs skip, fills fail and are applied again. After each day all that production shows is
compared.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ExecutionError, VdeError
from vde_dagster.execution.events import ApplyResult
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.engine_tasks import FillResult, FillTask
from vde_dagster.planning.kinds.repeatable import may_be_skipped
from vde_dagster.planning.plan.plan import Plan, PlannedModel
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.execution.month_of_others import Others
from vde_dagster_tests.execution.month_projects import RandomModel, files_of, random_project
from vde_dagster_tests.planning.oracle import FIRST_DAY
from vde_dagster_tests.planning.oracle_data import EXTERNAL, random_tables
from vde_dagster_tests.projects import ProjectFolder


class UnequalError(AssertionError):
    """Production shows something else where runs skip than where they do not."""


@dataclass(slots=True)
class Tally:
    """What months did.

    Args:
        due: Slots of models whose tables are made whole, in runs.
        computed: Those that were computed.
        by_time: Those that would have been where every write counts as new.
        told_seconds: What the runs said that skipping saved.
        seconds: What applying took where runs skip.
        full_seconds: What it took where they do not.
        compared: Views that were compared.
        deeds: What happened, and how often.
    """

    due: int = 0
    computed: int = 0
    by_time: int = 0
    told_seconds: float = 0.0
    seconds: float = 0.0
    full_seconds: float = 0.0
    compared: int = 0
    deeds: Counter[str] = field(default_factory=Counter)


class Place:
    """One of the two worlds: a project with its warehouse.

    Args:
        root: An empty folder.
        files: The project.
        full: Whether runs skip nothing.
    """

    def __init__(self, root: Path, files: dict[str, str], *, full: bool) -> None:
        self.folder = ProjectFolder(root, files)
        self.workspace = Workspace.open(root)
        self.full = full
        self.seconds = 0.0
        self._fails: tuple[str, bool] | None = None
        engine = self.workspace.engine()
        assert isinstance(engine, SparkEngine)
        self._session = engine.session
        fill = engine.fill

        def failing(task: FillTask) -> FillResult:
            wanted, behind = self._fails or ("", False)
            if str(task.snapshot.name) != wanted:
                return fill(task)
            self._fails = None
            if behind:
                fill(task)
            raise ExecutionError("failed on purpose")

        engine.fill = failing  # type: ignore[method-assign]

    def sql(self, text: str) -> list[tuple[object, ...]]:
        """Run a statement."""
        return [tuple(row) for row in self._session.sql(text).collect()]

    def apply(self, plan: Plan, fails: tuple[str, bool] | None = None) -> ApplyResult:
        """Apply a plan, again when a fill fails.

        Args:
            plan: The plan.
            fails: A model whose fill fails, and whether behind its commit; None for none.
        """
        began = time.monotonic()
        self._fails = fails
        try:
            result = self.workspace.apply(plan)
        except ExecutionError:
            if fails is None or self._fails is not None:
                raise
            result = self.workspace.apply(plan)
        self._fails = None
        self.seconds += time.monotonic() - began
        return result

    def shown(self, models: list[str]) -> dict[str, Counter[object]]:
        """Return the rows of what production shows, by model."""
        sql = " UNION ALL ".join(
            f"SELECT '{name}' AS model, to_json(struct(x.*), map('ignoreNullFields', 'false')) "
            f"AS row FROM {name} AS x"
            for name in models
        )
        out: dict[str, Counter[object]] = {name: Counter() for name in models}
        for model, row in self.workspace.query("prod", sql).rows:
            out[str(model)][row] += 1
        return out

    def write(self, model: RandomModel) -> None:
        """Write a model's file."""
        self.folder.write(model.path, model.text())
        self.workspace.reload()


class Month:
    """A random project in both worlds, and the days that it lives through.

    Args:
        seed: Decides everything.
        root: An empty folder.
        tally: Counts what happens.
        size: How many models.
    """

    def __init__(self, seed: int, root: Path, tally: Tally, size: int = 9) -> None:
        self.seed, self.tally = seed, tally
        self.rng = random.Random(seed)
        self.models = random_project(self.rng, size)
        files = files_of(self.models)
        self.skips = Place(root / "skips", files, full=False)
        self.full = Place(root / "full", files, full=True)
        self.places = (self.skips, self.full)
        self.others = Others(self.rng)
        self.now = FIRST_DAY
        self.log: list[str] = []
        self._clock = 0
        self._written: dict[str, int] = {}
        self._computed: dict[str, int] = {}
        self._names: dict[str, str] = {}
        for name, table in random_tables(self.rng).items():
            columns = ", ".join(f"{c} {t}" for c, t in EXTERNAL[name])
            rows = ", ".join(f"({', '.join(map(_literal, row))})" for row in table.rows)
            for place in self.places:
                place.sql("CREATE NAMESPACE IF NOT EXISTS lakehouse.raw")
                place.sql(f"CREATE TABLE lakehouse.{name} ({columns}) USING iceberg")
                place.sql(f"INSERT INTO lakehouse.{name} VALUES {rows}")

    def run(self, days: int) -> None:
        """Live through days.

        Raises:
            UnequalError: The worlds differ, with the seed and what happened.
        """
        try:
            self._plan()
            for number in range(days):
                self.now += timedelta(days=1)
                self.log.append(f"-- day {number + 1}, {self.now:%Y-%m-%d}")
                self._others()
                if self.rng.random() < 0.2:
                    self._edit()
                if self.rng.random() < 0.12:
                    self._restate()
                self._run()
                self._compare()
        finally:
            self.tally.seconds += self.skips.seconds
            self.tally.full_seconds += self.full.seconds
            for place in self.places:
                place.workspace.close()

    def _others(self) -> None:
        for table, what, deed in self.others.day(self.now):
            self._note(f"{table}: {what}")
            self.tally.deeds[what] += 1
            for place in self.places:
                deed(place)
            self._clock += 1
            self._written[table] = self._clock
        if self.rng.random() < 0.1:
            self._compact_ours()

    def _compact_ours(self) -> None:
        self._note("physical tables: compaction")
        for place in self.places:
            shown = place.workspace.store.environments.get("prod")
            assert shown is not None
            for table in place.workspace.store.tables.load(shown.tables).values():
                place.sql(
                    f"CALL lakehouse.system.rewrite_data_files(table => '`{table.ref.namespace}`."
                    f"`{table.ref.name}`', options => map('rewrite-all', 'true'))"
                )

    def _plan(self) -> None:
        for place in self.places:
            plan = place.workspace.plan("prod", now=self.now)
            place.apply(plan)
        self._count(plan, None)

    def _edit(self) -> None:
        place = self.rng.randrange(len(self.models))
        old = self.models[place]
        new = old.edited(self.rng)
        if new is None:
            return
        self.skips.write(new)
        try:
            self.skips.workspace.plan("prod", now=self.now, save=False)
        except VdeError as error:
            self._note(f"{old.name}: an edit that is refused: {error}")
            self.skips.write(old)
            return
        self._note(f"{new.name}: edited, {new.kind}\n     {new.query}")
        self.tally.deeds["edit"] += 1
        self.models[place] = new
        self.full.write(new)
        self._plan()

    def _restate(self) -> None:
        pool = [model for model in self.models if "TIME_RANGE" in model.kind]
        if not pool:
            return
        name = self.rng.choice(pool).name
        midnight = self.now.replace(hour=0)
        start = midnight - timedelta(days=self.rng.randint(2, 4))
        end = midnight - timedelta(days=self.rng.randint(0, 1))
        self._note(f"{name}: restated from {start:%Y-%m-%d} to {end:%Y-%m-%d}")
        self.tally.deeds["restatement"] += 1
        for place in self.places:
            plan = place.workspace.plan("prod", now=self.now, restate=(name,), start=start, end=end)
            place.apply(plan)
        self._count(plan, None)

    def _run(self) -> None:
        plans = [
            place.workspace.plans.due("prod", now=self.now, full=place.full)
            for place in self.places
        ]
        built = [str(model.name) for model in plans[0].builds if model.skips is None]
        fails = None
        if built and self.rng.random() < 0.15:
            fails = (self.rng.choice(built), self.rng.random() < 0.5)
            self._note(f"{fails[0]}: fails {'behind' if fails[1] else 'before'} its commit")
            self.tally.deeds["failure"] += 1
        result = self.skips.apply(plans[0], fails)
        self.full.apply(plans[1])
        self._note(f"skipped {', '.join(sorted(map(str, result.skipped)))}")
        self._count(plans[0], result)

    def _count(self, plan: Plan, result: ApplyResult | None) -> None:
        """Count the work of a run, and what it would be where every write counts."""
        tables = {name: plan.snapshots[e.snapshot_id] for name, e in plan.entries.items()}

        def read(name: ModelName) -> Iterator[str]:
            for parent in tables[name].parents:
                known = tables.get(parent)
                if known is None or known.has_table or known.model.kind.is_external:
                    yield str(parent)
                else:
                    yield from read(parent)

        seen: set[str] = set()
        skipped_tables = result.skipped if result is not None else {}
        skips = {
            model.table.id: skipped_tables[model.name]
            for model in plan.builds
            if model.table is not None and model.name in skipped_tables
        }
        for model in plan.builds:
            name = str(model.name)
            # Models of one content share a table, which is filled once.
            assert model.table is not None
            if model.table.id in seen:
                self._written[name] = self._written.get(self._names[model.table.id], 0)
                continue
            seen.add(model.table.id)
            self._names[model.table.id] = name
            if result is None or not _whole(plan, model):
                self._clock += 1
                self._written[name] = self._computed[name] = self._clock
                continue
            self.tally.due += 1
            skipped = skips.get(model.table.id)
            if skipped is None:
                self.tally.computed += 1
            else:
                self.tally.told_seconds += skipped.seconds or 0.0
            at = self._computed.get(name, -1)
            if any(self._written.get(one, 0) > at for one in read(model.name)):
                self.tally.by_time += 1
                self._clock += 1
                self._written[name] = self._computed[name] = self._clock

    def _compare(self) -> None:
        names = [model.name for model in self.models]
        shown, truth = (place.shown(names) for place in self.places)
        self.tally.compared += len(names)
        for name in names:
            if shown[name] != truth[name]:
                project = "\n".join(f"{model.name}: {model.text()}" for model in self.models)
                raise UnequalError(
                    f"seed {self.seed}, {name}\n{project}\n"
                    + "\n".join(self.log)
                    + f"\nonly where runs skip: {shown[name] - truth[name]}"
                    + f"\nonly where they do not: {truth[name] - shown[name]}"
                )

    def _note(self, text: str) -> None:
        self.log.append(f"   {text}")


def _whole(plan: Plan, model: PlannedModel) -> bool:
    return may_be_skipped(plan.snapshots[model.snapshot_id or ""])


def _literal(value: object) -> str:
    if isinstance(value, date):
        return f"DATE '{value}'"
    return "NULL" if value is None else repr(value)
