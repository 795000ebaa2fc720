"""Options of a plan, declared once for the command line, the launchpad and Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cache
from typing import Any, get_args, get_type_hints

from vde_dagster.errors import UsageError


def _option(help: str, default: Any = None, **how: Any) -> Any:
    return field(default=default, metadata={"help": help, **how})


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Options of a plan. Times are UTC, and an end is exclusive."""

    start: datetime | None = _option(
        "Only intervals from here on: a date or ISO 8601 instant (UTC), or '3 days ago'."
    )
    end: datetime | None = _option(
        "Only intervals up to this date, the day included, or before this instant (UTC)."
    )
    select: tuple[str, ...] = _option(
        "Publish the changes of these models only: name, +name, name+, tag:name or a glob.", ()
    )
    restate: tuple[str, ...] = _option(
        "Recompute the published versions of these models, and of their readers, in the range; "
        "changes in the files are not published. Patterns as for select.",
        (),
        flags=("--restate", "--restate-model"),
    )
    backfill: tuple[str, ...] = _option(
        "Fill only these models and their ancestors; publish all. Patterns as for select.",
        (),
        flags=("--backfill-model",),
    )
    skip_backfill: bool = _option(
        "Publish without computing anything; missing intervals stay missing.", False
    )
    empty_backfill: bool = _option("Record missing intervals as filled, without computing.", False)
    ignore_cron: bool = _option(
        "Do not wait for crons: compute intervals that have ended and, in a run, full tables.",
        False,
    )
    min_intervals: int = _option(
        "Include the latest N intervals of each model, even before the start.", 0, metavar="N"
    )
    no_gaps: bool = _option(
        "Refuse a plan that would no longer show some of a model's filled ranges.", False
    )
    now: datetime | None = _option(
        "Time (UTC) to use instead of the present, for dates and crons.", name="execution_time"
    )
    full: bool = _option(
        "Compute what is due, even if its inputs have not changed.", False, of_run=True
    )
    forward_only: bool = _option(
        "Keep production's tables and their rows; new definitions apply to later rows.", False
    )
    effective_from: datetime | None = _option(
        "Recompute rows from this time (UTC) on in models that change forward-only."
    )
    allow_destructive: tuple[str, ...] = _option(
        "Models whose tables may lose or retype columns: a name or a glob.",
        (),
        flags=("--allow-destructive-model",),
        metavar="MODEL",
    )
    allow_additive: tuple[str, ...] = _option(
        "Models whose tables may get or widen columns: a name or a glob.",
        (),
        flags=("--allow-additive-model",),
        metavar="MODEL",
    )
    remove_models: bool = _option(
        "Confirm that all models of the environment, or a large part of them, are removed.", False
    )

    def __post_init__(self) -> None:
        for name in ("select", "restate", "backfill", "allow_destructive", "allow_additive"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        chosen = self.start or self.end or self.min_intervals or self.backfill
        if self.skip_backfill and (self.empty_backfill or chosen):
            raise UsageError(
                "a plan that skips the backfill neither fills intervals nor records them",
                hint="leave out skip_backfill, or the options that choose what to fill",
            )
        if self.effective_from and (self.skip_backfill or self.empty_backfill):
            raise UsageError(
                "effective_from computes rows again, but the plan computes nothing",
                hint="leave out effective_from, or skip_backfill and empty_backfill",
            )

    @classmethod
    def read(
        cls, typed: Mapping[str, Any], clock: datetime, spelled: Callable[[str], str]
    ) -> PlanOptions:
        """Parse options from the texts that a user typed.

        Args:
            typed: Values by the names of `PlanOptionField`; empty values are ignored.
            clock: The present. Without `execution_time`, times such as `3 days ago` refer to it.
            spelled: Returns how users write an option, for messages.

        Raises:
            UsageError: A text is not a time, the execution time lies in the future, or two options
                cannot be combined.
        """
        # Imported late: loading time zones would slow the start of the command line.
        from vde_dagster.base.times import parse_range, parse_time

        values = {name: value for name, value in typed.items() if value}

        def time(name: str, now: datetime) -> datetime | None:
            text = values.pop(name, None)
            return parse_time(text, spelled(name), now) if text else None

        text = values.get("execution_time")
        now = time("execution_time", clock)
        if now is not None and now > clock:
            raise UsageError(
                f"{spelled('execution_time')} '{text}' lies in the future",
                hint="give a time before now",
            )
        ends = values.pop("start", None), values.pop("end", None)
        since, until = parse_range(*ends, (spelled("start"), spelled("end")), now or clock)
        again = time("effective_from", now or clock)
        return cls(since, until, now=now, effective_from=again, **values)

    def __bool__(self) -> bool:
        return self != NOTHING_SAID


NOTHING_SAID = PlanOptions()


@dataclass(frozen=True, slots=True)
class PlanOptionField:
    """One option of a plan, as users type it.

    Args:
        name: Its name in the launchpad.
        type: `str` for a time, `list` for patterns, `int` or `bool`.
        flags: Its spellings in the terminal.
        of_run: Whether only `vde run` has the option, not `vde plan`.
    """

    name: str
    type: type
    help: str
    flags: tuple[str, ...]
    metavar: str | None
    of_run: bool


@cache
def plan_option_fields() -> tuple[PlanOptionField, ...]:
    """Return the options of a plan, in the order of the help text."""
    found = []
    for one, hint in zip(fields(PlanOptions), get_type_hints(PlanOptions).values(), strict=True):
        how = one.metadata
        name = how.get("name", one.name)
        type_, metavar = hint, how.get("metavar")
        if datetime in get_args(hint):
            type_, metavar = str, "TIME"
        elif str in get_args(hint):
            type_, metavar = list, metavar or "MODELS"
        flags = how.get("flags", (f"--{name.replace('_', '-')}",))
        found.append(
            PlanOptionField(name, type_, how["help"], flags, metavar, how.get("of_run", False))
        )
    return tuple(found)
