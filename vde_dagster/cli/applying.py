"""Applying a plan from a terminal: checks, confirmation, Ctrl-C, and the result."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any

from vde_dagster.base.texts import count
from vde_dagster.cli.errors import Cancelled
from vde_dagster.cli.output import Output
from vde_dagster.cli.shapes import environment_json
from vde_dagster.errors import ExecutionError, ProjectError, UsageError
from vde_dagster.planning.environments.contracts import ContractBreak
from vde_dagster.planning.environments.environment import branch_name, environment_name
from vde_dagster.planning.plan.plan import Category, Plan, PlanKind
from vde_dagster.reports.plan_json import plan_json, skip_json
from vde_dagster.reports.reasons import describe_breaks

if TYPE_CHECKING:
    from rich.console import Console

    from vde_dagster.execution.events import ApplyResult, Event, VirtualUpdateRan
    from vde_dagster.execution.plans.analyse_queries import Analysis
    from vde_dagster.execution.workspace import Workspace


def confirm_environment(
    output: Output, workspace: Workspace, environment: str, *, create: bool, yes: bool = False
) -> str:
    """Return the environment to plan for; the user confirms a new name that looks mistyped."""
    from vde_dagster.execution.published_version import find_similar_environment

    if branch_name(environment):
        output.note(f"the environment of branch '{environment}' is {environment_name(environment)}")
    meant = None if create else find_similar_environment(workspace.store, environment)
    if meant is None:
        return environment
    problem = f"environment '{environment}' does not exist"
    if yes or not is_interactive(output):
        raise UsageError(
            f"{problem}; did you mean '{meant}'?",
            hint="to create an environment with this name, add --create",
        )
    import typer

    question = f"{problem[0].upper()}{problem[1:]}; did you mean '{meant}'?"
    return meant if typer.confirm(question, default=True, err=True) else environment


def confirm(
    output: Output, plan: Plan, breaks: Sequence[ContractBreak], *, yes: bool, named: bool
) -> bool:
    """Let the user confirm an apply, on a terminal.

    The default answer is "no" if published rows, values, columns or types change.

    Args:
        breaks: Published columns that are removed or change their type.
        named: Whether the user passed the plan's id.

    Returns:
        Whether to apply the plan. The user is not asked, and the result is True, if the plan is
        empty, if `yes` is set, or without a terminal.

    Raises:
        UsageError: The plan has breaks, and neither a terminal, `yes` nor `named` confirms it.
    """
    if yes or plan.is_empty:
        return True
    if not is_interactive(output):
        if breaks and not named:
            raise UsageError(
                f"plan {plan.id} was not applied because it breaks published columns: "
                f"{describe_breaks(breaks)}",
                hint=f"review it, then run: vde apply {plan.environment} --plan {plan.id}; or plan "
                "and apply in one step with --yes",
            )
        return True
    import typer

    risky = bool(breaks) or (
        plan.base_version > 0
        and any(model.category is Category.BREAKING or model.deploys for model in plan.models)
    )
    return typer.confirm(f"Apply this to {plan.environment}?", default=not risky, err=True)


def is_interactive(output: Output) -> bool:
    """Return whether the output goes to a terminal whose user can answer."""
    return not output.as_json and sys.stdin.isatty() and sys.stderr.isatty()


def apply_and_report(
    workspace: Workspace,
    plan: Plan,
    output: Output,
    concurrency: int | None,
    *,
    approved: bool = False,
    skip_tests: bool = False,
    ignore_cron: bool = False,
) -> None:
    """Apply a plan with progress on stderr and print the result.

    Args:
        approved: Whether the user has approved exactly this plan.
        ignore_cron: Whether the plan is a run that does not wait for crons.
    """
    from vde_dagster.cli.progress import ApplyProgress

    with ApplyProgress(output.err, plan) as progress, _Interruptible(workspace, plan).on() as guard:

        def show(event: Event) -> None:
            guard.install()
            progress.show(event)

        try:
            result = workspace.apply(
                plan,
                on_event=show,
                concurrency=concurrency,
                approved=approved,
                skip_tests=skip_tests,
            )
        except ExecutionError:
            if guard.pressed:
                raise Cancelled from None
            raise
    value = result_json(result)
    if output.as_json and result.plan.is_empty:
        from vde_dagster.execution.plans.due_work import pending_work

        value["missing"] = pending_work(workspace, result.plan).to_json()
    output.result(value, lambda console: _show(console, workspace, result, ignore_cron))
    if result.failed_statements:
        raise SystemExit(ExecutionError.exit_code)


def result_json(result: ApplyResult) -> dict[str, Any]:
    return {
        "plan": plan_json(result.plan),
        "published": result.published,
        "environment": environment_json(result.environment) if result.environment else None,
        "seconds": round(result.seconds, 3),
        "failed_statements": failed_statements_json(result.failed_statements),
        "skipped": [
            {"model": str(name), **skip_json(skipped)} for name, skipped in result.skipped.items()
        ],
        "refreshes": [
            {"model": str(name), **one.to_json()} for name, one in result.refreshes.items()
        ],
    }


def failed_statements_json(failed: Sequence[VirtualUpdateRan]) -> list[dict[str, Any]]:
    return [
        {"model": str(one.model), "statement": one.statement, "error": one.error} for one in failed
    ]


def _show(console: Console, workspace: Workspace, result: ApplyResult, ignore_cron: bool) -> None:
    sentences = [one.sentence for one in result.failed_statements]
    Output.show_failed_statements(console, result.plan.environment, sentences)
    if not result.published and not result.plan.is_empty:
        console.print(f"plan {result.plan.id} was already applied: nothing to do")
        return
    if not result.published:
        console.print(empty_plan_message(workspace, result.plan, ignore_cron=ignore_cron))
        return
    assert result.environment is not None
    views = result.plan.views
    console.print(
        f"[bold]{result.environment.name}[/] is at version {result.environment.version}: "
        f"{count(result.computed, 'model')} computed, "
        f"{count(len(views.created), 'view')} created, {len(views.replaced)} replaced, "
        f"{len(views.dropped)} dropped"
    )
    if result.skipped:
        from vde_dagster.reports.document import savings_text

        models = count(len(result.skipped), "model")
        console.print(f"skipped {models} without new input{savings_text(result.skipped.values())}")


@dataclass
class _Interruptible:
    workspace: Workspace
    plan: Plan
    pressed: bool = False
    _before: Any = field(default=None)

    @contextmanager
    def on(self) -> Iterator[_Interruptible]:
        self._before = signal.getsignal(signal.SIGINT) if self._in_main() else None
        self.install()
        try:
            yield self
        except KeyboardInterrupt:
            raise Cancelled from None
        finally:
            if self._in_main():
                signal.signal(signal.SIGINT, self._before or signal.default_int_handler)

    def install(self) -> None:
        # When Spark starts in the main thread, PySpark replaces the handler of SIGINT. Every event
        # of the apply therefore installs this handler again.
        if self._in_main() and signal.getsignal(signal.SIGINT) != self._handle:
            signal.signal(signal.SIGINT, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # A second Ctrl-C ends the wait.
        if self.pressed:
            raise KeyboardInterrupt
        self.pressed = True
        print("cancelling; completed intervals are kept", file=sys.stderr)
        # Stopping Spark's jobs calls the JVM, which is not allowed inside a signal handler.
        threading.Thread(target=self.workspace.cancel, args=(self.plan.id,), daemon=True).start()

    @staticmethod
    def _in_main() -> bool:
        return threading.current_thread() is threading.main_thread()


def empty_plan_message(
    workspace: Workspace, plan: Plan, *, selected: bool = False, ignore_cron: bool = False
) -> str:
    """Return the message for an empty plan, including any missing intervals."""
    from vde_dagster.execution.plans.due_work import pending_work

    if plan.kind is PlanKind.RESTATEMENT:
        where = " in this range" if plan.start or plan.end else ""
        return f"[bold]{plan.environment}[/]: nothing to restate{where}"
    missing = pending_work(workspace, plan)
    what = "the selected models have not changed" if selected else "nothing has changed"
    if missing:
        return f"[bold]{plan.environment}[/]: {what}; {missing.sentence()}"
    if selected:
        return f"[bold]{plan.environment}[/]: {what}, and no intervals are missing"
    if plan.kind is PlanKind.RUN and not ignore_cron:
        return (
            f"[bold]{plan.environment}[/] is up to date: nothing is due; "
            "--ignore-cron computes before the next tick"
        )
    return f"[bold]{plan.environment}[/] is up to date: nothing to do"


def analyze_and_store(workspace: Workspace, plan: Plan, output: Output) -> Analysis:
    """Let Spark analyze an unsaved plan, store it, and print the models that were not analyzed.

    Raises:
        ProjectError: Spark rejects queries or audits. The error lists them, and nothing is stored.
        StoreError: Spark is not available.
    """
    from rich.markup import escape

    from vde_dagster.execution.plans.analyse_queries import analyse_plan

    analysis = analyse_plan(workspace, plan)
    if analysis.mistakes:
        raise ProjectError.combine(analysis.mistakes)
    if not plan.is_empty and workspace.store.rights.has("plan"):
        workspace.store.plans.save(plan)
    output.note(f"Spark analyzed {count(len(analysis.analysed), 'model')}: no errors")
    for name, why in analysis.left_out.items():
        output.note(f"not analyzed: {name}: {escape(why)}")
    return analysis
