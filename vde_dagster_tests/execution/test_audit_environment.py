"""`vde audit`: the audits of what an environment shows, by themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from vde_dagster.cli.app import call
from vde_dagster.errors import UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.long

FILES = {
    "models/daily.sql": """
        MODEL (name db.daily, kind INCREMENTAL_BY_TIME_RANGE (time_column day),
          start '2024-01-01', end '2024-01-03', audits (not_null(columns := (n))));
        SELECT 1 AS n, CAST('2024-01-01' AS DATE) AS day
    """,
    "models/last.sql": """
        MODEL (name db.last, kind FULL, audits (not_null(columns := (n), blocking := false),
          number_of_rows(threshold := 3)));
        SELECT max(n) AS n FROM db.daily
    """,
    "models/shown.sql": """
        MODEL (name db.shown, kind VIEW, audits (not_null(columns := (n))));
        SELECT n FROM db.last
    """,
    "models/bare.sql": "MODEL (name db.bare, kind FULL); SELECT 1 AS n",
}


@pytest.fixture
def engine() -> FakeSpark:
    return FakeSpark()


@pytest.fixture
def workspace(
    tmp_path: Path, engine: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Workspace]:
    opened = open_fake(ProjectFolder(tmp_path / "project", FILES).root, engine)

    @contextmanager
    def again(_: Path) -> Iterator[Workspace]:
        yield opened

    monkeypatch.setattr("vde_dagster.execution.workspace.Workspace.open", again)
    opened.apply(opened.plan("prod"))
    yield opened
    opened.close()


def test_every_audit_of_what_is_shown_runs_and_is_kept(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["audit", "prod", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["environment"], told["version"], told["blocked"]) == ("prod", 1, False)
    assert (told["passed"], told["failed"]) == (4, 0)
    assert [(audit["model"], audit["blocking"]) for audit in told["audits"]] == [
        ("db.daily", True),
        ("db.last", False),
        ("db.last", True),
        ("db.shown", True),
    ]
    assert told["audits"][0]["start"] == "2024-01-01T00:00:00Z"
    assert told["audits"][0]["end"] == "2024-01-04T00:00:00Z"
    kept = workspace.store.audits.results(plan_id=told["id"])
    assert len(kept) == 4
    assert {(record.environment, record.version) for record in kept} == {("prod", 1)}
    workspace.store.outbox.number()
    (*_, news) = workspace.store.outbox.since(0, 999)
    assert (news.kind, news.subject["run"]) == ("audit", told["id"])


@pytest.mark.parametrize(
    ("failing", "chosen", "code"),
    [
        ("db.daily", [], 1),
        ("db.daily", ["--model", "db.last"], 0),
        ("db.last", ["--model", "db.last+"], 1),
        ("db.bare", [], 0),
    ],
)
def test_the_exit_code_says_whether_an_audit_that_blocks_found_rows(
    workspace: Workspace,
    engine: FakeSpark,
    capsys: pytest.CaptureFixture[str],
    failing: str,
    chosen: list[str],
    code: int,
) -> None:
    engine.failing_audits.add(failing)
    assert call(["audit", "prod", *chosen]) == code
    text = capsys.readouterr().out
    lines = [line for line in text.splitlines() if "failed " in line and failing in line]
    assert bool(lines) == bool(code)
    assert "prod (version 1): " in text


def test_one_that_only_warns_is_no_failure(workspace: Workspace, engine: FakeSpark) -> None:
    engine.failing_audits.add("db.last")
    report = workspace.environments.audit("prod", select=["db.last"])
    assert report.is_blocked
    (warning, _) = report.results
    alone = workspace.environments.audit("prod", select=["db.last"], labels=[warning.audit.label])
    assert len(alone.failed) == 1
    assert not alone.is_blocked


def test_what_is_not_there_is_a_mistake(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["audit", "prdo"]) == 2
    assert "did you mean 'prod'?" in capsys.readouterr().err
    with pytest.raises(UsageError, match=r"no model matches 'db\.lost'"):
        workspace.environments.audit("prod", select=["db.lost"])
    assert call(["audit", "prod", "--model", "db.bare"]) == 0


def test_failing_rows_stay_until_they_are_audited_again(
    workspace: Workspace, engine: FakeSpark
) -> None:
    environment = workspace.store.environments.get("prod")
    assert environment is not None
    (table_id,) = (e.table_id for e in environment.entries.values() if str(e.name) == "db.daily")
    assert table_id is not None
    audits = workspace.store.audits
    assert audits.failing(table_id) == []
    engine.failing_audits.add("db.daily")
    report = workspace.environments.audit("prod")
    assert [record.plan_id for record in audits.failing(table_id)] == [report.run.id]
    engine.failing_audits.clear()
    workspace.environments.audit("prod", select=["db.last"])
    assert len(audits.failing(table_id)) == 1
    workspace.environments.audit("prod")
    assert audits.failing(table_id) == []
