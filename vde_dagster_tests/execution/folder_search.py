"""Random commands in wrong folders on a state and a warehouse that are another folder's.

What has to happen is computed here, from the files of the folder and the views of production: a
folder of certainly another project, one without models, or one that would take away a large part is
refused with exit code 2, and nothing at all is changed; elsewhere production keeps its views.
"""

from __future__ import annotations

import hashlib
import io
import os
import random
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

from vde_dagster.cli.app import call
from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster_tests.execution.fake_workspace import FakeSpark
from vde_dagster_tests.projects import ProjectFolder

Identity = tuple[str, str]
"""The id and the name of a project's settings, each perhaps empty."""
OWN: tuple[Identity, ...] = (("aaaa", ""), ("", "shop"), ("aaaa", "shop"), ("", ""))
OTHER: tuple[Identity, ...] = (("bbbb", ""), ("", "others"), ("bbbb", "shop"), ("", ""))
FEW = 2
"""So many of several models may always go unasked; more only where they are a third at most."""


class _Engine(FakeSpark):
    """An engine for a workspace whose folder may be none."""

    workspace: Workspace

    @property
    def lakehouse(self) -> Lakehouse:
        return self.workspace.lakehouse


_really_open = Workspace.open


def _open(root: Path, **_: Any) -> Workspace:
    engine = _Engine()
    engine.workspace = _really_open(root, engine=engine)
    return engine.workspace


def vde(*arguments: object) -> tuple[int, str]:
    """Call the command line in this process; return the exit code and what it said."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        code = call([str(argument) for argument in arguments])
    return code, said.getvalue()


def _project(folder: Path, own: Identity, models: int, prefix: str = "m") -> Path:
    lines = [f'{key} = "{value}"' for key, value in zip(("id", "name"), own, strict=True) if value]
    made = {
        f"models/{prefix}{n}.sql": f"MODEL (name db.{prefix}{n}, kind FULL); SELECT {n} AS n"
        for n in range(models)
    }
    ProjectFolder(folder, {**made, "pyproject.toml": "\n".join(["[tool.vde]", *lines])})
    return folder


def _copy(own: Path, to: Path) -> Path:
    return Path(shutil.copytree(own, to, ignore=shutil.ignore_patterns(".vde")))


def _renamed(own: Path, to: Path, edit: Callable[[str], str]) -> Path:
    file = _copy(own, to) / "pyproject.toml"
    file.write_text(edit(file.read_text()))
    return to


def _without(own: Path, to: Path, some: random.Random, least: int) -> Path:
    files = sorted(_copy(own, to).glob("models/*.sql"))
    for file in some.sample(files, some.randint(least, len(files))):
        file.unlink()
    return to


def _linked(own: Path, to: Path) -> Path:
    to.symlink_to(own, target_is_directory=True)
    return to


def _empty(to: Path) -> Path:
    to.mkdir()
    return to


Make = Callable[[Path, Path, random.Random], Path]
FOLDERS: dict[str, Make] = {
    "empty": lambda own, to, some: _empty(to),
    "another project": lambda own, to, some: _project(
        to, some.choice(OTHER), some.randrange(1, 5), "other"
    ),
    "another project with the same models": lambda own, to, some: _project(
        to, some.choice(OTHER), len(_models(own))
    ),
    "its parent": lambda own, to, some: own.parent,
    "its models": lambda own, to, some: own / "models",
    "a copy whose id is lost": lambda own, to, some: _renamed(
        own, to, lambda text: re.sub(r"(?m)^id = .*$", "", text)
    ),
    "a copy with another name": lambda own, to, some: _renamed(
        own, to, lambda text: re.sub(r"(?m)^name = .*$", "", text) + '\nname = "renamed"\n'
    ),
    "a copy without settings": lambda own, to, some: _renamed(own, to, lambda text: ""),
    "half a checkout": lambda own, to, some: _without(own, to, some, 1),
    "a clone without models": lambda own, to, some: _without(own, to, some, len(_models(own))),
    "a link": lambda own, to, some: _linked(own, to),
    "a checkout": lambda own, to, some: _copy(own, to),
    "a parent of links": lambda own, to, some: _linked(own, _empty(to) / "models").parent,
}
OF_FILES: dict[str, tuple[str, ...]] = {
    "apply": ("apply", "prod", "--yes"),
    "apply dev": ("apply", "dev", "--yes"),
    "plan": ("plan", "prod"),
    "propose": ("plan", "prod", "--propose"),
}
CHANGES: dict[str, tuple[str, ...]] = {
    **OF_FILES,
    "stored plan": ("apply", "prod", "--yes", "--plan", "PLAN"),
    "reject": ("plan", "reject", "PLAN"),
    "run": ("run", "prod", "--full"),
    "restate": ("apply", "prod", "--yes", "--restate", "db.m0"),
    "rollback": ("rollback", "prod", "--to", "1"),
    "freeze": ("freeze", "prod", "kept"),
    "drop": ("drop", "dev"),
    "janitor": ("janitor",),
    "token": ("token", "create", "prod"),
    "cursor": ("changes", "prod", "db.m0", "--cursor", "reader", "--ack", "0-2"),
    "forget": ("changes", "prod", "db.m0", "--cursor", "known", "--forget"),
}
COMMANDS: dict[str, tuple[str, ...]] = {
    **CHANGES,
    "fsck": ("fsck",),
    "history": ("history", "prod"),
    "environments": ("environments",),
}


def _models(folder: Path) -> set[str]:
    return {path.stem for path in (folder / "models").rglob("*.sql")}


Known = tuple[str, str, bool]
"""An id, a name, and whether the settings say the name."""


def _identity(folder: Path) -> Known:
    """Read a folder's id, its name, and whether that is written."""
    file = folder / "pyproject.toml"
    text = file.read_text() if file.exists() else ""
    found = {key: re.search(rf'(?m)^{key} = "(.*)"$', text) for key in ("id", "name")}
    number, name = ((one[1] if one else "") for one in (found["id"], found["name"]))
    return number, name or folder.resolve().name, bool(name)


