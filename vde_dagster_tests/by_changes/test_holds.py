"""What a model that goes by changes read last is kept for its next fill, for a bounded time."""

from __future__ import annotations

import logging
from datetime import datetime, timezone
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.execution.changes import refresh_choice
from vde_dagster.execution.plans.due_work import pending_work
from vde_dagster.execution.workspace import Workspace
from vde_dagster.overviews.environments import janitor_section
from vde_dagster.reports.plan import plan_report
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.builders import FakeClock

FILES = {
    "pyproject.toml": """
        [tool.vde]
        history_versions = 1
        history_days = 1
        snapshot_retention_days = 1
        reader_hold_days = 15
    """,
    "models/base.sql": "MODEL (name m.base, kind FULL); SELECT 1 AS id, hour(now()) AS n",
    "models/sums.sql": """
        MODEL (name m.sums, cron '@monthly', kind INCREMENTAL_BY_CHANGES (key id));
        SELECT id, sum(n) AS n FROM m.base GROUP BY id
    """,
}
BASE, SUMS = ModelName("m", "base"), ModelName("m", "sums")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(datetime(2024, 1, 2, 1, tzinfo=timezone.utc))


@pytest.fixture
def workspace(tmp_path: Path, clock: FakeClock) -> Workspace:
    made = open_fake(ProjectFolder(tmp_path / "shop", FILES).root, clock=clock)
    made.apply(made.plan("prod"))
    return made


def _days(workspace: Workspace, clock: FakeClock, days: int) -> None:
    for _ in range(days):
        clock.advance(days=1)
        workspace.apply(workspace.plans.due("prod"))


def _kept(workspace: Workspace) -> set[int]:
    entry = workspace.store.environments.get("prod").entries[BASE]
    table = workspace.store.tables.get(entry.table_id or "")
    metadata = workspace.lakehouse.table_metadata(table.ref)
    return {int(one["snapshot-id"]) for one in metadata["snapshots"]}


def _read(workspace: Workspace) -> int | None:
    entry = workspace.store.environments.get("prod").entries[SUMS]
    last = workspace.store.fills.latest([entry.table_id or ""])[entry.table_id or ""]
    (state,) = (last.facts.inputs or {}).values()
    return state.read_id


def test_what_was_read_last_is_kept_and_the_reader_that_is_behind_is_named(
    workspace: Workspace, clock: FakeClock
) -> None:
    read = _read(workspace)
    _days(workspace, clock, 8)
    assert _read(workspace) == read
    report = workspace.maintenance.janitor()
    assert "expire_snapshots" in {one.action for one in report.decisions}
    assert read in _kept(workspace)
    (held,) = (one for one in report.decisions if one.action == "hold_snapshots")
    assert "m.sums, which last read the table at 2024-01-02" in held.reason
    shown = {row.cells[0].text for row in janitor_section(report).rows}
    assert "hold snapshots" in shown


@pytest.mark.parametrize(("least", "holds"), [(0, True), (1 << 30, False)], ids=["large", "small"])
def test_a_model_that_chooses_holds_what_it_read_unless_its_inputs_are_small(
    tmp_path: Path,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    least: int,
    holds: bool,
) -> None:
    monkeypatch.setattr(refresh_choice, "LEAST_BYTES", least)
    chosen = FILES["models/sums.sql"].replace("INCREMENTAL_BY_CHANGES (key id)", "FULL")
    folder = ProjectFolder(tmp_path / "chosen", {**FILES, "models/sums.sql": chosen})
    workspace = open_fake(folder.root, clock=clock)
    workspace.apply(workspace.plan("prod"))
    _days(workspace, clock, 8)
    report = workspace.maintenance.janitor()
    assert ("hold_snapshots" in {one.action for one in report.decisions}) == holds
    assert (_read(workspace) in _kept(workspace)) == holds


