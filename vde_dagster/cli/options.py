"""Shared options of commands, options of plans, and the opening of the project."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from functools import partial
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from vde_dagster.cli.output import Output
from vde_dagster.planning.plan.plan_options import PlanOptionField, PlanOptions, plan_option_fields
from vde_dagster.spark.ready.keep import imported_modules, start_ready_process

_WARM = "vde_dagster.spark.session.warm"

ProjectDir = Annotated[Path, typer.Option("--project", help="The project's folder.", metavar="DIR")]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

Create = Annotated[
    bool, typer.Option("--create", help="Create the environment even if its name looks mistyped.")
]

EnvironmentName = Annotated[
    str, typer.Argument(metavar="ENV", help="Environment, for example prod.")
]

OptionalEnvironment = Annotated[
    str | None,
    typer.Argument(metavar="ENV", help="The environment; default: `dagster.default_environment`."),
]

Models = Annotated[
    list[str] | None,
    typer.Argument(metavar="[MODELS]...", help="Select by name, +name, name+, tag:x or a glob."),
]
ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="The model, as schema.name.")]
RowLimit = Annotated[int | None, typer.Option("--limit", min=1, help="Maximum number of rows.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done.")]
PATTERNS = "Select by name, +name, name+, tag:name or a glob; repeatable."
"""Help text of options that select models by patterns."""

Select = Annotated[list[str] | None, typer.Option(metavar="MODELS", help=PATTERNS)]
Check = Annotated[
    bool,
    typer.Option(
        "--check", help="Let Spark analyze changed queries; store no plan if it finds errors."
    ),
]
Propose = Annotated[bool, typer.Option("--propose", help="Request approval in Dagster.")]
Summary = Annotated[bool, typer.Option("--summary", help="Show only a summary.")]
NoDiff = Annotated[bool, typer.Option("--no-diff", help="Do not show changes of the SQL text.")]
SkipTests = Annotated[
    bool, typer.Option("--skip-tests", help="Publish without running unit tests.")
]
Concurrency = Annotated[
    int | None, typer.Option(min=1, help="Maximum number of parallel models and batches.")
]


def with_plan_options(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that makes a function a command with the options of a plan.

    The command gets the options as one argument, `options`.

    Args:
        names: Options such as `ignore_cron`; by default all options of `vde plan`.
    """
    plan_options = [o for o in plan_option_fields() if (o.name in names if names else not o.of_run)]
    return partial(on_project, plan_options=plan_options)


def _parameter(option: PlanOptionField) -> Parameter:
    text = option.help
    if option.type is list:
        text = f"{text.removesuffix('.')}; repeatable."
    forms: dict[type, tuple[Any, Any]] = {str: (str | None, None), list: (list[str] | None, None)}
    type_, default = forms.get(option.type, (option.type, option.type()))
    least = 0 if option.type is int else None
    typer_option = typer.Option(*option.flags, metavar=option.metavar, help=text, min=least)
    kind = Parameter.POSITIONAL_OR_KEYWORD
    return Parameter(option.name, kind, default=default, annotation=Annotated[type_, typer_option])


process_ends = False
"""Whether this process ends after the command. If so, it does not wait until its JVM has ended."""


def on_project(
    command: Callable[..., None], plan_options: Sequence[PlanOptionField] = ()
) -> Callable[..., None]:
    """Add `--json`, `--debug` and, for commands with a `workspace`, `--project` to a command.

    Args:
        plan_options: Options of a plan, which the command gets as `options`.
    """
    # Python 3.10's `get_type_hints` makes a default None Optional, which hides the annotation.
    declared = signature(command, locals={"Workspace": object}, eval_str=True).parameters
    parameters: list[Parameter] = []
    for name, parameter in declared.items():
        if name == "options":
            parameters += map(_parameter, plan_options)
        elif name not in ("workspace", "output"):
            parameters.append(parameter)
    parameters += _COMMON if "workspace" in declared else _COMMON[1:]

    def run(as_json: bool, debug: bool, project: Path | None = None, **given: Any) -> None:
        if project is None:
            command(output=Output(as_json), **given)
            return
        from vde_dagster.execution.workspace import Workspace

        if plan_options:
            spelled = {option.name: option.flags[0] for option in plan_option_fields()}
            typed = {option.name: given.pop(option.name) for option in plan_options}
            now = datetime.now(timezone.utc)
            given["options"] = PlanOptions.read(typed, now, spelled.__getitem__)
        announce_spark()
        with Workspace.open(project) as workspace:
            workspace.process_ends = process_ends
            try:
                command(workspace=workspace, output=Output(as_json), **given)
            finally:
                # A command may end before it reads the project's files.
                if _WARM in sys.modules and "settings" in workspace.__dict__:
                    start_ready_process(workspace.settings, imported_modules)

    # Attributes of a function that Typer reads.
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run


def _common(project: ProjectDir = Path("."), as_json: Json = False, debug: Debug = False) -> None:
    """Declare the options of every command on a project."""


_COMMON = tuple(signature(_common, eval_str=True).parameters.values())


LOGGER: Final = "vde_dagster.spark.session.session"


class _OnTerminal(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        # Progress bars replace `sys.stderr` while they are shown.
        print(self.format(record), file=sys.stderr, flush=True)


def announce_spark() -> None:
    """Print a line on stderr when Spark starts and when it is ready, if stderr is a terminal."""
    logger = logging.getLogger(LOGGER)
    text = any(isinstance(handler, _OnTerminal) for handler in logger.handlers)
    if text or not sys.stderr.isatty():
        return
    logger.setLevel(logging.INFO)
    logger.addHandler(_OnTerminal())
