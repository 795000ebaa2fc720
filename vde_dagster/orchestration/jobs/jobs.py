"""Jobs with launchpad forms for actions of the command line; schedules; hooks at a run's end."""

# Dagster evaluates the annotations of decorated functions, so they are not postponed here.
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from vde_dagster.base.names import current_user
from vde_dagster.base.times import parse_duration
from vde_dagster.errors import UsageError, VdeError
from vde_dagster.execution.environments.environments import FreezeResult
from vde_dagster.execution.environments.rollback import RollbackResult
from vde_dagster.execution.plans.due_work import pending_work
from vde_dagster.execution.published_version import find_similar_environment
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.config import (
    AutoApplyConfig,
    DropConfig,
    FreezeConfig,
    JanitorConfig,
    PlanAndApplyConfig,
    PlanConfig,
    RollbackConfig,
    RunConfig,
    form_schema,
)
from vde_dagster.orchestration.dagster_private import job_assets
from vde_dagster.orchestration.events.applying import Launcher, Work
from vde_dagster.orchestration.events.plans import (
    delete_closed_partitions,
    page_events,
    require_proposed,
)
from vde_dagster.orchestration.events.provenance import ProjectionContext
from vde_dagster.orchestration.events.records import passing_events
from vde_dagster.orchestration.events.retention import delete_old_runs
from vde_dagster.orchestration.events.steps import guarded_step
from vde_dagster.orchestration.location_refresh import refresh_after
from vde_dagster.orchestration.models.catalog import AssetCatalog
from vde_dagster.orchestration.names import ENVIRONMENT_TAG, PLAN_TAG, Names, dagster_name
from vde_dagster.orchestration.pages.janitor_page import janitor_event, janitor_metadata
from vde_dagster.orchestration.pages.plan_page import checks_by_spark, find_readers
from vde_dagster.overviews.environments import (
    freeze_notes,
    freeze_sentence,
    janitor_section,
    rollback_notes,
    rollback_sentence,
)
from vde_dagster.planning.environments.environment import PRODUCTION, environment_name
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.project.settings import Settings
from vde_dagster.reports.reasons import describe_breaks

Hooks = frozenset[dg.HookDefinition]
EXECUTOR = dg.in_process_executor


_JOBS: list[tuple[str, type[dg.Config], str, "Body"]] = []


def asset_jobs(names: Names, hooks: Hooks) -> list[Any]:
    """Return the jobs over the control assets, partitioned by plan id."""
    jobs = (
        ("plan", names.plan_key, "Show a stored plan: materialize its partition of vde/plan."),
        ("apply", names.apply_key, "Approve a plan: materialize its partition of vde/apply."),
    )
    return [
        dg.define_asset_job(
            names.named(f"vde_{name}_job"),
            selection=dg.AssetSelection.assets(key),
            description=description,
            hooks=set(hooks),
            tags=names.tags,
            executor_def=EXECUTOR,
        )
        for name, key, description in jobs
    ]


Body = Callable[[Work, Any], Iterator[Any]]
"""Function that does a step's work, given the values of the job's form. Yields the output last."""


def op_jobs(catalog: AssetCatalog, settings: Settings, hooks: Hooks) -> dict[str, dg.JobDefinition]:
    """Return the jobs without partitions. Keys are the job names without the project's prefix."""
    names = catalog.names
    # The pages of the listed models show these jobs. Dagster hides the launchpad of such jobs, so
    # people use `vde_run` and `vde/apply`.
    computed = {
        AUTO_APPLY: _filled_assets(catalog),
        **{
            scheduled_job(environment): _filled_assets(catalog, environment)
            for environment in crons(settings)
        },
    }

    def operation(config: type[dg.Config], body: Body) -> dg.OpDefinition:
        @dg.op(
            name=names.named(body.__name__),
            description=body.__doc__,
            config_schema=form_schema(config),
            required_resource_keys={names.resource},
        )
        @guarded_step
        def step(context: dg.OpExecutionContext) -> Iterator[Any]:
            work = Work(context, ProjectionContext.from_step(context, catalog))
            yield from body(work, config(**context.op_config))
            refresh_after(context, work.workspace)

        return step

    def job(name: str, step: dg.OpDefinition, description: str) -> dg.JobDefinition:
        graph = dg.GraphDefinition(names.named(name), node_defs=[step], description=description)
        return graph.to_job(
            tags=names.tags,
            executor_def=EXECUTOR,
            hooks=set(hooks),
            asset_layer=job_assets(computed[name]) if name in computed else None,
        )

    steps = {name: operation(config, body) for name, config, _, body in _JOBS}
    jobs = {name: job(name, steps[name], description) for name, _, description, _ in _JOBS}
    for environment in crons(settings):
        name = scheduled_job(environment)
        description = f"Compute the due intervals of {environment}; its schedule launches this job."
        jobs[name] = job(name, steps["vde_run"], description)
    return jobs


