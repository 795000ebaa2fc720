"""Models that change in place: which table they go on with, and what a rollback tells."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.long

FIRST = datetime(2024, 1, 1, tzinfo=timezone.utc)
DAYS = [Interval(FIRST + timedelta(days=n), FIRST + timedelta(days=n + 1)) for n in range(10)]
PATH = "models/daily.sql"
FILES = {
    PATH: """
        MODEL (name db.daily, start '2024-01-01', physical_version 'one',
          kind INCREMENTAL_BY_TIME_RANGE (time_column (day, '%Y-%m-%d'), forward_only true));
        SELECT CAST('2024-01-01' AS STRING) AS day, CAST('a' AS STRING) AS a
    """
}


def publish(workspace: Workspace, day: int, environment: str = "prod") -> PhysicalTable:
    """Plan and apply on a day of January; return the table that is shown then."""
    workspace.reload()
    now = DAYS[day].start + timedelta(hours=12)
    assert workspace.apply(workspace.plan(environment, now=now)).published
    shown = workspace.store.environments.get(environment)
    assert shown is not None
    return workspace.store.tables.get(shown.entries[ModelName("db", "daily")].table_id or "")


def test_an_earlier_physical_version_goes_on_where_it_ended(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path / "project", FILES)
    with open_fake(folder.root) as workspace:
        one = publish(workspace, 3)
        folder.edit(PATH, "AS a", "AS a, CAST('b' AS STRING) AS b")
        assert publish(workspace, 3).id == one.id
        folder.edit(PATH, "'one'", "'two'")
        two = publish(workspace, 4)
        assert two.id != one.id
        assert not two.mixed
        assert list(two.intervals) == [Interval(DAYS[0].start, DAYS[3].end)]

        folder.edit(PATH, "'two'", "'one'")
        folder.edit(PATH, "AS b", "AS b, CAST('c' AS STRING) AS c")
        preview = publish(workspace, 5, "dev")
        assert preview.preview is not None
        assert preview.preview.of == one.id
        again = publish(workspace, 5)
        assert again.id == one.id
        assert [column.name for column in again.columns] == ["day", "a", "b", "c"]
        assert list(again.intervals) == [Interval(DAYS[0].start, DAYS[4].end)]
        assert workspace.plan("prod", now=DAYS[5].start + timedelta(hours=12)).is_empty

        workspace.environments.rollback("prod", 3)
        shown = workspace.store.environments.get("prod")
        assert shown is not None
        assert shown.entries[ModelName("db", "daily")].table_id == two.id


def test_a_rollback_says_which_columns_change_and_which_rows_stay(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path / "project", FILES)
    with open_fake(folder.root) as workspace:
        publish(workspace, 3)
        folder.edit(PATH, "CAST('a' AS STRING) AS a", "CAST('b' AS STRING) AS b")
        folder.edit(PATH, "forward_only true", "forward_only true, on_destructive_change allow")
        publish(workspace, 3)
        later = DAYS[5].start + timedelta(hours=12)
        assert workspace.apply(workspace.plans.due("prod", now=later)).published
        (back,) = workspace.environments.rollback("prod", 1, dry_run=True).reverted
        assert not back.filled, "with the data as they were, no such row is left"
        (told,) = workspace.environments.rollback("prod", 1, definitions_only=True).reverted
        assert (told.again, told.gone) == (("a",), ("b",))
        assert list(told.filled) == [Interval(DAYS[3].start, DAYS[4].end)]
        assert told.sentences() == (
            "no longer shows b",
            "shows a again",
            "keeps the rows that other definitions filled since "
            "(2024-01-04 … 2024-01-05), NULL in a",
        )
        folder.edit(PATH, "'one'", "'two'")
        publish(workspace, 6)
        back = workspace.environments.rollback("prod", 1, definitions_only=True)
        assert not back.reverted, "another table has its rows as they were"
