"""SQLMesh's enumerations, constants, errors and helpers for values."""

from __future__ import annotations

import enum
import os
import random
import string
from typing import Any

from vde_dagster.project.properties.times import UNITS


def choices(name: str, *members: str) -> Any:
    """Create an enumeration of texts: `choices("E", "a")` has `E.A`, which equals "a"."""
    return enum.Enum(name, {one.upper(): one for one in members}, type=str)


RuntimeStage = choices(
    "RuntimeStage",
    *("loading", "creating", "evaluating", "promoting", "demoting", "auditing", "testing"),
    *("before_all", "after_all"),
)
IntervalUnit = choices("IntervalUnit", *UNITS)


class RuntimeEnv(str, enum.Enum):
    """The place where a process runs, such as a terminal."""

    TERMINAL = "terminal"
    DATABRICKS = "databricks"
    GOOGLE_COLAB = "google_colab"
    JUPYTER = "jupyter"
    DEBUGGER = "debugger"
    CI = "ci"

    @classmethod
    def get(cls) -> RuntimeEnv:
        return cls.CI if os.environ.get("CI") else cls.TERMINAL


def str_to_bool(s: str | None) -> bool:
    """Return whether a text is 1, t, true, y, yes or on, in any case."""
    return bool(s) and str(s).lower() in ("1", "true", "t", "yes", "y", "on")


def validate_string(v: Any) -> str:
    """Return a value as text, and an expression as its name."""
    return str(v.name if hasattr(v, "sql") else v)


def random_id(short: bool = False) -> str:
    """Return 32 random letters and digits, or 8 if `short`."""
    letters = string.ascii_lowercase + string.digits
    return "".join(random.choices(letters, k=8 if short else 32))


def unique(iterable: Any, by: Any = lambda one: one) -> list[Any]:
    """Return the items without repetitions, in their order."""
    found: dict[Any, Any] = {}
    for one in iterable:
        found.setdefault(by(one), one)
    return list(found.values())


SQLMESH = "sqlmesh"
DEV = "dev"
PROD = "prod"
GATEWAY = "gateway"
EPOCH = "1970-01-01"


class SQLMeshError(Exception):
    """Base class of SQLMesh's errors."""


class ConfigError(SQLMeshError):
    """Invalid definition."""

    def __init__(self, message: Any = "", location: Any = None) -> None:
        super().__init__(message)
        self.location = location


def raise_config_error(msg: str, location: Any = None, error_type: Any = ConfigError) -> None:
    """Raise an error; a location is added to the message."""
    raise error_type(f"{msg} at '{location}'" if location else msg)


_PARENTS = {
    "AuditConfigError": ConfigError,
    "BaseMissingReferenceError": ConfigError,
    "MissingModelError": ConfigError,
    "MissingSourceError": ConfigError,
}


def __getattr__(name: str) -> Any:
    """Create an error class when a project imports it."""
    if not name.endswith(("Error", "Exception")):
        raise AttributeError(name)
    made = type(name, (_PARENTS.get(name, SQLMeshError),), {})
    return globals().setdefault(name, made)
