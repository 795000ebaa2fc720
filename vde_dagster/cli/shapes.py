"""The JSON shapes that several commands share; docs/cli.md describes them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from vde_dagster.planning.environments.environment import Environment
from vde_dagster.planning.intervals.interval import iso

if TYPE_CHECKING:
    from vde_dagster.state.environments.environments import EnvironmentSummary
    from vde_dagster.state.environments.mirror import MirrorStanding


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


def mirror_json(standing: MirrorStanding | None, now: datetime) -> dict[str, Any] | None:
    """Describe how an environment's mirrored views stand; None where it has none."""
    if standing is None:
        return None
    since = standing.since
    return {
        "views": standing.views,
        "behind": standing.behind,
        "since": instant_json(since),
        "seconds": int((now - since).total_seconds()) if since is not None else 0,
        "failure": standing.failure,
    }


def mirror_text(standing: MirrorStanding | None, now: datetime) -> str:
    """Say to people how an environment's mirrored views stand, and for how long."""
    if standing is None or standing.since is None:
        return str(standing or "")
    seconds = int((now - standing.since).total_seconds())
    return f"{standing} (for {timedelta(seconds=seconds)})"


def _held(environment: Environment | EnvironmentSummary) -> int:
    if environment.frozen is not None:
        return 0
    if not isinstance(environment, Environment):
        return environment.held
    return sum(entry.held is not None for entry in environment.entries.values())
