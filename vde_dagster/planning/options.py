"""What somebody may say of a plan, from wherever it is asked for to the planner."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The choices of who asks for a plan: one value for terminal, launchpad and Python.

    Args:
        start: Fill only from here on (UTC), or None.
        end: Fill only before here (UTC, exclusive), or None.
        select: Patterns of the models whose changes are taken; all when empty.
        skip_backfill: Publish without computing anything.
        now: The instant that the plan calls now (UTC); the clock's when None.
        restate: Patterns of published models to compute again in the range, whatever the files
            say now; none when empty.
    """

    start: datetime | None = None
    end: datetime | None = None
    select: tuple[str, ...] = ()
    skip_backfill: bool = False
    now: datetime | None = None
    restate: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "select", tuple(self.select))
        object.__setattr__(self, "restate", tuple(self.restate))

    def __bool__(self) -> bool:
        """Whether anything was said at all."""
        return self != NOTHING_SAID


NOTHING_SAID = PlanOptions()
"""A plan as it is made by default."""
