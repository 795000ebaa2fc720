"""What shows as missing in `vde/apply` can be approved: other plans lose their partition."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from threading import Barrier, Lock
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import select

from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.events.consumer import forward_outbox
from vde_dagster.orchestration.events.plans import delete_closed_partitions
from vde_dagster.orchestration.events.sync import sync
from vde_dagster.orchestration.jobs import sensors
from vde_dagster.orchestration.jobs.sensors import evaluate
from vde_dagster.orchestration.location_refresh import location_hash
from vde_dagster.orchestration.models.live import load_live
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster.orchestration.names import SHORT
from vde_dagster.orchestration.pages import plan_page
from vde_dagster.orchestration.pages.plan_page import wait_for_applies
from vde_dagster.orchestration.resource import lend
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.state.db import schema
from vde_dagster.state.db.leases import environment_lease
from vde_dagster.state.plans.plans import PlanStore
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.orchestration.conftest import run_job
from vde_dagster_tests.orchestration.test_new_plan import refusal
from vde_dagster_tests.projects import ProjectFolder

TOP = "models/top.sql"
FILES = {
    "models/base.sql": "MODEL (name db.base, kind FULL); SELECT 1 AS n",
    TOP: "MODEL (name db.top, kind FULL); SELECT max(n) AS n FROM db.base",
}


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "project", FILES)


@pytest.fixture
def workspace(folder: ProjectFolder) -> Iterator[Workspace]:
    with open_fake(folder.root) as opened:
        yield opened


def propose(workspace: Workspace, environment: str = "prod") -> Plan:
    return workspace.plan(environment, author="anna")


def payloads(workspace: Workspace) -> list[bytes]:
    with workspace.store.database.reading() as conn:
        return list(conn.execute(select(schema.plans.c.payload)).scalars())


def shown(instance: dg.DagsterInstance) -> set[str]:
    return set(instance.get_dynamic_partitions(str(SHORT.plans.name)))


def tick(
    root: Path,
    instance: dg.DagsterInstance,
    cursor: str | None = None,
    jobs: Sequence[str] | None = None,
) -> str:
    """Let the sensor look, and return the new cursor."""
    result = evaluate(root, cursor, instance)
    assert isinstance(result, dg.SensorResult), result
    if jobs is not None:
        assert [request.job_name for request in result.run_requests or ()] == list(jobs)
    assert result.cursor is not None
    return result.cursor


def start_run(instance: dg.DagsterInstance, plan_id: str) -> None:
    run = dg.DagsterRun(
        job_name="vde_apply_job",
        status=dg.DagsterRunStatus.STARTED,
        tags={"dagster/partition": plan_id},
    )
    instance.add_run(run)


def test_an_applied_plan_stays_and_those_it_left_behind_go(
    folder: ProjectFolder, workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    left = propose(workspace)
    chosen, other = propose(workspace), propose(workspace, "dev")
    keys = [left.id, chosen.id, other.id]
    instance.add_dynamic_partitions(str(SHORT.plans.name), keys)
    with lend(workspace):
        run_job(folder, instance, "vde_apply_job", partition=chosen.id)
    assert shown(instance) == {chosen.id, other.id}


def test_a_rollback_leaves_waiting_plans_behind(
    folder: ProjectFolder, workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    workspace.apply(workspace.plan("prod"))
    folder.edit(TOP, "max", "min")
    workspace.reload()
    workspace.apply(workspace.plan("prod"))
    folder.edit(TOP, "min", "sum")
    workspace.reload()
    waiting = propose(workspace)
    instance.add_dynamic_partitions(str(SHORT.plans.name), [waiting.id])
    with lend(workspace):
        run_job(
            folder, instance, "vde_rollback", {"environment": "prod", "version": 1}, op="rollback"
        )
    assert shown(instance) == set()


def test_a_plan_that_a_run_works_on_keeps_its_partition_for_now(
    workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    first, second = propose(workspace), propose(workspace)
    workspace.apply(workspace.plan("prod"))
    instance.add_dynamic_partitions(str(SHORT.plans.name), [first.id, second.id])
    start_run(instance, first.id)
    delete_closed_partitions(workspace, instance)
    assert shown(instance) == {first.id}


def test_sync_shows_plans_that_can_be_approved_or_were(
    folder: ProjectFolder, workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    propose(workspace)
    applied = workspace.apply(workspace.plan("prod")).plan
    folder.edit(TOP, "max", "min")
    workspace.reload()
    waiting = propose(workspace)
    sync(workspace, instance)
    assert shown(instance) == {applied.id, waiting.id}
    approved = instance.get_materialized_partitions(SHORT.apply_key)
    assert set(approved) == {applied.id}
    workspace.apply(waiting)
    sync(workspace, instance)
    assert shown(instance) == {applied.id, waiting.id}
    assert set(instance.get_materialized_partitions(SHORT.apply_key)) == {applied.id, waiting.id}


def test_an_edit_withdraws_the_plan_of_the_edit_before_it(
    folder: ProjectFolder, workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    workspace.apply(workspace.plan("prod"))
    folder.edit(TOP, "max", "min")
    cursor = tick(folder.root, instance)
    (first,) = shown(instance)
    folder.edit(TOP, "min", "sum")
    cursor = tick(folder.root, instance, cursor)
    (second,) = shown(instance)
    assert second != first
    folder.edit(TOP, "sum", "max")
    assert tick(folder.root, instance, cursor).split()[1:] == []
    assert shown(instance) == set()


@pytest.mark.parametrize("how", ["approved", "running"])
def test_an_edit_leaves_a_plan_alone_that_somebody_approved(
    folder: ProjectFolder, workspace: Workspace, instance: dg.DagsterInstance, how: str
) -> None:
    cursor = tick(folder.root, instance)
    (first,) = shown(instance)
    if how == "approved":
        workspace.apply(workspace.store.plans.load(first))
    else:
        start_run(instance, first)
    folder.edit(TOP, "max", "min")
    cursor = tick(folder.root, instance, cursor)
    assert first in shown(instance)
    assert len(shown(instance)) == 2
    assert (first in cursor) == (how == "running")


def test_an_edit_withdraws_plans_that_were_made_by_hand_too(
    folder: ProjectFolder, workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    cursor = tick(folder.root, instance)
    mine = propose(workspace, "dev")
    instance.add_dynamic_partitions(str(SHORT.plans.name), [mine.id])
    folder.edit(TOP, "max", "min")
    tick(folder.root, instance, cursor)
    assert mine.id not in shown(instance)
    assert len(shown(instance)) == 1, "the sensor's own of what the files now say"


def test_a_plan_that_was_only_looked_at_waits_for_no_approval(
    folder: ProjectFolder, workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    looked, proposed = workspace.plan("prod"), propose(workspace)
    sync(workspace, instance)
    assert shown(instance) == {proposed.id}
    instance.add_dynamic_partitions(str(SHORT.plans.name), [looked.id])
    with lend(workspace):
        job = run_job(folder, instance, "vde_apply_job", partition=looked.id, raise_on_error=False)
    assert f"plan {looked.id} was not proposed for approval" in refusal(job)
    delete_closed_partitions(workspace, instance)
    assert shown(instance) == {proposed.id}


def test_the_news_show_plans_of_the_command_line_that_were_proposed(
    folder: ProjectFolder, workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    def look(cursor: str | None) -> str:
        log = logging.getLogger("vde")
        return str(forward_outbox(folder.root, instance, cursor, VdeTranslator(folder.root), log))

    cursor = look(None)
    workspace.plan("prod")
    proposed = propose(workspace)
    look(cursor)
    assert shown(instance) == {proposed.id}


def test_a_plan_of_files_that_have_moved_on_is_refused_before_anybody_has_looked(
    folder: ProjectFolder, workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    tick(folder.root, instance)
    (plan_id,) = shown(instance)
    folder.edit(TOP, "max", "min")
    job = run_job(folder, instance, "vde_apply_job", partition=plan_id, raise_on_error=False)
    assert f"plan {plan_id} is outdated: project files changed after it was created" in refusal(job)
    assert workspace.store.environments.get("prod") is None


def test_what_waits_is_planned_anew_when_its_environment_was_rolled_back_but_not_applied(
    folder: ProjectFolder, workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    folder.write("pyproject.toml", '[tool.vde.dagster]\nauto_apply = { prod = "always" }')
    workspace.apply(workspace.plan("prod"))
    folder.edit(TOP, "max", "min")
    workspace.reload()
    workspace.apply(workspace.plan("prod"))
    folder.edit(TOP, "min", "sum")
    cursor = tick(folder.root, instance, jobs=["vde_plan_job", "vde_auto_apply"])
    (first,) = shown(instance)
    assert isinstance(evaluate(folder.root, cursor, instance), dg.SkipReason)
    workspace.environments.rollback("prod")
    cursor = tick(folder.root, instance, cursor, jobs=["vde_plan_job"])
    (second,) = shown(instance)
    assert second != first
    assert workspace.store.plans.load(second).base_version == 3
    assert isinstance(evaluate(folder.root, cursor, instance), dg.SkipReason)


def test_a_tick_forgets_plans_that_wait_no_more(
    folder: ProjectFolder, workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    cursor = tick(folder.root, instance)
    (plan_id,) = shown(instance)
    workspace.apply(workspace.store.plans.load(plan_id))
    cursor = tick(folder.root, instance, cursor, jobs=[])
    assert len(cursor.split()) == 1
    assert isinstance(evaluate(folder.root, cursor, instance), dg.SkipReason)
    assert shown(instance) == {plan_id}


@pytest.mark.parametrize("restores", ["tick", "sync"])
def test_a_plan_that_waits_gets_back_a_partition_that_somebody_deleted(
    folder: ProjectFolder, workspace: Workspace, instance: dg.DagsterInstance, restores: str
) -> None:
    applied = workspace.apply(workspace.plan("prod")).plan.id
    folder.edit(TOP, "max", "min")
    workspace.reload()
    cursor = tick(folder.root, instance)
    sync(workspace, instance)
    pages = shown(instance)
    (waiting,) = pages - {applied}
    rejections = instance.get_dynamic_partitions(str(SHORT.rejections.name))
    for name, keys in ((SHORT.plans.name, pages), (SHORT.rejections.name, rejections)):
        for key in keys:
            instance.delete_dynamic_partition(str(name), key)
    if restores == "sync":
        sync(workspace, instance)
        assert shown(instance) == pages
    else:
        assert isinstance(evaluate(folder.root, cursor, instance), dg.SkipReason)
        assert shown(instance) == {waiting}
    assert instance.get_dynamic_partitions(str(SHORT.rejections.name)) == [waiting]
    assert sync(workspace, instance).is_empty


def test_a_past_plan_whose_page_is_still_being_made_leaves_when_that_has_ended(
    folder: ProjectFolder, workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    cursor = tick(folder.root, instance)
    (first,) = shown(instance)
    tags = {"dagster/partition": first}
    run = dg.DagsterRun(job_name="p", status=dg.DagsterRunStatus.STARTED, tags=tags)
    instance.add_run(run)
    workspace.apply(workspace.plan("prod", skip_backfill=True))
    cursor = tick(folder.root, instance, cursor)
    assert first in shown(instance)
    instance.delete_run(run.run_id)
    assert isinstance(evaluate(folder.root, cursor, instance), dg.SkipReason)
    assert first not in shown(instance)


def test_files_that_are_being_edited_are_planned_once_they_rest(
    folder: ProjectFolder, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save(_: float) -> None:
        if not saved:
            saved.append(True)
            folder.edit(TOP, "min", "sum")

    saved: list[bool] = []
    cursor = tick(folder.root, instance)
    # Only for the sensor: other threads of the process sleep, too.
    own = SimpleNamespace(sleep=save)
    monkeypatch.setattr("vde_dagster.orchestration.jobs.sensors.time", own)
    folder.edit(TOP, "max", "min")
    skipped = evaluate(folder.root, cursor, instance, quiet_seconds=3.0)
    assert isinstance(skipped, dg.SkipReason)
    assert "being edited" in str(skipped.skip_message)
    assert isinstance(evaluate(folder.root, cursor, instance, quiet_seconds=3.0), dg.SensorResult)


def test_a_plans_checks_start_no_spark_beside_an_apply(
    folder: ProjectFolder, workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    lease = workspace.store.leases.acquire(environment_lease("dev"), "somebody")
    assert not wait_for_applies(workspace, most_seconds=0.0)
    workspace.store.leases.release(lease)
    assert wait_for_applies(workspace, most_seconds=0.0)


@pytest.mark.parametrize("ends", [True, False])
def test_a_plans_checks_wait_for_the_apply_and_say_so_where_it_does_not_end(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    def check(*_: object) -> tuple[bool, str, dict[str, object]]:
        with store.database.reading() as conn:
            ran.append(bool(store.leases.active_resources(conn)))
        return False, "right", {}

    def wait(_: float) -> None:
        if ends:
            store.leases.release(lease)
        else:
            monkeypatch.setattr(plan_page.time, "monotonic", lambda: float("inf"))

    store, ran = workspace.store, list[bool]()
    plan = workspace.plan("prod")
    lease = store.leases.acquire(environment_lease("dev"), "somebody")
    monkeypatch.setattr(plan_page, "_tests", check)
    monkeypatch.setattr(plan_page, "_queries", check)
    monkeypatch.setattr(plan_page.time, "sleep", wait)
    found = list(plan_page.checks_by_spark(workspace, plan, SHORT.plan_key, queries=True))
    assert ran == ([False, False] if ends else [])
    assert [one.passed for one in found] == [ends, ends]
    assert all(
        ends or "Not checked, because a plan is being applied" in str(one.description)
        for one in found
    )


def test_an_environment_that_is_dropped_leaves_the_page_at_once(
    folder: ProjectFolder, workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    workspace.apply(workspace.plan("dev"))
    sync(workspace, instance)
    assert instance.get_dynamic_partitions(str(SHORT.environments.name)) == ["dev"]
    config = {"environment": "dev"}
    with lend(workspace):
        run_job(folder, instance, "vde_drop_environment", config, op="drop_environment")
    assert instance.get_dynamic_partitions(str(SHORT.environments.name)) == []


def test_an_environment_that_expires_leaves_the_page_with_the_next_tick(
    folder: ProjectFolder, workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    workspace.apply(workspace.plan("prod"))
    workspace.apply(workspace.plan("dev"))
    sync(workspace, instance)
    cursor = tick(folder.root, instance)
    before = location_hash(workspace)
    workspace.environments.drop("dev")
    assert location_hash(workspace) != before
    assert list(load_live(workspace, datetime.now(timezone.utc)).environments) == ["prod"]
    evaluate(folder.root, cursor, instance)
    assert instance.get_dynamic_partitions(str(SHORT.environments.name)) == ["prod"]
    sync(workspace, instance)
    assert instance.get_dynamic_partitions(str(SHORT.environments.name)) == ["prod"]


def test_two_daemons_whose_ticks_overlap_plan_the_same_files_once(
    folder: ProjectFolder, synchronous: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ticks have one cursor, and both read the state before one of them changes it."""
    folder.write("pyproject.toml", '[tool.vde.dagster]\nauto_apply = {dev = "never"}\n')
    both, alone, save = Barrier(2), Lock(), PlanStore.save

    def save_together(*given: Any, **named: Any) -> Any:
        both.wait(60)
        return save(*given, **named)

    def delete_one_after_the_other(*given: Any) -> None:
        with alone:
            delete_closed_partitions(*given)

    monkeypatch.setattr(sensors, "delete_closed_partitions", delete_one_after_the_other)

    def look(cursor: str | None) -> dg.SensorResult:
        result = evaluate(folder.root, cursor, synchronous)
        assert isinstance(result, dg.SensorResult), result
        return result

    cursor: str | None = None
    for number in range(2):
        before = shown(synchronous)
        folder.edit(TOP, "kind FULL", f"kind FULL, owner 'team_{number}'")
        monkeypatch.setattr(PlanStore, "save", save_together)
        with ThreadPoolExecutor(2) as pool:
            one, other = pool.map(look, [cursor, cursor])
        monkeypatch.setattr(PlanStore, "save", save)
        assert one.cursor == other.cursor
        assert one.run_requests == other.run_requests, "Dagster starts a run per key"
        made = {request.partition_key for request in one.run_requests or ()}
        assert len(made) == len(["prod", "dev"])
        assert shown(synchronous) == made, "plans of earlier files have left"
        assert made.isdisjoint(before)
        with open_fake(folder.root) as workspace:
            assert {record.id for record in workspace.store.plans.recent()} - before == made
        cursor = one.cursor
    assert isinstance(evaluate(folder.root, cursor, synchronous), dg.SkipReason)
