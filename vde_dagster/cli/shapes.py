"""The JSON shapes that several commands share; docs/reference.md describes them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from vde_dagster.planning.environment import Environment
from vde_dagster.planning.interval import iso

if TYPE_CHECKING:
    from vde_dagster.state.environments import EnvironmentSummary


def instant_json(value: datetime | None) -> str | None:
    """Write an instant as ISO 8601 in UTC, or None."""
    return iso(value) if value is not None else None


def environment_json(environment: Environment | EnvironmentSummary) -> dict[str, Any]:
    """Describe one version of an environment."""
    return {
        "name": environment.name,
        "version": environment.version,
        "models": (
            len(environment.entries) if isinstance(environment, Environment) else environment.models
        ),
        "published_at": instant_json(environment.published_at),
        "published_by": environment.published_by,
        "plan": environment.plan_id,
        "expires_at": instant_json(environment.expires_at),
        "note": environment.note,
        "frozen": environment.frozen,
        "held": _held(environment),
    }


def _held(environment: Environment | EnvironmentSummary) -> int:
    """Count the models that are shown as they were, of an environment that may change."""
    if environment.frozen is not None:
        return 0
    if not isinstance(environment, Environment):
        return environment.held
    return sum(entry.held is not None for entry in environment.entries.values())


def short_time(value: datetime | None) -> str:
    """Write an instant for people: `2026-11-21 09:20`, UTC."""
    return value.strftime("%Y-%m-%d %H:%M") if value is not None else ""
