"""The assets by which work is seen and driven: plans, approvals, rejections, environments."""

# Dagster reads the annotations of decorated functions, so they are not postponed here.
from collections.abc import Iterator
from typing import Any

import dagster as dg

from vde_dagster.base.texts import count
from vde_dagster.orchestration.config import ApplyConfig, RejectConfig
from vde_dagster.orchestration.dagster_private import BACKFILL_ID_TAG
from vde_dagster.orchestration.events.applying import Launcher, Work, as_failure
from vde_dagster.orchestration.events.plans import (
    forget_past,
    page_events,
    plan_tags,
    require_proposed,
)
from vde_dagster.orchestration.events.provenance import ProjectionContext
from vde_dagster.orchestration.events.records import Reporter
from vde_dagster.orchestration.location_refresh import refresh_after
from vde_dagster.orchestration.markdown import partition_link
from vde_dagster.orchestration.models.catalog import AssetCatalog
from vde_dagster.orchestration.names import (
    BREAKING_CHECK,
    POOL,
    QUERIES_CHECK,
    TESTS_CHECK,
)
from vde_dagster.orchestration.pages.plan_page import (
    checks_by_spark,
    readers_of,
    rejection_metadata,
    waiting_plans,
)

_PLAN_TEXT = """What a change of the project will do, one partition a plan.

The sensor makes a plan when a model file changes; the job `vde_new_plan` makes one for any
environment. Read it here, then approve it by materialising the same partition of `vde/apply`, or
reject it by that of `vde/reject`."""

_APPLY_TEXT = """Approved plans: materialise a plan's partition to compute, audit and publish it.

Missing: awaits approval. Failed: materialise it again, it goes on where it stopped. A plan that
can no longer be approved, because it was rejected, or its environment or the files moved on,
disappears. Choose one plan by itself: materialised with other assets, none is approved."""

_REJECT_TEXT = """Rejected plans: materialise a plan's partition by itself, and nobody can apply it.

The config takes a reason. The asset's events are the record: who rejected which plan, when, why.
A plan that waits is missing here, one that was rejected filled; what was published disappears. A
plan is not made again for the files of one that was rejected."""

_ENVIRONMENT_TEXT = """What each environment serves, one partition an environment.

Every publication and rollback adds an event with the view → table map, and with what each version
changed, definitions and data. The job `vde_rollback` takes a version from it."""


_LISTED = 50
"""How many environments the asset's description links to."""


def plan_asset(catalog: AssetCatalog, *, check_queries: bool = True) -> dg.AssetsDefinition:
    """Return the asset that shows stored plans, and mistakes in files of no known model."""
    text = "\n\n".join(
        [
            waiting_plans(catalog),
            _PLAN_TEXT,
            *(f"**A file is wrong now:** {error}" for error in catalog.live.errors),
        ]
    )
    names = catalog.names
    checks = {
        BREAKING_CHECK: "Warns when columns go or change their type, and when existing rows or "
        "values change.",
        TESTS_CHECK: "Fails when a unit test of what the plan changes does: an apply would publish "
        "nothing.",
    }
    if check_queries:
        said = "Fails when Spark cannot run a query or an audit that the plan changes."
        checks[QUERIES_CHECK] = said

    @dg.asset(
        key=names.plan_key,
        partitions_def=names.plans,
        group_name=names.group,
        description=text,
        check_specs=[
            dg.AssetCheckSpec(name, asset=names.plan_key, description=said)
            for name, said in checks.items()
        ],
        required_resource_keys={names.resource},
    )
    def vde__plan(context: dg.AssetExecutionContext) -> Iterator[Any]:
        with as_failure():
            told = ProjectionContext.of_step(context, catalog)
            plan = told.store.plans.load(context.partition_key)
            breaking, page = page_events(told, plan, readers_of(context, catalog, plan))
            yield dg.MaterializeResult(
                metadata=page.metadata, tags=page.tags, check_results=[check_result(breaking)]
            )
            refresh_after(context, told.workspace)
            key = names.plan_key
            for check in checks_by_spark(told.workspace, plan, key, queries=check_queries):
                yield check_result(check)

    return vde__plan


def apply_asset(catalog: AssetCatalog) -> dg.AssetsDefinition:
    """Return the asset whose materialisation applies a plan."""
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
    def vde__apply(context: dg.AssetExecutionContext, config: ApplyConfig) -> Iterator[Any]:
        if not decides(context, config.plan):
            return
        with as_failure():
            told = ProjectionContext.of_step(context, catalog)
            plan = told.store.plans.load(context.partition_key)
            require_proposed(told.workspace, plan)
            launcher = Launcher.of_run(context.run.tags, config.who, plan)
            _log_launcher(context, launcher, config.who)
            yield from Work(context, told).apply(
                plan,
                concurrency=config.concurrency,
                who=launcher.name,
                approved=launcher.is_person,
                verified=launcher.verified,
                skip_tests=config.skip_tests,
            )
            forget_past(told.workspace, context.instance)
            refresh_after(context, told.workspace)

    return vde__apply