AUTO_APPLY = "vde_auto_apply"
"""Job that the sensor launches to apply a plan automatically."""


def scheduled_job(environment: str) -> str:
    """Return the name of an environment's schedule, which is also the name of its job."""
    return dagster_name(f"vde_run_{environment}")


def crons(settings: Settings) -> dict[str, str]:
    """Return the cron of each scheduled environment. By default, only production has one."""
    given = settings.dagster.schedules.items()
    return {environment_name(name): cron for name, cron in given} or {PRODUCTION: HOURLY}


def _filled_assets(catalog: AssetCatalog, environment: str = "") -> list[dg.AssetKey]:
    """Return the assets that runs of an environment fill, or all if the environment is new."""
    known = catalog.live.environments.get(environment)
    return [
        catalog.key(name)
        for name, partitions in catalog.partitions.items()
        if partitions is not None and (known is None or name in known.entries)
    ]


def _job(name: str, config: type[dg.Config], description: str) -> Callable[[Body], Body]:
    """Register a function as a job's step. The step has the function's name and docstring."""

    def register(body: Body) -> Body:
        _JOBS.append((name, config, description, body))
        return body

    return register


def _planned(workspace: Workspace, config: PlanConfig) -> Plan:
    target, options = config.target(), config.options()
    meant = None if config.create else find_similar_environment(workspace.store, target)
    if meant is not None:
        raise UsageError(
            f"environment '{target}' does not exist; did you mean '{meant}'?",
            hint="to create an environment with this name, set `create: true` in the config",
        )
    return workspace.plan(target, options, author=current_user())


def _show(work: Work, plan: Plan) -> Iterator[Any]:
    context = work.context
    if plan.is_empty:
        missing = pending_work(work.workspace, plan)
        what = f"nothing to publish; {missing.sentence()}" if missing else "nothing to do"
        context.log.info(f"{plan.environment}: {what}")
        return
    work.reporter.add_plan(plan.id)
    shown = page_events(work.projection, plan, find_readers(context, work.projection.catalog, plan))
    yield from passing_events(work.reporter.effects, shown)
    context.log.info(f"plan {plan.id}: read it in {work.names.plan_key.to_user_string()}")


@_job(
    "vde_new_plan",
    PlanConfig,
    "Create a plan for any environment, to review it in vde/plan before you apply it.",
)
def plan(work: Work, config: PlanConfig) -> Iterator[Any]:
    """Compare the project with an environment and store the plan."""
    workspace = work.workspace
    made = _planned(workspace, config)
    yield from _show(work, made)
    refresh_after(work.context, workspace)
    if not made.is_empty:
        queries = workspace.settings.dagster.check_queries
        found = checks_by_spark(workspace, made, work.names.plan_key, queries=queries)
        yield from passing_events(work.reporter.effects, found)
    yield dg.Output(made.id)


@_job(
    "vde_plan_and_apply",
    PlanAndApplyConfig,
    "Update an environment to the project's files in one step: plan, then apply the plan.",
)
def plan_and_apply(work: Work, config: PlanAndApplyConfig) -> Iterator[Any]:
    """Plan the project for an environment and apply the plan immediately."""
    names = work.names
    made = _planned(work.workspace, config)
    yield from _show(work, made)
    breaks = () if config.accept_breaks else work.workspace.plans.breaks_to_accept(made)
    if breaks:
        raise UsageError(
            f"plan {made.id} was not applied because it breaks published columns: "
            f"{describe_breaks(breaks)}",
            hint=f"read the plan in {names.plan_key.to_user_string()}, then approve it in "
            f"{names.apply_key.to_user_string()}; or launch this job again with "
            "`accept_breaks: true`",
        )
    yield from _apply(
        work, made, concurrency=config.concurrency, skip_tests=bool(config.skip_tests)
    )


