"""`--restate`: what a plan says of it, for people and as JSON, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.names import SHORT
from vde_dagster.orchestration.pages.report_text import report_markdown, short_markdown
from vde_dagster.reports.plan import plan_report
from vde_dagster.state.fills.fills import FillRecord
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import Prepared, ProjectFolder
from vde_dagster_tests.state.builders import FakeClock

FILES = {
    "models/daily.sql": """
        MODEL (name db.daily, start '2024-01-01', kind INCREMENTAL_BY_TIME_RANGE (time_column day));
        SELECT CAST(@start_ds AS STRING) AS day, 1 AS n
    """,
    "models/newest.sql": """
        MODEL (name db.newest, start '2024-01-01', kind INCREMENTAL_BY_UNIQUE_KEY (unique_key n));
        SELECT n, max(day) AS day FROM db.daily WHERE day BETWEEN @start_ds AND @end_ds GROUP BY n
    """,
    "models/words.csv": "id\n1\n",
    "models/words.sql": "MODEL (name db.words, kind SEED (path 'words.csv'), columns (id INT));",
}
NOW = datetime(2024, 1, 11, tzinfo=timezone.utc)


def publish(root: Path) -> None:
    """Publish production, and a development that made another `db.newest` of the same days."""
    folder = ProjectFolder(root, FILES)
    with open_fake(folder.root, clock=FakeClock(NOW)) as opened:
        opened.apply(opened.plan("prod"))
        folder.edit("models/newest.sql", "max(day)", "min(day)")
        opened.reload()
        opened.apply(opened.plan("dev"))


@pytest.fixture
def workspace(prepared: Prepared) -> Iterator[Workspace]:
    with open_fake(prepared(publish).root, clock=FakeClock(NOW)) as opened:
        yield opened


@pytest.fixture
def asked(workspace: Workspace) -> tuple[object, ...]:
    """Two days of `db.daily` in production."""
    days = ("--start", "2024-01-03", "--end", "2024-01-04")
    return ("plan", "prod", "--restate", "db.daily", *days, "--project", workspace.root)


def test_a_plan_says_what_is_computed_again_what_is_widened_and_what_becomes_outdated(
    asked: tuple[object, ...], vde: Vde
) -> None:
    said = vde(*asked)
    assert said.code == 0
    assert "restatement of prod" in said.out
    assert "db.daily  unchanged  2 days, 2024-01-03 … 2024-01-04, computed again" in said.out
    assert "db.newest  unchanged  10 days, 2024-01-01 … 2024-01-10, computed again" in said.out
    assert "makes outdated 1 table, recomputed by the next runs" in said.out
    assert "db.newest  of dev  whole table" in said.out
    warning = " ".join(said.out.split("warning: ")[1].split())
    assert warning.startswith("db.newest is computed again from 2024-01-01 00:00 UTC on: kind")
    assert "makes outdated 1 table, recomputed" in vde(*asked, "--summary").out


def test_the_json_says_the_same_and_the_other_spelling_means_the_same(
    asked: tuple[object, ...], vde: Vde
) -> None:
    plan = vde(*asked, "--json").json
    assert plan["kind"] == "restatement"
    models = {model["name"]: model for model in plan["models"]}
    assert [name for name, model in models.items() if model["restate"]] == ["db.daily", "db.newest"]
    (outdated,) = plan["outdates"]
    assert (outdated["name"], outdated["environments"]) == ("db.newest", ["dev"])
    other = vde(*("--restate-model" if a == "--restate" else a for a in asked), "--json").json
    assert (other["models"], other["outdates"]) == (plan["models"], plan["outdates"])


def test_the_page_says_it_before_anybody_approves(workspace: Workspace) -> None:
    plan = workspace.plan("prod", restate=["db.daily"], start=NOW.replace(day=3))
    text = report_markdown(plan_report(plan, {}), SHORT)
    assert text.startswith("## Restatement of `prod`")
    assert "### Notes" in text
    assert "| `db.newest` | of dev | whole table |" in text
    assert "Makes outdated 1 table" in short_markdown(plan_report(plan), SHORT)


def test_the_work_is_estimated_by_earlier_fills(workspace: Workspace) -> None:
    plan = workspace.plan("prod", restate=["db.daily"], start=NOW.replace(day=6))
    (table_id,) = {m.table.id for m in plan.models if m.table and m.name.name == "daily"}
    (fill,) = workspace.store.fills.log(table_id)
    interval = next(iter(workspace.store.tables.get(table_id).intervals))
    workspace.store.fills.record(
        FillRecord(table_id, interval, fill.plan_id, fill.iceberg_snapshot_id, 500, seconds=20.0)
    )
    found = workspace.plans.estimate(plan).models[ModelName("db", "daily")]
    assert found.rows is not None
    assert found.seconds is not None
    # Half of the range.
    assert (found.rows.expected, found.fills) == (250, 1)
    assert found.seconds.expected == 10.0


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (("prod", "--restate", "db.dayly"), "no model matches 'db.dayly'", "db.daily"),
        (("prod", "--restate", "db.words"), "db.words is not computed again", "edit the file"),
        (("dev", "--restate", "db.daily"), "production shows its table", "vde plan prod --restate"),
        (
            ("stage", "--restate", "db.daily"),
            "environment 'stage' does not exist",
            "to create it, run",
        ),
        (
            ("prod", "--restate", "db.daily", "--skip-backfill"),
            "--restate cannot be combined with --skip-backfill",
            "leave --skip-backfill out",
        ),
        (
            ("prod", "--restate", "db.daily", "--forward-only"),
            "--restate cannot be combined with --forward-only",
            "leave --forward-only out",
        ),
        (
            ("prod", "--restate", "db.daily", "--min-intervals", "3"),
            "--restate cannot be combined with --min-intervals",
            "leave --min-intervals out",
        ),
        *(
            (
                ("prod", "--restate", "db.daily", option),
                f"--restate cannot be combined with {option}",
                f"leave {option} out",
            )
            for option in ("--ignore-cron", "--no-gaps", "--remove-models")
        ),
    ],
    ids=[
        *("unknown", "seed", "of production", "no environment", "no backfill"),
        *("in place", "latest", "without ticks", "gaps", "removals"),
    ],
)
def test_what_makes_no_sense_is_one_message_and_changes_nothing(
    words: tuple[str, ...], message: str, hint: str, workspace: Workspace, vde: Vde
) -> None:
    before = len(workspace.store.plans.recent())
    ended = vde("plan", *words, "--project", workspace.root)
    told = " ".join(ended.err.split())
    assert ended.code == 2
    assert message in told
    assert hint in told
    assert len(workspace.store.plans.recent()) == before


def test_nothing_in_the_range_is_nothing_to_do(workspace: Workspace, vde: Vde) -> None:
    words = ("--restate", "db.daily", "--start", "2023-01-01", "--end", "2023-02-01")
    said = vde("plan", "prod", *words, "--project", workspace.root)
    assert said.out == "prod: nothing to restate in this range\n"
