"""SQLMesh's errors, which macros raise and models catch."""

from __future__ import annotations

from typing import Any


class SQLMeshError(Exception):
    """Base of all of them."""


class ConfigError(SQLMeshError):
    """A definition is wrong."""

    def __init__(self, message: Any = "", location: Any = None) -> None:
        super().__init__(message)
        self.location = location


def raise_config_error(msg: str, location: Any = None, error_type: Any = ConfigError) -> None:
    """Raise the error with its place in the message."""
    raise error_type(f"{msg} at '{location}'" if location else msg)


_PARENTS = {
    "AuditConfigError": ConfigError,
    "BaseMissingReferenceError": ConfigError,
    "MissingModelError": ConfigError,
    "MissingSourceError": ConfigError,
}


def __getattr__(name: str) -> Any:
    """Make the other errors when they are asked for: each is a class of its own, once."""
    if not name.endswith(("Error", "Exception")):
        raise AttributeError(name)
    made = type(name, (_PARENTS.get(name, SQLMeshError),), {})
    return globals().setdefault(name, made)
