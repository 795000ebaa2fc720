"""A project of random models over tables of all kinds, lived day by day and compared."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError, VdeError
from vde_dagster.execution.changes import refresh_choice
from vde_dagster.execution.events import Event, IntervalFilled
from vde_dagster.planning.changes.refresh import RefreshCode
from vde_dagster.planning.environments.environment import Environment
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.spark.engine import SparkEngine
from vde_dagster.spark.strategies import changed_keys, computed_rows, replace_rows
from vde_dagster_tests.by_changes.random_queries import SCHEMA
from vde_dagster_tests.by_changes.worlds import other_writers
from vde_dagster_tests.by_changes.worlds.other_writers import OTHERS, WRITES, RawTable, random_row
from vde_dagster_tests.by_changes.worlds.parents import PARENTS, deal_parents
from vde_dagster_tests.by_changes.worlds.subjects import Subject, Subjects
from vde_dagster_tests.daily_runs import DailyRuns

METHODS = ("keys", "rows", "groups", "whole", "skipped")
_COLUMNS = ("n + 1", "coalesce(n, 0)", "CAST(n AS BIGINT)", "'x'")
_SETTINGS = "[tool.vde]\nsnapshot_retention_days = {days}\nhistory_versions = {versions}\n"


@dataclass
class Tally:
    """Numbers over worlds.

    Attributes:
        counts: Numbers by name.
        done: How often each act happened.
        fills: Fills by (feature, method), with one of `METHODS`.
        reasons: Reasons for computing all rows.
        refused: Messages of acts that Spark or PyIceberg refused.
    """

    counts: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    fills: Counter[tuple[str, str]] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Add the numbers of another world."""
        for name in ("counts", "done", "fills", "reasons", "refused"):
            getattr(self, name).update(getattr(other, name))

    def lines(self) -> list[str]:
        """Return a table of fills by feature and method, and the reasons for whole fills."""
        found = [f"{'':52}{'drawn':>7}" + "".join(f"{method:>9}" for method in METHODS)]
        for feature in sorted({*(feature for feature, _ in self.fills), *self.done}):
            numbers = [self.fills[feature, method] for method in METHODS]
            drawn = self.done.get(feature, sum(numbers))
            found.append(f"{feature:52}{drawn:7}" + "".join(f"{one:9}" for one in numbers))
        found += [f"{what:52}{count:7}" for what, count in sorted(self.counts.items())]
        for title, texts in (("all rows", self.reasons), ("refused", self.refused)):
            found += [f"{title} {count:4} x {text}" for text, count in texts.most_common(25)]
        return found

    def never_refreshed(self) -> list[str]:
        """Return the features without a single refresh from changes."""
        features = {*(feature for feature, _ in self.fills), *self.done}
        refreshed = {feature for feature, method in self.fills if method in METHODS[:3]}
        return sorted(features - refreshed)


_LIMITS: tuple[tuple[Any, str, tuple[int, ...]], ...] = (
    (changed_keys, "_MOST_BROADCAST", (16 << 20, 0)),
    (changed_keys, "_MOST_VALUES", (200, 2, 0)),
    (computed_rows, "_MOST_ROWS", (2_000, 0)),
    (replace_rows, "_SMALL_BYTES", (4 << 20, 0)),
)
"""Limits above which fills work as for large tables; the other values take small ones for large."""


@contextmanager
def random_choices(seed: int) -> Iterator[None]:
    """Let fills choose their ways at random: all inputs are so small that they would choose one."""
    dice = random.Random(seed)
    codes = [RefreshCode.CHEAPER, RefreshCode.CHEAPER, RefreshCode.SMALL]
    choose = patch.object(refresh_choice, "choose_refresh", lambda *sizes: dice.choice(codes))
    with ExitStack() as patched:
        patched.enter_context(choose)
        patched.enter_context(patch.object(refresh_choice, "LEAST_BYTES", 0))
        for module, name, values in _LIMITS:
            patched.enter_context(patch.object(module, name, dice.choice(values)))
        yield


class Runs(DailyRuns):
    """A project whose events are collected."""

    def __init__(self, root: Path, files: dict[str, str], *sources: str, threads: int) -> None:
        self.events: list[tuple[str, Event]] = []
        self._threads = threads
        super().__init__(root, files, *sources)

    def apply(self, plan: Plan) -> list[Event]:
        """Apply a plan; several models are filled at the same time."""
        events: list[Event] = []
        self.workspace.apply(plan, on_event=events.append, concurrency=self._threads)
        self.events += [(plan.environment, event) for event in events]
        return events


_REFUSALS_OF_WIDER_TYPES = ("DATATYPE_MISMATCH", "changed keys cannot be found")
"""Parts of errors of a query that needs a narrower type, such as `date_add(day, n)`."""


