"""The jobs of the launchpad: everything that the command line does, with a form to fill in."""

# Dagster reads the annotations of decorated functions, so they are not postponed here.
from collections.abc import Iterator
from typing import Any

import dagster as dg

from vde_dagster.base.times import instant_text, parse_duration
from vde_dagster.errors import UsageError
from vde_dagster.lakehouse.maintenance.janitor import JanitorReport
from vde_dagster.orchestration.config import (
    DropConfig,
    FreezeConfig,
    JanitorConfig,
    PlanAndApplyConfig,
    PlanConfig,
    RollbackConfig,
    RunConfig,
)
from vde_dagster.orchestration.events.applying import Work, person_of
from vde_dagster.orchestration.events.plan_events import add_plan, forget_past_plans
from vde_dagster.orchestration.events.publication import published_events
from vde_dagster.orchestration.events.records import (
    delete_partition,
    passing_events,
    plan_materializations,
)
from vde_dagster.orchestration.events.sync import gone_back, show_tables
from vde_dagster.orchestration.failures import as_failure
from vde_dagster.orchestration.location_refresh import refresh_after
from vde_dagster.orchestration.models.catalog import AssetCatalog
from vde_dagster.orchestration.names import (
    ENVIRONMENT_TAG,
    PLAN_TAG,
    Names,
)
from vde_dagster.orchestration.pages.markdown import markdown_table
from vde_dagster.orchestration.pages.plan_page import (
    breaking_check,
    checks_by_spark,
    estimator,
    plan_metadata,
    readers_of,
)
from vde_dagster.planning.environments.contracts import describe_breaks
from vde_dagster.planning.plan.plan import Plan

Hooks = frozenset[dg.HookDefinition]
EXECUTOR = dg.in_process_executor


def asset_jobs(names: Names, hooks: Hooks) -> list[Any]:
    """Return the jobs over the control assets, by partition: a plan's id."""
    return [
        dg.define_asset_job(
            names.named("vde_plan_job"),
            selection=dg.AssetSelection.assets(names.plan_key),
            description="Show a stored plan: materialise its partition of vde/plan.",
            hooks=set(hooks),
            tags=names.tags,
            executor_def=EXECUTOR,
        ),
        dg.define_asset_job(
            names.named("vde_apply_job"),
            selection=dg.AssetSelection.assets(names.apply_key),
            description="Approve a plan: materialise its partition of vde/apply.",
            hooks=set(hooks),
            tags=names.tags,
            executor_def=EXECUTOR,
        ),
    ]


def op_jobs(catalog: AssetCatalog, hooks: Hooks) -> list[dg.JobDefinition]:
    """Return the jobs that need no partition."""
    return [
        _new_plan(catalog, hooks),
        _plan_and_apply(catalog, hooks),
        _run(catalog, hooks),
        _rollback(catalog, hooks),
        freeze_job(catalog, hooks, EXECUTOR),
        _janitor(catalog, hooks),
        _drop_environment(catalog, hooks),
    ]


def plan_as_configured(workspace: Any, config: PlanConfig) -> Plan:
    """Compare the project with an environment, within what the form says.

    Raises:
        UsageError: The environment is new, its name looks mistyped, and the form does not say
            that it is meant.
    """
    from vde_dagster.execution.published_version import likely_meant
    from vde_dagster.execution.warehouse import current_user

    options = config.options()
    meant = None if config.create else likely_meant(workspace.store, config.environment)
    if meant is not None:
        raise UsageError(
            f"there is no environment '{config.environment}': did you mean '{meant}'?",
            hint="`create: true` in the config makes a new one of that name",
        )
    plan: Plan = workspace.plan(config.environment, options, author=current_user())
    return plan


def show_plan(
    context: dg.OpExecutionContext, catalog: AssetCatalog, workspace: Any, plan: Plan
) -> Iterator[Any]:
    """Give a plan its partition and its page."""
    if plan.is_empty:
        from vde_dagster.execution.plans.pending_work import pending_work

        missing = pending_work(workspace, plan)
        what = f"nothing to publish; {missing.sentence()}" if missing else "nothing to do"
        context.log.info(f"{plan.environment}: {what}")
        return
    effects = workspace.store.database.effects
    add_plan(effects, context.instance, catalog.names, plan.id)
    readers = readers_of(context, catalog, plan)
    estimate = estimator(context.instance, catalog)
    page = dg.AssetMaterialization(
        asset_key=catalog.names.plan_key,
        partition=plan.id,
        metadata=plan_metadata(workspace.store, plan, estimate, readers, catalog.names),
        tags={PLAN_TAG: plan.id, ENVIRONMENT_TAG: plan.environment},
    )
    check = dg.AssetCheckEvaluation(**breaking_check(plan, readers, catalog.names.plan_key))
    yield from passing_events(effects, (page, check))
    context.log.info(f"plan {plan.id} is in vde/plan; approve it in vde/apply")


