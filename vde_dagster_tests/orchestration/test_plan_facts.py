"""Everything that a plan does to tables is on its page before anybody approves it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dagster as dg
import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.events.plans import applied_event
from vde_dagster.orchestration.models.catalog import AssetCatalog
from vde_dagster.orchestration.names import SHORT
from vde_dagster.orchestration.pages.plan_page import plan_metadata, waiting_plans
from vde_dagster.orchestration.pages.report_text import short_markdown
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.reports.plan import plan_report
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.orchestration.conftest import told_of
from vde_dagster_tests.projects import Prepared, ProjectFolder

NOW = datetime(2024, 1, 4, 12, tzinfo=timezone.utc)
DAILY = """
    MODEL (name db.daily, start '2024-01-01',
      kind INCREMENTAL_BY_TIME_RANGE (time_column day, forward_only true));
    SELECT '1' AS n, '2024-01-01' AS day
"""
READER = """
    MODEL (name db.reader, start '2024-01-01',
      kind INCREMENTAL_BY_TIME_RANGE (time_column day));
    SELECT n, day FROM db.daily WHERE day BETWEEN @start_date AND @end_date
"""
TOTAL = "MODEL (name db.total, kind FULL); SELECT max(n) AS n FROM db.daily"


def published(root: Path) -> None:
    ProjectFolder(
        root, {"models/daily.sql": DAILY, "models/reader.sql": READER, "models/total.sql": TOTAL}
    )
    with open_fake(root) as workspace:
        workspace.apply(workspace.plan("prod", now=NOW))


@pytest.fixture
def folder(prepared: Prepared) -> ProjectFolder:
    """A project that production shows."""
    return prepared(published)


def page(workspace: Workspace, plan: Plan) -> tuple[str, dict[str, str], str]:
    """Return the page's text, what it says is computed by model, and the short text."""
    shown: dict[str, Any] = plan_metadata(workspace.store, plan)
    text = str(shown["plan"].value)
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    short = short_markdown(plan_report(plan), SHORT)
    return text, {row[0][3:-1]: row[2] for row in rows[::-1] if len(row) > 3}, short


def test_a_change_in_place_says_where_it_is_previewed_and_what_the_deployment_does(
    folder: ProjectFolder,
) -> None:
    folder.edit("models/daily.sql", "'1' AS n,", "'1' AS n, '2' AS more,")
    with open_fake(folder.root) as workspace:
        plan = workspace.plan("dev", now=NOW)
        text, _, short = page(workspace, plan)
        assert "forward-only: previewed on a branch of" in text
        assert "in place: db.daily: forward-only: previewed on a branch of" in short
        since = NOW - timedelta(days=2)
        plan = workspace.plan("prod", now=NOW, effective_from=since.replace(hour=0))
        text, records, short = page(workspace, plan)
        assert "in place: db.daily: " in short
    assert "keeps its rows; the new definition fills later ones" in text
    assert "column more" in text
    assert "rows from 2024-01-02 00:00 UTC on are computed again" in text
    assert "a rollback shows the earlier columns" in text
    assert text.index("### At risk") < text.index("changes a table that readers see")
    assert "2024-01-02 … 2024-01-03" in records["db.daily"]


def test_a_restatement_says_what_is_computed_again_and_what_is_outdated_elsewhere(
    folder: ProjectFolder,
) -> None:
    folder.edit("models/reader.sql", "SELECT n, day", "SELECT upper(n) AS n, day")
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("dev", now=NOW))
        plan = workspace.plan(
            "prod",
            now=NOW,
            restate=("db.daily",),
            start=datetime(2024, 1, 2, tzinfo=timezone.utc),
            end=datetime(2024, 1, 3, tzinfo=timezone.utc),
        )
        text, records, short = page(workspace, plan)
    assert text.startswith("## Restatement of `prod`")
    assert "| `db.daily` | unchanged | 1 day, 2024-01-02, computed again |" in text
    assert records["db.daily"] == "1 day, 2024-01-02, computed again"
    assert records["db.total"] == "whole table, computed again"
    outdated = "Makes outdated 1 table, recomputed by the next runs"
    assert "`db.reader`" in text.partition(f"### {outdated}")[2]
    assert outdated in short


def test_what_is_only_recorded_and_what_is_missing_are_told_apart(
    folder: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    later = NOW + timedelta(days=1)
    with open_fake(folder.root) as workspace:
        plan = workspace.plans.due("prod", now=later)
        _, records, _ = page(workspace, plan)
        assert records["db.daily"] == "1 day, 2024-01-04"
    folder.edit("models/daily.sql", "forward_only true", "forward_only false")
    folder.edit("models/daily.sql", "'1' AS n", "'7' AS n")
    with open_fake(folder.root) as workspace:
        plan = workspace.plan("dev", now=NOW, empty_backfill=True)
        _, records, _ = page(workspace, plan)
        facts = plan_metadata(workspace.store, plan)
        assert (facts["vde/computes"], facts["vde/skips"]) == (0, 0)
        live: Any = SimpleNamespace(waiting=(plan,), read_at=None)
        listed = waiting_plans(cast(AssetCatalog, SimpleNamespace(live=live, names=SHORT)))
        assert listed.endswith("computes nothing; records 3 models as filled")
        result = workspace.apply(plan)
        done = applied_event(told_of(workspace, instance), result.plan, result.environment)
        assert (done.metadata["vde/models_computed"].value, result.computed) == (0, 0)
    assert (
        records["db.daily"] == "3 days, 2024-01-01 … 2024-01-03, recorded as filled, not computed"
    )
