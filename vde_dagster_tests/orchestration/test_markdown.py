"""A plan reads like a pull request: work first, then why, what is reused, views, risks."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from io import StringIO
from pathlib import Path

from rich.console import Console

from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.names import SHORT
from vde_dagster.orchestration.pages.report_text import report_markdown, short_markdown
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.reports.document import format_range
from vde_dagster.reports.markdown import MAX_ROWS
from vde_dagster.reports.plan import plan_report, summary
from vde_dagster.reports.plan_json import plan_json
from vde_dagster.terminal.reports import show_report
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.orchestration.conftest import NOW
from vde_dagster_tests.projects import ProjectFolder


def test_the_first_plan_lists_its_work_before_everything_else(built: ProjectFolder) -> None:
    with Workspace.open(built.root) as workspace:
        plan = workspace.plan("prod", now=NOW)
    text = report_markdown(plan_report(plan, {}, lambda model: 10.0), SHORT)
    assert summary(plan) == "6 added, 5 to compute"
    assert text.index("### Computes") < text.index("### Views")
    assert "| `marts.daily` | added | 5 days, 2024-01-01 … 2024-01-05 | 10 s |" in text
    assert "about 50 s (estimated from earlier runs)" in text
    assert "### Why" not in text, "new models need no reasons"


def test_a_changed_model_shows_its_diff_in_a_diff_fence(built: ProjectFolder) -> None:
    from vde_dagster.planning.plan.plan import Category, Change

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
    text = report_markdown(plan_report(plan, {old.id: old}), SHORT)
    assert "```diff" in text
    assert "-SELECT customer, revenue, rank() OVER (ORDER BY revenue DESC) AS place" in text
    assert "+SELECT customer, revenue, rank() OVER (ORDER BY revenue ASC) AS place" in text
    assert "**`marts.top`** **modified, breaking**" in text
    assert text.count("column place is computed differently") == 1, "each thing is said once"


WARNED = {
    "models/last.sql": "MODEL (name db.last, kind FULL);\nSELECT 1 AS n, 'x' = NULL AS empty",
    "models/whole.sql": """MODEL (name db.whole, start '2024-01-01',
  kind INCREMENTAL_BY_TIME_RANGE (time_column day));
SELECT DATE'2024-01-01' AS day""",
}


def test_what_looks_like_a_mistake_is_a_list_of_the_plan_and_counted_in_its_summary(
    tmp_path: Path,
) -> None:
    with Workspace.open(ProjectFolder(tmp_path / "warned", WARNED).root) as workspace:
        plan = workspace.plan("prod", now=NOW)
    assert plan.warnings
    report = plan_report(plan)
    text, short = report_markdown(report, SHORT), short_markdown(report, SHORT)
    listed = text.split("### Likely mistakes\n\n")[1].split("\n\n")[0].splitlines()
    assert len(listed) == len(plan.warnings)
    assert listed[0].startswith("- models/last.sql:2:16: db.last: a comparison with NULL")
    assert listed[0].endswith("Hint: write … IS NULL")
    assert f"- Likely mistakes: {len(listed)}" in short.splitlines()
    clean = plan_report(replace(plan, warnings=()))
    assert "mistake" not in report_markdown(clean, SHORT)
    assert "mistake" not in short_markdown(clean, SHORT)


def test_sql_in_a_warning_is_no_markdown_and_what_is_left_out_is_counted(tmp_path: Path) -> None:
    with Workspace.open(ProjectFolder(tmp_path / "warned", WARNED).root) as workspace:
        plan = workspace.plan("prod", now=NOW)
    said = "a.sql:1:1: a * b <c>\nHint: write a * (b)"
    text = report_markdown(plan_report(replace(plan, warnings=(said,) * (MAX_ROWS + 3)), {}), SHORT)
    assert "- a.sql:1:1: a \\* b &lt;c> Hint: write a \\* (b)\n" in text
    assert text.count("- a.sql:1:1") == MAX_ROWS
    assert "… and 3 more" in text


def test_what_breaks_is_a_list_of_its_own_in_the_summary(built: ProjectFolder) -> None:
    with open_fake(built.root) as workspace:
        workspace.apply(workspace.plan("prod", now=NOW))
        built.edit("models/marts/top.sql", " AS place", " AS position")
        workspace.reload()
        plan = workspace.plan("prod", now=NOW)
    assert plan.breaks
    parts = short_markdown(plan_report(replace(plan, warnings=("a.sql: odd",))), SHORT).split(
        "\n\n"
    )
    assert parts[1].startswith("Plan `")
    assert parts[2] == "### Breaking changes"
    assert parts[3].startswith("- ")
    assert "place" in parts[3]
    assert parts[4].startswith("- Likely mistakes: 1\n")
    assert parts[5].startswith("### Computes")


def test_a_range_of_days_is_written_with_both_its_ends() -> None:
    def at(day: int, hour: int = 0) -> datetime:
        return datetime(2024, 1, day, hour, tzinfo=timezone.utc)

    assert format_range(Interval(at(1), at(2))) == "2024-01-01"
    assert format_range(Interval(at(1), at(6))) == "2024-01-01 … 2024-01-05"
    assert format_range(Interval(at(1, 5), at(1, 6))) == "2024-01-01 05:00 … 2024-01-01 06:00"


def test_a_plan_says_why_a_query_that_is_not_understood_counts_as_changed(
    built: ProjectFolder,
) -> None:
    """As text, as JSON and on Dagster's page, however many columns there are."""
    columns = "".join(f"rand() AS r{number}, " for number in range(6))
    with open_fake(built.root) as workspace:
        built.edit("models/marts/top.sql", "SELECT ", f"SELECT {columns}")
        workspace.reload()
        workspace.apply(workspace.plan("prod", now=NOW))
        previous = {one.id: one for one in workspace.snapshots().values()}
        built.edit("models/marts/top.sql", "rand() AS r0", "rand() * 2 AS r0")
        workspace.reload()
        own = workspace.plan("prod", now=NOW, save=False)
    why = "not understood: unsteady function rand in an expression"
    console = Console(file=StringIO(), width=200)
    show_report(console, plan_report(own))

    assert why in console.file.getvalue()  # type: ignore[attr-defined]
    assert why in report_markdown(plan_report(own, previous), SHORT)
    [top] = [model for model in plan_json(own)["models"] if model["name"] == "marts.top"]
    assert any(why in reason for reason in top["reasons"])