def _is_other(folder: Path, owner: Known) -> bool:
    (number, name, _), (owners, owned, said) = _identity(folder), owner
    if number and owners:
        return number != owners
    return bool(owners or said) and name != owned


def _together(owner: Known, folder: Path) -> Known:
    """Return what is known of a project after this folder of it has published."""
    number, name, said = _identity(folder)
    return number or owner[0], name if said else owner[1], said or owner[2]


class _World:
    """A published project, and looks at its state and its warehouse that share no code with it."""

    def __init__(self, root: Path, some: random.Random) -> None:
        self.state, self.warehouse = root / "state.db", root / "warehouse"
        self.own = _project(root / "home" / "shop", some.choice(OWN), some.randrange(1, 12))
        self.surely("apply", "prod", "--yes")
        self.surely("apply", "dev", "--yes")
        ProjectFolder(self.own).write("models/more.sql", "MODEL (name db.more); SELECT 1 AS n")
        self.surely("apply", "prod", "--yes")
        self.surely("changes", "prod", "db.m0", "--cursor", "known", "--ack", "0-2")
        ProjectFolder(self.own).write("models/last.sql", "MODEL (name db.last); SELECT 1 AS n")
        self.surely("plan", "prod")
        ((self.plan,),) = self.query(
            "SELECT plan_id FROM vde_plans ORDER BY created_at DESC LIMIT 1"
        )
        (self.own / "models" / "last.sql").unlink()

    def surely(self, *arguments: str) -> None:
        code, said = vde(*arguments, "--project", self.own)
        assert code == 0, said

    def query(self, text: str) -> list[Any]:
        with closing(sqlite3.connect(self.state)) as conn:
            return conn.execute(text).fetchall()

    @property
    def owner(self) -> Known:
        ((number, name, said),) = self.query("SELECT project_id, name, named FROM vde_project")
        return number, name, bool(said)

    def views(self, environment: str) -> set[str]:
        """Name the models whose views the catalog has for an environment."""
        place = "db" if environment == "prod" else f"db__{environment}"
        found = f"SELECT table_name FROM iceberg_tables WHERE table_namespace = '{place}'"
        return {name for (name,) in self.query(found)}

    def look(self) -> tuple[str, dict[str, str]]:
        """Digest every row of the state and every file of the warehouse."""
        with closing(sqlite3.connect(self.state)) as conn:
            rows = "\n".join(conn.iterdump())
        files = {
            str(path): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in self.warehouse.rglob("*")
            if path.is_file()
        }
        return rows, files


def attack(root: Path, seed: int, steps: int = 12) -> Counter[str]:
    """Run commands in wrong folders; return how often which was refused and done.

    Raises:
        AssertionError: Something was changed that had to stay; says the seed and all commands.
    """
    some, counts = random.Random(seed), Counter[str]()
    shared = {
        "VDE_STATE_URL": f"sqlite:///{root / 'state.db'}",
        "VDE_WAREHOUSE": str(root / "warehouse"),
    }
    said = [f"seed {seed}"]
    with mock.patch.dict(os.environ, shared), mock.patch.object(Workspace, "open", _open):
        world = _World(root, some)
        for number in range(steps):
            kind, command = some.choice(list(FOLDERS)), some.choice(list(COMMANDS))
            folder = FOLDERS[kind](world.own, root / f"wrong{number}", some)
            arguments = [world.plan if one == "PLAN" else one for one in COMMANDS[command]]
            before, views, listed = world.look(), world.views("prod"), _listed(folder)
            owner = world.owner
            code, told = vde(*arguments, "--project", folder)
            said.append(f"{command} in {kind} {_identity(folder)}: {code} {told.strip()}")
            story = "\n".join(said)
            refused = _refused(world, folder, command, views)
            if refused:
                assert code == 2, f"{story}\nnot refused, although it is {refused}"
                assert world.look() == before, f"{story}\nrefused, and something was changed"
            if not _models(folder):
                assert _listed(folder) == listed, f"{story}\nsomething was left there"
            assert code in (0, 1, 2), story
            assert "unexpected" not in told, story
            assert world.owner in (owner, _together(owner, folder)), story
            if command != "rollback":
                lost = views - world.views("prod")
                assert not lost or _may_go(len(lost), len(views)), f"{story}\nlost {lost}"
            if code == 0 and command in ("apply", "apply dev"):
                now = world.views(arguments[1])
                assert now == _models(folder), f"{story}\nshows {sorted(now)}"
            counts["refused" if code == 2 else "done"] += 1
        code, told = vde("fsck", "--project", world.own)
        assert code == 0, "\n".join([*said, told])
    return counts


def _listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.name != "home" else []


def _may_go(gone: int, known: int) -> bool:
    return gone < known and (gone <= FEW or 3 * gone <= known)


def _refused(world: _World, folder: Path, command: str, views: set[str]) -> str:
    """Say why a command has to be refused; nothing when it need not be."""
    if command in CHANGES and _is_other(folder, world.owner):
        return "another project's"
    if command in OF_FILES:
        models = _models(folder)
        if not models:
            return "a folder without models"
        shown = world.views("dev") if command == "apply dev" else views
        gone = shown - models
        if gone and not _may_go(len(gone), len(shown)):
            return "about to take away a large part"
    return ""
