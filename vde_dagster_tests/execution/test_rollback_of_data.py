"""Rollback restores data as well as definitions: what is shown, and what counts as filled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ConflictError, UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.metadata.changes import remove_snapshots
from vde_dagster.lakehouse.publishing.commit import change_table, read_table
from vde_dagster.overviews.environments import rollback_report
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.state.db.leases import table_lease
from vde_dagster.terminal.reports import report_text
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.execution.valued import Valued, shown
from vde_dagster_tests.projects import ProjectFolder

FIRST = datetime(2024, 1, 1, tzinfo=timezone.utc)
DAILY, TOTALS, WEEK = ModelName("db", "daily"), ModelName("db", "totals"), ModelName("db", "week")
FILES = {
    "models/daily.sql": """
        MODEL (name db.daily, kind INCREMENTAL_BY_TIME_RANGE (time_column day, batch_size 1),
          start '2024-01-01');
        SELECT CAST('2024-01-01' AS DATE) AS day, 1 AS n
    """,
    "models/totals.sql": """
        MODEL (name db.totals, kind INCREMENTAL_BY_TIME_RANGE (time_column day, batch_size 1),
          start '2024-01-01');
        SELECT day, sum(n) AS n FROM db.daily
        WHERE day BETWEEN @start_date AND @end_date GROUP BY day
    """,
    "models/week.sql": "MODEL (name db.week, kind FULL); SELECT sum(n) AS n FROM db.totals",
}


def at(day: int) -> datetime:
    """Noon of a day of January."""
    return FIRST.replace(day=day) + timedelta(hours=12)


def days(first: int, last: int) -> IntervalSet:
    """Days of January, both included."""
    return IntervalSet((Interval(FIRST.replace(day=first), FIRST.replace(day=last + 1)),))


@pytest.fixture
def engine() -> Valued:
    return Valued()


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "project", FILES)


@pytest.fixture
def workspace(folder: ProjectFolder, engine: Valued) -> Iterator[Workspace]:
    """Production up to the third of January, as version 1."""
    with open_fake(folder.root, engine) as opened:
        opened.apply(opened.plan("prod", now=at(4)))
        yield opened


def run(workspace: Workspace, day: int, environment: str = "prod") -> None:
    assert workspace.apply(workspace.plans.due(environment, now=at(day))).published


def restate(workspace: Workspace, day: int, now: int, environment: str = "prod") -> None:
    start = FIRST.replace(day=day)
    plan = workspace.plan(
        environment,
        restate=["db.daily"],
        start=start,
        end=start + timedelta(days=1),
        now=at(now),
    )
    assert workspace.apply(plan).published


def filled(workspace: Workspace, model: ModelName, environment: str = "prod") -> IntervalSet:
    entry = workspace.store.environments.entry(environment, model)
    assert entry is not None
    return workspace.store.tables.get(entry.table_id or "").intervals


def test_a_bad_run_is_taken_back_with_what_counted_as_filled(
    workspace: Workspace, engine: Valued
) -> None:
    before = shown(workspace)
    engine.sources = 1
    run(workspace, 6)
    assert shown(workspace) != before
    result = workspace.environments.rollback("prod")
    assert result.restored == 1
    assert shown(workspace) == before
    assert set(result.moved) == {DAILY, TOTALS, WEEK}
    assert filled(workspace, DAILY) == filled(workspace, TOTALS) == days(1, 3)
    assert set(result.missing) >= {DAILY, TOTALS}


def test_a_run_after_a_rollback_computes_what_the_rollback_took_back(
    workspace: Workspace, engine: Valued, tmp_path: Path
) -> None:
    engine.sources = 1
    run(workspace, 6)
    wrong = shown(workspace)
    workspace.environments.rollback("prod")
    engine.sources = 2
    run(workspace, 6)
    now = shown(workspace)
    assert now != wrong
    assert [rows[-1] for rows in now["daily"].values()] == [0, 0, 0, 2, 2]
    assert workspace.plan("prod", now=at(6)).is_empty


def test_a_bad_restatement_is_taken_back(workspace: Workspace, engine: Valued) -> None:
    before = shown(workspace)
    engine.sources = 1
    restate(workspace, 2, 4)
    assert shown(workspace)["totals"] != before["totals"]
    workspace.environments.rollback("prod")
    assert shown(workspace) == before
    assert workspace.plan("prod", now=at(4)).is_empty


def test_going_forward_again_shows_the_newer_data_and_computes_nothing(
    workspace: Workspace, engine: Valued
) -> None:
    engine.sources = 1
    run(workspace, 6)
    newer = shown(workspace)
    workspace.environments.rollback("prod")
    result = workspace.environments.rollback("prod", 2)
    assert shown(workspace) == newer
    assert not workspace.plans.due("prod", now=at(6)).builds
    assert result.environment.version == 4


def test_the_data_stay_where_only_definitions_go_back(
    workspace: Workspace, folder: ProjectFolder, engine: Valued
) -> None:
    folder.edit("models/week.sql", "sum(n)", "max(n)")
    workspace.reload()
    workspace.apply(workspace.plan("prod", now=at(4)))
    engine.sources = 1
    run(workspace, 6)
    rows = shown(workspace)
    result = workspace.environments.rollback("prod", 1, definitions_only=True)
    assert result.moved == {}
    assert result.environment.note == "rollback to 1, definitions only"
    assert {name: rows[name] for name in ("daily", "totals")} == {
        name: shown(workspace)[name] for name in ("daily", "totals")
    }
    assert filled(workspace, DAILY) == days(1, 5)


def test_a_dry_run_says_the_same_and_changes_nothing(workspace: Workspace, engine: Valued) -> None:
    run(workspace, 6)
    before = shown(workspace)
    told = workspace.environments.rollback("prod", dry_run=True)
    assert shown(workspace) == before
    assert workspace.store.environments.get("prod").version == 2  # type: ignore[union-attr]
    done = workspace.environments.rollback("prod")
    assert replace(told, environment=done.environment) == done
    assert done.environment.version == told.environment.version == 3


def test_a_dry_run_lists_views_versions_and_rows_like_a_plan(
    workspace: Workspace, folder: ProjectFolder
) -> None:
    folder.edit("models/week.sql", "sum(n)", "max(n)")
    folder.write("models/more.sql", "MODEL (name db.more, kind FULL); SELECT 1 AS n")
    workspace.reload()
    workspace.apply(workspace.plan("prod", now=at(4)))
    run(workspace, 6)
    told = workspace.environments.rollback("prod", 1, dry_run=True)
    changes = {str(view.name): view.change for view in told.views}
    assert changes == {"db.more": "dropped", "db.week": "replaced"}
    (week,) = (view for view in told.views if view.name == WEEK)
    text = report_text(rollback_report(told), 120).splitlines()
    assert text[:4] == [
        "rollback of prod: version 3 → 4, equal to version 1 · dry run, nothing was changed",
        "├── views 1 replaced, 1 dropped",
        f"│   ├── db.more  dropped  {told.views[0].before}",
        f"│   └── db.week  replaced  {week.before} → {week.after}",
    ]
    assert text[4] == "├── data 2 tables restored"
    assert [line for line in text if "vde run prod" in line]
    assert text[-1].endswith("version 3: to return to it, run: vde rollback prod --to 3")


def test_a_dry_run_of_definitions_leaves_the_rows(workspace: Workspace) -> None:
    run(workspace, 6)
    told = workspace.environments.rollback("prod", 1, definitions_only=True, dry_run=True)
    text = report_text(rollback_report(told), 120)
    assert "├── views unchanged\n├── data unchanged\n├── leaves 3 models as they are" in text
    assert "the rows of all tables (--definitions-only)" in text


def develop(workspace: Workspace, folder: ProjectFolder, day: int) -> None:
    """Let `dev` have totals of its own, over production's days."""
    folder.edit("models/totals.sql", "sum(n)", "max(n)")
    workspace.reload()
    assert workspace.apply(workspace.plan("dev", now=at(day))).published


