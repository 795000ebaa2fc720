"""Freezing from Dagster, and what it shows of frozen environments until they are over."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import dagster as dg
import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.events.sync import sync
from vde_dagster.orchestration.names import SHORT
from vde_dagster.orchestration.resource import lend
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.execution.test_rollback_of_data import FILES
from vde_dagster_tests.execution.valued import Valued, shown
from vde_dagster_tests.orchestration.conftest import partitions_of, run_job
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.builders import FakeClock

DAILY = "db/daily"


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "project", FILES)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(datetime(2024, 1, 4, 12, tzinfo=timezone.utc))


@pytest.fixture
def workspace(
    folder: ProjectFolder, clock: FakeClock, instance: dg.DagsterInstance
) -> Iterator[Workspace]:
    """Production with three days, run again with a fourth; Dagster knows it."""
    engine = Valued()
    with open_fake(folder.root, engine, clock=clock) as opened, lend(opened):
        opened.apply(opened.plan("prod"))
        clock.advance(days=1)
        engine.sources = 1
        opened.apply(opened.plans.due("prod"))
        sync(opened, instance)
        yield opened


def freeze(
    folder: ProjectFolder, instance: dg.DagsterInstance, **config: object
) -> dg.ExecuteInProcessResult:
    return run_job(folder, instance, "vde_freeze", config, op="freeze")


def environments(instance: dg.DagsterInstance) -> set[str]:
    return set(instance.get_dynamic_partitions(str(SHORT.environments.name)))


def test_a_frozen_environment_has_a_page_and_leaves_the_models_as_they_are(
    folder: ProjectFolder, workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    before = partitions_of(instance, DAILY)
    assert freeze(folder, instance, version="prod@1", name="close").success
    made = workspace.store.environments.get("close")
    assert made is not None
    assert (made.frozen, made.expires_at) == ("prod@1", None)
    assert len(shown(workspace, "close")["daily"]) == 3
    assert environments(instance) == {"prod", "close"}
    assert "close" in partitions_of(instance, "vde/environment")
    assert partitions_of(instance, DAILY) == before
    assert sync(workspace, instance).is_empty


def test_it_leaves_the_page_with_the_clean_up_after_its_time(
    folder: ProjectFolder, workspace: Workspace, instance: dg.DagsterInstance, clock: FakeClock
) -> None:
    freeze(folder, instance, version="prod@1", name="close", keep="2d")
    clock.advance(days=1)
    run_job(folder, instance, "vde_janitor", {"dry_run": False}, op="janitor")
    assert environments(instance) == {"prod", "close"}
    clock.advance(days=2)
    run_job(folder, instance, "vde_janitor", {"dry_run": False}, op="janitor")
    assert environments(instance) == {"prod"}
    assert workspace.store.environments.get("close") is None
    assert not workspace.lakehouse.published_views("close")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"version": "prod@9", "name": "close"}, "has no version 9"),
        ({"version": "prod", "name": "prod"}, "cannot be named 'prod'"),
        ({"version": "prod", "name": "close", "keep": "soon"}, "the config's keep 'soon' is not"),
    ],
)
def test_a_wrong_form_fails_with_what_to_write(
    folder: ProjectFolder,
    workspace: Workspace,
    instance: dg.DagsterInstance,
    config: dict[str, object],
    said: str,
) -> None:
    with pytest.raises(dg.Failure, match=said):
        freeze(folder, instance, **config)
    assert environments(instance) == {"prod"}
