"""SQLMesh's small helpers for values, its enumerations and constants."""

from __future__ import annotations

import enum
import os
import random
import string
from typing import Any

from vde_dagster.project.properties.times import UNITS


class RuntimeStage(str, enum.Enum):
    """What is going on while a macro is called; here queries are written once, as they run."""

    LOADING = "loading"
    CREATING = "creating"
    EVALUATING = "evaluating"
    PROMOTING = "promoting"
    DEMOTING = "demoting"
    AUDITING = "auditing"
    TESTING = "testing"
    BEFORE_ALL = "before_all"
    AFTER_ALL = "after_all"


class RuntimeEnv(str, enum.Enum):
    """What the code is running in."""

    TERMINAL = "terminal"
    DATABRICKS = "databricks"
    GOOGLE_COLAB = "google_colab"
    JUPYTER = "jupyter"
    DEBUGGER = "debugger"
    CI = "ci"

    @classmethod
    def get(cls) -> RuntimeEnv:
        """Return what it is."""
        return cls.CI if os.environ.get("CI") else cls.TERMINAL


IntervalUnit = enum.Enum(  # type: ignore[misc]
    "IntervalUnit", {name.upper(): name for name in UNITS}, type=str
)


def str_to_bool(s: str | None) -> bool:
    """Read a truth value as environment variables have it."""
    return bool(s) and str(s).lower() in ("1", "true", "t", "yes", "y", "on")


def validate_string(v: Any) -> str:
    """Return a value as text; of an expression its name."""
    return str(v.name if hasattr(v, "sql") else v)


def random_id(short: bool = False) -> str:
    """Return a name that nobody else has."""
    letters = string.ascii_lowercase + string.digits
    return "".join(random.choices(letters, k=8 if short else 32))


def unique(iterable: Any, by: Any = lambda one: one) -> list[Any]:
    """Return items without those that were there before."""
    found: dict[Any, Any] = {}
    for one in iterable:
        found.setdefault(by(one), one)
    return list(found.values())


SQLMESH = "sqlmesh"
DEV = "dev"
PROD = "prod"
GATEWAY = "gateway"
EPOCH = "1970-01-01"