def reject_asset(catalog: AssetCatalog) -> dg.AssetsDefinition:
    """Return the asset whose materialisation rejects a plan."""
    names = catalog.names

    @dg.asset(
        key=names.reject_key,
        partitions_def=names.rejections,
        # A rejected plan has no partition of `vde/plan`, so by identity no backfill would begin.
        deps=[dg.AssetDep(names.plan_key, partition_mapping=dg.AllPartitionMapping())],
        group_name=names.group,
        description=_REJECT_TEXT,
        required_resource_keys={names.resource},
        output_required=False,
    )
    def vde__reject(context: dg.AssetExecutionContext, config: RejectConfig) -> Iterator[Any]:
        if not decides(context, config.plan):
            return
        with as_failure():
            workspace = ProjectionContext.of_step(context, catalog).workspace
            launcher = Launcher.of_run(context.run.tags, config.who)
            _log_launcher(context, launcher, config.who)
            record = workspace.plans.reject(
                context.partition_key,
                config.reason,
                who=launcher.name,
                verified=launcher.verified,
            )
            yield dg.MaterializeResult(metadata=rejection_metadata(record), tags=plan_tags(record))
            # This very run works on it, so that it would be left for later.
            Reporter(workspace, context.instance).delete(names.plans, record.id)

    return vde__reject


def _log_launcher(context: dg.AssetExecutionContext, launcher: Launcher, typed: str | None) -> None:
    """Log by whom a plan is decided, and whether Dagster vouches for that."""
    if not launcher.is_person:
        context.log.info("launched by a schedule or a sensor, which is not an approval")
    elif launcher.verified:
        context.log.info(f"decided by {launcher.name}, the user of this run")
    else:
        context.log.warning(f"decided by {launcher.name or 'the system user'}: not verified")
    if typed and typed != launcher.name:
        context.log.warning(f"the config's `who` ({typed}) is ignored")


def environment_asset(catalog: AssetCatalog) -> dg.AssetSpec:
    """Return the external asset that shows environments."""
    names, live = catalog.names, catalog.live
    key, lines = names.environment_key, []
    for name, environment in list(live.environments.items())[:_LISTED]:
        what = f"version {environment.version}"
        if environment.frozen is not None:
            what = f"frozen {environment.frozen}"
        elif environment.held:
            what += f", {count(len(environment.held), 'table')} as before"
        lines.append(f"- {partition_link(key, name, name)}: {what}")
    shown = dict.fromkeys(name for one in live.environments.values() for name in one.entries)
    return dg.AssetSpec(
        key=key,
        partitions_def=names.environments,
        group_name=names.group,
        description="\n\n".join([_ENVIRONMENT_TEXT, *(["\n".join(lines)] if lines else [])]),
        deps=[
            dg.AssetDep(catalog.key(name), partition_mapping=dg.AllPartitionMapping())
            for name in shown
            if live.models[name].versions
        ],
    )


def check_result(evaluation: dg.AssetCheckEvaluation) -> dg.AssetCheckResult:
    """Return an evaluation as the result of a step."""
    return dg.AssetCheckResult(
        asset_key=evaluation.asset_key,
        check_name=evaluation.check_name,
        passed=evaluation.passed,
        metadata=evaluation.metadata,
        severity=evaluation.severity,
        description=evaluation.description,
    )


def decides(context: dg.AssetExecutionContext, plan_id: str | None) -> bool:
    """Say whether a step's run is a decision about the plan of its partition.

    It is when the plan's id stands in its config, or when the plan was chosen by itself: this
    asset, one partition, nothing else. What a bulk materialisation brings along is left alone.
    """
    chosen = list(context.partition_keys)
    if plan_id is not None:
        if chosen != [plan_id]:
            raise dg.Failure(
                f"the config's plan is {plan_id}, the partition {', '.join(chosen)}: "
                "nothing was done",
                allow_retries=False,
            )
        return True
    backfill_id = context.run.tags.get(BACKFILL_ID_TAG)
    beside = context.job_def.asset_layer.selected_asset_keys - {context.asset_key}
    if not beside and len(chosen) == 1 and backfill_id is None:
        return True
    if not beside and backfill_id is not None:
        backfill = context.instance.get_backfill(backfill_id)
        beside = set(backfill.asset_selection or ()) - {context.asset_key} if backfill else beside
    shown = context.asset_key.to_user_string()
    how = f"choose one plan in the partitions of {shown}, or give its id as `plan` in the config"
    if not beside:
        raise dg.Failure(
            f"several plans were chosen at once, nothing was done for {', '.join(chosen)}: {how}",
            allow_retries=False,
        )
    context.log.warning(
        f"{shown} was materialised with other assets, which decides about no plan: {how}"
    )
    return False
