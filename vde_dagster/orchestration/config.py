"""The typed configuration of jobs, as the launchpad shows it."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field, create_model

from vde_dagster.planning.plan.plan_options import Asked, PlanOptions, asked_of_plans

_CONCURRENCY: Any = Field(
    default=None,
    ge=1,
    description="Models and batches worked on at once; the project's setting when empty.",
)
_SKIP_TESTS: Any = Field(
    default=False,
    description="Publish without running the unit tests of the models that changed.",
)
_ENVIRONMENT = "The environment to bring to the project's state; it need not exist yet."


def _plan(verb: str) -> Any:
    said = (
        f"The plan's id, to {verb} it with other assets beside it; not needed where its partition "
        "is materialised by itself."
    )
    return Field(default=None, description=said)


class _Target(dg.Config):
    environment: str = Field(default="prod", description=_ENVIRONMENT)
    create: bool = Field(
        default=False,
        description="Make a new environment, although its name is one letter from that of another.",
    )


def _field(option: Asked) -> Any:
    least: dict[str, Any] = {"ge": 0} if option.type is int else {}
    if option.type is list:
        return list[str], Field(default_factory=list, description=option.help)
    if option.type is str:
        return str | None, Field(default=None, description=option.help)
    return option.type, Field(default=option.type(), description=option.help, **least)


_ASKED = {option.name: option for option in asked_of_plans()}
if TYPE_CHECKING:
    _Asked = _Target
else:
    _Asked = create_model(
        "_Asked",
        __base__=_Target,
        **{name: _field(option) for name, option in _ASKED.items() if not option.of_run},
    )


class PlanConfig(_Asked):
    """What to plan."""

    def options(self) -> PlanOptions:
        """Return what the form says of the plan; raises as `PlanOptions.read` does."""
        typed = {name: getattr(self, name) for name in _ASKED if hasattr(self, name)}
        return PlanOptions.read(typed, datetime.now(timezone.utc), "the config's {}".format)


class ApplyConfig(dg.Config):
    """How to apply a plan."""

    plan: str | None = _plan("approve")
    concurrency: int | None = _CONCURRENCY
    who: str | None = Field(
        default=None,
        description="Your name for the environment's history, marked as not verified. Ignored "
        "where the run has a tag `user`, and for schedules and sensors.",
    )
    skip_tests: bool = _SKIP_TESTS


class RejectConfig(dg.Config):
    """Why a plan is rejected."""

    plan: str | None = _plan("reject")
    reason: str = Field(default="", description="What the author of the change should know.")
    who: str | None = Field(
        default=None,
        description="Your name, marked as not verified. Ignored where the run has a tag `user`.",
    )


class PlanAndApplyConfig(PlanConfig):
    """What to plan and how to apply it."""

    environment: str = Field(description=_ENVIRONMENT)
    accept_breaks: bool = Field(
        default=False,
        description="Apply it although columns that are published go or change their type, in "
        "production and in environments that the setting `protected` lists.",
    )

    concurrency: int | None = _CONCURRENCY
    skip_tests: bool = _SKIP_TESTS


class FillConfig(dg.Config):
    """How the chosen partitions of a model are filled."""

    only_missing: bool = Field(
        default=False,
        description="Leave partitions alone that are filled already; otherwise they are computed "
        "again, and so are those that were made of them.",
    )


class RunConfig(dg.Config):
    """A scheduled run of an environment."""

    environment: str = Field(
        default="prod", description="The environment whose due intervals are computed."
    )
    full: bool = Field(default=False, description=_ASKED["full"].help)
    concurrency: int | None = _CONCURRENCY


class RollbackConfig(dg.Config):
    """Which version to go back to."""

    environment: str = Field(default="prod", description="The environment to roll back.")
    version: int = Field(
        ge=1,
        description="The version to publish again. The partition of vde/environment lists them.",
    )
    definitions_only: bool = Field(
        default=False, description="Leave the data as they are, and show only its definitions."
    )


class FreezeConfig(dg.Config):
    """Which version to freeze, and how long it is kept."""

    version: str = Field(
        description="What to freeze: prod, prod@41, or prod@2026-11-01T06:00 (UTC)."
    )
    name: str = Field(description="The new environment's name, such as close_2026_11.")
    keep: str | None = Field(
        default=None,
        description="For how long, such as 400d, 12h or 8w; until it is dropped when empty.",
    )


class DropConfig(dg.Config):
    """Which environment to drop."""

    environment: str = Field(
        description="The environment to drop; its views go at once or with the next clean-up, "
        "its own tables after the grace time. Production is refused."
    )


class JanitorConfig(dg.Config):
    """How to clean up."""

    dry_run: bool = Field(default=False, description="Only report what would be dropped.")