@_job("vde_run", RunConfig, "Compute the due intervals of an environment.")
def run(work: Work, config: RunConfig) -> Iterator[Any]:
    """Compute the due intervals of an environment with its published definitions."""
    made = work.workspace.plans.due(config.environment, full=config.full)
    yield from _show(work, made)
    yield from _apply(work, made, concurrency=config.concurrency)


@_job(
    AUTO_APPLY,
    AutoApplyConfig,
    "Apply a plan that the sensor created, in environments that the setting `auto_apply` names.",
)
def auto_apply(work: Work, config: AutoApplyConfig) -> Iterator[Any]:
    """Apply a plan that no person has approved."""
    made = work.projection.store.plans.load(config.plan)
    require_proposed(work.workspace, made)
    yield from _apply(work, made, verified=False)


def _apply(work: Work, plan: Plan, **options: Any) -> Iterator[Any]:
    if not plan.is_empty:
        run = work.context.run
        work.reporter.record_planned_partitions(run, {work.names.apply_key: [plan.id]})
        who = Launcher.from_run(run.tags, plan=plan).name
        yield from work.apply(plan, who=who, **options)
        delete_closed_partitions(work.workspace, work.projection.instance)
    yield dg.Output(plan.id)


@_job(
    "vde_rollback", RollbackConfig, "Roll an environment back to an earlier version and its data."
)
def rollback(work: Work, config: RollbackConfig) -> Iterator[Any]:
    """Publish an earlier version of an environment again."""
    done = work.workspace.environments.rollback(
        config.environment, config.version, definitions_only=config.definitions_only
    )
    _log(work.context.log, done, rollback_sentence(done), rollback_notes(done))
    yield from work.new_events()
    delete_closed_partitions(work.workspace, work.projection.instance)
    yield dg.Output(done.environment.version)


def _log(
    log: dg.DagsterLogManager,
    done: "RollbackResult | FreezeResult",
    sentence: str,
    notes: Iterable[str],
) -> None:
    log.info(sentence)
    for note in notes:
        log.warning(note)
    for failed in done.failed_statements:
        log.error(f"{failed.model}: {failed.error}: {failed.statement}")


@_job("vde_freeze", FreezeConfig, "Freeze a version of an environment as a new environment.")
def freeze(work: Work, config: FreezeConfig) -> Iterator[Any]:
    """Create an environment that keeps serving one version."""
    keep = parse_duration(config.keep, "the config's keep") if config.keep else None
    done = work.workspace.environments.freeze(config.version, config.name, keep)
    _log(work.context.log, done, freeze_sentence(done), freeze_notes(done))
    yield from work.new_events()
    yield dg.Output(done.environment.name)


@_job(
    "vde_janitor",
    JanitorConfig,
    "Drop expired environments and unreferenced tables. By default, the job only reports them; set "
    "`dry_run: false` to drop them.",
)
def janitor(work: Work, config: JanitorConfig) -> Iterator[Any]:
    """Drop data that no kept version of any environment uses."""
    report = work.workspace.maintenance.janitor(dry_run=config.dry_run)
    old = delete_old_runs(work.projection, config.keep_runs_days, dry_run=config.dry_run)
    delete_closed_partitions(work.workspace, work.projection.instance)
    refresh_after(work.context, work.workspace)
    work.context.log.info(janitor_section(report).title)
    metadata = janitor_metadata(report)
    event = janitor_event(metadata, work.names, dry_run=report.dry_run)
    yield from passing_events(work.reporter.effects, [event])
    metadata = {**metadata, "vde/old_runs": old}
    if report.failures:
        subjects = ", ".join(decision.subject for decision in report.failures)
        raise dg.Failure(
            f"{len(report.failures)} cleanup steps failed: {subjects}; the next run retries all "
            "except refused deletions",
            metadata=metadata,
            allow_retries=False,
        )
    yield dg.Output(None, metadata=metadata)


