"""Typed run configuration of the jobs, shown as forms in the launchpad."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field, create_model

from vde_dagster.planning.plan.plan_options import Asked, PlanOptions, plan_option_fields

_CONCURRENCY: Any = Field(
    default=None,
    ge=1,
    description="Maximum number of models and batches to process in parallel; the project's "
    "setting "
    "when empty.",
)
_SKIP_TESTS: Any = Field(
    default=False,
    description="Publish without running the unit tests of the models that changed.",
)
_ENVIRONMENT = "Environment to update to the project's files; created if it does not exist."


def _plan(verb: str) -> Any:
    description = (
        f"Id of the plan. Required only to {verb} it in a run that also materializes other "
        "assets or partitions."
    )
    return Field(default=None, description=description)


class _Target(dg.Config):
    environment: str = Field(default="prod", description=_ENVIRONMENT)
    create: bool = Field(
        default=False,
        description="Create the environment even if its name differs from an existing one by one "
        "letter.",
    )


def _field(option: Asked) -> Any:
    least: dict[str, Any] = {"ge": 0} if option.type is int else {}
    if option.type is list:
        return list[str], Field(default_factory=list, description=option.help)
    if option.type is str:
        return str | None, Field(default=None, description=option.help)
    return option.type, Field(default=option.type(), description=option.help, **least)


_PLAN_FIELDS = {option.name: option for option in plan_option_fields()}
if TYPE_CHECKING:
    _PlanForm = _Target
else:
    _PlanForm = create_model(
        "_PlanForm",
        __base__=_Target,
        **{name: _field(option) for name, option in _PLAN_FIELDS.items() if not option.of_run},
    )


class PlanConfig(_PlanForm):
    """Options of a new plan."""

    def options(self) -> PlanOptions:
        """Return the plan options that the form sets; raises as `PlanOptions.read` does."""
        typed = {name: getattr(self, name) for name in _PLAN_FIELDS if hasattr(self, name)}
        return PlanOptions.read(typed, datetime.now(timezone.utc), "the config's {}".format)


class ApplyConfig(dg.Config):
    """Options for applying a plan."""

    plan: str | None = _plan("approve")
    concurrency: int | None = _CONCURRENCY
    who: str | None = Field(
        default=None,
        description="Your name for the environment's history, marked as not verified. Ignored "
        "if the run has a `user` tag, and for schedules and sensors.",
    )
    skip_tests: bool = _SKIP_TESTS


class AutoApplyConfig(dg.Config):
    """Options for applying a plan without an approval."""

    plan: str = Field(description="Id of the plan.")


class RejectConfig(dg.Config):
    """Options for rejecting a plan."""

    plan: str | None = _plan("reject")
    reason: str = Field(default="", description="Reason, shown to the change's author.")
    who: str | None = Field(
        default=None,
        description="Your name, marked as not verified. Ignored if the run has a `user` tag.",
    )


class PlanAndApplyConfig(PlanConfig):
    """Options of a new plan and for applying it."""

    environment: str = Field(description=_ENVIRONMENT)
    accept_breaks: bool = Field(
        default=False,
        description="Apply the plan even if published columns are removed or change their type, in "
        "production and in environments that the setting `protected` lists.",
    )

    concurrency: int | None = _CONCURRENCY
    skip_tests: bool = _SKIP_TESTS


class FillConfig(dg.Config):
    """Options for filling the selected partitions of a model."""

    only_missing: bool = Field(
        default=False,
        description="Skip partitions that are already filled. If off, they are recomputed, "
        "and so are the partitions downstream that were computed from them.",
    )


class RunConfig(dg.Config):
    """Options for a scheduled run of an environment."""

    environment: str = Field(default="prod", description="Environment whose due data is computed.")
    full: bool = Field(default=False, description=_PLAN_FIELDS["full"].help)
    concurrency: int | None = _CONCURRENCY


class RollbackConfig(dg.Config):
    """Options for a rollback."""

    environment: str = Field(default="prod", description="The environment to roll back.")
    version: int = Field(
        ge=1,
        description="Version to publish again. The partition of vde/environment lists all "
        "versions.",
    )
    definitions_only: bool = Field(
        default=False,
        description="Restore only the version's definitions and keep the current data.",
    )


class FreezeConfig(dg.Config):
    """Options for freezing a version of an environment."""

    version: str = Field(description="Version: prod, prod@41, or prod@2026-11-01T06:00 (UTC).")
    name: str = Field(description="Name of the new environment, such as close_2026_11.")
    keep: str | None = Field(
        default=None,
        description="Time to keep it, such as 400d, 12h or 8w. If empty, it is kept until you "
        "drop it.",
    )


class DropConfig(dg.Config):
    """Options for dropping an environment."""

    environment: str = Field(
        description="The environment to drop; its views are removed at once or by the next "
        "cleanup, "
        "its unshared tables after the grace period. Production cannot be dropped."
    )


class JanitorConfig(dg.Config):
    """Options for cleaning up."""

    dry_run: bool = Field(default=False, description="Only report what would be dropped.")
