"""The typed configuration of jobs, as the launchpad shows it."""

from __future__ import annotations

from datetime import datetime, timezone

import dagster as dg
from pydantic import Field

from vde_dagster.planning.plan.plan_request import PlanOptions


class PlanConfig(dg.Config):
    """What to plan."""

    environment: str = Field(
        default="prod",
        description="The environment to bring to the project's state; it need not exist yet.",
    )
    create: bool = Field(
        default=False,
        description="Make a new environment, although its name is one letter from that of another.",
    )
    start: str | None = Field(
        default=None,
        description="Fill only from this date or instant on (ISO 8601, UTC), e.g. 2013-01-01 or "
        "3 days ago.",
    )
    end: str | None = Field(
        default=None,
        description="Fill only up to this date, the day included, or before this instant "
        "(ISO 8601, UTC).",
    )
    select: list[str] = Field(
        default_factory=list,
        description="Take the changes of these models only: names, patterns such as marts.*, "
        "with + before or after a name for what it reads or what reads it. All when empty.",
    )
    skip_backfill: bool = Field(
        default=False,
        description="Publish without computing anything; what is missing stays missing.",
    )
    empty_backfill: bool = Field(
        default=False,
        description="Record what is missing as filled, and compute nothing.",
    )
    backfill: list[str] = Field(
        default_factory=list,
        description="Fill only these models and what they read, and publish all: names and "
        "patterns as in `select`. All when empty.",
    )
    ignore_cron: bool = Field(
        default=False,
        description="Fill whole intervals before the model's cron has ticked.",
    )
    no_gaps: bool = Field(
        default=False,
        description="Refuse a plan that would show less time of a model than is shown now.",
    )
    min_intervals: int = Field(
        default=0,
        ge=0,
        description="Look at this many of each model's latest intervals, even before `start`.",
    )
    execution_time: str | None = Field(
        default=None,
        description="The instant that is now for relative dates and crons (ISO 8601, UTC); the "
        "clock's when empty.",
    )

    restate: list[str] = Field(
        default_factory=list,
        description="Compute again what is published of these models, and all that is made of it, "
        "from start to end (everything when empty); edits of the files are left out. As select.",
    )
    forward_only: bool = Field(
        default=False,
        description="Let production's tables go on with the new definitions; rows that are there "
        "stay as they are.",
    )
    effective_from: str | None = Field(
        default=None,
        description="Compute again from this date or instant on what changes forward-only "
        "(ISO 8601, UTC).",
    )
    allow_destructive_models: list[str] = Field(
        default_factory=list,
        description="Models that may lose or retype columns forward-only: names or globs.",
    )
    allow_additive_models: list[str] = Field(
        default_factory=list,
        description="Models that may get or widen columns forward-only: names or globs.",
    )
    remove_models: bool = Field(
        default=False,
        description="It is meant that all models of the environment, or a good part of them, go.",
    )

    def options(self) -> PlanOptions:
        """What the form says of the plan, read.

        Raises:
            UsageError: A time is none, or two choices do not go together.
        """
        return PlanOptions.read(
            start=self.start or None,
            end=self.end or None,
            execution_time=self.execution_time or None,
            clock=datetime.now(timezone.utc),
            names=(
                "the config's start",
                "the config's end",
                "the config's execution_time",
                "the config's effective_from",
            ),
            select=tuple(self.select),
            skip_backfill=self.skip_backfill,
            empty_backfill=self.empty_backfill,
            backfill=tuple(self.backfill),
            restate=tuple(self.restate),
            ignore_cron=self.ignore_cron,
            min_intervals=self.min_intervals,
            no_gaps=self.no_gaps,
            forward_only=self.forward_only,
            effective_from=self.effective_from or None,
            allow_destructive=tuple(self.allow_destructive_models),
            allow_additive=tuple(self.allow_additive_models),
            remove_models=self.remove_models,
        )


class ApplyConfig(dg.Config):
    """How to apply a plan."""

    plan: str | None = Field(
        default=None,
        description="The plan's id, to approve it with other assets beside it; not needed where "
        "its partition is materialised by itself.",
    )
    concurrency: int | None = Field(
        default=None,
        ge=1,
        description="Models and batches worked on at once; the project's setting when empty.",
    )
    who: str | None = Field(
        default=None,
        description="Who is to stand in the environment's history; the system user when empty.",
    )
    skip_tests: bool = Field(
        default=False,
        description="Publish without running the unit tests of the models that changed.",
    )


class RejectConfig(dg.Config):
    """Why a plan is rejected."""

    plan: str | None = Field(
        default=None,
        description="The plan's id, to reject it with other assets beside it; not needed where "
        "its partition is materialised by itself.",
    )
    reason: str = Field(default="", description="What the author of the change should know.")
    who: str | None = Field(
        default=None,
        description="Who is to stand there as the one who rejected it; the system user when empty.",
    )


class PlanAndApplyConfig(PlanConfig):
    """What to plan and how to apply it."""

    environment: str = Field(
        description="The environment to bring to the project's state; it need not exist yet."
    )
    accept_breaks: bool = Field(
        default=False,
        description="Apply it although columns that are published go or change their type, in "
        "production and in environments that the setting `protected` lists.",
    )

    concurrency: int | None = Field(
        default=None,
        ge=1,
        description="Models and batches worked on at once; the project's setting when empty.",
    )
    skip_tests: bool = Field(
        default=False,
        description="Publish without running the unit tests of the models that changed.",
    )


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
    full: bool = Field(
        default=False,
        description="Compute what is due whether or not something that it reads has changed.",
    )
    concurrency: int | None = Field(
        default=None,
        ge=1,
        description="Models and batches worked on at once; the project's setting when empty.",
    )


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
