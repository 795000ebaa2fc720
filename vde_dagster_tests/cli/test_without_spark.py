"""Where Spark cannot be had: exit code 2, and nothing is stored of what was to be applied."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from vde_dagster.cli import options
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.plan.plan_options import PlanOptions
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder

DAILY = """
    MODEL (name db.daily, start '2024-01-01', kind INCREMENTAL_BY_TIME_RANGE (time_column day));
    SELECT CAST(@start_ds AS DATE) AS day, 1 AS n WHERE CAST(@start_ds AS DATE) >= @start_date
"""


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "shop", {"models/daily.sql": DAILY})


@pytest.fixture(params=["no java", "wrong JAVA_HOME", "no master"])
def said(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Take Spark away, and give what is to be said of it."""
    pyspark = pytest.importorskip("pyspark")
    # Another test of this process may have started a JVM.
    monkeypatch.setattr(pyspark.SparkContext, "_gateway", None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if request.param == "no java":
        monkeypatch.setenv("PATH", str(tmp_path))
        yield "Spark needs Java, but PATH has no java"
    elif request.param == "wrong JAVA_HOME":
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        yield "which has no bin/java"
    else:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            port = closed.getsockname()[1]
        monkeypatch.setenv("VDE_SPARK__MASTER", f"spark://127.0.0.1:{port}")
        yield f"127.0.0.1:{port} refuses connections"


def stored(folder: ProjectFolder) -> tuple[int, int]:
    with Workspace.open(folder.root) as workspace:
        conn = workspace.store.database.engine.connect()
        with conn:
            tables = ("vde_plans", "vde_snapshots", "vde_tables", "vde_news")
            counts = [
                conn.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one()
                for table in tables
            ]
    return sum(counts[:-1]), counts[-1]


def test_an_apply_stores_nothing(folder: ProjectFolder, said: str, vde: Vde) -> None:
    before = stored(folder)
    for _ in range(2):
        ended = vde("apply", "prod", "--yes", "--project", folder.root)
        assert ended.code == 2
        assert said in ended.err
        assert ended.err.count("error:") == 1
    assert stored(folder) == before


def test_only_the_first_apply_of_an_ending_process_starts_spark_before_it_plans(
    folder: ProjectFolder, vde: Vde, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[str] = []
    monkeypatch.setattr(Workspace, "start_engine_in_background", lambda self: starts.append("now"))
    folder.write(
        "models/wrong.sql", "MODEL (name m.wrong, kind FULL); SELECT nothing FROM db.daily"
    )

    def starts_of_apply(*, ends: bool) -> int:
        starts.clear()
        monkeypatch.setattr(options, "process_ends", ends)
        ended = vde("apply", "prod", "--yes", "--project", folder.root)
        assert ended.code == 2
        assert "nothing" in ended.err
        return len(starts)

    assert starts_of_apply(ends=True) == 1, "without a state"
    assert starts_of_apply(ends=True) == 1, "without an environment"
    assert starts_of_apply(ends=False) == 0
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("dev", PlanOptions(select=("db.*",))))
    assert starts_of_apply(ends=True) == 0


def test_a_run_and_a_stored_plan_store_nothing(folder: ProjectFolder, said: str, vde: Vde) -> None:
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod", end=None))
        folder.edit("models/daily.sql", "1 AS n", "2 AS n")
        workspace.reload()
        plan = workspace.plan("prod")
    before = stored(folder)
    for command in (("apply", "prod", "--plan", plan.id), ("apply", "prod", "--restate", "db.*")):
        ended = vde(*command, "--project", folder.root)
        assert ended.code == 2, ended.err
        assert said in ended.err
    assert stored(folder) == before


def test_what_computes_nothing_is_published(folder: ProjectFolder, said: str, vde: Vde) -> None:
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    ended = vde("apply", "dev", "--yes", "--project", folder.root)
    assert ended.code == 0, ended.err
