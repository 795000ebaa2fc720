"""The options that commands share, in one spelling, and those by which plans are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from vde_dagster.planning.plan.plan_request import PlanOptions


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

Start = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Only intervals from here on: a date or ISO 8601 instant (UTC), or '3 days ago'.",
    ),
]
End = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Only intervals up to this date, the day included, or before this instant (UTC).",
    ),
]
Select = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODELS",
        help="Only these: name, +name, name+, tag:name or a glob; give it again for more.",
    ),
]
SkipBackfill = Annotated[
    bool, typer.Option("--skip-backfill", help="Publish without computing anything.")
]
Restate = Annotated[
    list[str] | None,
    typer.Option(
        "--restate",
        "--restate-model",
        metavar="MODELS",
        help="Compute again what is published of these, and all that is made of it, in the range; "
        "as --select.",
    ),
]
ExecutionTime = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="The instant that is now, for dates and crons; by default it is now."
    ),
]
IgnoreCron = Annotated[
    bool,
    typer.Option("--ignore-cron", help="Fill whole intervals before the model's cron has ticked."),
]
NoGaps = Annotated[
    bool,
    typer.Option(
        "--no-gaps", help="Refuse a plan that would show less time of a model than is shown now."
    ),
]
MinIntervals = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="N",
        help="Look at the latest N intervals of each model, even those before --start.",
    ),
]
EmptyBackfill = Annotated[
    bool,
    typer.Option("--empty-backfill", help="Record what is missing as filled, and compute nothing."),
]
BackfillModel = Annotated[
    list[str] | None,
    typer.Option(
        "--backfill-model",
        metavar="MODELS",
        help="Fill only these and what they read; publish all. Patterns as of --select.",
    ),
]
Full = Annotated[
    bool, typer.Option("--full", help="Compute what is due whether or not something changed.")
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


ForwardOnly = Annotated[
    bool,
    typer.Option(
        "--forward-only",
        help="Let production's tables go on with the new definitions; rows that are there stay.",
    ),
]
EffectiveFrom = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Compute again from here on what changes forward-only (UTC)."
    ),
]
AllowDestructive = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-destructive-model",
        metavar="MODEL",
        help="May lose or retype columns forward-only: a name or a glob; give it again for more.",
    ),
]
AllowAdditive = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-additive-model",
        metavar="MODEL",
        help="May get or widen columns forward-only: a name or a glob; give it again for more.",
    ),
]
RemoveModels = Annotated[
    bool,
    typer.Option(
        "--remove-models",
        help="It is meant that all models of the environment, or a good part of them, go.",
    ),
]


def plan_options(
    start: str | None = None,
    end: str | None = None,
    execution_time: str | None = None,
    select: Sequence[str] | None = None,
    backfill: Sequence[str] | None = None,
    restate: Sequence[str] | None = None,
    allow_destructive: Sequence[str] | None = None,
    allow_additive: Sequence[str] | None = None,
    **said: Any,
) -> PlanOptions:
    """Read the options of a plan from a command's.

    Args:
        start: `--start`.
        end: `--end`.
        execution_time: `--execution-time`.
        select: `--select`.
        backfill: `--backfill-model`.
        restate: `--restate`.
        allow_destructive: `--allow-destructive-model`.
        allow_additive: `--allow-additive-model`.
        said: Other fields of `PlanOptions`.

    Raises:
        UsageError: A time is none, or two choices do not go together.
    """
    from vde_dagster.planning.plan.plan_request import PlanOptions

    return PlanOptions.read(
        start=start,
        end=end,
        execution_time=execution_time,
        clock=datetime.now(timezone.utc),
        names=("--start", "--end", "--execution-time", "--effective-from"),
        select=tuple(select or ()),
        backfill=tuple(backfill or ()),
        restate=tuple(restate or ()),
        allow_destructive=tuple(allow_destructive or ()),
        allow_additive=tuple(allow_additive or ()),
        **said,
    )


def time_range(start: str | None, end: str | None) -> tuple[datetime | None, datetime | None]:
    """Read the range of `--start` and `--end`, half-open in UTC.

    Args:
        start: A date or an instant in ISO 8601; without a zone it is UTC.
        end: The same; a date includes that day.

    Raises:
        UsageError: One of them is neither.
    """
    from vde_dagster.base.times import parse_range

    return parse_range(start, end, ("--start", "--end"), datetime.now(timezone.utc))


@dataclass(frozen=True, slots=True)
class PlanChoices:
    """Options of a plan as they were typed, in the order of the help."""

    start: Start = None
    end: End = None
    select: Select = None
    restate: Restate = None
    backfill_model: BackfillModel = None
    skip_backfill: SkipBackfill = False
    empty_backfill: EmptyBackfill = False
    ignore_cron: IgnoreCron = False
    min_intervals: MinIntervals = 0
    no_gaps: NoGaps = False
    execution_time: ExecutionTime = None
    forward_only: ForwardOnly = False
    effective_from: EffectiveFrom = None
    allow_destructive: AllowDestructive = None
    allow_additive: AllowAdditive = None
    remove_models: RemoveModels = False

    def read(self) -> PlanOptions:
        """Return their values.

        Raises:
            UsageError: A time is none, or two choices do not go together.
        """
        said = asdict(self)
        return plan_options(backfill=said.pop("backfill_model"), **said)


def with_plan_choices(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `PlanChoices` in place of its parameter `choices`.

    Args:
        command: A command as Typer takes it, but for that parameter.
    """
    hints = get_type_hints(PlanChoices, include_extras=True)
    shared = [
        Parameter(
            field.name,
            Parameter.POSITIONAL_OR_KEYWORD,
            default=field.default,
            annotation=hints[field.name],
        )
        for field in fields(PlanChoices)
    ]
    taken: list[Parameter] = []
    for parameter in signature(command, eval_str=True).parameters.values():
        taken += shared if parameter.name == "choices" else [parameter]

    def run(**given: Any) -> None:
        choices = PlanChoices(**{name: given.pop(name) for name in hints})
        command(choices=choices, **given)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in taken}
    run.__signature__ = Signature(taken)  # type: ignore[attr-defined]
    return run
