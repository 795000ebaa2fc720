"""What keeps rollbacks from mixing rows: each safeguard is needed, or its story goes wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.errors import ConflictError, ExecutionError
from vde_dagster.execution.environments import restore_data
from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.publishing import finish_publication, publication, publish
from vde_dagster.planning.engine_tasks import FillTask
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.state.db import schema
from vde_dagster.state.environments import pins
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.execution.test_rollback_of_data import FILES, at, develop, restate, run
from vde_dagster_tests.execution.valued import Valued, shown
from vde_dagster_tests.projects import ProjectFolder


class Story:
    """A project of which production shows three days, and what happens to it."""

    def __init__(self, root: Path, engine: Valued, workspace: Workspace) -> None:
        self.folder, self.engine, self.workspace = ProjectFolder(root), engine, workspace

    def check(self, environment: str) -> None:
        """Totals are those of the days that are shown."""
        rows = shown(self.workspace, environment)
        for day, row in rows["totals"].items():
            assert json.loads(row[1]) == rows["daily"][day], "rows of two times are mixed"


def a_plan_that_failed_goes_on(story: Story) -> None:
    """A run writes to branches and dies; production is rolled back; the run is applied again."""
    workspace, engine = story.workspace, story.engine
    engine.sources = 1
    run(workspace, 6)
    plan = workspace.plans.due("prod", now=at(8))
    fill = engine.fill

    def dies(task: FillTask) -> Any:
        if task.snapshot.name.name == "totals":
            raise ExecutionError("killed")
        return fill(task)

    engine.fill = dies  # type: ignore[method-assign]
    with pytest.raises(ExecutionError):
        workspace.apply(plan)
    engine.fill = fill  # type: ignore[method-assign]
    workspace.environments.rollback("prod", 1)
    workspace.apply(workspace.store.plans.load(plan.id))
    made_of = [row[-1] for row in shown(workspace)["daily"].values()]
    assert made_of == [0, 0, 0, 1, 1], "rows came back that were taken back"


def another_environment_has_used_what_goes(story: Story) -> None:
    """`dev` makes totals of restated days; production takes the restatement back."""
    develop(story.workspace, story.folder, 4)
    story.engine.sources = 1
    restate(story.workspace, 2, 4)
    run(story.workspace, 4, "dev")
    story.workspace.environments.rollback("prod", 1)
    story.workspace.apply(story.workspace.plans.due("dev", now=at(4)))
    story.workspace.apply(story.workspace.plan("dev", now=at(4)))
    story.check("dev")


def another_environment_goes_back_alone(story: Story) -> None:
    """`dev` goes back to totals that were made of days that production has restated."""
    develop(story.workspace, story.folder, 4)
    story.engine.sources = 1
    restate(story.workspace, 2, 4)
    run(story.workspace, 4, "dev")
    story.workspace.environments.rollback("dev", 1)
    story.workspace.apply(story.workspace.plans.due("dev", now=at(4)))
    story.workspace.apply(story.workspace.plan("dev", now=at(4)))
    story.check("dev")


def another_environment_comes_meanwhile(story: Story) -> None:
    """While production's rollback is prepared, `dev` is made of the tables that go back."""
    story.engine.sources = 1
    run(story.workspace, 6)
    files = story.workspace.lakehouse.files
    write_all, seen = files.write_all, []

    def meddle(written: Any, point: str) -> None:
        write_all(written, point)
        if point == "publish.file.write" and not seen:
            seen.append({})
            with open_fake(story.folder.root, Valued()) as other:
                other.apply(other.plan("dev", now=at(6)))
                seen[0] = shown(other, "dev")

    files.__dict__["write_all"] = meddle
    try:
        story.workspace.environments.rollback("prod", 1)
    except ConflictError:
        pass
    finally:
        del files.__dict__["write_all"]
    assert shown(story.workspace, "dev") == seen[0], "rows were pulled from under somebody"


def no_end_of_branches(patch: pytest.MonkeyPatch) -> None:
    """Leave branches, and what waits on them, as they are."""

    def restore(connection: Any, table_id: str, filled: IntervalSet) -> None:
        waiting = schema.pending
        kept = connection.execute(waiting.select()).mappings().all()
        pins.restore_filled(connection, table_id, filled)
        connection.execute(waiting.delete())
        if kept:
            connection.execute(waiting.insert(), [dict(row) for row in kept])

    patch.setattr(publication, "attempts", lambda *_: set())
    for module in (publish, finish_publication):
        patch.setattr(module, "restore_filled", restore)


def nothing_outdated(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(restore_data.RestoredData, "as_change", lambda self: None)


def all_filled_as_then(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(restore_data, "_recomputed_ranges", lambda *_: IntervalSet())


def nobody_asked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(publish, "_leave_others_alone", lambda *_: None)


SAFEGUARDS = [
    (no_end_of_branches, a_plan_that_failed_goes_on),
    (nothing_outdated, another_environment_has_used_what_goes),
    (all_filled_as_then, another_environment_goes_back_alone),
    (nobody_asked, another_environment_comes_meanwhile),
]


@pytest.mark.parametrize(
    ("removed", "story"), SAFEGUARDS, ids=lambda value: getattr(value, "__name__", "")
)
@pytest.mark.parametrize("there", [True, False], ids=["there", "removed"])
def test_a_story_goes_wrong_without_its_safeguard(
    removed: Callable[[pytest.MonkeyPatch], None],
    story: Callable[[Story], None],
    there: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = Valued()
    root = ProjectFolder(tmp_path / "project", FILES).root
    with open_fake(root, engine) as workspace:
        workspace.apply(workspace.plan("prod", now=at(4)))
        if there:
            story(Story(root, engine, workspace))
            return
        removed(monkeypatch)
        with pytest.raises(AssertionError, match=r"came back|are mixed|pulled from under"):
            story(Story(root, engine, workspace))
