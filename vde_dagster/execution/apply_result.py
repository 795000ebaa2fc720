"""What an apply did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vde_dagster.base.names import ModelName
from vde_dagster.execution.events import VirtualUpdateRan
from vde_dagster.planning.contents import Skipped
from vde_dagster.planning.environment import Environment
from vde_dagster.planning.plan import Plan


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """What an apply did.

    Args:
        plan: The plan with the tables that it really used.
        environment: The version that it published; the current one when there was nothing to do.
        published: Whether it published.
        seconds: Wall-clock duration.
        failed_statements: What was to run on the published views and failed.
        skipped: The models that had nothing new to compute, with what that saved.
    """

    plan: Plan
    environment: Environment | None
    published: bool
    seconds: float
    failed_statements: tuple[VirtualUpdateRan, ...] = ()
    skipped: Mapping[ModelName, Skipped] = field(default_factory=dict)
