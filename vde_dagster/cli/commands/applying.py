"""`vde apply`, `vde run` and `vde audit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from vde_dagster.cli.opening import on_project
from vde_dagster.cli.options import (
    Concurrency,
    Create,
    EnvironmentName,
    SkipTests,
    Yes,
    asking,
)
from vde_dagster.cli.output import Output
from vde_dagster.errors import UsageError
from vde_dagster.planning.plan.plan_options import NOTHING_SAID, PlanOptions

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace

PlanId = Annotated[str | None, typer.Option("--plan", metavar="ID", help="Apply this stored plan.")]


@asking()
@on_project
def apply(
    workspace: Workspace,
    output: Output,
    environment: EnvironmentName,
    plan_id: PlanId = None,
    options: PlanOptions = NOTHING_SAID,
    skip_tests: SkipTests = False,
    concurrency: Concurrency = None,
    yes: Yes = False,
    create: Create = False,
) -> None:
    """Bring an environment to the project's state.

    Runs the unit tests of what changed, computes what is missing, audits it, and publishes all of
    it at once. Without --plan it plans first, and asks before it applies when it runs on a
    terminal; where columns that production shows go or change their type, it needs --yes or --plan
    elsewhere. Examples: vde apply prod; vde apply dev --select marts.daily+ --start 2024-01-01;
    vde apply prod --plan prod-1a2b3c4d5e
    """
    if plan_id is not None and options:
        raise UsageError(
            "--plan takes no other choices: they are part of the stored plan",
            hint="plan again with these options, or leave them out",
        )
    from vde_dagster.cli.applying import (
        apply_and_report,
        confirm,
        meant_environment,
        previous_snapshots,
    )

    if plan_id is not None:
        plan = workspace.store.plans.load(plan_id)
        if plan.environment != environment.strip().lower():
            raise UsageError(
                f"plan {plan_id} is for environment '{plan.environment}', not '{environment}'",
                hint=f"run: vde apply {plan.environment} --plan {plan_id}",
            )
    else:
        plan = workspace.plan(
            meant_environment(output, workspace, environment, create=create, yes=yes),
            options,
            at_once=True,
        )
    if not output.as_json and (plan.warnings or not plan.is_empty):
        from vde_dagster.cli.report_view import show_report, show_warnings
        from vde_dagster.reports.plan import plan_report

        if plan.is_empty:
            show_warnings(output.err, plan.warnings)
        else:
            show_report(output.err, plan_report(plan, previous_snapshots(workspace, plan)))
    breaks = workspace.plans.breaks_to_accept(plan)
    if not confirm(output, plan, breaks, yes=yes, named=plan_id is not None):
        output.note(f"not applied; later: vde apply {plan.environment} --plan {plan.id}")
        return
    apply_and_report(workspace, plan, output, concurrency, skip_tests=skip_tests)


@asking("full", "ignore_cron", "execution_time")
@on_project
def run(
    workspace: Workspace,
    output: Output,
    environment: EnvironmentName,
    options: PlanOptions = NOTHING_SAID,
    concurrency: Concurrency = None,
) -> None:
    """Compute and publish what is due in an environment.

    Works on the environment as it was published, whatever the files say now. Tables that are made
    whole are left as they are where nothing that they are made of has changed. Examples:
    vde run prod; vde run prod --full
    """
    from vde_dagster.cli.applying import apply_and_report

    plan = workspace.plans.due(environment, options, at_once=True)
    apply_and_report(workspace, plan, output, concurrency)


OfModels = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="MODELS",
        help="Only these: name, +name, name+, tag:name or a glob; give it again for more.",
    ),
]


@on_project
def audit(
    workspace: Workspace, output: Output, environment: EnvironmentName, model: OfModels = None
) -> None:
    """Run the audits of what an environment shows.

    Nothing is filled or published; what they find is kept, and shown in Dagster. The exit code is 1
    when an audit that blocks finds rows. Example: vde audit prod --model marts.daily
    """
    from vde_dagster.cli.findings_view import audits_json, show_audits

    report = workspace.environments.audit(environment, select=model or ())
    output.result(audits_json(report), lambda console: show_audits(console, report))
    if report.is_blocked:
        raise typer.Exit(1)