def _new_plan(catalog: AssetCatalog, hooks: Hooks) -> dg.JobDefinition:
    names = catalog.names

    @dg.op(
        name=names.named("plan"),
        description="Compare the project with an environment and store the plan.",
        required_resource_keys={names.resource},
    )
    def plan(context: dg.OpExecutionContext, config: PlanConfig) -> Iterator[Any]:
        workspace = names.workspace(context)
        with as_failure():
            made = plan_as_configured(workspace, config)
        yield from show_plan(context, catalog, workspace, made)
        refresh_after(context, workspace)
        if not made.is_empty:
            queries = workspace.settings.dagster.check_queries
            found = (
                dg.AssetCheckEvaluation(**check)
                for check in checks_by_spark(workspace, made, names.plan_key, queries=queries)
            )
            yield from passing_events(workspace.store.database.effects, found)
        yield dg.Output(made.id)

    @dg.job(
        name=names.named("vde_new_plan"),
        description="Make a plan for any environment, to be read in vde/plan before it is applied.",
        tags=names.tags,
        executor_def=EXECUTOR,
        hooks=set(hooks),
    )
    def vde_new_plan() -> None:
        plan()

    return vde_new_plan


def _plan_and_apply(catalog: AssetCatalog, hooks: Hooks) -> dg.JobDefinition:
    names = catalog.names

    @dg.op(
        name=names.named("plan_and_apply"),
        description="Plan the project for an environment and apply the plan at once.",
        required_resource_keys={names.resource},
    )
    def plan_and_apply(context: dg.OpExecutionContext, config: PlanAndApplyConfig) -> Iterator[Any]:
        workspace = names.workspace(context)
        with as_failure():
            plan = plan_as_configured(workspace, config)
        yield from show_plan(context, catalog, workspace, plan)
        with as_failure():
            _require_accepted(workspace, plan, names, accepted=config.accept_breaks)
        yield from apply_here(
            context, catalog, workspace, plan, config.concurrency, skip_tests=config.skip_tests
        )
        yield dg.Output(plan.id)
        refresh_after(context, workspace)

    @dg.job(
        name=names.named("vde_plan_and_apply"),
        description="Bring an environment to the project's state in one go (what `make run` does).",
        tags=names.tags,
        executor_def=EXECUTOR,
        hooks=set(hooks),
    )
    def vde_plan_and_apply() -> None:
        plan_and_apply()

    return vde_plan_and_apply


def _require_accepted(workspace: Any, plan: Plan, names: Names, *, accepted: bool) -> None:
    """Make sure that somebody has said yes to what a plan breaks.

    Raises:
        UsageError: Columns that are published go or change their type, and nobody has.
    """
    breaks = () if accepted else workspace.plans.breaks_to_accept(plan)
    if breaks:
        raise UsageError(
            f"plan {plan.id} was not applied, it breaks what is published: "
            f"{describe_breaks(breaks)}",
            hint=f"read it in {names.plan_key.to_user_string()}, then approve it in "
            f"{names.apply_key.to_user_string()}; or launch this again with `accept_breaks: true`",
        )


def _run(catalog: AssetCatalog, hooks: Hooks) -> dg.JobDefinition:
    names = catalog.names

    @dg.op(
        name=names.named("run"),
        description="Compute what is due in an environment, as it was published.",
        required_resource_keys={names.resource},
    )
    def run(context: dg.OpExecutionContext, config: RunConfig) -> Iterator[Any]:
        workspace = names.workspace(context)
        with as_failure():
            plan = workspace.plans.due(config.environment, full=config.full)
        yield from show_plan(context, catalog, workspace, plan)
        yield from apply_here(context, catalog, workspace, plan, config.concurrency)
        yield dg.Output(plan.id)
        refresh_after(context, workspace)

    @dg.job(
        name=names.named("vde_run"),
        description="Compute what is due in an environment; its schedule launches this.",
        tags=names.tags,
        executor_def=EXECUTOR,
        hooks=set(hooks),
    )
    def vde_run() -> None:
        run()

    return vde_run


