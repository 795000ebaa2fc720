"""What a run skips is told as what it is: up to date, with the rows that it had."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import dagster as dg
import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.events.projector import Projector, projection_groups
from vde_dagster.orchestration.events.records import FilledPartitions, Projected
from vde_dagster.orchestration.names import SHORT
from vde_dagster.orchestration.pages.plan_page import plan_metadata
from vde_dagster.orchestration.pages.report_text import report_markdown
from vde_dagster.reports.plan import plan_report, summary
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.orchestration.conftest import told_of
from vde_dagster_tests.orchestration.test_news import FILES, events_of, must, tick
from vde_dagster_tests.projects import Prepared, ProjectFolder

FIRST = datetime(2024, 1, 10, 12, tzinfo=timezone.utc)
NEXT = FIRST + timedelta(days=1)


def published(root: Path) -> None:
    with open_fake(ProjectFolder(root, FILES).root) as workspace:
        workspace.apply(workspace.plan("prod", now=FIRST))


@pytest.fixture
def folder(prepared: Prepared) -> ProjectFolder:
    """A project of which only `db.last` is due on the next day, with nothing new to read."""
    return prepared(published)


@pytest.fixture
def applied(folder: ProjectFolder) -> Iterator[Workspace]:
    """The project as the command line has it open."""
    with open_fake(folder.root) as workspace:
        yield workspace


def test_skip_elsewhere_is_told_once_with_the_data_version_that_was(
    folder: ProjectFolder, applied: Workspace, instance: dg.DagsterInstance
) -> None:
    cursor = must(tick(folder, instance))
    applied.apply(applied.plans.due("prod", now=NEXT))
    cursor = must(tick(folder, instance, cursor))
    computed, skipped = events_of(instance, "db/last")
    assert skipped.partition == computed.partition
    versions = [(event.tags or {})["dagster/data_version"] for event in (computed, skipped)]
    assert versions[0] == versions[1]
    assert "vde/skipped" not in computed.metadata
    said = str(skipped.metadata["vde/skipped"].value)
    assert said.startswith("its inputs have not changed since 2")
    assert (
        skipped.metadata["vde/saved_seconds"].value == computed.metadata["vde/fill_seconds"].value
    )
    assert "vde/fill_seconds" not in skipped.metadata
    assert (
        skipped.metadata["dagster/row_count"].value == computed.metadata["dagster/row_count"].value
    )
    assert tick(folder, instance, cursor) is None


def test_run_in_dagster_says_what_it_skips(
    folder: ProjectFolder, applied: Workspace, instance: dg.DagsterInstance
) -> None:
    plan = applied.plans.due("prod", now=NEXT)
    projector = Projector(told_of(applied, instance), applied.store.database.clock.now())
    before = applied.store.outbox.number().newest
    applied.apply(plan)
    applied.store.outbox.number()
    told: list[Projected] = []
    for group in projection_groups(applied.store.outbox.since(before, 99)):
        told.extend(projector.project(group, is_own=True))
    filled = [event for one in told if isinstance(one, FilledPartitions) for event in one.events]
    (event,) = [one for one in filled if one.asset_key.path == ["db", "last"]]
    assert "vde/skipped" in event.metadata
    assert event.metadata["vde/plan"].value == plan.id


def test_page_of_a_run_says_what_it_is_going_to_skip(applied: Workspace) -> None:
    plan = applied.plans.due("prod", now=NEXT)
    assert summary(plan) == "nothing to compute, 1 to skip"
    text = report_markdown(plan_report(plan, {}), SHORT)
    assert "### Skips 1 model" in text
    assert "| `db.last` | unchanged | skipped, its inputs have not changed since 2" in text
    facts = plan_metadata(applied.store, plan)
    assert (facts["vde/computes"], facts["vde/skips"]) == (0, 1)
    assert not facts["versions"].records