@_job("vde_drop_environment", DropConfig, "Drop an environment other than production.")
def drop_environment(work: Work, config: DropConfig) -> Iterator[Any]:
    """Mark an environment as expired."""
    work.workspace.environments.drop(config.environment)
    janitor = work.names.named("vde_janitor")
    message = f"the next cleanup (job {janitor}) drops {config.environment}"
    work.context.log.info(message)
    delete_closed_partitions(work.workspace, work.projection.instance)
    yield dg.Output(None)


HOURLY = "0 * * * *"


def schedules(
    root: Path, settings: Settings, jobs: Mapping[str, dg.JobDefinition]
) -> list[dg.ScheduleDefinition]:
    # Schedules named in the settings run from the start. Without any, production gets an hourly
    # schedule that is off.
    names, stopped = Names.from_settings(settings), dg.DefaultScheduleStatus.STOPPED
    running = dg.DefaultScheduleStatus.RUNNING if settings.dagster.schedules else stopped
    out = [
        dg.ScheduleDefinition(
            name=names.named(scheduled_job(environment)),
            description=f"Computes the due intervals of {environment}.",
            job=jobs[scheduled_job(environment)],
            cron_schedule=cron,
            execution_timezone=settings.dagster.schedule_tz,
            execution_fn=_tick(root, names, environment),
            default_status=running,
        )
        # A run fills only what is due by each model's cron, so a schedule may tick more often.
        for environment, cron in crons(settings).items()
    ]
    out.append(
        dg.ScheduleDefinition(
            name=names.named("vde_janitor"),
            description="Drops expired environments and unreferenced tables.",
            job=jobs["vde_janitor"],
            run_config={"ops": {names.named("janitor"): {"config": {"dry_run": False}}}},
            cron_schedule=settings.dagster.janitor_cron,
            execution_timezone=settings.dagster.schedule_tz,
            default_status=dg.DefaultScheduleStatus.RUNNING,
        )
    )
    return out


def _tick(
    root: Path, names: Names, environment: str
) -> Callable[[dg.ScheduleEvaluationContext], dg.RunRequest | dg.SkipReason]:
    def tick(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        with Workspace.open(root) as workspace:
            if not workspace.store.environments.exists(environment):
                return dg.SkipReason(
                    f"environment {environment!r} does not exist yet: create it with "
                    f"`vde apply {environment}` or the job {names.named('vde_plan_and_apply')}; or "
                    "remove it from [tool.vde.dagster] schedules"
                )
            try:
                if workspace.plans.due(environment, save=False).is_empty:
                    return dg.SkipReason(f"no intervals are due in {environment}")
            except VdeError as error:
                # The run fails with this error: the failure is visible and calls the project's
                # hooks.
                context.log.warning(f"due intervals of {environment} cannot be planned: {error}")
        return dg.RunRequest(
            run_config={"ops": {names.named("run"): {"config": {"environment": environment}}}},
            tags={ENVIRONMENT_TAG: environment},
        )

    return tick


@dataclass(frozen=True, slots=True)
class Notification:
    """The result of a job's run, for `notify` of `vde_definitions`."""

    succeeded: bool
    job: str
    run_id: str
    environment: str | None
    plan_id: str | None
    error: str | None = None


def notification_hooks(notify: Callable[[Notification], None]) -> frozenset[dg.HookDefinition]:
    """Return hooks that call a function when a job of the project succeeds or fails."""

    def notify_end(context: dg.HookContext, succeeded: bool) -> None:
        run = context.instance.get_run_by_id(context.run_id)
        tags = dict(run.tags) if run else {}
        error = context.op_exception
        notify(
            Notification(
                succeeded=succeeded,
                job=context.job_name,
                run_id=context.run_id,
                environment=tags.get(ENVIRONMENT_TAG),
                plan_id=tags.get(PLAN_TAG),
                error=str(error) if error else None,
            )
        )

    @dg.success_hook(name="vde_notify_success")
    def succeeded(context: dg.HookContext) -> None:
        notify_end(context, True)

    @dg.failure_hook(name="vde_notify_failure")
    def failed(context: dg.HookContext) -> None:
        notify_end(context, False)

    return frozenset({succeeded, failed})