class WorldEnded(Exception):
    """A model of a world must be written in another way before the world can go on."""


class World:
    """Models that refresh from changes, over raw tables and models of all kinds.

    Args:
        root: A folder that does not exist yet.
        seed: The seed of everything.
        models: Number of random models; each is a history.
        threads: Number of models that are filled at the same time.
    """

    def __init__(self, root: Path, seed: int, models: int, threads: int = 2) -> None:
        self.did: list[str] = []
        self.differences: list[str] = []
        self.tally = Tally()
        self._root, self._seed, self._threads = root, seed, threads
        self._dice = random.Random(seed)
        self._parents = deal_parents(seed, 5)
        self._subjects = Subjects(self._dice, self._parents)
        self._named = {f"r{n}": self._subjects.draw() for n in range(models)}
        self._acts: list[tuple[str, str]] = []
        self._preview = self._widened = False
        self._runs: Runs | None = None

    @property
    def runs(self) -> Runs:
        """The project and its production, once opened."""
        assert self._runs is not None
        return self._runs

    def open(self) -> None:
        """Create the tables, and publish the models."""
        days, versions = self._dice.choice([0, 7]), self._dice.choice([3, 10])
        files = {"pyproject.toml": _SETTINGS.format(days=days, versions=versions)}
        for name in self._parents:
            files |= PARENTS[name].file(name)
        for name, subject in self._named.items():
            files |= subject.files(name)
        self._root.mkdir(parents=True)
        self._runs = Runs(self._root / "project", files, *self._raw_tables(), threads=self._threads)
        self.runs.events.clear()
        self.tally.counts["worlds"] += 1
        self.tally.counts["histories"] += len(self._named)
        self._check("prod")

    def close(self) -> None:
        """Close the project."""
        if self._runs is not None:
            self._runs.workspace.close()

    def step(self) -> None:
        """Let things happen, run a day, and compare all models of both environments.

        Raises:
            WorldEnded: A model cannot use a column that another program has widened.
        """
        try:
            self._step()
        except VdeError as error:
            refused = any(words in str(error) for words in _REFUSALS_OF_WIDER_TYPES)
            if not self._widened or not refused:
                raise
            self.tally.counts["worlds that ended, because a column was widened"] += 1
            raise WorldEnded from error

    def _step(self) -> None:
        dice = self._dice
        acts = [dice.choice(WRITES) for _ in range(dice.randrange(1, 4))]
        acts += [dice.choice(OTHERS) for _ in range(dice.randrange(3))]
        dice.shuffle(acts)
        project = dice.choice(self._project_acts()) if dice.random() < 0.5 else None
        early = dice.random() < 0.5
        if project and early:
            project()
        for act in acts:
            self._act(act.__name__)
        if project and not early:
            project()
        self.runs.now += timedelta(days=dice.choice([0, 0, 0, 2]))
        self.runs.run()
        self._note()
        self._check("prod")
        if self._preview:
            workspace = self.runs.workspace
            self.runs.apply(workspace.plans.due("dev", now=self.runs.now))
            self._note()
            self._check("dev")
        self._acts.clear()

    def _raw_tables(self) -> list[str]:
        found = []
        for name, columns in SCHEMA.items():
            listed = ", ".join(f"{column} {type_}" for column, type_ in columns.items())
            version = "3" if self._dice.random() < 0.4 else "2"
            modes = "".join(
                f", 'write.{statement}.mode' = "
                f"'{self._dice.choice(['copy-on-write', 'merge-on-read'])}'"
                for statement in ("delete", "update", "merge")
            )
            found.append(
                f"CREATE TABLE lakehouse.raw.{name} ({listed}) USING iceberg "
                f"TBLPROPERTIES ('format-version' = '{version}'{modes})"
            )
            rows = (random_row(name, self._dice) for _ in range(6))
            values = ", ".join(
                "(" + ", ".join("NULL" if v is None else repr(v) for v in row) + ")" for row in rows
            )
            found.append(f"INSERT INTO lakehouse.raw.{name} VALUES {values}")
        return found

    def _act(self, name: str) -> None:
        """Let another program act on a raw table."""
        table = RawTable(self._dice.choice([*SCHEMA, "o"]), self.runs, self._dice)
        try:
            getattr(other_writers, name)(table)
        except Exception as error:
            text = f"{name}: {type(error).__name__} {str(error).splitlines()[0][:90]}"
            self.tally.refused[text] += 1
            return
        self._widened |= name == "widen_column"
        self._did(name, f"raw.{table.name}")

    def _did(self, name: str, table: str) -> None:
        self.did.append(f"{name} {table}")
        self._acts.append((f"act: {name}", table))
        self.tally.done[f"act: {name}"] += 1

    # Acts on the project.

    def _project_acts(self) -> list[Callable[[], None]]:
        acts = [self._swap, self._restate, self._restate, self._roll_back, self._preview_changes]
        acts += [self._redefine, self._compact_model, self._clean_up]
        if any(PARENTS[name].in_place for name in self._parents):
            acts += [self._deploy_in_place]
        if "seeded" in self._parents:
            acts += [self._edit_seed]
        return acts

    def _publish(self, **options: object) -> None:
        self.runs.publish(**options)  # type: ignore[arg-type]
        self._note()

    def _write(self, files: dict[str, str]) -> None:
        for path, text in files.items():
            self.runs.folder.write(path, text)

    def _edit_parent(self, name: str) -> None:
        more = self._dice.choice(["", *_COLUMNS])
        self._write(PARENTS[name].file(name, more))

    def _swap(self) -> None:
        self._edit_parent("whole")
        self._did("publish another table", "m.whole")
        self._publish()

    def _deploy_in_place(self) -> None:
        name = self._dice.choice([one for one in self._parents if PARENTS[one].in_place])
        self._edit_parent(name)
        self._did("deploy in place", f"m.{name}")
        self._publish(forward_only=True, allow_destructive=("*",))

    def _edit_seed(self) -> None:
        rows = [random_row("o", self._dice) for _ in range(4)]
        lines = (",".join("" if v is None else str(v) for v in row) for row in rows)
        self.runs.folder.write("seeds/seeded.csv", "\n".join(["id,c,n,d", *lines]))
        self._did("edit a seed", "m.seeded")
        self._publish()

    def _redefine(self) -> None:
        """Publish another query of a model that refreshes."""
        self._redraw()
        self._publish()

    def _redraw(self) -> None:
        names = [name for name, subject in self._named.items() if not subject.shown]
        if names:
            name = self._dice.choice(names)
            self._named[name] = self._subjects.redraw(self._named[name])
            self._write(self._named[name].files(name))
            self._did("publish another query", f"m.{name}")

    def _restate(self) -> None:
        names = [name for name in self._parents if self._is_restatable(name)]
        names += [name for name, subject in self._named.items() if not subject.shown]
        name = self._dice.choice(names)
        self._did("restate", f"m.{name}")
        self._publish(restate=(f"m.{name}",))

    def _is_restatable(self, name: str) -> bool:
        kind = PARENTS[name].kind
        return kind.startswith(("FULL", "INCREMENTAL")) or "disable_restatement false" in kind

    def _roll_back(self) -> None:
        environment = self._dice.choice(["prod", "prod", "dev"]) if self._preview else "prod"
        with suppress(UsageError):  # Nothing was published before.
            self.runs.workspace.environments.rollback(environment)
            self._did("roll back", environment)

    def _preview_changes(self) -> None:
        if self._dice.random() < 0.5:
            self._edit_parent("whole")
        self._redraw()
        self.runs.workspace.reload()
        self._did("preview", "dev")
        self.runs.apply(self.runs.workspace.plan("dev", now=self.runs.now))
        self._note()
        self._preview = True

    def _compact_model(self) -> None:
        name = self._dice.choice([*self._named, *self._parents])
        entry = self._environment("prod").entries.get(ModelName("m", name))
        if entry is not None and entry.table_id is not None:
            workspace = self.runs.workspace
            (table,) = (one for one in workspace.store.ledger.tables() if one.id == entry.table_id)
            engine = workspace.engine()
            assert isinstance(engine, SparkEngine)
            engine.compact(table.ref)
            self._did("compact a model's table", f"m.{name}")

    def _clean_up(self) -> None:
        report = self.runs.workspace.maintenance.janitor()
        assert report.failures == (), report.failures
        self._did("janitor", "everything")

    # Comparison and counts.

    def _environment(self, name: str) -> Environment:
        found = self.runs.workspace.store.environments.get(name)
        assert found is not None
        return found

    def _queries(self, environment: str) -> dict[str, str]:
        """Return the query of each model as an environment defines it."""
        entries = self._environment(environment).entries
        ids = {name: entries[ModelName("m", name)].snapshot_id for name in self._named}
        snapshots = self.runs.workspace.store.snapshots.load(ids.values())
        return {name: snapshots[one].model.query or "" for name, one in ids.items()}

    def _check(self, environment: str) -> None:
        try:
            self._compare(environment)
        except UsageError as error:
            # Spark reads a view over a widened column only after the next plan.
            if not self._widened or "Cannot up cast" not in error.message:
                raise
            self._plan_again(environment)
            self._compare(environment)

    def _plan_again(self, environment: str) -> None:
        workspace = self.runs.workspace
        workspace.reload()
        self.runs.apply(workspace.plan(environment, now=self.runs.now))
        self._note()
        self.tally.counts[f"plans of {environment} after a column was widened"] += 1

    def _compare(self, environment: str) -> None:
        """Compare the rows and types of all models with those of their queries, or twins."""
        parts = []
        for name, query in self._queries(environment).items():
            subject = self._named[name]
            columns = ", ".join(subject.shown) or "*"
            # Embedded models cannot be queried.
            query = query.replace("m.part ", f"({PARENTS['part'].query}) ")
            wanted = f"({query.replace('raw.', 'lakehouse.raw.')}) AS wanted"
            wanted = f"m.{name}_whole" if subject.shown else wanted
            for side, source in (("shown", f"m.{name}"), ("wanted", wanted)):
                parts.append(
                    f"SELECT '{name}' AS name, '{side}' AS side, {self._cells()} AS cells "
                    f"FROM (SELECT struct(*) AS vde_row FROM (SELECT {columns} FROM {source}))"
                )
        found: dict[tuple[str, str], Counter[str]] = {}
        for name, side, cells in self._read(environment, parts):
            found.setdefault((name, side), Counter())[cells] += 1
        for name in self._named:
            shown, wished = (found.get((name, side), Counter()) for side in ("shown", "wanted"))
            self.tally.counts[f"tables compared in {environment}"] += 1
            self.tally.counts["rows compared"] += wished.total()
            if shown != wished:
                self.differences.append(name)
                print(
                    f"seed {self._seed}, {environment}, {self.did}: {name} differs\n"
                    f"  {self._named[name]}\n"
                    f"  too many {shown - wished}\n  missing {wished - shown}",
                    flush=True,
                )

    def _cells(self) -> str:
        """Write a row as text, with its types unless a table's types were widened."""
        text = "to_json(vde_row, map('ignoreNullFields', 'false'))"
        return text if self._widened else f"concat(typeof(vde_row), {text})"

    def _read(self, environment: str, parts: Sequence[str]) -> Iterable[tuple[str, str, str]]:
        for at in range(0, len(parts), 16):
            sql = " UNION ALL ".join(parts[at : at + 16])
            for row in self.runs.workspace.query(environment, sql).rows:
                yield str(row[0]), str(row[1]), str(row[2])

    def _note(self) -> None:
        """Count the fills since the last time by their features and methods."""
        for environment, event in self.runs.events:
            if isinstance(event, IntervalFilled):
                subject = self._named.get(event.snapshot.name.name)
                if subject is not None:
                    self._count(environment, event, subject)
        self.runs.events.clear()

    def _count(self, environment: str, event: IntervalFilled, subject: Subject) -> None:
        refresh, method = event.refresh, "whole"
        tables: set[str] = set()
        if event.skipped:
            method = "skipped"
        elif refresh is not None:
            tables = set(refresh.tables)
            why = event.result.why_all or refresh.detail
            if refresh.from_changes and not event.result.why_all:
                method = refresh.changes
            else:
                self.tally.reasons[f"{refresh.code.value}: {why[:90]}"] += 1
        features = {f"environment: {environment}", "all fills"}
        features |= {f"kind: {subject.label}", f"table: {subject.layout}"}
        features |= {f"query: {form}" for form in subject.forms}
        for read in subject.reads:
            names = self._sources(read)
            if tables & names or not tables:
                features.add(f"parent: {self._label(read)}")
        for name in tables:
            if name.startswith("raw."):
                features |= {f"changed: {one}" for one in self._layout(name)}
        own = {f"m.{event.snapshot.name.name}", "everything", environment}
        for read in subject.reads:
            own |= self._sources(read)
        features |= {act for act, table in self._acts if table in own}
        for feature in features:
            self.tally.fills[feature, method] += 1

    def _sources(self, name: str) -> set[str]:
        """Return a table, and the tables that it is computed from."""
        found = {name}
        parent = PARENTS.get(name.removeprefix("m."))
        if parent is not None and name.startswith("m."):
            texts = [parent.query, *parent.files.values()]
            for text in texts:
                for word in text.replace('"', " ").replace(",", " ").split():
                    if word.startswith(("raw.", "m.")) and word != name:
                        found |= self._sources(word.strip("();"))
        return found

    def _label(self, name: str) -> str:
        if name.startswith("raw."):
            return "external table"
        return PARENTS[name.removeprefix("m.")].label

    def _layout(self, name: str) -> list[str]:
        metadata = self.runs.workspace.lakehouse.table_metadata(TableRef(*name.split(".")))
        snapshot = metadata.get("current-snapshot-id")
        found = (one for one in metadata["snapshots"] if one["snapshot-id"] == snapshot)
        summary = next(found, {}).get("summary", {})
        has_deletes = summary.get("total-delete-files", "0") != "0"
        version = f"format {metadata['format-version']}"
        return [version, "with delete files" if has_deletes else "without delete files"]
