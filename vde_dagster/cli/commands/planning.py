"""Commands `vde plan`, `plan reject`, `diff`, `check-intervals`, `apply`, `run` and `audit`."""

from __future__ import annotations

import sys
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vde_dagster.base.names import current_user
from vde_dagster.base.texts import count
from vde_dagster.cli.options import (
    PATTERNS,
    Check,
    Concurrency,
    Create,
    EnvironmentName,
    Models,
    NoDiff,
    OptionalEnvironment,
    Propose,
    SkipTests,
    Summary,
    Yes,
    on_project,
    with_plan_options,
)
from vde_dagster.cli.output import Output, print_json
from vde_dagster.errors import UsageError
from vde_dagster.planning.plan.plan import Change, Plan
from vde_dagster.planning.plan.plan_options import NOTHING_SAID, PlanOptions
from vde_dagster.reports.plan_json import plan_json
from vde_dagster.terminal.tables import simple_table

if TYPE_CHECKING:
    from rich.console import Console

    from vde_dagster.execution.workspace import Workspace


PlanId = Annotated[str, typer.Argument(metavar="ID", help="The plan's id, from `vde plan`.")]
OtherEnvironment = Annotated[
    str | None, typer.Argument(metavar="[OTHER]", help="Environment to compare ENV with.")
]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Reason for the rejection.")]

CHANGES = 3
"""Exit code of `vde plan --exit-code` for a plan that is not empty."""


