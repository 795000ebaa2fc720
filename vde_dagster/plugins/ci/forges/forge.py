"""The protocol of a forge, with its pull requests, checks and remarks on lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

State = Literal["open", "merged", "closed", "unknown"]


@dataclass(frozen=True, slots=True)
class Annotation:
    """A remark on a line of a file, shown next to the code.

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
    """The result of checking a commit, which the forge shows next to the commit.

    Args:
        title: A plain sentence.
        summary: Markdown.
        project: The project's folder in the repository; empty for the root.
    """

    commit: str
    passed: bool
    title: str
    summary: str
    annotations: Sequence[Annotation] = ()
    project: str = ""

    @property
    def name(self) -> str:
        """The name, such as `vde shop` for a project in the folder `shop`."""
        return f"vde {self.project}".rstrip("/ ")


@dataclass(frozen=True, slots=True)
class PullRequest:
    """The state of a pull or merge request.

    Args:
        head: The newest commit.
        state: `closed` without a merge, or `unknown` if the forge does not report it.
    """

    head: str
    state: State


class Forge(Protocol):
    """A host of pull requests.

    Every method raises UsageError if the forge refuses a request or does not have the requested
    object, and ExecutionError if the forge cannot be reached or fails.
    """

    def pull_request(self, number: int) -> PullRequest:
        """Return the current state of a pull request."""

    def find_merged(self, commit: str) -> int | None:
        """Return the number of the pull request that merged a commit to main, or None."""

    def comment(self, number: int, marker: str) -> str | None:
        """Return the pull request's comment that begins with the marker, or None."""

    def write_comment(self, number: int, marker: str, text: str) -> None:
        """Replace the comment that begins with the marker; add a comment if it is missing.

        Args:
            text: The new comment, which begins with the marker.
        """

    def write_check(self, check: Check) -> None:
        """Publish the result of a check at its commit."""
