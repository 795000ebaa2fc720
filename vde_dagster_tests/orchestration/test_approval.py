"""A plan is approved or rejected by itself, never in bulk; a rejected one does not come back."""

from __future__ import annotations

import logging
import re
import time
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.asset_graph_view.asset_graph_view import AssetGraphView, TemporalContext
from dagster._core.execution.backfill import PartitionBackfill
from rich.console import Console

from vde_dagster.cli.main_job import QUIET, run_main_job
from vde_dagster.errors import ConflictError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration import vde_definitions
from vde_dagster.orchestration.events.applying import Launcher
from vde_dagster.orchestration.events.consumer import forward_outbox
from vde_dagster.orchestration.events.plans import delete_closed_partitions, require_proposed
from vde_dagster.orchestration.events.records import Reporter
from vde_dagster.orchestration.events.sync import sync
from vde_dagster.orchestration.jobs.sensors import evaluate
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster.orchestration.names import SHORT
from vde_dagster.orchestration.pages.plan_page import waiting_plans
from vde_dagster.planning.plan.plan import Plan, Proposal
from vde_dagster_tests.execution.fake_workspace import open_fake, publish_shop
from vde_dagster_tests.orchestration.conftest import load_catalog, partitions_of, run_job
from vde_dagster_tests.orchestration.test_new_plan import refusal
from vde_dagster_tests.projects import Prepared, ProjectFolder

TOP = "models/marts/top.sql"
REJECT_KEY = SHORT.reject_key
LOG = logging.getLogger("vde")


def published_and_edited(root: Path) -> None:
    publish_shop(root)
    ProjectFolder(root).edit(TOP, "customer, revenue,", "revenue, customer,")


@pytest.fixture
def shop(prepared: Prepared) -> ProjectFolder:
    """A project that was published, without Spark, and edited since: a plan computes nothing."""
    return prepared(published_and_edited)


@pytest.fixture
def plan(shop: ProjectFolder, instance: dg.DagsterInstance) -> Plan:
    """The plan that waits for its approval."""
    with Workspace.open(shop.root) as workspace:
        made = workspace.plan("prod", author="anna")
        Reporter(workspace, instance).add_plan(made.id)
    return made


def materialize(
    folder: ProjectFolder,
    instance: dg.DagsterInstance,
    plan: str,
    *keys: dg.AssetKey,
    config: dict[str, Any] | None = None,
    tags: dict[str, str] | None = None,
) -> dg.ExecuteInProcessResult:
    """Materialise a plan's partition of assets, in one run, as a click does."""
    definitions = vde_definitions(folder.root)
    own = dg.Definitions(
        assets=definitions.assets,
        resources=definitions.resources,
        executor=definitions.executor,
        jobs=[dg.define_asset_job("chosen", selection=dg.AssetSelection.assets(*keys))],
    )
    return own.resolve_job_def("chosen").execute_in_process(
        instance=instance,
        run_config={**QUIET, **({"ops": config} if config else {})},
        partition_key=plan,
        tags=tags,
        raise_on_error=False,
    )


def version(folder: ProjectFolder) -> int:
    with Workspace.open(folder.root) as workspace:
        found = workspace.store.environments.get("prod")
    assert found is not None
    return found.version


def status(folder: ProjectFolder, plan: Plan) -> str:
    with Workspace.open(folder.root) as workspace:
        record = workspace.store.plans.record(plan.id)
    assert record is not None
    return record.status


