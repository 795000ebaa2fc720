"""Random damage of random files of a published project, and what everybody says of it.

Tables are written by PyIceberg, with real data files and manifests. One to three files, none of
which leads to another, are damaged together; then files are checked, environments and versions
read, cleaned up, rolled back and served. Nobody says anything unexpected, every error names a
damaged file, `fsck` names those that change what is read and no others, nothing is deleted that
would have stayed, and once the files are back all is read as before.
"""

from __future__ import annotations

import asyncio
import io
import os
import random
import re
import shutil
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from vde_dagster.errors import VdeError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.programs.serve.app import make_app
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.serve.shops import noon, opened, publish, run

Damage = Callable[[Path, random.Random, "list[Path]"], None]


def place(location: str | None) -> Path:
    assert location is not None
    return Path(location.removeprefix("file://"))


def asked(app: FastAPI, path: str) -> tuple[int, str]:
    """Ask the application of `vde serve` as a client of this machine does."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "root_path": "",
    }
    asyncio.run(app(scope, receive, send))
    body = b"".join(one.get("body", b"") for one in sent)
    return int(sent[0]["status"]), body.decode()


def _cut(file: Path, some: random.Random, others: list[Path]) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[: some.randrange(len(whole))])


def _flip(file: Path, some: random.Random, others: list[Path]) -> None:
    whole = bytearray(file.read_bytes())
    for _ in range(some.choice((1, 1, 3, 20))):
        whole[some.randrange(len(whole))] ^= 1 << some.randrange(8)
    file.write_bytes(whole)


def _overwrite(file: Path, some: random.Random, others: list[Path]) -> None:
    """Write noughts, or noise, over a page."""
    whole = bytearray(file.read_bytes())
    page = 4096
    first = some.randrange(0, len(whole), page)
    part = len(whole[first : first + page])
    whole[first : first + part] = some.choice((bytes(part), some.randbytes(part)))
    file.write_bytes(whole)


def _make_folder(file: Path, some: random.Random, others: list[Path]) -> None:
    file.unlink()
    file.mkdir()


HOW: dict[str, Damage] = {
    "deleted": lambda file, some, others: file.unlink(),
    "emptied": lambda file, some, others: file.write_bytes(b"") and None,
    "cut": _cut,
    "longer": lambda file, some, others: file.write_bytes(file.read_bytes() + b"\n\0") and None,
    "flipped": _flip,
    "overwritten": _overwrite,
    "another's": lambda file, some, others: shutil.copyfile(some.choice(others), file) and None,
    "a folder": _make_folder,
    **({"forbidden": lambda file, some, others: file.chmod(0)} if os.geteuid() else {}),
}
GROSS = ("deleted", "emptied", "cut", "longer", "a folder", "forbidden")
OF_STATE = ("emptied", "cut", "overwritten", "another's", "a folder", "forbidden")
SILENT = ("flipped", "overwritten", "another's")
"""Of data files only their lengths and their footers are looked at, which others may share."""
Outcome = tuple[str, Any]


class World:
    """A project with random models and a random history, a copy of it, and what is read there."""

    def __init__(self, root: Path, some: random.Random) -> None:
        self.root, self.spare, self.some = root / "shop", root / "spare", some
        self.models = self._publish()
        self.state = self.root / ".vde" / "vde.db"
        with closing(sqlite3.connect(self.state)) as conn:
            conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for beside in self.state.parent.glob("vde.db-*"):
            beside.unlink()
        self.below = self._graph()
        self.needed = set(self.below) & self.heads
        stray = next(file for file in self.below if file.suffix == ".parquet")
        shutil.copy(stray, stray.with_name("stray.parquet"))
        os.utime(stray.with_name("stray.parquet"), (0, 0))
        shutil.copytree(self.root, self.spare)

    @property
    def folder(self) -> ProjectFolder:
        return ProjectFolder(self.root)

    def _publish(self) -> list[str]:
        """Publish random models a few times; return their names."""
        some = self.some
        values = ", ".join(f"({n}, {some.randrange(99)})" for n in range(some.randrange(1, 9)))
        files = {
            "models/base.sql": "MODEL (name m.base, kind FULL); "
            f"SELECT CAST(id AS INT) AS id, CAST(n AS INT) AS n FROM VALUES {values} AS v(id, n)",
            "pyproject.toml": f"[tool.vde]\nhistory_versions = {some.choice((1, 2, 50))}\n"
            f"snapshot_retention_days = {some.choice((0, 7))}\n",
        }
        names = ["base"]
        for number in range(some.randrange(1, 4)):
            name, parent = f"t{number}", some.choice([one for one in names if one[0] != "v"])
            kind, query = some.choice(
                (
                    ("kind FULL", f"SELECT id, n + {number} AS n FROM m.{parent}"),
                    ("kind VIEW", f"SELECT id, n * 2 AS n FROM m.{parent}"),
                    (
                        "start '2024-01-01', kind INCREMENTAL_BY_TIME_RANGE (time_column day, "
                        "batch_size 1)",
                        f"SELECT CAST(@start_ds AS DATE) AS day, id, n FROM m.{parent}",
                    ),
                )
            )
            name = name.replace("t", "v") if "VIEW" in kind else name
            files[f"models/{name}.sql"] = f"MODEL (name m.{name}, {kind}); {query}"
            names.append(name)
        folder, day = ProjectFolder(self.root, files), 3
        publish(folder, day)
        for number in range(some.randrange(1, 4)):
            step = some.choice(("run", "edit", "dev", "freeze"))
            if step == "run":
                day += 1
                run(folder, day)
            elif step == "freeze":
                with opened(folder) as workspace:
                    workspace.environments.freeze("prod", f"kept{some.randrange(10**6)}")
            else:
                text = (self.root / "models/base.sql").read_text()
                text = text.replace(
                    "FROM VALUES", f", {some.randrange(9)} AS c{number} FROM VALUES"
                )
                folder.write("models/base.sql", text)
                publish(folder, day, "prod" if step == "edit" else "dev")
        return names

    def _graph(self) -> dict[Path, set[Path]]:
        """Return every file that the catalog leads to, with all files that it leads to."""
        found: dict[Path, set[Path]] = defaultdict(set)
        self.heads: set[Path] = set()
        with opened(self.folder) as workspace:
            for ref, pointer in workspace.lakehouse.catalog.all_pointers().items():
                top = place(pointer.location)
                found[top] |= set()
                self.heads.add(top)
                if pointer.kind == "VIEW":
                    continue
                table = workspace.lakehouse.load_table(ref)
                for snapshot in table.snapshots():
                    if not (listed := place(snapshot.manifest_list)).exists():
                        continue
                    manifests = snapshot.manifests(table.io)
                    for manifest in manifests:
                        entries = manifest.fetch_manifest_entry(table.io)
                        data = {place(entry.data_file.file_path) for entry in entries}
                        data = {file for file in data if file.exists()}
                        own = place(manifest.manifest_path)
                        found[own] |= data
                        found[listed] |= {own, *data}
                        found.update({file: set() for file in data if file not in found})
                    found[listed] |= set()
                    found[top] |= {listed, *found[listed]}
                    if snapshot == table.current_snapshot():
                        self.heads |= {listed, *found[listed]}
        return {file: below for file, below in found.items() if self.root in file.parents}

    def restore(self) -> None:
        """Put everything back, as the same files."""
        shutil.rmtree(self.root)
        shutil.copytree(self.spare, self.root)

    def mend(self, files: Iterable[Path]) -> None:
        """Put damaged files back."""
        for file in files:
            if file.is_dir():
                file.rmdir()
            file.unlink(missing_ok=True)
            shutil.copy2(self.spare / file.relative_to(self.root), file)

    def kept(self) -> set[Path]:
        """Return the first files of the warehouse that are still there."""
        spare = self.spare / ".vde" / "warehouse"
        first = (self.root / path.relative_to(self.spare) for path in spare.rglob("*.*"))
        return {path for path in first if path.exists()}

    @property
    def environments(self) -> list[str]:
        with closing(sqlite3.connect(self.spare / ".vde" / "vde.db")) as conn:
            rows = conn.execute("SELECT environment FROM vde_environments WHERE live").fetchall()
        return sorted(name for (name,) in rows)

    def reads(self) -> dict[str, Outcome]:
        """Read every environment's models, and with the server a version's, by a new process."""
        work: dict[str, Callable[[Workspace, FastAPI], Any]] = {
            f"{environment}/{model}": partial(_read, environment, model)
            for environment in self.environments
            for model in self.models
        }
        for version in ("prod", "prod@1"):
            for model in self.models:
                path = f"/data/{version}/m.{model}"
                work[path] = partial(_serve, path)
        try:
            with opened(self.folder) as workspace:
                app = make_app(workspace, may_be_open=True, log=io.StringIO())
                return {what: attempt(do, workspace, app) for what, do in work.items()}
        except VdeError as error:
            return dict.fromkeys(work, (type(error).__name__, str(error)))

    def does(self, what: str) -> Outcome:
        """Let a new process do one of the things that somebody does."""
        return attempt(self._does, what)

    def _does(self, what: str) -> Any:
        with opened(self.folder) as workspace:
            return DOES[what](workspace)

    def fsck(self) -> Outcome:
        """Return the files that are named as damaged, and other damage."""
        return self.does("fsck")


def attempt(work: Callable[..., Any], *given: Any) -> Outcome:
    """Return what something gives, or the error that it raises on purpose."""
    try:
        return "done", work(*given)
    except VdeError as error:
        return type(error).__name__, str(error)


def _serve(path: str, workspace: Workspace, app: FastAPI) -> tuple[int, str]:
    status, text = asked(app, path)
    return status, re.sub(r'"publication":"\w+"', "", text)


def _read(environment: str, model: str, workspace: Workspace, app: FastAPI) -> Any:
    return workspace.queries.read(environment, f"m.{model}").to_pylist()


def _fsck(workspace: Workspace) -> list[tuple[str, str, str | None]]:
    return [
        (one.problem, one.subject, one.file)
        for one in workspace.maintenance.fsck(deep=True)
        if one.is_damage or one.problem == "new_state"
    ]


def _janitor(workspace: Workspace) -> list[str]:
    return [str(one.error) for one in workspace.maintenance.janitor().failures]


DOES: dict[str, Callable[[Workspace], Any]] = {
    "fsck": _fsck,
    "history": lambda w: [one.version for one in w.environments.history("prod")],
    "plan": lambda w: w.plan("prod", now=noon(4), save=False).is_empty,
    "rollback": lambda w: w.environments.rollback("prod", 1).environment.version,
    "janitor": _janitor,
}
LAST = ("janitor", "rollback")
"""What may change something."""


class _Search:
    """A world, what is done and read there while nothing is damaged, and what was tried."""

    def __init__(self, root: Path, seed: int) -> None:
        self.some = random.Random(seed)
        self.world = world = World(root, self.some)
        self.said = [f"seed {seed}: {world.models}"]
        self.whole = {what: world.does(what) for what in DOES if what not in LAST}
        assert self.whole["fsck"] == ("done", []), self.story(self.whole)
        self.rows = world.reads()
        self.left: dict[str, set[Path]] = {}
        self.after: dict[str, dict[str, Outcome]] = {}
        for what in LAST:
            self.whole[what] = world.does(what)
            self.left[what], self.after[what] = world.kept(), world.reads()
            world.restore()

    def story(self, problem: object) -> str:
        return "\n".join([*self.said, str(problem)])

    def damage(self) -> list[Path]:
        """Damage some files, none of which leads to another."""
        world, some, files = self.world, self.some, []
        if some.random() < 0.15:
            files = [world.state]
        else:
            for file in some.sample(sorted(world.below), len(world.below)):
                near = {one for one in files if one in world.below[file]}
                if not near and not any(file in world.below[one] for one in files):
                    files.append(file)
                if len(files) >= some.choice((1, 1, 2, 3)):
                    break
        self.how = {}
        for file in files:
            how = some.choice([one for one in HOW if file != world.state or one in OF_STATE])
            others = [one for one in sorted(world.below) if one not in files]
            if some.random() < 0.7:
                others = [one for one in others if one.suffixes == file.suffixes] or others
            HOW[how](file, some, others)
            self.how[file] = how
            self.said.append(f"{how}: {file}")
        return files

    def check(self, files: list[Path]) -> str:
        """Let everybody look at what is damaged; say how it was found."""
        world = self.world
        silent = any(self.how[one] in SILENT and one.suffix == ".parquet" for one in files)
        named, story = self.named(files), self.story
        differ = {what: (self.rows[what], found) for what, found in world.reads().items()}
        for what in ("history", "plan"):
            differ[what] = self.whole[what], world.does(what)
        found = False
        for what, (before, now) in differ.items():
            if now == before:
                continue
            found = True
            culprits = [one for one in files if str(one) in str(now[1])]
            told = "restore it from a backup" in str(now[1])
            if files == [world.state]:
                served = what[0] == "/" and now[0] == "done"
                new = self.how[world.state] == "emptied"
                assert named, story(f"{what}: {now}, and nothing is found")
                assert new or (now[1][0] == 503 if served else culprits), story(f"{what}: {now}")
                continue
            if now[0] == "done" and not (what[0] == "/" and now[1][0] == 500):
                other = any(self.how[one] == "another's" for one in named)
                assert silent or other, story(
                    f"{what}: {now} in place of {before}, and {named} is named"
                )
                continue
            assert culprits, story(f"{what}: no file is named by {now}")
            assert told, story(f"{what}: not said what to do: {now}")
            unnamed = [one for one in culprits if one not in named]
            assert not unnamed or silent, story(f"{what}: {now}, and fsck names {named}")
        for file in files:
            gross = self.how[file] in GROSS and file in world.needed
            assert not gross or file in named, story(f"fsck does not name {file}")
        if self.some.random() < 0.5:
            self.change(files)
        else:
            self.not_hidden(files, named)
        return "found" if named else "read" if found else "harmless"

    def change(self, files: list[Path]) -> None:
        """Clean up or roll back; nothing is lost, and with the files everything is there again."""
        what = self.some.choice(LAST)
        kind, now = self.world.does(what)
        self.said.append(f"{what}: {kind} {now}")
        for told in now if what == "janitor" and kind == "done" else [now] * (kind != "done"):
            if (kind, now) != self.whole[what] and self.how.get(self.world.state) != "emptied":
                assert any(str(one) in told for one in files), self.story("no file is named")
        lost = self.left[what] - self.world.kept() - set(files)
        assert not lost, self.story(f"deleted, and they would have stayed: {sorted(lost)}")
        self.world.mend(files)
        for place, found in self.world.reads().items():
            right = (self.rows[place], self.after[what][place])
            assert found in right, self.story(f"{place} is {found} in place of one of {right}")

    def not_hidden(self, files: list[Path], named: set[Path]) -> None:
        """Make sure that a file that is not named is not named alone, either."""
        hidden = [one for one in files if one not in named][:1]
        if len(files) > 1 and hidden:
            self.world.mend(one for one in files if one not in hidden)
            assert not self.named(hidden), self.story(f"{hidden} is hidden by others")

    def named(self, files: list[Path]) -> set[Path]:
        """Return the files that fsck names."""
        kind, found = self.world.fsck()
        state = self.world.state
        if kind != "done":
            assert files == [state], self.story((kind, found))
            assert str(state) in found, self.story((kind, found))
            return {state}
        if found and found[0][0] == "new_state":
            return set(files)
        named = set()
        for problem, subject, file in found:
            # What a flipped number says may be that something is gone.
            folder = f"/{subject.replace('.', '/')}-"
            own = [
                one for one in files if (folder in str(one) if file is None else place(file) == one)
            ]
            if not own and file is not None:
                # Of two files that disagree on a number, the lower one is named; where a name was
                # flipped, what has that name.
                renamed = folder if problem.startswith("missing_") else "\0"
                own = [
                    one
                    for one in files
                    if self.how[one] in SILENT
                    and (renamed in str(one) or place(file) in self.world.below.get(one, ()))
                ]
            assert own, self.story(f"false alarm: {problem} {subject} {file}")
            named.update(own)
        return named


def attack(root: Path, seed: int, damages: int = 8) -> Counter[str]:
    """Damage files of a project again and again; return how often that was found.

    Raises:
        AssertionError: Something was not found, or lost; says the seed and what was damaged.
    """
    search, counts = _Search(root, seed), Counter[str]()
    for _ in range(damages):
        said = len(search.said)
        counts[search.check(search.damage())] += 1
        search.world.restore()
        del search.said[said:]
    return counts
