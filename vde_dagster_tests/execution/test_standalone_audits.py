"""Standalone audits: nodes of the graph that look at other models, and never stop anything."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from vde_dagster.base.names import ModelName
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.plan.plan import Category, Change, Plan, PlannedModel
from vde_dagster.reports.plan import plan_report
from vde_dagster.terminal.reports import show_report, show_summary
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.execution.recorder import Recorder
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.long

CHECK = ModelName("default", "assert_prices")
FILES = {
    "models/items.sql": "MODEL (name db.items, kind FULL); SELECT 1 AS id, 2 AS price",
    "models/orders.sql": "MODEL (name db.orders, kind FULL); SELECT 7 AS item",
    "models/apart.sql": "MODEL (name db.apart, kind FULL); SELECT 3 AS n",
    "audits/prices.sql": """
        AUDIT (name assert_prices, standalone true, cron '@weekly', owner data, start '2024-01-01');
        SELECT * FROM db.items AS i JOIN db.orders AS o ON i.id = o.item
        WHERE i.price < 0 AND o.item > @start_ds
    """,
}
MONDAY = datetime(2024, 6, 3, 12, tzinfo=timezone.utc)


@pytest.fixture
def engine() -> Recorder:
    return Recorder()


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "project", FILES)


@pytest.fixture
def workspace(folder: ProjectFolder, engine: Recorder) -> Iterator[Workspace]:
    with open_fake(folder.root, engine) as opened:
        yield opened


def planned(plan: Plan) -> PlannedModel:
    (found,) = [model for model in plan.models if model.name == CHECK]
    return found


def runs(plan: Plan) -> list[str]:
    return [
        f"{one.start.date()} {one.end.date()}"
        for one in planned(plan).intervals
        if planned(plan).audits
    ]


def test_it_runs_behind_all_that_it_reads_and_reads_the_tables_of_the_plan(
    workspace: Workspace, engine: Recorder
) -> None:
    plan = workspace.plan("prod", now=MONDAY)
    assert runs(plan) == ["2024-01-01 2024-06-02"]
    workspace.apply(plan)

    assert set(engine.did[:-1]) >= {"fill items", "fill orders"}
    assert engine.did.index("assert_prices assert_prices") > engine.did.index("fill orders")
    sql = engine.audited["assert_prices assert_prices"]
    tables = {model.name.name: model.table for model in plan.models}
    assert all(table.ref.name in sql for name, table in tables.items() if table and name != "apart")
    assert "'2024-01-01'" in sql
    # No view, no table, and an entry of the environment.
    shown = workspace.store.environments.get("prod")
    assert shown is not None
    assert shown.entries[CHECK].table_id is None
    assert CHECK.name not in {ref.name for ref in plan.views.created}


def test_it_never_stops_a_publication(workspace: Workspace, engine: Recorder) -> None:
    engine.failing_audits.add(str(CHECK))
    plan = workspace.plan("prod", now=MONDAY)

    assert workspace.apply(plan).published

    (found,) = workspace.store.audits.results(plan_id=plan.id)
    assert (found.model, found.blocking, found.result.failed_rows) == (CHECK, False, 1)


def test_plans_run_it_when_it_or_what_it_reads_changes(
    workspace: Workspace, folder: ProjectFolder
) -> None:
    workspace.apply(workspace.plan("prod", now=MONDAY))
    assert workspace.plan("prod", now=MONDAY).is_empty

    folder.edit("models/apart.sql", "3", "4")
    workspace.reload()
    assert runs(workspace.plan("prod", now=MONDAY)) == []

    folder.edit("models/items.sql", "2 AS price", "5 AS price")
    workspace.reload()
    plan = workspace.plan("prod", now=MONDAY)
    assert planned(plan).change is Change.UNCHANGED
    assert len(runs(plan)) == 1
    workspace.apply(plan)

    folder.edit("audits/prices.sql", "< 0", "<= 0")
    workspace.reload()
    plan = workspace.plan("prod", now=MONDAY)
    assert (planned(plan).change, planned(plan).category) == (Change.MODIFIED, Category.METADATA)
    assert len(runs(plan)) == 1
    assert not plan.builds
    assert not plan.views


def test_plans_show_what_is_only_audited(workspace: Workspace, folder: ProjectFolder) -> None:
    workspace.apply(workspace.plan("prod", now=MONDAY))
    folder.edit("models/items.sql", "2 AS price", "5 AS price")
    workspace.reload()
    plan = workspace.plan("prod", now=MONDAY)
    console = Console(file=StringIO(), width=100)

    show_report(console, plan_report(plan, {}))
    show_summary(console, plan_report(plan))

    assert isinstance(console.file, StringIO)
    shown = console.file.getvalue()
    assert "audits 1 model without computing" in shown
    assert "default.assert_prices  unchanged  audits the existing rows" in shown
    assert "leaves 2 models as they are" in shown
    assert "audits    1 model without computing" in shown


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (datetime(2024, 6, 4, tzinfo=timezone.utc), []),
        (datetime(2024, 6, 10, tzinfo=timezone.utc), ["2024-06-02 2024-06-09"]),
        (datetime(2024, 6, 20, tzinfo=timezone.utc), ["2024-06-02 2024-06-16"]),
    ],
)
def test_runs_run_it_once_a_tick_of_its_cron_for_what_came_since(
    workspace: Workspace, now: datetime, expected: list[str]
) -> None:
    workspace.apply(workspace.plan("prod", now=MONDAY))

    assert runs(workspace.plans.due("prod", now=now)) == expected


def test_a_run_of_it_alone_is_recorded(workspace: Workspace, folder: ProjectFolder) -> None:
    folder.write(
        "audits/fresh.sql",
        "AUDIT (name fresh, standalone true, cron '@hourly'); SELECT 1 AS n WHERE false",
    )
    workspace.apply(workspace.plan("prod", now=MONDAY))
    later = MONDAY.replace(hour=14)

    plan = workspace.plans.due("prod", now=later)

    assert not plan.builds
    assert not plan.is_empty
    assert workspace.apply(plan).published
    assert workspace.plans.due("prod", now=later).is_empty


def test_restatements_run_it_and_vde_audit_does(workspace: Workspace) -> None:
    workspace.apply(workspace.plan("prod", now=MONDAY))

    plan = workspace.plan("prod", restate=["db.orders"], now=MONDAY)
    assert planned(plan).audits
    plan = workspace.plan("prod", restate=["db.apart"], now=MONDAY)
    assert not planned(plan).audits

    report = workspace.environments.audit("prod")
    assert [one.model for one in report.results] == [CHECK]
    assert not report.is_blocked


def test_removed_from_the_project_it_goes_from_the_environment(
    workspace: Workspace, folder: ProjectFolder
) -> None:
    workspace.apply(workspace.plan("prod", now=MONDAY))
    folder.edit("audits/prices.sql", "standalone true", "standalone true, skip true")
    workspace.reload()

    plan = workspace.plan("prod", now=MONDAY)

    assert planned(plan).change is Change.REMOVED
    assert not plan.breaks
    workspace.apply(plan)
    assert workspace.plan("prod", now=MONDAY).is_empty