@pytest.mark.parametrize("key", [SHORT.apply_key, REJECT_KEY])
def test_materialize_all_decides_about_no_plan(
    shop: ProjectFolder, instance: dg.DagsterInstance, plan: Plan, key: dg.AssetKey
) -> None:
    graph = vde_definitions(shop.root).get_repository_def().asset_graph
    everything = PartitionBackfill.from_asset_partitions(
        backfill_id="all",
        asset_graph=graph,
        partition_names=None,
        asset_selection=[SHORT.plan_key, SHORT.apply_key, REJECT_KEY],
        backfill_timestamp=time.time(),
        tags={},
        dynamic_partitions_store=instance,
        all_partitions=True,
        title=None,
        description=None,
        run_config=None,
    )
    instance.add_backfill(everything)
    tags = {"dagster/backfill": "all"}
    assert materialize(shop, instance, plan.id, key, tags=tags).success
    assert partitions_of(instance, key.to_user_string()) == set(), "it still waits"
    assert (version(shop), status(shop, plan)) == (1, "planned")


def test_materialize_all_begins_although_a_rejected_plan_has_no_page_any_more(
    shop: ProjectFolder, instance: dg.DagsterInstance, plan: Plan
) -> None:
    with Workspace.open(shop.root) as workspace:
        workspace.plans.reject(plan.id, "not now")
        sync(workspace, instance)
    assert plan.id not in instance.get_dynamic_partitions(str(SHORT.plans.name))
    graph = vde_definitions(shop.root).get_repository_def().asset_graph
    view = AssetGraphView(
        temporal_context=TemporalContext(
            effective_dt=datetime.now(timezone.utc), last_event_id=None
        ),
        instance=instance,
        asset_graph=graph,
    )
    rejections = view.get_full_subset(key=REJECT_KEY)
    _, missing = view.compute_parent_subset_and_required_but_nonexistent_subset(
        SHORT.plan_key, rejections
    )
    assert rejections.expensively_compute_partition_keys() == {plan.id}
    assert missing.is_empty, "or Dagster refuses every backfill of this asset"


def test_a_run_with_other_assets_decides_about_no_plan(
    shop: ProjectFolder, instance: dg.DagsterInstance, plan: Plan
) -> None:
    assert materialize(shop, instance, plan.id, SHORT.plan_key, SHORT.apply_key).success
    assert partitions_of(instance, "vde/plan") == {plan.id}
    assert partitions_of(instance, "vde/apply") == set(), "it still waits"
    assert (version(shop), status(shop, plan)) == (1, "planned")


def test_a_backfill_of_several_plans_approves_none_and_says_how(
    shop: ProjectFolder, instance: dg.DagsterInstance, plan: Plan
) -> None:
    result = materialize(shop, instance, plan.id, SHORT.apply_key, tags={"dagster/backfill": "abc"})
    assert "nothing was done: the run or its backfill selects several plans" in refusal(result)
    assert "select one plan in the partitions of vde/apply" in refusal(result)
    assert (version(shop), status(shop, plan)) == (1, "planned")


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_backfill_of_one_plan_approves_it(
    shop: ProjectFolder, instance: dg.DagsterInstance, plan: Plan, is_alone: bool
) -> None:
    with Workspace.open(shop.root) as workspace:
        other = workspace.plan("dev", author="anna")
        Reporter(workspace, instance).add_plan(other.id)
    backfill = PartitionBackfill.from_asset_partitions(
        backfill_id="some",
        asset_graph=vde_definitions(shop.root).get_repository_def().asset_graph,
        partition_names=[plan.id, *([] if is_alone else [other.id])],
        asset_selection=[SHORT.apply_key],
        backfill_timestamp=time.time(),
        tags={},
        dynamic_partitions_store=instance,
        all_partitions=False,
        title=None,
        description=None,
        run_config=None,
    )
    instance.add_backfill(backfill)
    tags = {"dagster/backfill": "some"}
    assert materialize(shop, instance, plan.id, SHORT.apply_key, tags=tags).success == is_alone
    assert status(shop, plan) == ("applied" if is_alone else "planned")


def test_a_plan_that_is_chosen_by_itself_is_approved(
    shop: ProjectFolder, instance: dg.DagsterInstance, plan: Plan
) -> None:
    assert materialize(shop, instance, plan.id, SHORT.apply_key).success
    assert (version(shop), status(shop, plan)) == (2, "applied")
    assert partitions_of(instance, "vde/apply") == {plan.id}