class Form(str, Enum):
    """Output format of a plan."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


PlanForm = Annotated[Form, typer.Option("--format", help="Text, JSON, or Markdown for reviews.")]
ExitCode = Annotated[
    bool, typer.Option("--exit-code", help="Exit with 3 if there is something to apply, else 0.")
]
Explain = Annotated[
    bool, typer.Option("--explain", help="Also list the stages of an apply, in order.")
]
Save = Annotated[
    Path | None,
    typer.Option("--save", metavar="FILE", help="Write a file for `vde apply --plan FILE`."),
]


@with_plan_options()
def plan(
    workspace: Workspace,
    output: Output,
    environment: OptionalEnvironment = None,
    options: PlanOptions = NOTHING_SAID,
    create: Create = False,
    check: Check = False,
    propose: Propose = False,
    summary: Summary = False,
    no_diff: NoDiff = False,
    explain: Explain = False,
    form: PlanForm = Form.TEXT,
    exit_code: ExitCode = False,
    save: Save = None,
) -> None:
    """Show what an apply would compute and publish.

    The plan is stored; apply it by its id, or reject it: vde plan reject ID. With --check, Spark
    analyzes the changed queries first; with --propose, the plan awaits approval in Dagster.
    Examples: vde plan prod; vde plan dev --check; vde plan dev --select marts.daily+ --start
    2024-01-01; vde plan prod --format markdown
    """
    from vde_dagster.cli.applying import confirm_environment

    if output.as_json and form is Form.MARKDOWN:
        raise UsageError(
            "--json and --format markdown cannot be combined", hint="remove one of them"
        )
    output = Output(output.as_json or form is Form.JSON)
    if summary and (explain or output.as_json or form is Form.MARKDOWN):
        raise UsageError(
            "--summary cannot be combined with --explain, --json and --format",
            hint="remove --summary, or remove --explain, --json and --format",
        )
    if explain and form is Form.MARKDOWN:
        raise UsageError(
            "--explain and --format markdown cannot be combined", hint="remove one of them"
        )
    made = workspace.plan(
        confirm_environment(
            output,
            workspace,
            environment or workspace.settings.dagster.default_environment,
            create=create,
        ),
        options,
        save=not check,
        author=current_user() if propose else None,
    )
    from vde_dagster.cli.applying import analyze_and_store as check_plan
    from vde_dagster.cli.applying import empty_plan_message
    from vde_dagster.execution.plans.due_work import pending_work
    from vde_dagster.planning.plan.stages import apply_stages, stage_json
    from vde_dagster.reports.plan import plan_report, text_changes
    from vde_dagster.reports.stages import stages_section
    from vde_dagster.terminal.reports import show_report, show_summary, show_warnings

    work = workspace.plans.estimate(made)
    analysis = check_plan(workspace, made, output) if check else None
    if save is not None and not made.is_empty:
        # Before the output, so that an error is the only JSON object.
        workspace.store.rights.require("plan", "save a plan")
        workspace.plans.files.save(made.id, save)
    without = no_diff or workspace.settings.no_diff
    previous = {} if without or made.is_empty else workspace.plans.previous_snapshots(made)
    stored = not made.is_empty and workspace.store.rights.has("plan")
    if form is Form.MARKDOWN:
        from vde_dagster.reports.markdown import plan_comment

        cost = f"\n{work.sentence()}\n" if work.models else ""
        sys.stdout.write(f"{plan_comment(made, previous)}\n{cost}")
    elif output.as_json:
        missing: dict[str, Any] = {"models": {}, "commands": []}
        if made.is_empty:
            missing = pending_work(workspace, made).to_json()
        against = [one.to_json() for one in workspace.plans.gates.stored_objections(made)]
        shown = {**plan_json(made), "stored": stored, "objections": against, "missing": missing}
        for model, told in zip(made.models, shown["models"], strict=True):
            told["diff"] = list(text_changes(made, model, previous))
        shown["estimate"] = work.to_json()
        if explain:
            shown["stages"] = [stage_json(stage) for stage in apply_stages(made)]
        print_json(shown | ({"check": analysis.to_json()} if analysis else {}))
    elif made.is_empty:
        output.out.print(empty_plan_message(workspace, made, selected=bool(options.select)))
        show_warnings(output.out, made.notices)
    elif summary:
        show_summary(output.out, plan_report(made))
    else:
        report = plan_report(made, previous)
        stages = (stages_section(made),) if explain else ()
        show_report(output.out, replace(report, rest=(*report.rest, *stages)))
    if work.models:
        output.note(work.sentence())
    if not made.is_empty:
        by_id = f"to apply it, run: vde apply {made.environment} --plan {made.id}"
        output.note(by_id if stored else "the plan is not stored: you lack the right to plan")
    if save is not None:
        output.note(_saved_note(made, save))
    if exit_code and not made.is_empty:
        raise typer.Exit(CHANGES)


def _saved_note(made: Plan, path: Path) -> str:
    import shlex

    from rich.markup import escape

    if made.is_empty:
        return f"nothing to apply: {escape(str(path))} was not written"
    command = escape(f"vde apply {made.environment} --plan {shlex.quote(str(path))}")
    return f"or from another checkout with the same state: {command}"


@on_project
def reject(workspace: Workspace, output: Output, plan_id: PlanId, reason: Reason = "") -> None:
    """Reject a stored plan, so that it cannot be applied.

    Dagster creates no new plan until the files change; `vde plan ENV` always creates one.

    Example: vde plan reject prod-1a2b3c4d5e --reason "it drops a column"
    """
    from vde_dagster.cli.shapes import instant_json

    record = workspace.plans.reject(plan_id, reason)
    said = {
        "plan": record.id,
        "environment": record.environment,
        "status": record.status,
        "message": record.message,
        "at": instant_json(record.finished_at),
    }
    output.result(said, f"{record.id} was {record.message}")


@on_project
def diff(
    workspace: Workspace,
    output: Output,
    environment: EnvironmentName,
    other: OtherEnvironment = None,
) -> None:
    """Show differences between the project and an environment, or between two environments.

    Compares definitions per model, and stores nothing. Examples: vde diff prod (files and
    production); vde diff dev prod (two environments); vde diff prod@41 prod@40 (two versions,
    including data)
    """
    if other is not None:
        _diff_environments(output, workspace, environment, other)
        return
    made = workspace.plan(environment, skip_backfill=True, remove_models=True, save=False)
    from vde_dagster.cli.report_view import diff_json, show_diffs
    from vde_dagster.execution.environments.compare import Difference

    previous = workspace.plans.previous_snapshots(made)
    found = [
        Difference(
            model.name,
            model.change,
            model.category,
            made.snapshots.get(model.snapshot_id or ""),
            previous.get(model.previous_snapshot_id or ""),
        )
        for model in made.models
        if model.change is not Change.UNCHANGED
    ]
    output.result(
        diff_json(made.environment, found),
        lambda console: show_diffs(console, made.environment, found),
    )


def _diff_environments(output: Output, workspace: Workspace, environment: str, other: str) -> None:
    from vde_dagster.cli.report_view import diff_json, show_data, show_diffs
    from vde_dagster.execution.environments.compare import compare_data, compare_environments

    new, old = (workspace.environments.named(name) for name in (environment, other))
    one, two = environment.strip().lower(), other.strip().lower()
    found = compare_environments(workspace, new, old)
    # Current environments are compared by definitions; versions also by data.
    versions = "@" in environment or "@" in other
    data = compare_data(workspace, new, old) if versions else ()
    shown = {**diff_json(one, found), "other": two}
    if versions:
        shown["data"] = [difference.to_json() for difference in data]

    def show(console: Console) -> None:
        if found or data:
            console.print(f"[bold]{one}[/], compared with [bold]{two}[/]:")
        if found or not data:
            show_diffs(console, two, found, same=f"{one} equals {two}")
        show_data(console, data)

    output.result(shown, show)


@with_plan_options("ignore_cron")
def check_intervals(
    workspace: Workspace,
    output: Output,
    environment: EnvironmentName,
    models: Models = None,
    options: PlanOptions = NOTHING_SAID,
) -> None:
    """List the intervals that an environment's tables are missing now; computes nothing.

    Examples: vde check-intervals prod; vde check-intervals prod marts.daily --ignore-cron
    """
    patterns = models or ()
    made = workspace.plans.due(environment, options, save=False, of=patterns)
    from vde_dagster.execution.plans.due_work import pending_work
    from vde_dagster.project.selection import select
    from vde_dagster.reports.document import short_time

    shown = {n: made.snapshots[e.snapshot_id].model for n, e in made.entries.items()}
    among = select(shown, patterns, workspace.changed_files)
    missing = pending_work(workspace, made, ignore_cron=options.ignore_cron)
    found = [
        (name, by, ranges, missing.units[name])
        for by, ranges_of in missing.by_environment.items()
        for name, ranges in ranges_of.items()
        if name in among
    ]
    rows = [
        (name, units, short_time(one.start), short_time(one.end))
        for name, _, ranges, units in found
        for one in ranges
    ]
    output.result(
        {
            "environment": made.environment,
            "models": [
                {"name": str(name), "filled_by": by, "count": units, "intervals": ranges.to_json()}
                for name, by, ranges, units in found
            ],
        },
        simple_table(("model", "intervals", "from", "until (UTC)"), rows)
        if rows
        else f"{count(len(among), 'model')}: no intervals are missing",
    )


StoredPlan = Annotated[
    str | None,
    typer.Option("--plan", metavar="ID", help="Apply this stored plan, or the plan in this file."),
]


@with_plan_options()
def apply(
    workspace: Workspace,
    output: Output,
    environment: EnvironmentName,
    plan_id: StoredPlan = None,
    options: PlanOptions = NOTHING_SAID,
    skip_tests: SkipTests = False,
    concurrency: Concurrency = None,
    yes: Yes = False,
    create: Create = False,
) -> None:
    """Update an environment to the project's files.

    Runs the unit tests of changed models, computes missing intervals, audits them, and publishes
    everything in one transaction. On a terminal it waits for confirmation. Without a terminal it
    requires --yes or --plan to remove a model or column, or to change a column's type, in
    production or in a protected environment. Examples: vde apply prod; vde apply dev --select
    marts.daily+ --start 2024-01-01; vde apply prod --plan prod-1a2b3c4d5e
    """
    if plan_id is not None and (options or create):
        raise UsageError(
            "--plan cannot be combined with plan options: the stored plan contains them",
            hint=f"plan again with these options: vde plan {environment}; or remove them",
        )
    from vde_dagster.cli.applying import (
        apply_and_report,
        confirm,
        confirm_environment,
        is_interactive,
    )

    if plan_id is not None:
        from vde_dagster.planning.environments.environment import environment_name

        file = workspace.plans.files.path(plan_id)
        if file is not None:
            plan = workspace.plans.files.open(file)
        else:
            plan = workspace.store.plans.load(plan_id)
        if plan.environment != environment_name(environment):
            raise UsageError(
                f"plan {plan_id} is for environment '{plan.environment}', not '{environment}'",
                hint=f"run: vde apply {plan.environment} --plan {plan_id}",
            )
    else:
        # A first plan computes all models. If it fails, the process ends without waiting for Spark.
        asks = is_interactive(output) and not yes
        is_first = not workspace.has_state or not workspace.store.environments.names()
        if is_first and workspace.process_ends and not asks:
            workspace.start_engine_for_first_plan()
        plan = workspace.plan(
            confirm_environment(output, workspace, environment, create=create, yes=yes),
            options,
            at_once=True,
        )
    if not output.as_json and (plan.notices or not plan.is_empty):
        from vde_dagster.reports.plan import plan_report
        from vde_dagster.terminal.reports import show_report, show_warnings

        if plan.is_empty:
            show_warnings(output.err, plan.notices)
        else:
            show_report(output.err, plan_report(plan, workspace.plans.previous_snapshots(plan)))
    breaks = workspace.plans.breaks_to_accept(plan)
    if not confirm(output, plan, breaks, yes=yes, named=plan_id is not None):
        output.note(f"not applied; to apply it, run: vde apply {plan.environment} --plan {plan.id}")
        return
    read = plan_id is not None or (is_interactive(output) and not yes)
    apply_and_report(workspace, plan, output, concurrency, approved=read, skip_tests=skip_tests)


@with_plan_options("full", "ignore_cron", "execution_time")
def run(
    workspace: Workspace,
    output: Output,
    environment: EnvironmentName,
    options: PlanOptions = NOTHING_SAID,
    concurrency: Concurrency = None,
) -> None:
    """Compute and publish the due intervals of an environment.

    Uses the published definitions, even if files have changed. Tables that are replaced as a whole
    are skipped if none of their inputs has changed; --ignore-cron includes models whose cron has
    not ticked yet. Examples: vde run prod; vde run prod --ignore-cron; vde run prod --full
    """
    from vde_dagster.cli.applying import apply_and_report

    plan = workspace.plans.due(environment, options, at_once=True)
    apply_and_report(workspace, plan, output, concurrency, ignore_cron=options.ignore_cron)


OfModels = Annotated[list[str] | None, typer.Option("--model", metavar="MODELS", help=PATTERNS)]


@on_project
def audit(
    workspace: Workspace, output: Output, environment: EnvironmentName, model: OfModels = None
) -> None:
    """Run the audits of an environment's published tables.

    Nothing is filled or published; the results are stored and shown in Dagster. The exit code is 1
    if a blocking audit finds rows. Example: vde audit prod --model marts.daily
    """
    from vde_dagster.cli.report_view import audits_json, show_audits

    report = workspace.environments.audit(environment, select=model or ())
    output.result(audits_json(report), lambda console: show_audits(console, report))
    if report.is_blocked:
        raise typer.Exit(1)
