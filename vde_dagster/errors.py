"""Error types of the package, grouped by what the caller can do about the error."""

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
        path: Relative to the project's root if the file is inside.
        line: 1-based, or None for the whole file.
        column: 1-based, or None.
    """

    path: Path
    line: int | None = None
    column: int | None = None

    @property
    def order(self) -> tuple[str, int, int]:
        """Sort key of the place."""
        return self.path.as_posix(), self.line or 0, self.column or 0

    def __str__(self) -> str:
        column = self.column if self.line is not None else None
        return ":".join(str(one) for one in (self.path, self.line, column) if one is not None)


@dataclass(frozen=True, slots=True)
class Replacement:
    """A text in a file, and its replacement.

    Args:
        old: The text to replace; the file must still contain it. Quotes around it are kept.
        at: Start of the text; by default the place of the mistake.
    """

    old: str
    new: str
    at: SourceLocation | None = None


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits of the project's files that fix a mistake, with a short title.

    Args:
        sure: Whether the fix may be applied automatically; otherwise a user must choose it.
    """

    title: str
    edits: tuple[Replacement, ...]
    sure: bool = True

    @classmethod
    def writing(cls, old: str, new: str, *, sure: bool = True) -> Fix:
        """Create a fix that replaces a word at the place of the mistake."""
        return cls(f"Write {new}", (Replacement(old, new),), sure)


class Hint(str):
    """A hint with alternative fixes."""

    fixes: tuple[Fix, ...]

    def __new__(cls, text: str, *fixes: Fix) -> Hint:
        made = super().__new__(cls, text)
        made.fixes = fixes
        return made


def hint_fixes(hint: str | None) -> tuple[Fix, ...]:
    """Return a hint's fixes; a plain text has none."""
    return hint.fixes if isinstance(hint, Hint) else ()


@dataclass(frozen=True, slots=True)
class Unknown:
    """An undefined name in a project's file."""

    what: Literal["macro", "audit", "variable", "signal", "materialization"]
    name: str


class VdeError(Exception):
    """Base of every error that this package raises on purpose.

    Args:
        message: The mistake or failure, in one sentence.
        hint: The next step, in one sentence.
        location: The place in the project, if known.
    """

    exit_code = 1
    lacks_memory = False
    """Whether the same work may succeed in smaller parts."""
    by_others = False
    """Whether other processes may have caused the error."""
    _quotes = False
    """Whether messages quote a user's text, which may be long; such messages are shortened."""

    def __init__(
        self, message: str, *, hint: str | None = None, location: SourceLocation | None = None
    ) -> None:
        if self._quotes:
            message = shortened(message, _MOST_OF_MESSAGE)
            fixes = hint_fixes(hint)
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
        """Alternative edits that fix the error."""
        return hint_fixes(self.hint)

    def __str__(self) -> str:
        return self.text(". Hint: ")

    def text(self, before_hint: str) -> str:
        """Return the place, the message and the hint, with `before_hint` before the hint.

        The period at the start of `before_hint` is omitted if the message ends a sentence.
        """
        where = f"{self.location}: " if self.location else ""
        if self.message.endswith((".", "!", "?", "…", ":")):
            before_hint = before_hint.removeprefix(".")
        hint = f"{before_hint}{self.hint}" if self.hint else ""
        return mask(f"{where}{self.message}{hint}")