@pytest.mark.parametrize("tags", [None, {"dagster/backfill": "abc"}])
def test_a_plans_id_in_the_config_approves_it_with_whatever_is_beside_it(
    shop: ProjectFolder, instance: dg.DagsterInstance, plan: Plan, tags: dict[str, str] | None
) -> None:
    config = {"vde__apply": {"config": {"plan": plan.id}}}
    keys = (SHORT.apply_key, SHORT.plan_key)
    assert materialize(shop, instance, plan.id, *keys, config=config, tags=tags).success
    assert (version(shop), status(shop, plan)) == (2, "applied")


def test_another_plans_id_in_the_config_approves_nothing(
    shop: ProjectFolder, instance: dg.DagsterInstance, plan: Plan
) -> None:
    config = {"vde__apply": {"config": {"plan": "prod-other"}}}
    result = materialize(shop, instance, plan.id, SHORT.apply_key, config=config)
    assert "the config names plan prod-other" in refusal(result)
    assert version(shop) == 1


def test_rejecting_is_materialising_the_partition_of_reject(
    shop: ProjectFolder, instance: dg.DagsterInstance, plan: Plan
) -> None:
    config = {"vde__reject": {"config": {"reason": "the office needs it", "who": "anna"}}}
    assert materialize(shop, instance, plan.id, REJECT_KEY, config=config).success
    assert status(shop, plan) == "rejected"
    (event,) = rejections(instance)
    assert event.partition == plan.id
    told = str(event.metadata["rejected"].value)
    assert told == f"The plan {plan.id} was rejected by anna (not verified): the office needs it."
    assert isinstance(event.metadata["vde/at"], dg.TimestampMetadataValue)
    assert instance.get_dynamic_partitions(str(SHORT.plans.name)) == [], (
        "nothing is left to approve"
    )
    assert rejectable(instance) == [plan.id], "filled: one of one"
    with open_fake(shop.root) as workspace:
        waiting = workspace.plan("prod", author="anna")
        instance.add_dynamic_partitions(str(SHORT.plans.name), [waiting.id])
        delete_closed_partitions(workspace, instance)
        assert rejectable(instance) == sorted([plan.id, waiting.id])
        workspace.apply(waiting)
        delete_closed_partitions(workspace, instance)
        assert rejectable(instance) == [plan.id], "what was published is nobody's to reject"
    instance.add_dynamic_partitions(str(SHORT.plans.name), [plan.id])
    result = materialize(shop, instance, plan.id, SHORT.apply_key)
    assert "was rejected by anna (not verified): the office needs it (" in refusal(result)
    assert version(shop) == 2


def rejectable(instance: dg.DagsterInstance) -> list[str]:
    return sorted(instance.get_dynamic_partitions(str(SHORT.rejections.name)))


def rejections(instance: dg.DagsterInstance) -> list[dg.AssetMaterialization]:
    records = instance.fetch_materializations(REJECT_KEY, limit=10).records
    return [record.asset_materialization for record in records if record.asset_materialization]


def tick(
    folder: ProjectFolder, instance: dg.DagsterInstance, cursor: str | None = None
) -> dg.SensorResult:
    """Let the sensor look at what it has to tell."""
    result = evaluate(folder.root, cursor, instance)
    assert isinstance(result, dg.SensorResult)
    return result


def requested(result: dg.SensorResult) -> list[str]:
    return [str(request.partition_key) for request in result.run_requests or ()]


