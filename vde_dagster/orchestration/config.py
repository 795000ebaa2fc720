"""Typed run configuration of the jobs, shown as forms in the launchpad."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field, ValidationError, create_model

from vde_dagster.base.texts import suggest
from vde_dagster.errors import UsageError
from vde_dagster.planning.plan.plan_options import PlanOptionField, PlanOptions, plan_option_fields

_CONCURRENCY: Any = Field(
    default=None,
    ge=1,
    description="Maximum number of models and batches to process in parallel; "
    "if empty, the project's setting applies.",
)
_SKIP_TESTS = "Publish without running the unit tests of the models that changed."
_ENVIRONMENT = "Environment to update to the project's files; created if it does not exist."


def _plan(verb: str) -> Any:
    description = (
        f"Id of the plan. Required only to {verb} it in a run that also materializes other "
        "assets or partitions."
    )
    return Field(default=None, description=description)


def _field(option: PlanOptionField) -> Any:
    # Dagster shows fields with defaults in unedited forms.
    if option.type is list:
        return list[str], Field(default_factory=list, description=option.help)
    least: dict[str, Any] = {"ge": 0} if option.type is int else {}
    return option.type | None, Field(default=None, description=option.help, **least)


_PLAN_FIELDS = {option.name: option for option in plan_option_fields()}
_COMMON = ("start", "end", "restate", "select", "skip_backfill", "remove_models")
_RARE = [name for name, option in _PLAN_FIELDS.items() if name not in _COMMON and not option.of_run]
if TYPE_CHECKING:

    class _PlanForm(dg.PermissiveConfig):
        environment: str
        create: bool | None
        advanced: dg.Config
else:
    _Advanced = create_model(
        "_Advanced", __base__=dg.Config, **{name: _field(_PLAN_FIELDS[name]) for name in _RARE}
    )
    # Permissive, because stored configurations may have the rare options outside of `advanced`.
    _PlanForm = create_model(
        "_PlanForm",
        __base__=dg.PermissiveConfig,
        environment=(str, Field(default="prod", description=_ENVIRONMENT)),
        **{name: _field(_PLAN_FIELDS[name]) for name in _COMMON},
        create=(
            bool | None,
            Field(
                default=None,
                description="Create the environment even if its name differs from an existing name "
                "by one letter.",
            ),
        ),
        advanced=(
            _Advanced,
            Field(default_factory=_Advanced, description=f"Rare options: {', '.join(_RARE)}."),
        ),
    )

_PLACEHOLDERS = {
    "start": "# first day: 2024-01-31, or 3 days ago",
    "end": "# last day, included",
    "restate": ["# models to compute again: schema.model, tag:x"],
    "select": ["# models to take: +schema.model, tag:x; else all"],
}
"""Values of an unedited form; Dagster has no comments in forms, so values with `#` replace them."""


def _is_set(value: Any) -> bool:
    return not (isinstance(value, str) and value.lstrip().startswith("#"))


class PlanConfig(_PlanForm):
    """Options of a new plan."""

    def target(self) -> str:
        """Return the form's environment, or raise UsageError if it is empty or the placeholder."""
        if not self.environment.strip() or not _is_set(self.environment):
            raise UsageError(
                "the config names no environment", hint="set `environment`, such as dev or prod"
            )
        return self.environment

    def options(self) -> PlanOptions:
        """Return the plan options that the form sets. Raises like `PlanOptions.read`."""
        typed: dict[str, Any] = {}
        for name, value in self._values().items():
            filled = [*filter(_is_set, value)] if isinstance(value, list) else value
            if _is_set(filled):
                typed[name] = filled
        return PlanOptions.read(typed, datetime.now(timezone.utc), _spelled)

    def _values(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in _COMMON}
        values |= {name: getattr(self.advanced, name) for name in _RARE}
        fields = type(self).model_fields
        # Rare options may also be outside of the group `advanced`.
        for name, value in (self.model_extra or {}).items():
            if name not in _RARE:
                raise UsageError(
                    f"the config has no field '{name}'", hint=suggest(name, fields, "fields")
                )
            if values[name]:
                raise UsageError(
                    f"the config has '{name}' twice", hint="keep only the field below `advanced`"
                )
            try:
                values[name] = getattr(type(self.advanced)(**{name: value}), name)
            except ValidationError as error:
                problem = error.errors()[0]["msg"]
                raise UsageError(
                    f"the config's {name} {value!r}: {problem}",
                    hint="correct the value, and write the field below `advanced`: "
                    f"`advanced: {{{name}: …}}`",
                ) from None
        return values


def _spelled(name: str) -> str:
    return f"the config's {'advanced.' if name in _RARE else ''}{name}"


class ApplyConfig(dg.Config):
    """Options for applying a plan."""

    plan: str | None = _plan("approve")
    concurrency: int | None = _CONCURRENCY
    who: str | None = Field(
        default=None,
        description="Your name for the environment's history, marked as not verified. Ignored "
        "if the run has a `user` tag, and for schedules and sensors.",
    )
    skip_tests: bool = Field(default=False, description=_SKIP_TESTS)


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
    """Options for creating and applying a plan."""

    environment: str = Field(description=_ENVIRONMENT)
    accept_breaks: bool | None = Field(
        default=None,
        description="Apply the plan even if published columns are removed or change their type, in "
        "production and in environments that the setting `protected` lists.",
    )

    concurrency: int | None = _CONCURRENCY
    skip_tests: bool | None = Field(default=None, description=_SKIP_TESTS)


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
        description="Version to publish again. The partition of vde/environment lists the latest "
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
        description="Time to keep the environment, such as 400d, 12h or 8w. If empty, it is kept "
        "until you drop it.",
    )


class DropConfig(dg.Config):
    """Options for dropping an environment."""

    environment: str = Field(
        description="The environment to drop; the next cleanup removes its views, and after the "
        "grace period its unshared tables. Production cannot be dropped."
    )


class JanitorConfig(dg.Config):
    """Options for cleaning up."""

    dry_run: bool = Field(
        default=True, description="Report what would be dropped, and drop nothing."
    )
    keep_runs_days: int | None = Field(
        default=None,
        ge=0,
        description="Days after which ended runs are deleted from Dagster; filled partitions stay "
        "filled. If empty, the setting `dagster.keep_runs_days` of the project applies.",
    )


def form_schema(config: type[dg.Config]) -> dg.Field:
    schema = config.to_config_schema().as_field()
    if not issubclass(config, PlanConfig):
        return schema
    required = config.model_fields["environment"].is_required()
    environment = "# name, such as dev; created if it does not exist"
    # Dagster sorts fields by name, and shows fields that have a default. So the unedited form of a
    # plan shows only its common fields.
    first = {"environment": environment if required else "prod"}
    return dg.Field(
        schema.config_type,
        default_value={**first, **_PLACEHOLDERS},
        is_required=False,
        description=schema.description,
    )
