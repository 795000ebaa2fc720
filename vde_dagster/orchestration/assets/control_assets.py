"""Control assets: plans, approvals, rejections and environments."""

# Dagster reads the annotations of decorated functions, so they are not postponed here.
from collections.abc import Iterator
from typing import Any

import dagster as dg

from vde_dagster.base.texts import count
from vde_dagster.orchestration.config import ApplyConfig, RejectConfig
from vde_dagster.orchestration.dagster_private import BACKFILL_ID_TAG
from vde_dagster.orchestration.events.applying import Launcher, Work
from vde_dagster.orchestration.events.plans import (
    delete_closed_partitions,
    page_events,
    plan_tags,
    require_proposed,
)
from vde_dagster.orchestration.events.provenance import ProjectionContext
from vde_dagster.orchestration.events.records import Reporter
from vde_dagster.orchestration.events.steps import guarded_step
from vde_dagster.orchestration.location_refresh import refresh_after
from vde_dagster.orchestration.models.catalog import AssetCatalog
from vde_dagster.orchestration.names import BREAKING_CHECK, POOL, QUERIES_CHECK, TESTS_CHECK
from vde_dagster.orchestration.pages.plan_page import (
    checks_by_spark,
    find_readers,
    rejection_metadata,
    waiting_plans,
)

_PLAN_TEXT = """Effects of a project change; each partition is one plan.

The sensor creates a plan when a model file changes; the job `vde_new_plan` creates one for any
environment. Review the plan here. To approve it, materialize its partition of `vde/apply`; to
reject it, materialize its partition of `vde/reject`."""

_APPLY_TEXT = """Approved plans: materialize a plan's partition to compute, audit and publish it.

A missing partition awaits approval. A failed partition resumes where it stopped when you
materialize it again. A plan disappears when it can no longer be approved: it was rejected, or its
environment or the files changed. Select one plan and no other assets: if a run also materializes
other assets, it approves a plan only if its config names the plan."""

_REJECT_TEXT = """Rejected plans: materialize one plan's partition to prevent its application.

The config takes a reason. The events of this asset record who rejected which plan, when and why.
A waiting plan is a missing partition, a rejected plan a filled one; published plans disappear. The
sensor creates no new plan for the files of a rejected plan."""

_ENVIRONMENT_TEXT = """Tables that each environment serves; each partition is one environment.

Every publication and rollback adds an event with the view → table map and with the definitions
and data that each version changed. Pass one of these versions to the job `vde_rollback`."""


_JANITOR_TEXT = """Cleanups: what each run of the job `vde_janitor` dropped and kept, and why.

*Plots* shows the freed bytes and the numbers of steps and kept objects. A dry run is an
observation: it drops nothing, and plots leave it out."""

_LISTED = 50
"""Maximum number of environments that the asset's description links to."""


def plan_asset(catalog: AssetCatalog, *, check_queries: bool = True) -> dg.AssetsDefinition:
    """Return the asset `vde/plan`, with one partition per plan."""
    # The description lists the errors of files without a model.
    text = "\n\n".join(
        [
            waiting_plans(catalog),
            _PLAN_TEXT,
            *(f"**A file has an error:** {error}" for error in catalog.live.errors),
        ]
    )
    names = catalog.names
    checks = {
        BREAKING_CHECK: "Warns when columns are removed or change their type, and when existing "
        "rows or values change.",
        TESTS_CHECK: "Fails when a unit test of a changed model fails: applying the plan would "
        "publish nothing.",
    }
    if check_queries:
        description = "Fails when Spark cannot run a query or an audit that the plan changes."
        checks[QUERIES_CHECK] = description

    @dg.asset(
        key=names.plan_key,
        partitions_def=names.plans,
        group_name=names.group,
        description=text,
        check_specs=[
            dg.AssetCheckSpec(name, asset=names.plan_key, description=description)
            for name, description in checks.items()
        ],
        required_resource_keys={names.resource},
    )
    @guarded_step
    def vde__plan(context: dg.AssetExecutionContext) -> Iterator[Any]:
        projection = ProjectionContext.from_step(context, catalog)
        plan = projection.store.plans.load(context.partition_key)
        breaking, page = page_events(projection, plan, find_readers(context, catalog, plan))
        yield dg.MaterializeResult(
            metadata=page.metadata, tags=page.tags, check_results=[check_result(breaking)]
        )
        refresh_after(context, projection.workspace)
        key = names.plan_key
        for check in checks_by_spark(projection.workspace, plan, key, queries=check_queries):
            yield check_result(check)

    return vde__plan


def apply_asset(catalog: AssetCatalog) -> dg.AssetsDefinition:
    """Return the asset `vde/apply`, which applies a plan when its partition is materialized."""
    names = catalog.names

    @dg.asset(
        key=names.apply_key,
        partitions_def=names.plans,
        deps=[names.plan_key],
        group_name=names.group,
        description="\n\n".join([waiting_plans(catalog), _APPLY_TEXT]),
        pool=POOL,
        required_resource_keys={names.resource},
        output_required=False,
    )
    @guarded_step
    def vde__apply(context: dg.AssetExecutionContext, config: ApplyConfig) -> Iterator[Any]:
        if not decides_about_plan(context, config.plan):
            return
        projection = ProjectionContext.from_step(context, catalog)
        plan = projection.store.plans.load(context.partition_key)
        require_proposed(projection.workspace, plan)
        launcher = Launcher.from_run(context.run.tags, config.who, plan)
        _log_launcher(context, launcher, config.who)
        yield from Work(context, projection).apply(
            plan,
            concurrency=config.concurrency,
            who=launcher.name,
            approved=launcher.is_person,
            verified=launcher.verified,
            skip_tests=config.skip_tests,
        )
        delete_closed_partitions(projection.workspace, context.instance)
        refresh_after(context, projection.workspace)

    return vde__apply