def test_what_the_command_line_rejects_leaves_the_pages_with_who_and_why(
    shop: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    first = tick(shop, instance)
    (plan_id,) = requested(first)
    with Workspace.open(shop.root) as workspace:
        workspace.plans.reject(plan_id, "not now", who="ben")
        news = forward_outbox(shop.root, instance, None, VdeTranslator(shop.root), LOG)
    second = tick(shop, instance, first.cursor)
    assert requested(second) == []
    assert plan_id not in instance.get_dynamic_partitions(str(SHORT.plans.name))
    assert rejectable(instance) == [plan_id], "filled: it was rejected"
    (event,) = rejections(instance)
    assert "rejected by ben: not now" in str(event.metadata["rejected"].value)
    assert isinstance(evaluate(shop.root, second.cursor, instance), dg.SkipReason)
    forward_outbox(shop.root, instance, str(news), VdeTranslator(shop.root), LOG)
    assert len(rejections(instance)) == 1


@pytest.mark.parametrize("looked", ["before the plan", "before its rejection", "never before"])
def test_a_plan_made_and_rejected_on_the_command_line_is_told_once_whenever_dagster_looks(
    shop: ProjectFolder, instance: dg.DagsterInstance, looked: str
) -> None:
    def news(cursor: str | None) -> str | dg.SkipReason:
        return forward_outbox(shop.root, instance, cursor, VdeTranslator(shop.root), LOG)

    cursor = news(None) if looked == "before the plan" else None
    with Workspace.open(shop.root) as workspace:
        made = workspace.plan("prod", author="anna")
        if looked == "before its rejection":
            cursor = news(None)
            assert made.id in instance.get_dynamic_partitions(str(SHORT.plans.name))
        workspace.plans.reject(made.id, "not now", who="ben")
        cursor = news(str(cursor) if cursor else None)
        (event,) = rejections(instance)
        assert event.partition == made.id
        assert "rejected by ben: not now" in str(event.metadata["rejected"].value)
        assert made.id not in instance.get_dynamic_partitions(str(SHORT.plans.name))
        assert isinstance(news(str(cursor)), dg.SkipReason)
        assert sync(workspace, instance).is_empty
    assert len(rejections(instance)) == 1


def test_a_rejected_plan_comes_back_with_an_edit_or_when_it_is_asked_for(
    shop: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    first = tick(shop, instance)
    (plan_id,) = requested(first)
    with Workspace.open(shop.root) as workspace:
        workspace.plans.reject(plan_id)
    shop.edit(TOP, "kind FULL", "kind FULL, owner 'anna'")
    edited = tick(shop, instance, first.cursor)
    (next_id,) = requested(edited)
    shop.edit(TOP, ", owner 'anna'", "")
    undone = tick(shop, instance, edited.cursor)
    assert requested(undone) == [], "these files were rejected"
    assert str(undone.skip_reason.skip_message) == "the plan of these files was rejected"
    assert next_id not in instance.get_dynamic_partitions(str(SHORT.plans.name))
    assert isinstance(evaluate(shop.root, undone.cursor, instance), dg.SkipReason)
    assert requested(tick(shop, instance)) == [], "not even when the cursor is lost"
    run_job(shop, instance, "vde_new_plan")
    (asked,) = instance.get_dynamic_partitions(str(SHORT.plans.name))
    with Workspace.open(shop.root) as workspace:
        workspace.store.plans.require_open(asked)


def test_a_rejected_plan_is_not_made_again_when_the_environment_moves_on(
    shop: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    first = tick(shop, instance)
    (plan_id,) = requested(first)
    with Workspace.open(shop.root) as workspace:
        workspace.plans.reject(plan_id)
    run_job(shop, instance, "vde_plan_and_apply", {"environment": "prod"}, op="plan_and_apply")
    run_job(shop, instance, "vde_rollback", {"environment": "prod", "version": 1}, op="rollback")
    result = evaluate(shop.root, first.cursor, instance)
    assert not (isinstance(result, dg.SensorResult) and result.run_requests)


@pytest.mark.parametrize(
    ("job", "op"), [("vde_new_plan", "plan"), ("vde_plan_and_apply", "plan_and_apply")]
)
def test_a_mistyped_environment_is_refused_until_it_is_said_to_be_meant(
    shop: ProjectFolder, instance: dg.DagsterInstance, job: str, op: str
) -> None:
    config: dict[str, object] = {"environment": "prdo"}
    said = refusal(run_job(shop, instance, job, config, op=op, raise_on_error=False))
    assert "environment 'prdo' does not exist; did you mean 'prod'?" in said
    assert "create: true" in said
    assert run_job(shop, instance, job, {**config, "create": True}, op=op).success


def test_a_rollback_needs_a_version(shop: ProjectFolder, instance: dg.DagsterInstance) -> None:
    with pytest.raises(dg.DagsterInvalidConfigError, match="version"):
        run_job(shop, instance, "vde_rollback", {"environment": "prod"}, op="rollback")
    assert version(shop) == 1


def plan_and_apply(
    folder: ProjectFolder, instance: dg.DagsterInstance, **config: object
) -> dg.ExecuteInProcessResult:
    """Launch the job with a form as it was filled in."""
    return run_job(
        folder,
        instance,
        "vde_plan_and_apply",
        config or None,
        op="plan_and_apply",
        raise_on_error=False,
    )


def test_planning_and_applying_at_once_needs_the_environments_name(
    shop: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    said = refusal(plan_and_apply(shop, instance))
    assert "the config names no environment" in said
    assert "set `environment`" in said
    assert version(shop) == 1


def test_a_column_of_production_goes_in_one_click_only_with_accept_breaks(
    shop: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    shop.edit(TOP, "revenue, customer, rank", "customer, rank")
    said = refusal(plan_and_apply(shop, instance, environment="prod"))
    assert (
        "was not applied because it breaks published columns: marts.top.revenue is removed" in said
    )
    assert "accept_breaks: true" in said
    assert version(shop) == 1
    assert plan_and_apply(shop, instance, environment="prod", accept_breaks=True).success
    assert version(shop) == 2


@pytest.mark.parametrize("protected", [False, True])
def test_a_column_of_another_environment_goes_unasked_unless_it_is_protected(
    shop: ProjectFolder, instance: dg.DagsterInstance, protected: bool
) -> None:
    assert plan_and_apply(shop, instance, environment="dev").success
    shop.edit(TOP, "revenue, customer, rank", "customer, rank")
    if protected:
        shop.write("pyproject.toml", '[tool.vde]\nprotected = ["d*"]\n')
    result = plan_and_apply(shop, instance, environment="dev")
    assert result.success is not protected
    if protected:
        assert "breaks published columns: marts.top.revenue is removed" in refusal(result)


def test_the_main_job_asks_before_production_loses_a_column(
    shop: ProjectFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "")
    shop.edit(TOP, "revenue, customer, rank", "customer, rank")
    assert run_main_job(shop.root, "prod", Console(stderr=True)) == 2
    assert "run this again with --yes" in capsys.readouterr().err
    assert version(shop) == 1


def test_what_waits_is_listed_with_what_it_does_by_whom_and_what_it_breaks(
    shop: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    def listed(key: dg.AssetKey) -> str:
        specs = {spec.key: spec for spec in vde_definitions(shop.root).resolve_all_asset_specs()}
        return str(specs[key].description).split("\n\n")[1]

    shop.edit(TOP, "revenue, customer, rank", "customer, rank")
    with Workspace.open(shop.root) as workspace:
        workspace.plan("prod")
        made = workspace.plan("prod", author="anna")
    assert re.fullmatch(r"prod-\d\d[A-Z][a-z]{2}-top-[0-9a-z]{6}", made.id)
    for key in (SHORT.apply_key, SHORT.plan_key):
        (line,) = listed(key).splitlines()
        assert line.startswith("- **prod: `marts.top` changed**")
        assert f"partition={made.id}" in line
        assert "by anna, made " in line
        assert "breaks: marts.top.revenue is removed" in line
    instance.add_dynamic_partitions(str(SHORT.plans.name), [made.id])
    config = {"vde__apply": {"config": {"who": "ben"}}}
    assert materialize(shop, instance, made.id, SHORT.apply_key, config=config).success
    assert "No plan awaits" in str(vde_definitions(shop.root).get_assets_def(SHORT.apply_key).specs)
    # The page of the plan says by whom and when it was published.
    (page,) = instance.fetch_materializations(SHORT.plan_key, limit=5).records
    assert page.asset_materialization is not None
    texts = {name: str(one.value) for name, one in page.asset_materialization.metadata.items()}
    assert not [name for name, text in texts.items() if "approve it" in text.lower()]
    said = texts["published"]
    by = r"\*\*Published\*\* by ben \(not verified\)"
    assert re.match(rf"{by} on 2\d{{3}}-\d\d-\d\d \d\d:\d\d UTC, as \[", said)


def test_what_waits_is_listed_with_its_age_and_what_it_computes(shop: ProjectFolder) -> None:
    shop.edit(TOP, "customer, rank", "customer, revenue * 2 AS twice, rank")
    with Workspace.open(shop.root) as workspace:
        plan = workspace.plan("prod", author="anna")
    assert plan.builds
    catalog = load_catalog(shop)
    for minutes, age in ((1, "UTC; "), (36, ", 36 minutes old"), (150, ", 2 hours old")):
        read_at = plan.created_at + timedelta(minutes=minutes)
        text = waiting_plans(replace(catalog, live=replace(catalog.live, read_at=read_at)))
        assert "**1 plan awaits approval:**" in text
        assert age in text
        assert "computes 1 model" in text


def test_who_launches_a_run_stands_in_the_environments_history(
    shop: ProjectFolder, instance: dg.DagsterInstance, plan: Plan
) -> None:
    assert materialize(
        shop, instance, plan.id, SHORT.apply_key, tags={"user": "carla@firm"}
    ).success
    with Workspace.open(shop.root) as workspace:
        published = workspace.store.environments.get("prod")
    assert published is not None
    assert published.published_by == "carla@firm"


def test_what_the_sensor_applies_by_itself_is_the_authors_work(plan: Plan) -> None:
    found = Launcher.from_run({"dagster/sensor_name": "vde_code_changes"}, "ben", plan)
    assert found == Launcher("anna", verified=False, is_person=False)
    assert Launcher.from_run({}, None, plan) == Launcher(None, verified=False, is_person=True)


AUTOMATIONS = (
    *("schedule_name", "sensor_name", "tick", "auto_materialize", "from_automation_condition"),
)


@pytest.mark.parametrize("tag", AUTOMATIONS)
def test_an_automation_is_no_person_whatever_its_run_says(plan: Plan, tag: str) -> None:
    tags = {f"dagster/{tag}": "x", "user": "carla@firm"}
    assert not Launcher.from_run(tags, "ben", plan).is_person
    assert Launcher.from_run(tags, "ben", plan).name in (None, "anna")


ASKED = """
- name: owner
  require: "false"
  level: ask
  approvers: [carla@firm]
  message: carla reads it first
"""


@pytest.mark.parametrize(
    ("tags", "typed", "by"),
    [
        ({"user": "carla@firm"}, "", "carla@firm"),
        ({"user": "carla@firm"}, "ben", "carla@firm"),
        ({}, "carla@firm", "carla@firm (not verified)"),
        ({"user": "eve@firm"}, "carla@firm", None),
        ({"dagster/schedule_name": "nightly"}, "carla@firm", None),
        ({"dagster/schedule_name": "nightly", "user": "carla@firm"}, "", None),
        ({"dagster/from_automation_condition": "true"}, "carla@firm", None),
        ({}, "", None),
    ],
)
def test_the_user_of_a_run_approves_and_the_form_says_what_is_not_verified(
    shop: ProjectFolder,
    instance: dg.DagsterInstance,
    tags: dict[str, str],
    typed: str,
    by: str | None,
) -> None:
    shop.write("pyproject.toml", "[tool.vde.policies]\n")
    shop.write("policies.yaml", ASKED)
    with Workspace.open(shop.root) as workspace:
        made = workspace.plan("prod", author="anna")
        Reporter(workspace, instance).add_plan(made.id)
    config = {"vde__apply": {"config": {"who": typed}}} if typed else None
    done = materialize(shop, instance, made.id, SHORT.apply_key, config=config, tags=tags)
    assert done.success is (by is not None)
    with Workspace.open(shop.root) as workspace:
        current = workspace.store.environments.get("prod")
        acts = [one.who for one in workspace.store.log.latest() if one.act == "apply"]
    assert current is not None
    if by is None:
        assert current.version == 1
        assert "owner: carla reads it first" in str(refusal(done))
    else:
        assert (current.version, current.published_by) == (2, by)
        assert acts[0] == by


@pytest.mark.parametrize("files", ["", "of now"])
def test_a_plan_that_claims_the_files_of_now_and_has_others_is_not_approved(
    shop: ProjectFolder, files: str
) -> None:
    honest = (shop.root / TOP).read_text()
    shop.edit(TOP, "rank()", "dense_rank()")
    with Workspace.open(shop.root) as workspace:
        made = workspace.plan("prod", author="anna", save=False)
    shop.write(TOP, honest)
    with Workspace.open(shop.root) as workspace:
        claimed = Proposal(files and workspace.project.files_hash, "anna")
        workspace.store.plans.save(replace(made, proposal=claimed))
        forged = workspace.store.plans.load(made.id)
        with pytest.raises(ConflictError, match=r"differs from the files in marts\.top"):
            require_proposed(workspace, forged)
        without = {name: one for name, one in made.entries.items() if name.name != "top"}
        with pytest.raises(ConflictError, match=r"differs from the files in marts\.top"):
            require_proposed(workspace, replace(forged, entries=without))
        require_proposed(workspace, workspace.plan("prod", author="anna"))


def test_who_rejects_is_the_user_of_the_run_and_not_the_form(
    shop: ProjectFolder, instance: dg.DagsterInstance, plan: Plan
) -> None:
    config = {"vde__reject": {"config": {"reason": "no", "who": "anna"}}}
    tags = {"user": "carla@firm"}
    assert materialize(shop, instance, plan.id, REJECT_KEY, config=config, tags=tags).success
    (event,) = rejections(instance)
    told = str(event.metadata["rejected"].value)
    assert told == f"The plan {plan.id} was rejected by carla@firm: no."


def test_a_models_page_shows_what_is_published_first_and_the_pending_edit_as_a_difference(
    shop: ProjectFolder,
) -> None:
    shop.edit(TOP, "AS place", "AS position")
    specs = {s.key: s for s in vde_definitions(shop.root).resolve_all_asset_specs()}
    text = str(specs[dg.AssetKey(["marts", "top"])].description)
    published, edit = text.split("**The file has changes that are not published:**")
    assert "SELECT customer, revenue, rank()" in published
    assert re.search(r"Snapshot `[0-9a-f]+` is published in prod\.", published)
    assert edit.startswith(" column place is renamed to position.")
    assert "-SELECT customer, revenue, rank()" in edit.replace("-    SELECT", "-SELECT")
    assert "+SELECT revenue, customer, rank()" in edit.replace("+    SELECT", "+SELECT")


def test_the_hint_names_the_job_with_the_projects_prefix(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path / "shop", {"models/a.sql": "MODEL (name x.a); SELECT 1 AS id"})
    folder.write("pyproject.toml", '[tool.vde.dagster]\nprefix = "sales"\n')
    with open_fake(folder.root) as workspace:
        plan = workspace.plan("prod")
        with pytest.raises(ConflictError) as raised:
            require_proposed(workspace, plan)
    assert str(raised.value.hint).endswith("or the job sales_vde_new_plan")
