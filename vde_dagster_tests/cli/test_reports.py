"""Reports say the same sentences on a terminal and on Dagster's pages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from vde_dagster.cli.report_view import show_audits
from vde_dagster.execution.environments.compare import DataChange
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.names import SHORT
from vde_dagster.orchestration.pages.report_text import report_markdown, short_markdown
from vde_dagster.overviews.environments import data_summary
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.reports.document import Report
from vde_dagster.reports.markdown import MAX_COMMENT, plan_comment, without_mentions
from vde_dagster.reports.plan import plan_report
from vde_dagster.terminal.reports import show_report, show_summary
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder

NOW = datetime(2024, 1, 4, 12, tzinfo=timezone.utc)
FILES = {
    "models/daily.sql": """MODEL (name db.daily, start '2024-01-01',
      kind INCREMENTAL_BY_TIME_RANGE (time_column day, forward_only true));
    SELECT '1' AS n, '2024-01-01' AS day""",
    "models/view.sql": "MODEL (name db.shown, kind VIEW); SELECT n, 1 AS gone FROM db.daily",
    "models/total.sql": "MODEL (name db.total, kind FULL); SELECT max(n) AS n FROM db.daily",
}


def first(workspace: Workspace, folder: ProjectFolder) -> Plan:
    return workspace.plan("dev", now=NOW)


def nothing(workspace: Workspace, folder: ProjectFolder) -> Plan:
    return workspace.plan("prod", now=NOW)


def edited(workspace: Workspace, folder: ProjectFolder) -> Plan:
    folder.edit("models/view.sql", "1 AS gone", "'x' = NULL AS odd")
    folder.edit("models/total.sql", "max(n)", "min(n)")
    folder.edit("models/daily.sql", "'1' AS n,", "'1' AS n, '2' AS more,")
    workspace.reload()
    return workspace.plan("prod", now=NOW)


def removed(workspace: Workspace, folder: ProjectFolder) -> Plan:
    (folder.root / "models/total.sql").unlink()
    workspace.reload()
    return workspace.plan("prod", now=NOW)


def due(workspace: Workspace, folder: ProjectFolder) -> Plan:
    return workspace.plans.due("prod", now=NOW.replace(day=5))


def restated(workspace: Workspace, folder: ProjectFolder) -> Plan:
    return workspace.plan("prod", now=NOW, restate=("db.daily",), start=NOW.replace(day=2, hour=0))


def texts(report: Report) -> Iterator[str]:
    """Yield everything that a report says."""
    yield from (report.subject, report.summary, report.id, *report.warnings)
    yield report.facts if report.id else ""
    for section in (*([report.breaks] if report.breaks else []), *report.work, *report.rest):
        yield section.heading
        for row in section.rows:
            yield from (*(cell.text for cell in row.cells), *row.reasons, *row.diff)


def words(text: str) -> str:
    """Return a text without what only its medium has: signs, spaces and capital letters."""
    return re.sub(r"[^\w=']+", " ", text.replace("\\", "").replace("&lt;", "<")).lower()


def made(
    make: Callable[[Workspace, ProjectFolder], Plan], root: Path
) -> tuple[Plan, Mapping[str, Snapshot]]:
    """Make a plan of a project that is in production, and return it with what it replaces."""
    folder = ProjectFolder(root / "project", FILES)
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod", now=NOW))
        plan = make(workspace, folder)
        ids = [m.previous_snapshot_id for m in plan.models if m.previous_snapshot_id]
        return plan, workspace.store.snapshots.load(ids)


@pytest.mark.parametrize("make", [first, nothing, edited, removed, due, restated])
def test_terminal_and_dagster_say_every_sentence_of_a_plan(
    make: Callable[[Workspace, ProjectFolder], Plan], tmp_path: Path
) -> None:
    plan, previous = made(make, tmp_path)
    report = plan_report(plan, previous, lambda model: 10.0)
    for show, write in ((show_report, report_markdown), (show_summary, short_markdown)):
        console = Console(file=StringIO(), width=400)
        show(console, report)
        pages = words(console.file.getvalue()), words(write(report, SHORT))  # type: ignore[attr-defined]
        said = list(texts(report)) if show is show_report else [report.summary, *report.short]
        # Dagster's tables cut words that are too long for 600 pixels in their middle.
        whole = [part for text in said for part in re.split(r"\S{20,}", text)]
        assert [text for text in said if words(text).strip() not in pages[0]] == []
        assert [text for text in whole if words(text).strip() not in pages[1]] == []


@pytest.mark.parametrize("make", [first, nothing, edited, removed, due, restated])
def test_a_comment_says_every_sentence_of_a_plan_and_mentions_nobody(
    make: Callable[[Workspace, ProjectFolder], Plan], tmp_path: Path
) -> None:
    plan, previous = made(make, tmp_path)
    plan = replace(plan, warnings=("ask @anna of <b>sales</b>",))
    report, comment = plan_report(plan, previous), plan_comment(plan, previous)
    assert comment.startswith(f"<!-- vde plan {plan.environment} -->\n")
    said = words(comment.replace("\u2060", ""))
    assert [text for text in texts(report) if words(text).strip() not in said] == []
    assert "@anna" not in comment
    assert comment.count("<details>") == comment.count("</details>")
    if plan.breaks:
        assert comment.index("Breaking changes") < comment.index("<details>")


def test_only_a_line_of_backquotes_begins_code_that_may_mention_somebody() -> None:
    code = "```diff\n+@ann\n```"
    assert without_mentions(code) == code
    assert without_mentions("| ``` | @ann |") == "| ``` | @\u2060ann |"


@pytest.mark.proof
def test_a_comment_of_a_large_plan_has_what_breaks_and_room_for_no_more(tmp_path: Path) -> None:
    text = f"MODEL (name db.m{{}}, kind FULL); SELECT 1 AS gone, {' + '.join('1' * 40)} AS n"
    many = {f"models/m{number}.sql": text.format(number) for number in range(300)}
    folder = ProjectFolder(tmp_path / "project", many)
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod", now=NOW))
        for path in many:
            folder.edit(path, "1 AS gone, 1 +", "\n".join(f"{n} +" for n in range(30)))
        workspace.reload()
        plan = workspace.plan("prod", now=NOW)
        previous = workspace.store.snapshots.load(
            [m.previous_snapshot_id for m in plan.models if m.previous_snapshot_id]
        )
    report = plan_report(plan, previous)
    assert len(plan_comment(plan)) < len(report_markdown(report, SHORT))
    comment = plan_comment(plan, previous)
    assert len(comment) < MAX_COMMENT
    assert "db.m0.gone is removed" in comment
    assert len(comment) > MAX_COMMENT // 2, "what changed is told of as many as there is room for"
    assert "Reasons and changes: 300 models" in comment


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ([], ""),
        ([(False, False, 10, 2), (False, False, 1000, 0)], "2 tables +1,010 -2 rows"),
        ([(False, False, None, None), (True, False, None, None)], "1 table, 1 new table"),
        ([(True, True, None, None), (False, False, 0, 1)], "1 table +0 -1 rows, 1 earlier table"),
    ],
)
def test_changes_of_data_are_summed_up_by_tables_and_rows(
    tables: list[tuple[bool, bool, int | None, int | None]], said: str
) -> None:
    changes = [
        DataChange((), new, back, None, added, removed, IntervalSet())
        for new, back, added, removed in tables
    ]
    assert data_summary(changes) == said


def test_a_table_that_a_rollback_brings_back_is_no_new_one(tmp_path: Path, vde: Vde) -> None:
    text = "MODEL (name db.m, kind FULL); SELECT {} AS n"
    folder = ProjectFolder(tmp_path / "shop", {"models/m.sql": text.format(1)})
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        folder.write("models/m.sql", text.format(2))
        workspace.reload()
        workspace.apply(workspace.plan("prod"))
        workspace.environments.rollback("prod", 1)
    shown = vde("history", "prod", "--project", folder.root).out
    back, second, first = (
        next(line for line in shown.splitlines() if line.split()[:1] == [str(version)])
        for version in (3, 2, 1)
    )
    assert "1 earlier table" in back
    assert "new table" not in back
    assert "1 new table" in second
    assert "1 new table" in first
    told = vde("history", "prod", "--project", folder.root, "--json").json
    assert '"back": true' in json.dumps(told)


def test_the_ranges_of_audits_are_written_like_those_of_plans() -> None:
    found = SimpleNamespace(
        model="m.daily",
        audit=SimpleNamespace(label="not_null", blocking=True),
        interval=Interval.parse("2024-01-01T00:00:00Z/2024-01-08T00:00:00Z"),
        result=SimpleNamespace(failed_rows=0, sample=()),
    )
    run = SimpleNamespace(environment="prod", version=4)
    report: Any = SimpleNamespace(results=[found], failed=[], unbuilt=[], run=run)
    console = Console(file=StringIO(), width=200)
    show_audits(console, report)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "m.daily   not_null   blocks   2024-01-01 … 2024-01-07   0" in text
