"""The method of each fill is a fact: for programs, people, costs, the documentation and Dagster."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from io import StringIO
from pathlib import Path

import dagster as dg
import pytest
from rich.console import Console

from vde_dagster.base.names import ModelName
from vde_dagster.cli.applying import result_json
from vde_dagster.cli.progress import ApplyProgress
from vde_dagster.execution.changes import refresh_choice
from vde_dagster.execution.workspace import Workspace
from vde_dagster.overviews.documentation.gather import gather_document
from vde_dagster.planning.changes.refresh import RefreshCode
from vde_dagster.plugins.cost.spending import list_work, total_by_group
from vde_dagster.plugins.site.compact import compact
from vde_dagster.reports.plan import plan_report
from vde_dagster.reports.reasons import describe_refresh
from vde_dagster.terminal.reports import report_text
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.orchestration.test_news import events_of, tick
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.site.test_compact import values
from vde_dagster_tests.state.builders import FakeClock

FILES = {
    "models/base.sql": """
        MODEL (name m.base, kind FULL (refresh whole));
        SELECT 1 AS id, hour(now()) AS n
    """,
    "models/sums.sql": """
        MODEL (name m.sums, kind FULL (refresh changes));
        SELECT id, sum(n) AS n FROM m.base GROUP BY id
    """,
    "models/small.sql": """
        MODEL (name m.small, kind FULL (refresh auto));
        SELECT id, max(n) + 1 AS n FROM m.base GROUP BY id
    """,
    "models/first.sql": """
        MODEL (name m.first, kind FULL (refresh auto));
        SELECT id, n FROM m.base ORDER BY n LIMIT 1
    """,
}
BEGIN = datetime(2024, 1, 2, 1, tzinfo=timezone.utc)
BY_CHANGES = "refreshed from changes of m.base by id"
FIRST_FILL = "computed all rows: it is the first fill of the table"


@pytest.fixture(autouse=True)
def _choose_for_small_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh_choice, "LEAST_BYTES", 0)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(BEGIN)


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "shop", FILES)


@pytest.fixture
def workspace(folder: ProjectFolder, clock: FakeClock) -> Workspace:
    made = open_fake(folder.root, clock=clock)
    made.apply(made.plan("prod"))
    return made


@pytest.mark.parametrize(
    ("least", "chosen"),
    [(0, FIRST_FILL), (1 << 30, "computed all rows: its inputs are small (100 B)")],
)
def test_a_plan_names_first_fills_of_models_that_should_read_changes(
    folder: ProjectFolder,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    least: int,
    chosen: str,
) -> None:
    monkeypatch.setattr(refresh_choice, "LEAST_BYTES", least)
    with open_fake(folder.root, clock=clock) as workspace:
        plan = workspace.plan("prod")
        text = report_text(plan_report(plan), 200)
        assert text.count(FIRST_FILL.replace("computed", "computes")) == 1
        result = workspace.apply(plan)
        methods = {n.name: describe_refresh(one, done=True) for n, one in result.refreshes.items()}
        assert methods == {"sums": FIRST_FILL, "small": chosen, "first": chosen}


def test_an_apply_tells_the_method_of_each_fill(workspace: Workspace, clock: FakeClock) -> None:
    clock.advance(days=1)
    plan, text = workspace.plans.due("prod"), StringIO()
    with ApplyProgress(Console(file=text, width=200), plan) as progress:
        result = workspace.apply(plan, on_event=progress.show)
    sums, first = (result.refreshes[ModelName("m", name)] for name in ("sums", "first"))
    assert (sums.code, sums.tables, sums.key) == (RefreshCode.ASKED, ("m.base",), ("id",))
    assert (first.code, first.detail) == (
        RefreshCode.IMPOSSIBLE,
        "the query takes the first rows: LIMIT 1",
    )
    assert ModelName("m", "base") not in result.refreshes
    lines = text.getvalue().splitlines()
    assert any("m.sums " in line and line.endswith(f", {BY_CHANGES}") for line in lines), lines
    assert any(
        "computed all rows: the query takes the first rows: LIMIT 1" in line for line in lines
    )
    (said,) = (one for one in result_json(result)["refreshes"] if one["model"] == "m.sums")
    assert (said["method"], said["reason"], said["key"]) == ("keys", "asked", ["id"])


def test_costs_and_the_documentation_have_the_method(
    workspace: Workspace, clock: FakeClock
) -> None:
    clock.advance(days=1)
    workspace.apply(workspace.plans.due("prod"))
    until = clock.now() + timedelta(seconds=1)
    totals = total_by_group(list_work(workspace, BEGIN - timedelta(days=1), until), "model")
    counts = {name: one.refreshed_fills for name, one in totals.items() if one.refreshed_fills}
    assert counts == {"m.sums": 1}
    document = gather_document(workspace)
    methods = {
        table.name.partition("__")[2].partition("_")[0]: [fill.refresh for fill in table.fills]
        for table in document.tables
    }
    assert [BY_CHANGES, FIRST_FILL] in methods.values(), methods
    assert [None, None] in methods.values(), "a model that is computed whole has no method"
    assert BY_CHANGES in str(values(compact(document)))


def test_an_event_of_dagster_has_the_method(
    folder: ProjectFolder, workspace: Workspace, clock: FakeClock, instance: dg.DagsterInstance
) -> None:
    clock.advance(days=1)
    workspace.apply(workspace.plans.due("prod"))
    tick(folder, instance)
    said = [str(one.metadata["vde/refresh"].value) for one in events_of(instance, "m/sums")]
    assert said[-1] == BY_CHANGES
    assert all("vde/refresh" not in one.metadata for one in events_of(instance, "m/base"))
