"""A plan reads like a pull request: work first, then why, what is reused, views, risks."""

from __future__ import annotations

from datetime import datetime, timezone

from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.pages.markdown import plan_markdown, span, summary
from vde_dagster.planning.interval import Interval
from vde_dagster_tests.orchestration.conftest import NOW
from vde_dagster_tests.projects import ProjectFolder


def test_the_first_plan_lists_its_work_before_everything_else(built: ProjectFolder) -> None:
    with Workspace.open(built.root) as workspace:
        plan = workspace.plan("prod", now=NOW)
    text = plan_markdown(plan, {}, lambda model: 10.0)
    assert summary(plan) == "6 added, 5 to compute"
    assert text.index("### Will run") < text.index("### Why") < text.index("### Views")
    assert "| `marts.daily` | 5 | 2024-01-01 … 2024-01-05 | 10 s |" in text
    assert "About 50 s of work" in text
    assert "All 6 models are new here." in text


def test_a_changed_model_shows_its_diff_in_a_diff_fence(built: ProjectFolder) -> None:
    from dataclasses import replace

    from vde_dagster.planning.plan import Category, Change

    with Workspace.open(built.root) as workspace:
        before = workspace.snapshots()
        built.edit("models/marts/top.sql", "DESC", "ASC")
        workspace.reload()
        plan = workspace.plan("prod", now=NOW)
    top = next(m for m in plan.models if m.name.name == "top")
    old = before[top.name]
    changed = replace(
        top,
        change=Change.MODIFIED,
        category=Category.BREAKING,
        previous_snapshot_id=old.id,
        reasons=("column place is computed differently",),
    )
    plan = replace(plan, base_version=3, models=(changed,))
    text = plan_markdown(plan, {old.id: old})
    assert "```diff" in text
    assert "-SELECT customer, revenue, rank() OVER (ORDER BY revenue DESC) AS place" in text
    assert "+SELECT customer, revenue, rank() OVER (ORDER BY revenue ASC) AS place" in text
    assert "**`marts.top`** modified · **breaking**" in text
    assert "### At risk" in text


def test_a_range_of_days_is_written_with_both_its_ends() -> None:
    def at(day: int, hour: int = 0) -> datetime:
        return datetime(2024, 1, day, hour, tzinfo=timezone.utc)

    assert span(Interval(at(1), at(2))) == "2024-01-01"
    assert span(Interval(at(1), at(6))) == "2024-01-01 … 2024-01-05"
    assert span(Interval(at(1, 5), at(1, 6))) == "2024-01-01 05:00 … 2024-01-01 06:00"
