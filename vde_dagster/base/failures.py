"""Failures as values, with their message and their place in a file or a query."""

from __future__ import annotations

import errno
import re
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vde_dagster.base.names import ModelName
from vde_dagster.base.secrets import mask
from vde_dagster.errors import Fix, Hint, ProjectError, SourceLocation

SHOWN_ROWS = 5
"""Maximum number of failing rows in a report; the state store keeps up to twenty."""

NO_SPACE_HINT = (
    "free space for the warehouse, the state store and Spark's spark.local.dir (`vde janitor` "
    "removes unused data), then repeat the command: finished work is kept"
)
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
_NO_SPACE_TEXTS = (
    "No space left on device",  # the operating system, PostgreSQL, Java, Hadoop
    "database or disk is full",  # SQLite
    "Disk quota exceeded",
)
_DISK_FULL = "53100"
"""PostgreSQL's SQLSTATE `disk_full`."""


PROJECT_CODE = "<vde_project_"
"""Prefix of the file names of a project's executed modules."""
_PROJECT_FILE = re.compile(PROJECT_CODE + r"[0-9a-f]+/([^>]+)>")


def path_of_project_frame(frame_name: str) -> str | None:
    """Return the project file that a stack frame's file name contains; None for other code.

    >>> path_of_project_frame("<vde_project_c0ffee/models/sales.py>")
    'models/sales.py'
    """
    match = _PROJECT_FILE.fullmatch(frame_name)
    return match[1] if match else None


def find_project_line(error: BaseException, path: Path) -> SourceLocation:
    """Return the line of the project's code that raised an error, or `path` without a line."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        found = path_of_project_frame(frame.filename)
        if found is not None:
            return SourceLocation(Path(found), frame.lineno)
    return SourceLocation(path)


def is_no_space(error: BaseException) -> bool:
    """Return whether an error of the database, Python or Spark was caused by a full disk."""
    seen: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in seen:
        seen.append(current)
        orig = getattr(current, "orig", None)
        for one in (current, orig) if isinstance(orig, BaseException) else (current,):
            if isinstance(one, OSError) and one.errno in _NO_SPACE:
                return True
            if getattr(one, "sqlstate", None) == _DISK_FULL:
                return True
        text = str(orig if orig is not None else current)
        if any(words in text for words in _NO_SPACE_TEXTS):
            return True
        current = current.__cause__
    return False


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in a project's files for its author to fix.

    Args:
        certain: Whether the problem is an error, not a warning.
        untyped: Whether the problem is an error only because a column's type is unknown.
        fixes: Alternative fixes; by default the fixes of `hint`, if it is a `Hint`.
    """

    message: str
    hint: str | None
    location: SourceLocation
    certain: bool = True
    fixes: tuple[Fix, ...] = ()
    untyped: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.hint, Hint):  # The cache stores plain texts.
            object.__setattr__(self, "fixes", self.fixes or self.hint.fixes)
            object.__setattr__(self, "hint", str(self.hint))

    def __str__(self) -> str:
        return str(self.error())

    def error(self) -> ProjectError:
        hint = Hint(self.hint, *self.fixes) if self.hint else None
        return ProjectError(self.message, hint=hint, location=self.location)


@dataclass(frozen=True, slots=True)
class QueryPlace:
    """The position of an engine's error in a query.

    Args:
        offset: Start of the offending words in the query, or None if only the column is known.
        words: The offending words; empty if the engine reported only their start.
        column: The output column that could not be computed, if the engine reports it.
    """

    query: str
    offset: int | None
    words: str = ""
    column: str | None = None


@dataclass(frozen=True, slots=True)
class FailedAudit:
    """A blocking audit with failing rows; `sample` has up to five of them, as texts by column."""

    audit: str
    rows: int
    sample: tuple[dict[str, str | None], ...]

    def to_json(self) -> dict[str, Any]:
        return {"audit": self.audit, "rows": self.rows, "sample": list(self.sample)}


@dataclass(frozen=True, slots=True)
class ModelFailure:
    """One model that failed while a plan was applied.

    Args:
        location: The place in the model's files, as precise as known.
        skipped: The models that were not started because this model failed.
    """

    model: ModelName
    message: str
    hint: str | None = None
    location: SourceLocation | None = None
    audits: tuple[FailedAudit, ...] = ()
    skipped: tuple[ModelName, ...] = field(default=())

    def __str__(self) -> str:
        where = f"{self.location}: " if self.location else ""
        named = "" if str(self.model) in self.message else f"{self.model}: "
        return f"{where}{named}{self.message}"

    def to_json(self) -> dict[str, Any]:
        at = self.location
        return {
            "model": str(self.model),
            "message": self.message,
            "hint": self.hint,
            "file": at.path.as_posix() if at else None,
            "line": at.line if at else None,
            "column": at.column if at else None,
            "audits": [audit.to_json() for audit in self.audits],
            "skipped": [str(name) for name in self.skipped],
        }


def describe_exception(error: BaseException) -> str:
    """Return an exception's class and masked message; only the class if `__str__` fails."""
    name = type(error).__name__
    try:
        message = str(error)
    except (Exception, SystemExit):
        return f"{name} (its message cannot be read)"
    return mask(f"{name}: {message}")