def apply_here(
    context: dg.OpExecutionContext,
    catalog: AssetCatalog,
    workspace: Any,
    plan: Plan,
    concurrency: int | None,
    *,
    skip_tests: bool = False,
) -> Iterator[Any]:
    """Apply a plan in this step, with the event that approves it in `vde/apply`."""
    if plan.is_empty:
        return
    effects, key = workspace.store.database.effects, catalog.names.apply_key
    plan_materializations(effects, context.instance, context.run, key, [plan.id])
    work = Work(context, catalog, workspace)
    who = person_of(context.run.tags, plan)
    yield from work.apply(plan, concurrency=concurrency, who=who, skip_tests=skip_tests)
    approved = dg.AssetMaterialization(
        asset_key=catalog.names.apply_key,
        partition=plan.id,
        metadata=work.metadata(),
        tags={PLAN_TAG: plan.id, ENVIRONMENT_TAG: plan.environment},
    )
    yield from passing_events(effects, [approved, *work.page(plan)])
    forget_past_plans(workspace, context.instance, catalog.names)


def _rollback(catalog: AssetCatalog, hooks: Hooks) -> dg.JobDefinition:
    names = catalog.names

    @dg.op(
        name=names.named("rollback"),
        description="Publish an earlier version of an environment again.",
        required_resource_keys={names.resource},
    )
    def rollback(context: dg.OpExecutionContext, config: RollbackConfig) -> Iterator[Any]:
        workspace = names.workspace(context)
        with as_failure():
            done = workspace.environments.rollback(
                config.environment, config.version, definitions_only=config.definitions_only
            )
        context.log.info(
            f"{config.environment} is version {done.environment.version}, "
            f"equal to version {done.restored}"
        )
        if done.moved:
            context.log.info(f"data back as they were: {', '.join(map(str, done.moved))}")
        for other, held in done.holding.items():
            names_held = ", ".join(map(str, held))
            context.log.info(f"{other} goes on showing what it showed of {names_held}")
        for one in done.reverted:
            context.log.warning(f"{one.name} {'; '.join(one.sentences())}")
        for name, intervals in done.missing.items():
            context.log.warning(f"{name} misses {intervals.text}: vde_run computes it")
        for failed in done.failed_statements:
            context.log.error(f"{failed.model}: {failed.error}: {failed.statement}")
        # Where Dagster has to forget an asset, its checks go, too; so the events come after that.
        tables = gone_back(workspace.store, done.environment)
        sync = show_tables(workspace, context.instance, catalog.translator, tables, context.log)
        others = (workspace.store.environments.get(name) for name in done.holding)
        for published in (done.environment, *(other for other in others if other is not None)):
            events = published_events(
                catalog,
                workspace.store,
                context.instance,
                published,
                built=frozenset(),
                tags={ENVIRONMENT_TAG: published.name},
            )
            yield from passing_events(workspace.store.database.effects, events)
        if sync is not None:
            sync.checks()
        forget_past_plans(workspace, context.instance, catalog.names)
        yield dg.Output(done.environment.version)
        refresh_after(context, workspace)

    @dg.job(
        name=names.named("vde_rollback"),
        description="Take an environment back to an earlier version and its data.",
        tags=names.tags,
        executor_def=EXECUTOR,
        hooks=set(hooks),
    )
    def vde_rollback() -> None:
        rollback()

    return vde_rollback


def _janitor(catalog: AssetCatalog, hooks: Hooks) -> dg.JobDefinition:
    names = catalog.names

    @dg.op(
        name=names.named("janitor"),
        description="Drop what no kept version of any environment reaches.",
        required_resource_keys={names.resource},
    )
    def janitor(context: dg.OpExecutionContext, config: JanitorConfig) -> Iterator[Any]:
        workspace = names.workspace(context)
        with as_failure():
            report = workspace.maintenance.janitor(dry_run=config.dry_run)
        _forget_dropped(names, context.instance, workspace)
        refresh_after(context, workspace)
        metadata = report_metadata(report)
        context.log.info(
            f"{metadata['vde/steps']} steps, {report.bytes:,} bytes, {metadata['vde/kept']} kept"
        )
        if report.failures:
            subjects = ", ".join(decision.subject for decision in report.failures)
            raise dg.Failure(
                f"{len(report.failures)} steps failed, the next run tries again: {subjects}",
                metadata=metadata,
                allow_retries=False,
            )
        yield dg.Output(None, metadata=metadata)

    @dg.job(
        name=names.named("vde_janitor"),
        description="Clean up expired environments and tables that nothing refers to.",
        tags=names.tags,
        executor_def=EXECUTOR,
        hooks=set(hooks),
    )
    def vde_janitor() -> None:
        janitor()

    return vde_janitor


