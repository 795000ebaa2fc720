"""Users, notifications and bots of a configuration: kept as they are written, and not used."""

from __future__ import annotations

import enum
from typing import Any

from vde_dagster.plugins.sqlmesh.config import Anything


class UserRole(str, enum.Enum):
    """What a user may do."""

    REQUIRED_APPROVER = "required_approver"


class NotificationEvent(str, enum.Enum):
    """What somebody is told of."""

    APPLY_START = "apply_start"
    APPLY_END = "apply_end"
    APPLY_FAILURE = "apply_failure"
    RUN_START = "run_start"
    RUN_END = "run_end"
    RUN_FAILURE = "run_failure"
    AUDIT_FAILURE = "audit_failure"
    MIGRATION_START = "migration_start"
    MIGRATION_END = "migration_end"
    MIGRATION_FAILURE = "migration_failure"


class MergeMethod(str, enum.Enum):
    """How a bot merges."""

    MERGE = "merge"
    SQUASH = "squash"
    REBASE = "rebase"


def __getattr__(name: str) -> Any:
    """Make the other classes when they are asked for."""
    if name == "User" or name.endswith(("NotificationTarget", "Config")):
        return type(name, (Anything,), {})
    raise AttributeError(f"module has no attribute '{name}'")
