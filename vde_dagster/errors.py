"""The error types of the package, split by what the caller can do about them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vde_dagster.base.secrets import mask

if TYPE_CHECKING:
    from vde_dagster.base.failures import FailedAudit, ModelFailure, QueryPlace
    from vde_dagster.base.names import ModelName


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A place in a file of the user's project.

    Args:
        path: Relative to the project's root where it lies inside it.
        line: 1-based, or None when the whole file is meant.
        column: 1-based, or None.
    """

    path: Path
    line: int | None = None
    column: int | None = None

    @property
    def order(self) -> tuple[str, int, int]:
        """The place as a key to sort by."""
        return self.path.as_posix(), self.line or 0, self.column or 0

    def __str__(self) -> str:
        column = self.column if self.line is not None else None
        return ":".join(str(one) for one in (self.path, self.line, column) if one is not None)


@dataclass(frozen=True, slots=True)
class Replacement:
    """A stretch of a file and what is to stand there instead.

    Args:
        old: What stands there; nothing may have changed it. Quotes around it stay.
        at: Where it begins; where the mistake is, by default.
    """

    old: str
    new: str
    at: SourceLocation | None = None


@dataclass(frozen=True, slots=True)
class Fix:
    """What mends a mistake, as edits of the project's files; in a few words as a title.

    Args:
        sure: Whether it may be made unasked; otherwise somebody has to choose it.
    """

    title: str
    edits: tuple[Replacement, ...]
    sure: bool = True

    @classmethod
    def writing(cls, old: str, new: str, *, sure: bool = True) -> Fix:
        """Write another word where the mistake is."""
        return cls(f"Write {new}", (Replacement(old, new),), sure)


class Hint(str):
    """A hint that can be followed by edits: by one of its fixes."""

    fixes: tuple[Fix, ...]

    def __new__(cls, text: str, *fixes: Fix) -> Hint:
        """Make one of its text and the fixes that there are."""
        made = super().__new__(cls, text)
        made.fixes = fixes
        return made


def fixes_of(hint: str | None) -> tuple[Fix, ...]:
    """Return the fixes that a hint has."""
    return hint.fixes if isinstance(hint, Hint) else ()


@dataclass(frozen=True, slots=True)
class Unknown:
    """A name in a project's file that nobody defines."""

    what: Literal["macro", "audit", "variable", "signal", "materialization"]
    name: str


