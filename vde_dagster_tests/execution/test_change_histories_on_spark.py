"""Copies that follow random histories of real tables, by changes and by the catalog's views."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.execution.spark_history import HOW, MODELS, History
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.spark


@pytest.mark.turns(8, "histories on Spark")
@pytest.mark.parametrize(("how", "seed"), zip(HOW, (5, 8, 11), strict=True))
def test_copies_follow_a_random_history(
    how: str, seed: int, tmp_path: Path, open_workspace: Callable[[ProjectFolder], Workspace]
) -> None:
    history = History(ProjectFolder(tmp_path / "shop"), open_workspace, how, seed)
    for _ in range(6):
        history.step()
    found: Counter[str | None] = Counter()
    last = history.copies.last
    for model in MODELS:
        for until in range(1, last + 1):
            for since in range(until + 1):
                found[history.copies.check_view(model, since, until)] += 1
        for _ in range(3):
            since, until = (history.dice.randint(1, last) for _ in range(2))
            history.copies.check_net(model, since, until)
        history.copies.check_each(model, history.dice.randint(0, last), last)
    assert min(found["resync"], found["steps"]) > 5, (history.did, found)


def test_each_step_reads_its_own_commits(
    tmp_path: Path, open_workspace: Callable[[ProjectFolder], Workspace]
) -> None:
    history = History(ProjectFolder(tmp_path / "shop"), open_workspace, "copy-on-write", 1)
    history.day += 1
    history._publish(run=True)
    between = history.workspace.changes.between("prod", "shop.days", 1, each=True)
    assert [step.method for step in between.steps] == ["commits", "commits"]
    assert history.copies.check_each("shop.days", 1, 3) == 2
    assert history.copies.check_view("shop.days", 1, 3) == "steps"
    parts = [f"SELECT day FROM changes('shop.days', {v}, {v + 1})" for v in (1, 2)]
    both = " UNION ALL ".join(parts)
    days = {str(row[0]) for row in history.workspace.query("prod", both).rows}
    assert days == {"2024-01-02", "2024-01-03"}


def test_a_reader_of_the_last_version_reads_no_earlier_one(
    tmp_path: Path, open_workspace: Callable[[ProjectFolder], Workspace]
) -> None:
    history = History(ProjectFolder(tmp_path / "shop"), open_workspace, "lineage", 1)
    session = history.workspace.engine().session  # type: ignore[attr-defined]
    view = f"{history.workspace.settings.catalog}.shop.days__changes"
    plans = [
        session.sql(f"SELECT * FROM {view} WHERE _version > {version}")
        ._jdf.queryExecution()
        .optimizedPlan()
        .toString()
        for version in (0, 1, 2)
    ]
    assert [plan.count("RelationV2") > 0 for plan in plans] == [True, True, False]
    assert plans[1].count("RelationV2") < plans[0].count("RelationV2")