def test_another_environment_goes_on_showing_what_it_showed(
    workspace: Workspace, folder: ProjectFolder, engine: Valued
) -> None:
    engine.sources = 1
    run(workspace, 6)
    develop(workspace, folder, 6)
    theirs = shown(workspace, "dev")
    result = workspace.environments.rollback("prod", 1)
    assert result.holding == {"dev": (DAILY,)}
    assert shown(workspace, "dev") == theirs
    dev = workspace.store.environments.get("dev")
    assert dev is not None
    assert dev.version == 2
    assert dev.note == "keeps its data: prod was rolled back"
    assert dev.entries[DAILY].held is not None
    assert workspace.apply(workspace.plan("dev", now=at(4))).published
    assert shown(workspace, "dev")["daily"] == shown(workspace)["daily"]


def test_what_an_environment_made_of_rows_that_went_is_computed_again_by_its_next_plan(
    workspace: Workspace, folder: ProjectFolder, engine: Valued
) -> None:
    develop(workspace, folder, 4)
    engine.sources = 1
    restate(workspace, 2, 4)
    run(workspace, 4, "dev")
    assert "[1]" not in str(shown(workspace, "dev")["totals"])
    workspace.environments.rollback("prod", 1)
    plan = workspace.plans.due("dev", now=at(4))
    assert {model.name: model.intervals for model in plan.builds}[TOTALS] == days(2, 2)
    workspace.apply(plan)
    rows = shown(workspace, "dev")
    assert rows["daily"] == shown(workspace)["daily"]
    assert all(json.loads(made[1]) == rows["daily"][day] for day, made in rows["totals"].items())
    dev = workspace.store.environments.get("dev")
    assert dev is not None
    assert not dev.pinned_states