def _drop_environment(catalog: AssetCatalog, hooks: Hooks) -> dg.JobDefinition:
    names = catalog.names

    @dg.op(
        name=names.named("drop_environment"),
        description="Let an environment expire now.",
        required_resource_keys={names.resource},
    )
    def drop_environment(context: dg.OpExecutionContext, config: DropConfig) -> None:
        workspace = names.workspace(context)
        with as_failure():
            workspace.environments.drop(config.environment)
        context.log.info(f"{config.environment} is dropped with the next clean-up (vde_janitor)")
        _forget_dropped(names, context.instance, workspace)
        refresh_after(context, workspace)

    @dg.job(
        name=names.named("vde_drop_environment"),
        description="Drop an environment other than production.",
        tags=names.tags,
        executor_def=EXECUTOR,
        hooks=set(hooks),
    )
    def vde_drop_environment() -> None:
        drop_environment()

    return vde_drop_environment


def _forget_dropped(names: Names, instance: dg.DagsterInstance, workspace: Any) -> None:
    """Take partitions of environments away that exist no more, and of plans made for them."""
    effects = workspace.store.database.effects
    store = workspace.store.environments
    alive = set(store.names()) - set(store.expired())
    for name in instance.get_dynamic_partitions(str(names.environments.name)):
        if name not in alive:
            delete_partition(effects, instance, names.environments, name)
    forget_past_plans(workspace, instance, names)


def freeze_job(
    catalog: AssetCatalog, hooks: frozenset[dg.HookDefinition], executor: dg.ExecutorDefinition
) -> dg.JobDefinition:
    """Return the job.

    Args:
        catalog: The code location's models and names.
        hooks: What tells people how runs ended.
    """
    names = catalog.names

    @dg.op(
        name=names.named("freeze"),
        description="Make an environment that shows a version for ever.",
        required_resource_keys={names.resource},
    )
    def freeze(context: dg.OpExecutionContext, config: FreezeConfig) -> Iterator[Any]:
        workspace = names.workspace(context)
        with as_failure():
            keep = parse_duration(config.keep, "the config's keep") if config.keep else None
            done = workspace.environments.freeze(config.version, config.name, keep)
        made = done.environment
        until = f"until {instant_text(made.expires_at)}" if made.expires_at else "for ever"
        context.log.info(
            f"{made.name} shows {made.frozen}, {done.tables} tables at what they held; kept {until}"
        )
        if done.live:
            context.log.warning(
                f"not frozen: {', '.join(map(str, done.live))}; external tables have no versions"
            )
        for failed in done.failed_statements:
            context.log.error(f"{failed.model}: {failed.error}: {failed.statement}")
        events = published_events(
            catalog,
            workspace.store,
            context.instance,
            made,
            built=frozenset(),
            tags={ENVIRONMENT_TAG: made.name},
        )
        yield from passing_events(workspace.store.database.effects, events)
        yield dg.Output(made.name)
        refresh_after(context, workspace)

    @dg.job(
        name=names.named("vde_freeze"),
        description="Freeze a version of an environment under a name of its own.",
        tags=names.tags,
        executor_def=executor,
        hooks=set(hooks),
    )
    def vde_freeze() -> None:
        freeze()

    return vde_freeze


_MOST = 200


def report_metadata(report: JanitorReport) -> dict[str, Any]:
    """Return counts, bytes, and a table of what was done with its reasons; the JSON holds all."""
    acted = report.acted
    facts: dict[str, Any] = {
        "vde/dry_run": report.dry_run,
        "vde/steps": len(acted),
        "vde/kept": len(report.decisions) - len(acted),
        "vde/failures": len(report.failures),
        "vde/bytes": report.bytes,
        "vde/decisions": dg.MetadataValue.json(report.to_json()["decisions"]),
    }
    if acted:
        rows = [
            {
                "action": decision.action.replace("_", " "),
                "subject": decision.subject,
                "reason": decision.error or decision.reason,
                "outcome": decision.outcome,
                "bytes": "" if decision.bytes is None else decision.bytes,
            }
            for decision in acted[:_MOST]
        ]
        facts["vde/report"] = dg.MetadataValue.md(markdown_table(rows))
    return facts
