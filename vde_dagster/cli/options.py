"""Options that commands share, those by which plans are made, and the project that is opened."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from functools import partial
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Final, get_type_hints

import typer

from vde_dagster.cli.output import Output
from vde_dagster.planning.plan.plan_options import Asked, PlanOptions, asked_of_plans
from vde_dagster.spark.ready.keep import imported, keep_ready

_WARM = "vde_dagster.spark.session.warm"

ProjectDir = Annotated[Path, typer.Option("--project", help="The project's folder.", metavar="DIR")]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of unexpected errors.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

Create = Annotated[
    bool,
    typer.Option("--create", help="Make a new environment, although its name looks mistyped."),
]

EnvironmentName = Annotated[
    str, typer.Argument(metavar="ENV", help="The environment: prod, or a name of your own.")
]

OptionalEnvironment = Annotated[
    str | None,
    typer.Argument(metavar="ENV", help="The environment; `dagster.default_environment` if none."),
]

Models = Annotated[
    list[str] | None,
    typer.Argument(metavar="[MODELS]...", help="Only these: name, +name, name+, tag:x or a glob."),
]
ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="The model, as schema.name.")]
RowLimit = Annotated[int | None, typer.Option("--limit", min=1, help="The most rows to return.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
PATTERNS = "Only these: name, +name, name+, tag:name or a glob; give it again for more."
"""The help of an option that takes models by patterns."""

Select = Annotated[
    list[str] | None,
    typer.Option(metavar="MODELS", help=PATTERNS),
]
Check = Annotated[
    bool,
    typer.Option("--check", help="Let Spark analyse every changed query; mistakes store no plan."),
]
Propose = Annotated[bool, typer.Option("--propose", help="Let it wait in Dagster for approval.")]
Summary = Annotated[bool, typer.Option("--summary", help="Show a few lines of numbers.")]
NoDiff = Annotated[bool, typer.Option("--no-diff", help="Leave the changes of texts out.")]
SkipTests = Annotated[
    bool, typer.Option("--skip-tests", help="Publish without running unit tests.")
]
Concurrency = Annotated[int | None, typer.Option(min=1, help="Models and batches at once.")]


def asking(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command on a project, with options of a plan in place of its parameter `options`.

    Args:
        names: By their names in the launchpad; all that are not of a run when empty.
    """
    asked = [o for o in asked_of_plans() if (o.name in names if names else not o.of_run)]
    return partial(on_project, asked=asked)


def _parameter(option: Asked) -> Parameter:
    told = option.help
    if option.type is list:
        told = f"{told.removesuffix('.')}; give it again for more."
    forms: dict[type, tuple[Any, Any]] = {str: (str | None, None), list: (list[str] | None, None)}
    type_, default = forms.get(option.type, (option.type, option.type()))
    least = 0 if option.type is int else None
    said = typer.Option(*option.flags, metavar=option.metavar, help=told, min=least)
    kind = Parameter.POSITIONAL_OR_KEYWORD
    return Parameter(option.name, kind, default=default, annotation=Annotated[type_, said])


def on_project(command: Callable[..., None], asked: Sequence[Asked] = ()) -> Callable[..., None]:
    """Give a command `--project`, `--json` and `--debug` for its `workspace` and `output`.

    Args:
        asked: What it may be asked of a plan, which it gets read as `options`.
    """
    hints = get_type_hints(command, localns={"Workspace": object}, include_extras=True)
    parameters: list[Parameter] = []
    for name, parameter in signature(command).parameters.items():
        if name == "options":
            parameters += map(_parameter, asked)
        elif name not in ("workspace", "output"):
            parameters.append(parameter.replace(annotation=hints[name]))
    parameters += _COMMON

    def run(project: Path, as_json: bool, debug: bool, **given: Any) -> None:
        from vde_dagster.execution.workspace import Workspace

        if asked:
            spelled = {option.name: option.flags[0] for option in asked_of_plans()}
            typed = {option.name: given.pop(option.name) for option in asked}
            now = datetime.now(timezone.utc)
            given["options"] = PlanOptions.read(typed, now, spelled.__getitem__)
        announce_spark()
        with Workspace.open(project) as workspace:
            try:
                command(workspace=workspace, output=Output(as_json), **given)
            finally:
                # A command may have ended before it read the project's files.
                if _WARM in sys.modules and "settings" in workspace.__dict__:
                    keep_ready(workspace.settings, imported())

    # What Typer asks of a function.
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run


def _common(project: ProjectDir = Path("."), as_json: Json = False, debug: Debug = False) -> None:
    """Take the options of every command on a project."""


_COMMON = tuple(signature(_common, eval_str=True).parameters.values())


LOGGER: Final = "vde_dagster.spark.session.session"


class _OnTerminal(logging.Handler):
    """Prints to whatever stderr is by then: bars of progress put themselves in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a message in a line of its own."""
        print(self.format(record), file=sys.stderr, flush=True)


def announce_spark() -> None:
    """Print a line on stderr when Spark starts and when it is there, if that is a terminal."""
    logger = logging.getLogger(LOGGER)
    told = any(isinstance(handler, _OnTerminal) for handler in logger.handlers)
    if told or not sys.stderr.isatty():
        return
    logger.setLevel(logging.INFO)
    logger.addHandler(_OnTerminal())
