"""Commands about one environment read no other, however many there are and however old they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.environments.environment import Environment
from vde_dagster.state.environments.environments import EnvironmentStore
from vde_dagster.state.environments.versions import VersionStore
from vde_dagster.state.store import StateStore
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import Prepared, ProjectFolder

FILES = {
    "models/first.sql": "MODEL (name db.first, kind FULL); SELECT 1 AS n",
    "models/last.sql": "MODEL (name db.last, kind FULL); SELECT max(n) AS n FROM db.first",
}


def publish(root: Path) -> None:
    """Publish production, and `dev` with two versions that differ, then twenty that do not."""
    folder = ProjectFolder(root, FILES)
    with open_fake(folder.root) as opened:
        opened.apply(opened.plan("prod"))
        opened.apply(opened.plan("dev"))
        folder.edit("models/last.sql", "max(n)", "min(n)")
        opened.reload()
        opened.apply(opened.plan("dev"))
        for _ in range(20):
            again(opened.store, "dev")


@pytest.fixture
def folder(prepared: Prepared) -> ProjectFolder:
    return prepared(publish)


@pytest.fixture
def workspace(folder: ProjectFolder) -> Iterator[Workspace]:
    with open_fake(folder.root) as opened:
        yield opened


def again(store: StateStore, name: str) -> None:
    """Publish what an environment shows once more, as a run does."""
    from dataclasses import replace
    from uuid import uuid4

    now = store.environments.get(name)
    assert now is not None
    following = replace(now, publication_id=uuid4().hex, note="run")
    store.database.run_transaction(
        lambda conn: store.environments.write_version(conn, following, now.version)
    )


def test_a_rollback_reads_its_own_environment_and_few_of_its_versions(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[str, int | None]] = []
    now, at = EnvironmentStore.get, VersionStore.at

    def one(self: EnvironmentStore, name: str, *more: object) -> Environment | None:
        read.append((name, None))
        return now(self, name, *more)  # type: ignore[arg-type]

    def one_at(self: VersionStore, name: str, version: int) -> Environment | None:
        read.append((name, version))
        return at(self, name, version)

    monkeypatch.setattr(EnvironmentStore, "get", one)
    monkeypatch.setattr(VersionStore, "at", one_at)
    result = workspace.environments.rollback("dev")
    assert result.restored == 1
    assert read == [("dev", None), ("dev", 1)]


@pytest.mark.proof
@pytest.mark.parametrize("name", ["dev", "prod"])
def test_an_apply_reads_no_other_environment_to_know_what_is_shown(
    workspace: Workspace, folder: ProjectFolder, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.edit("models/last.sql", "min(n)", "sum(n)")
    workspace.reload()
    plan = workspace.plan(name)
    monkeypatch.setattr(EnvironmentStore, "all", None)
    assert workspace.apply(plan).published


def test_dropping_reads_no_environment(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EnvironmentStore, "get", None)
    monkeypatch.setattr(EnvironmentStore, "all", None)
    workspace.environments.drop("dev")


def test_fsck_reads_no_environment(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    with workspace.store.database.transaction() as conn:
        conn.exec_driver_sql("UPDATE vde_tables SET status = 'tombstoned'")
    monkeypatch.setattr(EnvironmentStore, "all", None)
    found = [
        each for each in workspace.maintenance.fsck() if each.problem == "shown_table_not_live"
    ]
    assert [each.subject for each in found] == [
        f"db.{model} in environment '{name}'"
        for name in ("dev", "prod")
        for model in ("first", "last")
    ]
