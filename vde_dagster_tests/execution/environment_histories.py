"""Random histories of environments that share tables, and what each version has to show for ever.

Plans, runs, restatements, changes in place, previews, rollbacks, freezes, drops and clean-ups
happen in a random order. The model is simple: what a version showed when it was published, it shows
as long as it is kept, by `vde query ENV@VERSION` and where it is frozen; what an environment shows
is its newest version, but for tables that others show, too, and have moved since. Views are read
from their metadata, tables by PyIceberg; rows say what they were made of.
"""

from __future__ import annotations

import functools
import json
import random
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.serializers import FromInputFile
from sqlglot import parse_one

from vde_dagster.errors import ProjectError, UsageError
from vde_dagster.execution.pinned_reads import PinnedVersion
from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.publishing.new_table import EmptyCommit
from vde_dagster.planning.tables.table import TableRef
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.execution.valued import Valued
from vde_dagster_tests.lakehouse.oracle import query
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.builders import FakeClock

BEGIN = datetime.fromisoformat("2024-01-04T12:00:00+00:00")
ENVIRONMENTS = ("prod", "dev", "test")
FILES = {
    "models/daily.sql": """
        MODEL (name db.daily, start '2024-01-01',
          kind INCREMENTAL_BY_TIME_RANGE (time_column (day, '%Y-%m-%d'), batch_size 1));
        SELECT CAST('2024-01-01' AS STRING) AS day, CAST('a' AS STRING) AS n
    """,
    "models/totals.sql": """
        MODEL (name db.totals, start '2024-01-01',
          kind INCREMENTAL_BY_TIME_RANGE (time_column (day, '%Y-%m-%d'), batch_size 1));
        SELECT day, CAST(sum(n) AS STRING) AS n FROM db.daily
        WHERE day BETWEEN @start_ds AND @end_ds GROUP BY day
    """,
    "models/week.sql": """
        MODEL (name db.week, kind FULL);
        SELECT CAST(sum(n) AS STRING) AS n FROM db.totals
    """,
    "models/both.sql": """
        MODEL (name db.both, kind VIEW);
        SELECT a.n, b.n AS m FROM db.week AS a CROSS JOIN db.daily AS b
    """,
}
SETTINGS = """
[tool.vde]
virtual_environment_mode = "{mode}"
history_days = {days}
snapshot_retention_days = 1
janitor_grace_hours = 1
"""
WORDS = ("sum", "max", "min")
_FROM = re.compile(
    r"`\w+`\.`(vde__[^`]+)`\.`([^`]+)`(?: VERSION AS OF (?:(\d+)|'([^']+)'))?", re.IGNORECASE
)
Shown = dict[str, Any]
"""By model: the names of its columns, and the rows of the tables that it reads."""


class Kept(Valued):
    """An engine that says what rows were made of, and writes the list of manifests of a commit."""

    def _commit(
        self,
        ref: TableRef,
        before: str,
        metadata: dict[str, Any],
        point: str,
        updates: tuple[dict[str, Any], ...] = (),
    ) -> None:
        made = metadata["snapshots"][-1]
        commit = EmptyCommit(made["snapshot-id"], made["manifest-list"])
        Path(commit.manifest_list.removeprefix("file://")).write_bytes(_no_manifests())
        super()._commit(ref, before, metadata, point, updates)


@functools.cache
def _no_manifests() -> bytes:
    return EmptyCommit(1, "").content()


@functools.lru_cache(4096)
def _table(location: str) -> Any:
    """Read a table's metadata; a file is never written twice."""
    return FromInputFile.table_metadata(PyArrowFileIO().new_input(location))


@functools.lru_cache(4096)
def _columns(sql: str) -> tuple[str, ...]:
    selection: Any = parse_one(sql, read="spark")
    return tuple(selection.named_selects)


