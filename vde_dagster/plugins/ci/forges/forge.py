"""The protocol of a forge, and what is told there: checks of commits with remarks on lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

State = Literal["open", "merged", "closed", "unknown"]


@dataclass(frozen=True, slots=True)
class Annotation:
    """A remark on a line of a file.

    Args:
        path: Relative to the repository, with forward slashes.
        line: 1-based.
    """

    path: str
    line: int
    title: str
    message: str
    level: Literal["failure", "warning"] = "failure"

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.title}: {self.message}"


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check of a commit.

    Args:
        summary: Markdown; `title` is a plain sentence.
        project: Its folder in the repository, empty where that is the repository's own.
    """

    commit: str
    passed: bool
    title: str
    summary: str
    annotations: Sequence[Annotation] = ()
    project: str = ""

    @property
    def name(self) -> str:
        """By which it is told from those of other programs and projects."""
        return f"vde {self.project}".rstrip("/ ")


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull or merge request.

    Args:
        head: Its newest commit.
        state: `closed` without a merge, or `unknown` where the forge cannot tell.
    """

    head: str
    state: State


class Forge(Protocol):
    """A place where pull requests are.

    Every method raises UsageError where it is refused and what was asked for is not there, and
    ExecutionError where the forge cannot be reached or fails.
    """

    def pull_request(self, number: int) -> PullRequest:
        """Return a pull request as it is now."""

    def merged_by(self, commit: str) -> int | None:
        """Return the pull request that a commit of the main branch merged, or None."""

    def comment(self, number: int, marker: str) -> str | None:
        """Return the text of the comment of a pull request that was made here, or None.

        Args:
            marker: The first line, by which it is known again.
        """

    def write_comment(self, number: int, marker: str, text: str) -> None:
        """Make the comment, or put another text in its place: there is never a second one.

        Args:
            text: Markdown that begins with the marker.
        """

    def write_check(self, check: Check) -> None:
        """Say the result of a check of a commit."""