class ProjectError(VdeError):
    """One or several mistakes in the project's files, for the user to fix.

    Args:
        unknown: The undefined name, if that is the mistake.
        models: Models whose definition is unclear because of the mistake.
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
        """The mistakes that the error combines, or the error itself if it is a single mistake."""
        return self._several or (self,)

    @staticmethod
    def combine(mistakes: Iterable[ProjectError]) -> ProjectError:
        """Combine mistakes into one error, whose message has a line for each mistake."""
        parts = tuple(part for mistake in mistakes for part in mistake.mistakes)
        if len(parts) == 1:
            return parts[0]
        error = ProjectError(f"the project has {len(parts)} mistakes:")
        error.message = "\n".join([error.message, *(f"  {part}" for part in parts)])
        error._several = parts
        return error


class UsageError(VdeError):
    """A mistake in the call (an unknown environment, a wrong interval), for the user to correct."""

    exit_code = 2
    _quotes = True


@contextmanager
def placed(location: SourceLocation | None) -> Iterator[None]:
    """Attach a place to each mistake that is raised inside the context.

    Raises:
        ProjectError: The same mistake, with the place.
    """
    try:
        yield
    except (ProjectError, UsageError) as error:
        unknown = error.unknown if isinstance(error, ProjectError) else None
        raise ProjectError(
            error.message, hint=error.hint, location=location, unknown=unknown
        ) from error


class ConflictError(VdeError):
    """Another process changed the same object first: plan again."""


class LeaseLostError(ConflictError):
    """The lease for this work expired or was taken over: nothing more may be written."""


class ExecutionError(VdeError):
    """Work on the warehouse failed: see the cause, then apply the same plan again."""

    cause: str | None = None
    """The message without the model or the failed work that it begins with, if it has one."""
    place: QueryPlace | None = None
    """The place in the query that ran, if the engine reports it."""
    failures: tuple[ModelFailure, ...] = ()
    """The failures by model, when a whole plan failed."""
    log: Path | None = None
    """The file with the complete stack traces of these failures."""


class AuditFailedError(ExecutionError):
    """A blocking audit found rows: nothing was published."""

    audits: tuple[FailedAudit, ...] = ()
    """The audits that found rows, if they belong to one model."""


class UnitTestFailedError(ExecutionError):
    """A unit test of a model failed: nothing was computed or published."""


class DamagedFileError(ExecutionError):
    """A file of the warehouse is missing or damaged and must be restored.

    Args:
        what: A phrase for the file: "the manifest list of db.orders".
        damage: A phrase for the damage: "is missing", "is cut short".
        above: The file that refers to the damaged one. If the two disagree, either may be damaged.
    """

    def __init__(self, what: str, file: str, damage: str, above: str | None = None) -> None:
        super().__init__(
            f"{what} {damage}: {file}" + (f", to which {above} refers" if above else ""),
            hint="restore it from a backup, or from an earlier version of it in the storage; "
            "`vde fsck` lists every damaged file",
        )
        self.what = what
        self.file = file
        self.damage = damage

    @property
    def is_missing(self) -> bool:
        """Whether the file does not exist at all."""
        return self.damage == MISSING

    def about(self, what: str) -> DamagedFileError:
        """Return the same error with another phrase for the file."""
        return DamagedFileError(what, self.file, self.damage)


MISSING = "is missing"


class UnknownOutcomeError(VdeError):
    """A commit's response was lost, and its outcome could not be determined."""


class StoreError(VdeError):
    """The state store or the catalog cannot be used: it is unreachable or damaged, for example."""


class NotAllowedError(StoreError):
    """The login on the state's database lacks a right: nothing was changed."""

    exit_code = 2


class NoSparkError(StoreError):
    """Spark is not available: Java or the client is missing, or the master does not respond."""

    exit_code = 2


_MOST_OF_MESSAGE = 1_200
_MOST_OF_HINT = 500
_MOST_OF_WORD = 200
_LONG_BLANK = re.compile(r"\s{20,}")
_LONG_WORD = re.compile(rf"\S{{{_MOST_OF_WORD + 1},}}")


def shortened(text: str, most: int) -> str:
    """Shorten a text by omitting its middle. Very long words are shortened in the same way."""
    if len(text) > _MOST_OF_WORD:
        text = _LONG_WORD.sub(lambda word: _without_middle(word[0], _MOST_OF_WORD), text)
        text = _LONG_BLANK.sub(" … ", text)
    return _without_middle(text, most)


def _without_middle(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    tail = most // 4
    return f"{text[: most - tail - 3]} … {text[-tail:]}"