@dataclass
class History:
    """A project, what happened to it, and what each of its versions showed.

    Args:
        workspace: The project, opened.
        folder: Its files.
        engine: Says what rows are made of.
        clock: The time.
        chance: What happens next.
        in_place: Whether definitions change forward-only, too.
        modes: What production may be made of: views, or tables.
        days: For how many days versions are kept.
        versions: What each version showed, by environment and number.
        frozen: By frozen environment, the version that it shows.
        said: What happened, for people.
        counts: How often what was checked.
    """

    workspace: Workspace
    folder: ProjectFolder
    engine: Kept
    clock: FakeClock
    chance: random.Random
    in_place: bool = True
    modes: tuple[str, ...] = ("full",)
    days: int = 6
    versions: dict[tuple[str, int], Shown] = field(default_factory=dict)
    frozen: dict[str, tuple[str, int]] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def now(self) -> dict[str, Shown]:
        """What every environment shows, as its views and tables in the catalog say."""
        return {
            name: self.shown(name)
            for name in (*ENVIRONMENTS, *self.frozen)
            if self.workspace.store.environments.exists(name)
        }

    def shown(self, environment: str) -> Shown:
        """What the readers of an environment find."""
        lakehouse, found = self.workspace.lakehouse, {}
        places = lakehouse.catalog.all_pointers()
        for ref in lakehouse.published_views(environment):
            pointer = places[ref]
            if pointer.kind == "TABLE":
                table = _table(pointer.location)
                columns = tuple(one.name for one in table.schema().fields)
                rows = self._rows(table, table.current_snapshot_id)
                found[ref.name] = [columns, [rows] if rows else []]
                continue
            metadata = json.loads(Path(pointer.location.removeprefix("file://")).read_text())
            current = metadata["current-version-id"]
            (version,) = [one for one in metadata["versions"] if one["version-id"] == current]
            (sql,) = [r["sql"] for r in version["representations"] if r["dialect"] == "spark"]
            found[ref.name] = self._read(sql)
        return found

    def at(self, environment: str, number: int) -> Shown:
        """What `vde query ENV@VERSION` finds."""
        store = self.workspace.store
        version = store.versions.at(environment, number)
        assert version is not None
        reader = PinnedVersion(self.workspace, version)
        return {
            name.name: self._read(reader.relation(name) or "") for name in sorted(version.entries)
        }

    def _read(self, sql: str) -> list[Any]:
        places = self.workspace.lakehouse.catalog.all_pointers()
        rows = []
        for namespace, name, snapshot, branch in _FROM.findall(sql):
            table = _table(places[TableRef(namespace, name)].location)
            if not snapshot:
                # PyIceberg has the main branch of a table without commits nowhere.
                ref = table.refs.get(branch or "main")
                snapshot = ref.snapshot_id if ref is not None else None
            rows.append(self._rows(table, int(snapshot) if snapshot else None))
        # A pin of a table without any commit is a query without rows.
        assert rows or sql.endswith("WHERE false"), sql
        rows = [one for one in rows if one]
        return [_columns(sql), rows]

    def _rows(self, table: Any, snapshot_id: int | None) -> Any:
        if snapshot_id is None or snapshot_id == -1:
            return {}
        found = table.snapshot_by_id(snapshot_id)
        assert found is not None, self.story("a snapshot that somebody shows is gone")
        assert Path(found.manifest_list.removeprefix("file://")).exists(), self.story("files gone")
        return json.loads(found.summary.additional_properties.get("fake.content", "{}"))

    def step(self) -> None:
        """Let something happen, and check all that has to hold."""
        self.engine.sources += 1
        self.counts["steps"] = self.counts.get("steps", 0) + 1
        self.clock.advance(minutes=self.chance.randrange(1, 90))
        before, heads = self.now(), self.heads()
        shared = {name: self.shared(name) for name in ("dev", "test") if name in before}
        happens: tuple[Callable[[str], None], ...] = (
            *(self.edit,) * 4,
            *((self.change_in_place,) * 3 if self.in_place else ()),
            *(self.run,) * 4,
            *(self.restate,) * 2,
            *(self.roll_back,) * 5,
            *(self.roll_back_definitions,) * 2,
            *(self.freeze,) * 2,
            self.drop,
            *(self.clean_up,) * 2,
            *((self.change_mode,) if len(self.modes) > 1 else ()),
        )
        known = [name for name in ENVIRONMENTS if name in before]
        self.chance.choice(happens)(self.chance.choice(known))
        self.check(before, heads, shared)

    def heads(self) -> dict[str, int]:
        """The newest version of each environment."""
        rows = query(self.url, "SELECT environment, version FROM vde_environments WHERE live")
        return {str(name): int(version) for name, version in rows}

    @property
    def url(self) -> str:
        """The state."""
        return str(self.workspace.settings.resolved_state_url)

    def kept(self, name: str) -> list[int]:
        """The versions of an environment since it was made, newest first."""
        history = self.workspace.store.versions.history(name)
        ends = [one.version for one in history if one.dropped]
        return [one.version for one in history if one.version > max(ends, default=0)]

    def say(self, text: str) -> None:
        """Note what happens."""
        self.said.append(f"{self.clock.now():%d %H:%M} {text}")

    def word(self, model: str) -> str:
        """Write another of three definitions of a model."""
        word = self.chance.choice(WORDS)
        path = self.folder.root / f"models/{model}.sql"
        text = path.read_text()
        if model == "daily":
            text = re.sub(r"'\w*' AS STRING\) AS n", f"'{word}' AS STRING) AS n", text)
        for known in WORDS:
            text = text.replace(f"{known}(n)", f"{word}(n)")
        path.write_text(text)
        return word

    def publish(self, name: str, **said: Any) -> None:
        """Plan and apply, unless that is refused."""
        self.workspace.reload()
        try:
            self.workspace.apply(self.workspace.plan(name, **said))
        except (ProjectError, UsageError) as error:
            self.said.append(f"  refused: {error.message}")
        self.record()

    def edit(self, name: str) -> None:
        """Publish another definition, perhaps to a new environment."""
        name = self.chance.choice(ENVIRONMENTS)
        model = self.chance.choice(("daily", "totals", "totals", "week"))
        self.say(f"{model} is {self.word(model)}, published to {name}")
        self.publish(name)

    def change_in_place(self, name: str) -> None:
        """Change a definition forward-only: production's table goes on, others get a preview."""
        model = self.chance.choice(("daily", "totals"))
        path = self.folder.root / f"models/{model}.sql"
        text = path.read_text()
        if self.chance.random() < 0.5:
            what = f"is {self.word(model)}"
        elif " AS extra" in text:
            what = "loses its column"
            path.write_text(re.sub(r", CAST\('x' AS STRING\) AS extra", "", text))
        else:
            what = "gets a column"
            path.write_text(text.replace(" AS n", " AS n, CAST('x' AS STRING) AS extra", 1))
        name = self.chance.choice(ENVIRONMENTS)
        self.say(f"{model} {what}, forward-only to {name}")
        self.publish(name, forward_only=True, allow_destructive=("*",))

    def run(self, name: str) -> None:
        """Compute what is due, in production first: only it fills what it shows."""
        if self.chance.random() < 0.5:
            self.clock.advance(days=1)
        for one in dict.fromkeys(("prod", name)):
            self.say(f"run of {one}")
            self.workspace.apply(self.workspace.plans.due(one))
            self.record()

    def restate(self, name: str) -> None:
        """Compute a day again, where the environment may."""
        first = BEGIN.replace(day=self.chance.randrange(1, 4), hour=0)
        model = self.chance.choice(("db.daily", "db.totals"))
        self.say(f"restatement of {model} on {first:%d} in {name}")
        until = first + timedelta(days=1)
        self.publish(name, restate=[model], start=first, end=until)

    def roll_back(self, name: str) -> None:
        """Go to any kept version with its data; all of it is shown then."""
        kept = self.kept(name)[1:]
        if not kept:
            return
        version = self.chance.choice(kept)
        self.say(f"rollback of {name} to {version}")
        if self.chance.random() < 0.3:
            self.workspace.environments.rollback(name, version, dry_run=True)
        self.workspace.environments.rollback(name, version)
        assert self.shown(name) == self.versions[name, version], self.story("not what it was")
        self.counts["rollbacks"] = self.counts.get("rollbacks", 0) + 1
        self.record()

    def roll_back_definitions(self, name: str) -> None:
        """Go to any kept version's definitions."""
        kept = self.kept(name)[1:]
        if kept:
            version = self.chance.choice(kept)
            self.say(f"rollback of {name} to {version}, definitions only")
            self.workspace.environments.rollback(name, version, definitions_only=True)
            self.record()

    def freeze(self, name: str) -> None:
        """Freeze any kept version."""
        version = self.chance.choice(self.kept(name))
        close = f"close{len(self.said)}"
        keep = self.chance.choice((None, timedelta(days=self.chance.randrange(1, 9))))
        self.say(f"freeze of {name}@{version} as {close}, kept {keep or 'for ever'}")
        self.workspace.environments.freeze(f"{name}@{version}", close, keep)
        self.frozen[close] = name, version
        assert self.shown(close) == self.versions[name, version], self.story("frozen otherwise")
        self.record()

    def drop(self, name: str) -> None:
        """Drop an environment, or what is frozen."""
        alive = self.heads().keys() - {"prod"}
        if alive:
            gone = self.chance.choice(sorted(alive))
            self.say(f"drop of {gone}")
            self.workspace.environments.drop(gone)
            self.clean_up(gone)

    def clean_up(self, name: str) -> None:
        """Let some days go by, and clean up; then go on at that time."""
        self.clock.advance(hours=self.chance.choice((2, 2, 26, 26, 74)))
        self.say("clean-up")
        report = self.workspace.maintenance.janitor()
        assert report.failures == (), self.story(str(report.failures))
        alive = self.heads()
        self.frozen = {one: of for one, of in self.frozen.items() if one in alive}
        gone = {"dev", "test"} - alive.keys()
        for key in [key for key in self.versions if key[0] in gone]:
            del self.versions[key]

    def change_mode(self, name: str) -> None:
        """Let production have tables in place of views, or the other way."""
        mode = self.chance.choice(self.modes)
        self.say(f"production in mode {mode}")
        self.folder.write("pyproject.toml", SETTINGS.format(mode=mode, days=self.days))
        self.workspace.close()
        self.workspace = open_fake(self.folder.root, self.engine, clock=self.clock)
        self.publish("prod")

    def record(self) -> None:
        """Keep what new versions show."""
        for name, version in self.heads().items():
            if (name, version) not in self.versions:
                self.versions[name, version] = self.shown(name)

    def check(
        self, before: dict[str, Shown], heads: dict[str, int], shared: dict[str, set[str]]
    ) -> None:
        """Check every version that is kept, and what every environment shows."""
        self.record()
        now, later = self.now(), self.heads()
        for name, number in later.items():
            recorded, shown = self.versions[name, number], now[name]
            if name == "prod" or name in self.frozen:
                assert shown == recorded, self.story(f"{name} is not its version")
            if name in before and heads.get(name) == number:
                may_move = shared.get(name, set())
                if name in ("dev", "test"):
                    may_move = may_move | self.shared(name)
                for model in shown:
                    same = shown[model] == before[name][model]
                    assert same or model in may_move, self.story(
                        f"{name} shows another {model} by itself"
                    )
        for name, (of, version) in self.frozen.items():
            if (of, version) in self.versions:
                assert now[name] == self.versions[of, version], self.story(f"{name} changed")
        kept = query(
            self.url,
            "SELECT v.environment, v.version FROM vde_environment_versions v JOIN vde_environments "
            "e ON e.environment = v.environment WHERE e.live",
        )
        for name, number in kept:
            if (name, number) in self.versions:
                at = self.at(name, number)
                assert at == self.versions[name, number], self.story(f"{name}@{number} is another")
                self.counts["versions"] = self.counts.get("versions", 0) + 1

    def shared(self, name: str) -> set[str]:
        """Models of an environment that show tables as they are that others show, and may move."""
        environments = {one: self.workspace.store.environments.get(one) for one in ENVIRONMENTS}
        own = environments.pop(name)
        assert own is not None
        others = {
            entry.table_id
            for one in environments.values()
            for entry in (one.entries.values() if one is not None else ())
            if entry.held is None
        }
        entries = own.entries.values()
        found = {e.name.name for e in entries if e.table_id in others and e.held is None}
        return found | ({"both"} if found & {"week", "daily"} else set())

    def story(self, why: str = "") -> str:
        """Say what happened."""
        return "\n".join([*self.said, why])


def play(
    root: Path,
    seed: int,
    steps: int,
    *,
    in_place: bool = True,
    modes: tuple[str, ...] = ("full",),
    days: int = 6,
) -> dict[str, int]:
    """Play a history; return how often what was checked.

    Args:
        root: Where the project is to be.
        seed: Decides what happens.
        steps: How much happens.
        in_place: Whether definitions change forward-only, too.
        modes: What production may be made of, see `virtual_environment_mode`.
        days: For how many days versions are kept.
    """
    engine, clock, chance = Kept(), FakeClock(BEGIN), random.Random(seed)
    mode = chance.choice(modes)
    files = {**FILES, "pyproject.toml": SETTINGS.format(mode=mode, days=days)}
    folder = ProjectFolder(root / f"project{seed}", files)
    workspace = open_fake(folder.root, engine, clock=clock)
    history = History(workspace, folder, engine, clock, chance, in_place, modes, days)
    try:
        history.publish("prod")
        for _ in range(steps):
            history.step()
    finally:
        history.workspace.close()
    shutil.rmtree(folder.root)
    return history.counts
