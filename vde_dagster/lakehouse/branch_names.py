"""Names of the Iceberg branches that plans write to: one per attempt, never used by another."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass

PREFIX = "vde_"
_PARTS = re.compile(r"vde_(?P<plan>.+)_(?P<attempt>\d+)(?P<shared>s?)")
_SCRATCH = re.compile(r"vde_(?P<plan>.+)_[0-9a-f]{32}_scratch")


@dataclass(frozen=True, slots=True)
class BranchName:
    """What a branch's name says.

    An attempt that stalls past its lease goes on writing to its own branch, which nobody
    publishes: whoever took over has another one. That is what fences Iceberg's own commits.

    Args:
        plan_id: The plan that writes it.
        attempt: Grows with every process that applies the plan: its lease's token.
        shared: Whether it was computed from published data alone, so that another plan may take
            over what is on it.
    """

    plan_id: str
    attempt: int
    shared: bool

    def __str__(self) -> str:
        return f"{PREFIX}{self.plan_id}_{self.attempt}{'s' if self.shared else ''}"


def parse_branch(name: str) -> BranchName | None:
    """Read a branch's name; None for one that no attempt made."""
    match = _PARTS.fullmatch(name)
    if match is None:
        return None
    return BranchName(match["plan"], int(match["attempt"]), bool(match["shared"]))


def scratch_branch(plan_id: str) -> str:
    """Name a branch on which one write is put together before it is put in place at once.

    No attempt takes it over; what a killed process leaves of it, the janitor removes.
    """
    return f"{PREFIX}{plan_id}_{uuid.uuid4().hex}_scratch"


def plan_of_branch(name: str) -> str | None:
    """Return the id of the plan that made a branch, if its name is one that plans give.

    >>> plan_of_branch("vde_prod-1f_12s"), plan_of_branch(scratch_branch("prod-1f"))
    ('prod-1f', 'prod-1f')
    >>> plan_of_branch("theirs") is None
    True
    """
    if not name.startswith(PREFIX):
        return None
    match = _PARTS.fullmatch(name) or _SCRATCH.fullmatch(name)
    return match["plan"] if match else name.removeprefix(PREFIX)
