"""A shop in a Git repository of which two people have clones, and a server as GitHub's."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster_tests.ci.servers import FakeForge, FakeGitHub, FakeGitLab, served
from vde_dagster_tests.cli.conftest import vde
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.projects import SHOP, ProjectFolder
from vde_dagster_tests.state.conftest import postgres
from vde_dagster_tests.state.postgres_server import PostgresServer

SETTINGS = """
[tool.vde]
id = "shop"
state_url = "{state_url}"
warehouse = "{folder}/warehouse"
"""
_FORGE = ("GITHUB_", "GITLAB_", "CI_", "CI")
__all__ = ["postgres", "vde"]

Fake = TypeVar("Fake", bound=FakeForge)


def git(folder: Path, *arguments: str) -> str:
    """Run git as somebody."""
    who = ["-c", "user.name=anna", "-c", "user.email=anna@example.org"]
    done = subprocess.run(
        ["git", *who, "-C", str(folder), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@dataclass(frozen=True)
class Team:
    """A bare repository, and clones of it whose projects share one state and warehouse."""

    folder: Path

    @property
    def bare(self) -> Path:
        """The repository that all push to."""
        return self.folder / "shop.git"

    def clone(self, name: str, branch: str = "main") -> ProjectFolder:
        """Clone it, with a branch checked out."""
        target = self.folder / name
        git(self.folder, "clone", "-q", "-b", branch, str(self.bare), str(target))
        return ProjectFolder(target)

    def commit(self, clone: ProjectFolder, branch: str) -> str:
        """Commit and push what a clone has changed; return the commit."""
        git(clone.root, "checkout", "-q", "-B", branch)
        git(clone.root, "add", ".")
        git(clone.root, "commit", "-q", "-m", "an edit")
        git(clone.root, "push", "-q", "-u", "origin", branch)
        return git(clone.root, "rev-parse", "HEAD")

    def merge(self, branch: str, into: str = "main") -> ProjectFolder:
        """Merge a pushed branch by a commit of its own; return a clone of what that gives."""
        clone = self.clone(f"{into} with {branch}".replace(" ", "_"), into)
        git(clone.root, "merge", "-q", "--no-ff", "-m", f"merges {branch}", f"origin/{branch}")
        git(clone.root, "push", "-q", "origin", into)
        return clone

    def push(self, *edits: tuple[str, str, str]) -> ProjectFolder:
        """Push edits to the main branch without a pull request; return the clone."""
        clone = self.clone("pushed")
        for edit in edits:
            clone.edit(*edit)
        self.commit(clone, "main")
        return clone

    def publish(self) -> None:
        """Publish the main branch as it was at first."""
        with open_fake(self.folder / "first") as workspace:
            workspace.apply(workspace.plan("prod"))

    def comment(self, number: int) -> str:
        """Return a pull request's comment, as plain Git has it."""
        return git(self.bare, "show", f"refs/vde/comments:pr_{number}.md")


class _LateSpark(FakeSpark):
    """The engine of a workspace that opens its catalog when it is needed."""

    workspace: Workspace

    @property
    def lakehouse(self) -> Lakehouse:
        """The catalog."""
        return self.workspace.lakehouse


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeSpark:
    """An engine without Spark that every command of this process works on."""
    found, opened = _LateSpark(), Workspace.open

    def opening(root: Path, **how: Any) -> Workspace:
        found.workspace = opened(root, **{**how, "engine": found})
        return found.workspace

    monkeypatch.setattr(Workspace, "open", opening)
    return found


def entries(workspace: Workspace, name: str) -> dict[str, str]:
    """Return what an environment shows: snapshots by model."""
    found = workspace.store.environments.get(name)
    shown = found.entries.items() if found else ()
    return {str(model): entry.snapshot_id for model, entry in shown}


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Team:
    """A team whose main branch is not published yet."""
    _no_forge(monkeypatch)
    return _team(tmp_path, f"sqlite:///{tmp_path}/state.db")


@pytest.fixture
def team_on_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres: PostgresServer
) -> Team:
    """The same, on a PostgreSQL server."""
    _no_forge(monkeypatch)
    return _team(tmp_path, postgres.url(postgres.create_database()))


def _team(folder: Path, state_url: str) -> Team:
    team = Team(folder)
    git(folder, "init", "-q", "--bare", "-b", "main", str(team.bare))
    git(folder, "clone", "-q", str(team.bare), str(folder / "first"))
    settings = SETTINGS.format(folder=folder, state_url=state_url)
    files = {**SHOP, "pyproject.toml": settings, ".gitignore": ".vde/\n"}
    team.commit(ProjectFolder(folder / "first", files), "main")
    return team


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGitHub]:
    """A server as GitHub's, which the variables of a workflow's job name."""
    with _in_job(FakeGitHub(), monkeypatch) as found:
        yield found


@pytest.fixture
def gitlab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeGitLab]:
    """A server as GitLab's, which the variables of a job name."""
    with _in_job(FakeGitLab(), monkeypatch) as found:
        monkeypatch.setenv("CI_PROJECT_DIR", str(tmp_path))
        yield found


@pytest.fixture(params=["github", "gitlab"])
def server(request: pytest.FixtureRequest) -> FakeForge:
    """Each of them."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, FakeForge)
    return found


@contextmanager
def _in_job(found: Fake, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    _no_forge(monkeypatch)
    with served(found):
        monkeypatch.setenv(found.addresses, found.url)
        for name, value in found.variables.items():
            monkeypatch.setenv(name, value)
        yield found


def _no_forge(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in [name for name in os.environ if name.startswith(_FORGE)]:
        monkeypatch.delenv(name)