@pytest.mark.parametrize("name", ["m.sums", "m.base"])
def test_a_restated_model_is_computed_whole_unless_its_inputs_are_restated_with_it(
    workspace: Workspace, clock: FakeClock, name: str
) -> None:
    _days(workspace, clock, 2)
    plan = workspace.plan("prod", restate=[name])
    backlog = next(one.backlog for one in plan.models if one.name == SUMS)
    assert backlog is not None
    assert backlog.why_all == ("it is computed again" if name == "m.sums" else "")
    workspace.apply(plan)
    entry = workspace.store.environments.get("prod").entries[SUMS]
    last = workspace.store.fills.latest([entry.table_id or ""])[entry.table_id or ""]
    assert last.facts.refresh is not None
    assert last.facts.refresh.from_changes == (name == "m.base")


def test_a_reader_that_does_not_move_holds_nothing_after_a_time_and_computes_all(
    workspace: Workspace, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    read = _read(workspace)
    _days(workspace, clock, 16)
    report = workspace.maintenance.janitor()
    assert read not in _kept(workspace)
    said = [one.reason for one in report.decisions if one.action == "expire_snapshots"]
    assert [one for one in said if "the next fill computes all rows of m.sums" in one]
    plan = workspace.plan("prod")
    assert plan.is_empty
    assert pending_work(workspace, plan).sentence() == (
        "not read yet by m.sums: changes since 2024-01-02 01:00 UTC: m.base unknown commits; "
        "computes all rows: the state of m.base that was read is no longer kept"
    )
    with caplog.at_level(logging.WARNING):
        clock.advance(days=20)
        workspace.apply(workspace.plans.due("prod"))
    assert "m.sums computes all rows: the state of m.base that was read is no" in caplog.text


def test_what_was_not_read_yet_is_missing_work_and_foreseen_by_the_run(
    workspace: Workspace, clock: FakeClock
) -> None:
    _days(workspace, clock, 2)
    said = pending_work(workspace, workspace.plan("prod")).to_json()["backlogs"]["m.sums"]
    assert (said["computes"], said["since"]) == ("keys", "2024-01-02T01:00:00Z")
    (base,) = said["tables"]
    assert (base["table"], base["commits"], base["filled_first"]) == ("m.base", 2, False)
    clock.advance(days=40)
    due = workspace.plans.due("prod", save=False)
    (sums,) = (row for row in plan_report(due).work[0].rows if row.cells[0].text == "m.sums")
    assert sums.cells[2].text == "rows that changes affect"
    assert sums.reasons == (
        "changes since 2024-01-02 01:00 UTC: m.base 2 commits, the fills of this plan",
    )


def test_of_a_parent_in_another_table_whose_earlier_one_is_gone_all_is_computed(
    workspace: Workspace, clock: FakeClock
) -> None:
    ProjectFolder(workspace.root).edit("models/base.sql", "AS n", "AS n, 7 AS more")
    workspace.reload()
    workspace.apply(workspace.plan("prod"))

    def why_all() -> str:
        (found,) = pending_work(workspace, workspace.plan("prod")).backlogs.values()
        assert [(one.table, one.commits) for one in found.tables] == [("m.base", None)]
        return found.why_all

    assert why_all() == ""
    for _ in range(3):
        _days(workspace, clock, 2)
        workspace.maintenance.janitor()
    gone = "and the table that the last fill read no longer exists"
    assert why_all() == f"m.base has another table now, {gone}"


def test_a_plan_is_made_though_a_readers_file_is_gone(
    workspace: Workspace, clock: FakeClock
) -> None:
    _days(workspace, clock, 2)
    entry = workspace.store.environments.get("prod").entries[SUMS]
    location = workspace.lakehouse.metadata_location(
        workspace.store.tables.get(entry.table_id or "").ref
    )
    Path((location or "").removeprefix("file:")).unlink()
    assert {one.name: one.backlog for one in workspace.plan("prod").models}[SUMS] is None
