"""Restating what a preview branched off: what it inherited is computed again, its own rows stay."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.engine_tasks import FillResult, FillTask
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.projects import ProjectFolder

FIRST = datetime(2024, 1, 1, tzinfo=timezone.utc)
NOW = FIRST + timedelta(days=4, hours=12)
MODEL = """
    MODEL (name db.daily, start '2024-01-01', kind {kind});
    SELECT CAST('2024-01-01' AS STRING) AS day, CAST('a' AS STRING) AS a
"""
KINDS = {
    "by time": "INCREMENTAL_BY_TIME_RANGE (time_column (day, '%Y-%m-%d'), forward_only true)",
    "by key": "INCREMENTAL_BY_UNIQUE_KEY (unique_key a, forward_only true)",
    "added": "INCREMENTAL_UNMANAGED (disable_restatement false, forward_only true)",
}


def days(first: int, last: int) -> IntervalSet:
    """Days of January, both included."""
    return IntervalSet((Interval(FIRST.replace(day=first), FIRST.replace(day=last + 1)),))


class Watched(FakeSpark):
    """An engine that notes what it fills, and whether everything else goes."""

    def __init__(self) -> None:
        super().__init__()
        self.filled: list[tuple[IntervalSet, bool]] = []

    def fill(self, task: FillTask) -> FillResult:
        """Note it."""
        self.filled.append((IntervalSet((task.interval,)), task.anew))
        return super().fill(task)


@pytest.fixture
def engine() -> Watched:
    return Watched()


@pytest.fixture
def kind() -> str:
    return "by time"


@pytest.fixture
def workspace(tmp_path: Path, engine: Watched, kind: str) -> Iterator[Workspace]:
    """Production for four days, and a preview that computed the fourth."""
    folder = ProjectFolder(
        tmp_path / "project", {"models/daily.sql": MODEL.format(kind=KINDS[kind])}
    )
    with open_fake(folder.root, engine) as opened:
        opened.apply(opened.plan("prod", now=NOW))
        folder.edit("models/daily.sql", "AS a", "AS a, CAST('b' AS STRING) AS b")
        opened.reload()
        assert opened.apply(opened.plan("dev", now=NOW)).published
        engine.filled.clear()
        yield opened


def preview(workspace: Workspace) -> PhysicalTable:
    shown = workspace.store.environments.get("dev")
    assert shown is not None
    table = workspace.store.tables.get(shown.entries[ModelName("db", "daily")].table_id or "")
    assert table.preview is not None
    return table


def restate(workspace: Workspace, first: int) -> None:
    plan = workspace.plan("prod", restate=["db.daily"], start=FIRST.replace(day=first), now=NOW)
    assert [found.environments for found in plan.outdates] == [("dev",)]
    assert workspace.apply(plan).published


def test_only_what_was_inherited_is_computed_again(workspace: Workspace, engine: Watched) -> None:
    restate(workspace, 3)
    table = preview(workspace)
    assert table.preview is not None
    assert (table.intervals, table.preview.inherited) == (days(4, 4), days(1, 4) - days(3, 3))
    engine.filled.clear()
    assert workspace.apply(workspace.plans.due("dev", now=NOW)).published
    assert engine.filled == [(days(3, 3), False)]
    assert preview(workspace).available == days(1, 4)
    assert workspace.plans.due("dev", now=NOW).is_empty


@pytest.mark.parametrize("kind", ["by key", "added"])
def test_what_is_only_computed_again_whole_replaces_all_that_the_branch_had(
    workspace: Workspace, engine: Watched
) -> None:
    restate(workspace, 3)
    assert not preview(workspace).available
    engine.filled.clear()
    assert workspace.apply(workspace.plans.due("dev", now=NOW)).published
    assert engine.filled == [(days(1, 4), True)]
    assert workspace.apply(workspace.plans.due("dev", now=NOW + timedelta(days=1))).published
    assert engine.filled[1:] == [(days(5, 5), False)]


def test_nothing_is_restated_where_a_reader_would_get_an_empty_table_for_it(
    tmp_path: Path, engine: Watched
) -> None:
    week = "MODEL (name db.week, kind FULL); SELECT max(a) AS a FROM db.daily"
    daily = MODEL.format(kind=KINDS["by time"].replace(", forward_only true", ""))
    folder = ProjectFolder(
        tmp_path / "project", {"models/daily.sql": daily, "models/week.sql": week}
    )
    again = {"restate": ["db.daily"], "start": FIRST.replace(day=4), "end": FIRST.replace(day=5)}
    with open_fake(folder.root, engine) as opened:
        for environment in ("prod", "dev"):
            opened.apply(opened.plan(environment, now=NOW))
        folder.edit("models/daily.sql", "'a'", "'b'")
        opened.reload()
        opened.apply(opened.plan("dev", now=NOW, forward_only=True))
        folder.edit("models/daily.sql", "'b'", "'c'")
        opened.reload()
        # Production gets a table of its own, so what dev's preview is read by is dev's alone now.
        opened.apply(opened.plan("prod", now=NOW))
        before = opened.store.environments.get("dev")
        with pytest.raises(UsageError, match=r"would lose filled ranges of db\.week") as refused:
            opened.plan("dev", now=NOW, **again)
        assert refused.value.hint == "fill it first: vde run dev"
        assert opened.store.environments.get("dev") == before
        opened.apply(opened.plans.due("dev", now=NOW))
        assert opened.apply(opened.plan("dev", now=NOW, **again)).published
        shown = opened.store.environments.get("dev")
        assert shown is not None
        tables = opened.store.tables.load(shown.tables)
        assert all(table.available for table in tables.values())
