"""Models of one meaning share a table, and each asks of its rows what its own audits say."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.base.times import parse_instant
from vde_dagster.errors import AuditFailedError
from vde_dagster.execution.events import AuditFinished, Event
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.projects import ProjectFolder

DAYS = "kind INCREMENTAL_BY_TIME_RANGE (time_column day), start '2024-01-01', end '2024-01-03'"
QUERY = "SELECT 1 AS id, CAST('2024-01-01' AS DATE) AS day"
KINDS = {"by intervals": DAYS, "whole": "kind FULL"}


def files(kind: str) -> dict[str, str]:
    audited = "audits (not_null(columns := (id)))"
    return {
        "models/first.sql": f"MODEL (name db.first, {kind}); {QUERY}",
        "models/second.sql": f"MODEL (name db.second, {kind}, {audited}); {QUERY}",
    }


@pytest.mark.parametrize("kind", list(KINDS))
def test_model_that_finds_its_table_filled_by_another_audits_its_rows(
    kind: str, tmp_path: Path
) -> None:
    folder = ProjectFolder(tmp_path / "project", files(KINDS[kind]))
    with open_fake(folder.root, FakeSpark(["db.second"])) as workspace:
        plan = workspace.plan("prod")
        first, second = (model.table for model in plan.builds)
        assert first is not None
        assert first == second
        for _ in range(2):
            with pytest.raises(AuditFailedError, match=r"db\.second.*not_null"):
                workspace.apply(plan)
        assert workspace.store.environments.get("prod") is None
    events: list[Event] = []
    with open_fake(folder.root) as workspace:
        assert workspace.apply(workspace.plan("prod"), on_event=events.append).published
    audited = [str(event.snapshot.name) for event in events if isinstance(event, AuditFinished)]
    assert audited == ["db.second"]


def test_run_audits_the_rows_that_another_model_filled_on_its_branch(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path / "project", files(DAYS.replace(", end '2024-01-03'", "")))
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod", now=parse_instant("2024-01-03")))
    with open_fake(folder.root, FakeSpark(["db.second"])) as workspace:
        run = workspace.plans.due("prod", now=parse_instant("2024-01-05"))
        assert len(run.builds) == 2
        with pytest.raises(AuditFailedError, match=r"db\.second.*not_null"):
            workspace.apply(run)
        version = workspace.store.environments.get("prod")
        assert version is not None
        assert version.version == 1