def reject_asset(catalog: AssetCatalog) -> dg.AssetsDefinition:
    """Return the asset `vde/reject`, which rejects a plan when its partition is materialized."""
    names = catalog.names

    @dg.asset(
        key=names.reject_key,
        partitions_def=names.rejections,
        # A rejected plan has no partition in `vde/plan`: an identity mapping would block backfills.
        deps=[dg.AssetDep(names.plan_key, partition_mapping=dg.AllPartitionMapping())],
        group_name=names.group,
        description=_REJECT_TEXT,
        required_resource_keys={names.resource},
        output_required=False,
    )
    @guarded_step
    def vde__reject(context: dg.AssetExecutionContext, config: RejectConfig) -> Iterator[Any]:
        if not decides_about_plan(context, config.plan):
            return
        workspace = ProjectionContext.from_step(context, catalog).workspace
        launcher = Launcher.from_run(context.run.tags, config.who)
        _log_launcher(context, launcher, config.who)
        record = workspace.plans.reject(
            context.partition_key, config.reason, who=launcher.name, verified=launcher.verified
        )
        yield dg.MaterializeResult(metadata=rejection_metadata(record), tags=plan_tags(record))
        # This run works on the plan, so the projector would skip the partition as busy.
        Reporter(workspace, context.instance).delete(names.plans, record.id)

    return vde__reject


def _log_launcher(context: dg.AssetExecutionContext, launcher: Launcher, typed: str | None) -> None:
    if not launcher.is_person:
        context.log.info("launched by a schedule or a sensor: not an approval by a person")
    elif launcher.verified:
        context.log.info(f"decided by {launcher.name}, the user of this run")
    else:
        context.log.warning(f"decided by {launcher.name or 'the system user'} (not verified)")
    if typed and typed != launcher.name:
        context.log.warning(f"`who` ({typed}) in the config is ignored: the run's user is verified")


def environment_asset(catalog: AssetCatalog) -> dg.AssetSpec:
    """Return the external asset `vde/environment`, with one partition per environment."""
    names, live = catalog.names, catalog.live
    key, lines = names.environment_key, []
    for name, environment in list(live.environments.items())[:_LISTED]:
        what = f"version {environment.version}"
        if environment.frozen is not None:
            what = f"frozen {environment.frozen}"
        elif environment.pinned_states:
            what += f", {count(len(environment.pinned_states), 'table')} kept at an earlier commit"
        lines.append(f"- {names.link(key, name, name)}: {what}")
    shown = dict.fromkeys(name for one in live.environments.values() for name in one.entries)
    return dg.AssetSpec(
        key=key,
        partitions_def=names.environments,
        group_name=names.group,
        description="\n\n".join(
            filter(None, [catalog.recording, _ENVIRONMENT_TEXT, "\n".join(lines)])
        ),
        deps=[
            dg.AssetDep(catalog.key(name), partition_mapping=dg.AllPartitionMapping())
            for name in shown
            if live.models[name].versions
        ],
    )


def janitor_asset(catalog: AssetCatalog) -> dg.AssetSpec:
    """Return the external asset that shows an event for each cleanup."""
    names = catalog.names
    return dg.AssetSpec(
        key=names.janitor_key, group_name=names.group, description=_JANITOR_TEXT, kinds={"iceberg"}
    )


def check_result(evaluation: dg.AssetCheckEvaluation) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key=evaluation.asset_key,
        check_name=evaluation.check_name,
        passed=evaluation.passed,
        metadata=evaluation.metadata,
        severity=evaluation.severity,
        description=evaluation.description,
    )


def decides_about_plan(context: dg.AssetExecutionContext, plan_id: str | None) -> bool:
    """Return whether a run of `vde/apply` or `vde/reject` may act on the plan that it selects.

    If the run or its backfill materializes other assets, too, the run may act only if its config
    names the plan (`plan_id`).

    Raises:
        dg.Failure: The config names a plan, but the run selects a different plan or several plans.
            Or the config names no plan, and the run or its backfill selects several plans and no
            other asset.
    """
    chosen = list(context.partition_keys)
    if plan_id is not None:
        if chosen != [plan_id]:
            raise dg.Failure(
                f"nothing was done: the config names plan {plan_id}, but the run materializes "
                f"partition {', '.join(chosen)}",
                allow_retries=False,
            )
        return True
    backfill_id = context.run.tags.get(BACKFILL_ID_TAG)
    beside = context.job_def.asset_layer.selected_asset_keys - {context.asset_key}
    # A run or backfill that materializes one partition of this asset and nothing else decides, too.
    if not beside and len(chosen) == 1 and backfill_id is None:
        return True
    if not beside and backfill_id is not None:
        backfill = context.instance.get_backfill(backfill_id)
        beside = set(backfill.asset_selection or ()) - {context.asset_key} if backfill else beside
        data = backfill.asset_backfill_data if backfill else None
        if not beside and data is not None and data.get_num_partitions() == len(chosen) == 1:
            return True
    shown = context.asset_key.to_user_string()
    how = f"select one plan in the partitions of {shown}, or set `plan` in the config to its id"
    if not beside:
        raise dg.Failure(
            f"nothing was done: the run or its backfill selects several plans "
            f"({', '.join(chosen)}). To decide about one plan, {how}",
            allow_retries=False,
        )
    context.log.warning(
        f"{shown} was materialized together with other assets, so nothing was decided. "
        f"To decide about one plan, {how}"
    )
    return False