def test_an_environment_goes_back_alone_and_holds_what_production_shows(
    workspace: Workspace, folder: ProjectFolder, engine: Valued
) -> None:
    develop(workspace, folder, 4)
    before = shown(workspace, "dev")
    engine.sources = 1
    restate(workspace, 2, 4)
    run(workspace, 4, "dev")
    production = shown(workspace)
    assert shown(workspace, "dev") != before
    result = workspace.environments.rollback("dev", 1)
    assert result.held == (DAILY,)
    assert set(result.moved) == {TOTALS, WEEK}
    assert shown(workspace, "dev") == before
    assert shown(workspace) == production
    # What it made of rows that production has given up has to be computed again.
    assert result.missing[TOTALS] & days(1, 3) == days(2, 2)
    run(workspace, 4, "dev")
    rows = shown(workspace, "dev")
    assert rows["daily"] == production["daily"]
    assert all(json.loads(made[1]) == rows["daily"][day] for day, made in rows["totals"].items())


def test_a_version_whose_data_are_gone_is_refused(workspace: Workspace) -> None:
    run(workspace, 6)
    entry = workspace.store.environments.entry("prod", DAILY)
    ref = workspace.store.tables.get(entry.table_id or "").ref  # type: ignore[union-attr]
    table = read_table(workspace.lakehouse, ref)
    gone = [one["snapshot-id"] for one in table.metadata["snapshots"][:-1]]
    fewer = remove_snapshots(table.metadata, gone)
    change_table(workspace.lakehouse, table, ref, fewer, "test")
    with pytest.raises(
        UsageError, match=r"the snapshots of db\.daily at that time were expired"
    ) as refused:
        workspace.environments.rollback("prod", 1)
    assert "vde rollback prod --to 1 --definitions-only" in (refused.value.hint or "")
    workspace.environments.rollback("prod", 1, definitions_only=True)


def test_a_version_of_before_there_were_pins_is_refused(workspace: Workspace) -> None:
    run(workspace, 6)
    with workspace.store.database.transaction() as conn:
        conn.exec_driver_sql("UPDATE vde_pins SET filled = NULL WHERE valid_from = 1")
    with pytest.raises(UsageError, match="was not recorded"):
        workspace.environments.rollback("prod", 1)


def test_a_table_that_somebody_fills_is_not_taken_from_under_them(workspace: Workspace) -> None:
    run(workspace, 6)
    entry = workspace.store.environments.entry("prod", DAILY)
    lease = table_lease((entry.table_id or "") if entry else "")
    before = shown(workspace)
    with (
        workspace.store.leases.holding(lease, "somebody"),
        pytest.raises(ConflictError, match="is in use by somebody"),
    ):
        workspace.environments.rollback("prod", 1)
    assert shown(workspace) == before
    workspace.environments.rollback("prod", 1)
