"""A backup as docs/deploy.md has it: taken while somebody publishes, restored after all is lost."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.projects import SHOP, ProjectFolder
from vde_dagster_tests.state.postgres_server import PostgresServer

pytestmark = [
    pytest.mark.spark,
    pytest.mark.server,
    pytest.mark.usefixtures("spark_engine"),
]
TOP = "models/marts/top.sql"
QUERY = "SELECT max(n) FROM marts.numbers"


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    yield server
    server.stop()


def _project(root: Path, url: str, number: int) -> ProjectFolder:
    settings = f"[tool.vde]\nstate_url = '{url}'\nwarehouse = '{root / 'warehouse'}'\n"
    files = {**SHOP, "pyproject.toml": settings, "models/numbers.sql": _numbers(number)}
    return ProjectFolder(root / "project", files)


def _numbers(number: int) -> str:
    return f"MODEL (name marts.numbers, kind FULL); SELECT id AS n FROM range({number + 1})"


def _publish(folder: ProjectFolder, number: int) -> int:
    folder.write("models/numbers.sql", _numbers(number))
    with Workspace.open(folder.root) as workspace:
        done = workspace.apply(workspace.plan("prod"))
        assert done.environment is not None
        return done.environment.version


def test_a_backup_that_was_taken_while_others_publish_is_whole(
    tmp_path: Path, server: PostgresServer
) -> None:
    url = server.url(name := server.create_database())
    folder = _project(tmp_path, url, 1)
    versions = {_publish(folder, 1): 1}
    first, stop = Event(), Event()

    def go_on() -> None:
        number = 1
        while not stop.is_set():
            number += 1
            versions[_publish(folder, number)] = number
            first.set()

    with ThreadPoolExecutor(1) as pool:
        others = pool.submit(go_on)
        assert first.wait(120)
        dump = server.dump(name)  # First the database,
        backup = shutil.copytree(tmp_path / "warehouse", tmp_path / "backup")  # then the files.
        before = len(versions)
        assert first.wait(120)
        stop.set()
        others.result(120)
    assert len(versions) >= before

    server.drop_database(name)
    shutil.rmtree(tmp_path / "warehouse")
    shutil.rmtree(folder.root / ".vde", ignore_errors=True)
    server.restore(server.create_database(name=name), dump)
    shutil.copytree(backup, tmp_path / "warehouse")

    with Workspace.open(folder.root) as workspace:
        lost = [one for one in workspace.maintenance.fsck(deep=True) if one.is_damage]
        assert lost == []
        shown = workspace.store.environments.get("prod")
        assert shown is not None
        ((number,),) = workspace.query("prod", QUERY).rows
        assert number == versions[shown.version]
        ((older,),) = workspace.query("prod@1", QUERY).rows
        assert older == 1
    assert _publish(folder, 1000) == shown.version + 1
    with Workspace.open(folder.root) as workspace:
        assert [tuple(row) for row in workspace.query("prod", QUERY).rows] == [(1000,)]
        workspace.environments.rollback("prod")
        assert [tuple(row) for row in workspace.query("prod", QUERY).rows] == [(number,)]
