"""What people say of a plan: the options that `vde plan` and `vde apply` both take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, get_type_hints

from vde_dagster.cli.options import (
    AllowAdditive,
    AllowDestructive,
    BackfillModel,
    EffectiveFrom,
    EmptyBackfill,
    End,
    ExecutionTime,
    ForwardOnly,
    IgnoreCron,
    MinIntervals,
    NoGaps,
    RemoveModels,
    Restate,
    Select,
    SkipBackfill,
    Start,
    plan_options,
)

if TYPE_CHECKING:
    from vde_dagster.planning.options import PlanOptions


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
        """Return what they mean.

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