class VdeError(Exception):
    """Base of every error that this package raises on purpose.

    Args:
        message: What happened, in one sentence.
        hint: What to do next, in one sentence.
        location: Where in the project, when it is known.
    """

    exit_code = 1
    lacks_memory = False
    """Whether less work at a time may succeed."""
    by_others = False
    """Whether what other processes did may have caused it."""
    _quotes = False
    """Whether messages quote what a user wrote, be it a whole file: they are cut to a screen."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        location: SourceLocation | None = None,
    ) -> None:
        if self._quotes:
            message = shortened(message, _MOST_OF_MESSAGE)
            fixes = fixes_of(hint)
            hint = Hint(shortened(hint, _MOST_OF_HINT), *fixes) if hint else hint
        message = mask(message)
        if hint is not None and mask(hint) != hint:
            hint = mask(hint)
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.location = location

    @property
    def fixes(self) -> tuple[Fix, ...]:
        """Edits that mend it, one of which is to be chosen."""
        return fixes_of(self.hint)

    def __str__(self) -> str:
        return self.text(" Hint: ")

    def text(self, before_hint: str) -> str:
        """Return where, what, and what to do next; `before_hint` stands before the hint."""
        where = f"{self.location}: " if self.location else ""
        hint = f"{before_hint}{self.hint}" if self.hint else ""
        return mask(f"{where}{self.message}{hint}")


class ProjectError(VdeError):
    """A mistake in the project's files, or several: the user fixes the files.

    Args:
        unknown: The name that nobody defines, where that is the mistake.
        models: Models that the project does not say clearly because of it.
    """

    exit_code = 2
    _quotes = True
    _several: tuple[ProjectError, ...] = ()

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        location: SourceLocation | None = None,
        unknown: Unknown | None = None,
        models: tuple[ModelName, ...] = (),
    ) -> None:
        super().__init__(message, hint=hint, location=location)
        self.unknown = unknown
        self.models = models

    @property
    def mistakes(self) -> tuple[ProjectError, ...]:
        """Every single mistake; this one where there are no others."""
        return self._several or (self,)

    @staticmethod
    def of(mistakes: Iterable[ProjectError]) -> ProjectError:
        """Make one error of one or several mistakes; its message lists them, one a line."""
        parts = tuple(part for mistake in mistakes for part in mistake.mistakes)
        if len(parts) == 1:
            return parts[0]
        error = ProjectError(f"the project has {len(parts)} mistakes:")
        error.message = "\n".join([error.message, *(f"  {part}" for part in parts)])
        error._several = parts
        return error


class UsageError(VdeError):
    """A mistake in the call (an unknown environment, a wrong interval): the user calls again."""

    exit_code = 2
    _quotes = True


@contextmanager
def placed(location: SourceLocation | None) -> Iterator[None]:
    """Give mistakes in a text or name the place of whatever it comes from.

    Raises:
        ProjectError: The same mistake, there.
    """
    try:
        yield
    except (ProjectError, UsageError) as error:
        unknown = error.unknown if isinstance(error, ProjectError) else None
        raise ProjectError(
            error.message, hint=error.hint, location=location, unknown=unknown
        ) from error


class ConflictError(VdeError):
    """Somebody else changed the same thing first: plan again."""


class LeaseLostError(ConflictError):
    """The lease that guards this work expired or was taken over: nothing more may be written."""


class ExecutionError(VdeError):
    """Work on the warehouse failed: see the cause, then apply the same plan again."""

    place: QueryPlace | None = None
    """Where in the query that was run, when the engine says so."""
    failures: tuple[ModelFailure, ...] = ()
    """What happened model by model, when a whole plan failed."""
    log: Path | None = None
    """The file with the whole stacks of these failures."""


class AuditFailedError(ExecutionError):
    """A blocking audit found rows: nothing was published."""

    audits: tuple[FailedAudit, ...] = ()
    """The audits that did, when they are one model's."""


class UnitTestFailedError(ExecutionError):
    """A unit test of a model failed: nothing was computed or published."""


class DamagedFileError(ExecutionError):
    """A file of the warehouse is missing or damaged: it has to be restored.

    Args:
        what: The file in words: "the manifest list of db.orders".
        damage: What is wrong with it: "is missing", "is cut short".
        above: The file that names it, which may be the damaged one where the two disagree.
    """

    def __init__(self, what: str, file: str, damage: str, above: str | None = None) -> None:
        super().__init__(
            f"{what} {damage}: {file}" + (f", named by {above}" if above else ""),
            hint="restore it from a backup, or from the storage's earlier versions of it; "
            "`vde fsck` names every damaged file",
        )
        self.what = what
        self.file = file
        self.damage = damage

    @property
    def is_missing(self) -> bool:
        """Whether there is no such file at all."""
        return self.damage == MISSING

    def of(self, what: str) -> DamagedFileError:
        """Return the same of a file that is called otherwise."""
        return DamagedFileError(what, self.file, self.damage)


MISSING = "is missing"


class UnknownOutcomeError(VdeError):
    """A commit's answer was lost and it could not be found out whether it happened."""


class StoreError(VdeError):
    """The state store or the catalog cannot be used (unreachable, or of another version)."""


class NotAllowedError(StoreError):
    """Who is connected to the state's database lacks a right: nothing was changed."""

    exit_code = 2


class NoSparkError(StoreError):
    """Spark cannot be had here: there is no Java, no client, or nobody at its master."""

    exit_code = 2


_MOST_OF_MESSAGE = 1_200
_MOST_OF_HINT = 500
_MOST_OF_WORD = 200
_LONG_BLANK = re.compile(r"\s{20,}")
_LONG_WORD = re.compile(rf"\S{{{_MOST_OF_WORD + 1},}}")


def shortened(text: str, most: int) -> str:
    """Leave out the middle of a text longer than `most` characters, and of long words in it."""
    if len(text) > _MOST_OF_WORD:
        text = _LONG_WORD.sub(lambda word: _without_middle(word[0], _MOST_OF_WORD), text)
        text = _LONG_BLANK.sub(" … ", text)
    return _without_middle(text, most)


def _without_middle(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    tail = most // 4
    return f"{text[: most - tail - 3]} … {text[-tail:]}"
