"""Plain Git: comments are files of a pushed ref, checks are notes on commits.

`git log --notes=vde` shows the checks, `git show refs/vde/comments:pr_123.md` a comment; if the
project is in a folder of the repository, its files are in a folder of that name.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from vde_dagster.api.errors import ExecutionError, UsageError
from vde_dagster.api.values import mask
from vde_dagster.plugins.ci.forges.forge import Check, PullRequest

COMMENTS = "refs/vde/comments"
NOTES = "refs/notes/vde"
_ATTEMPTS = 10
_MOST_PARENTS = 50
_TIMEOUT = 120
_NOTHING = "0" * 40
_SIGNED = {
    "GIT_AUTHOR_NAME": "vde",
    "GIT_AUTHOR_EMAIL": "vde@localhost",
    "GIT_COMMITTER_NAME": "vde",
    "GIT_COMMITTER_EMAIL": "vde@localhost",
}


@dataclass(frozen=True, slots=True)
class PlainGit:
    """A clone, and the remote through which it shares comments and checks.

    Args:
        folder: A folder in the clone.
        remote: The remote's name or URL. If the clone lacks the remote, nothing is shared.
        checked: Returns the pull request whose newest check examined one of the given commits.
    """

    folder: Path
    remote: str = "origin"
    checked: Callable[[Sequence[str]], int | None] = lambda commits: None

    def pull_request(self, number: int) -> PullRequest:
        """Return the checked-out commit as a pull request."""
        # Git itself records no pull requests.
        return PullRequest(self.head(), "unknown")

    def head(self) -> str:
        """Return the commit that is checked out."""
        return self.ask("rev-parse", "--verify", "HEAD").strip()

    def merged_by(self, commit: str) -> int | None:
        """Return the pull request whose last check examined this commit, or one that it merges."""
        _, *parents = self.ask("rev-list", "--parents", "-n", "1", commit).split()
        return self.checked([commit, *parents[1:]])

    def first_parents(self, commit: str) -> list[str]:
        """Return a commit and its fetched first parents, newest first."""
        listed = self.ask("rev-list", "--first-parent", "-n", f"{_MOST_PARENTS}", commit)
        return listed.split()

    def comment(self, number: int, marker: str) -> str | None:
        """Return the text of a pull request's comment, or None."""
        known = self._newest(COMMENTS)
        path = f"{known}:{self._file(number)}"
        if known is None or not self._has(path):
            return None
        text = self.ask("cat-file", "blob", path)
        return text if text.startswith(marker) else None

    def write_comment(self, number: int, marker: str, text: str) -> None:
        """Write the file of the comment, and push it."""

        def change(before: str | None) -> str:
            blob = self.ask("hash-object", "-w", "--stdin", given=mask(text)).strip()
            with self._index() as index:
                if before is not None:
                    self.ask("read-tree", before, index=index)
                entry = f"100644,{blob},{self._file(number)}"
                self.ask("update-index", "--add", "--cacheinfo", entry, index=index)
                tree = self.ask("write-tree", index=index).strip()
            parents = ["-p", before] if before is not None else []
            subject = f"comment of {number}"
            return self.ask("commit-tree", tree, *parents, "-m", subject).strip()

        self._change(COMMENTS, change)

    def write_check(self, check: Check) -> None:
        """Write the note of a commit, and push it."""
        begin = f"{check.name}: "
        lines = [f"{begin}{'passed' if check.passed else 'failed'}: {check.title}"]
        lines += [f"{one.level}: {one}" for one in check.annotations]

        def change(before: str | None) -> str:
            # Git changes only whole refs of notes: this ref has no other writers.
            own = f"{NOTES}-{uuid.uuid4().hex}"
            notes = ("notes", f"--ref={own}")
            try:
                if before is not None:
                    self.ask("update-ref", own, before)
                noted = self._tried(*notes, "list", check.commit)
                known = self.ask(*notes, "show", check.commit) if noted else ""
                # Each project of the repository has a paragraph.
                others = [one for one in known.strip().split("\n\n") if not one.startswith(begin)]
                text = "\n\n".join(filter(None, [*others, "\n".join(lines)]))
                self.ask(*notes, "add", "-f", "-F", "-", check.commit, given=text)
                return self.ask("rev-parse", own).strip()
            finally:
                self._tried("update-ref", "-d", own)

        self._change(NOTES, change)

    def newest_of_branch(self, branch: str = "") -> str | None:
        """Fetch and return a branch's newest commit, or None.

        Args:
            branch: Empty for the default branch.
        """
        if not branch and self._is_shared():
            listed = self.ask("ls-remote", "--symref", self.remote, "HEAD").split()
            branch = listed[1].removeprefix("refs/heads/") if listed[:1] == ["ref:"] else ""
        if not branch and not self._is_shared():
            branch = next((one for one in ("main", "master") if self._has(one)), "")
        return self._newest(f"refs/heads/{branch}") if branch else None

    def _change(self, ref: str, change: Callable[[str | None], str]) -> None:
        """Put a commit on top of the remote's ref; retry if another process was first.

        Args:
            change: Creates a commit on a parent, and returns its id. Without a parent, the
                function gets None.
        """
        for _ in range(_ATTEMPTS):
            before = self._newest(ref)
            made = change(before)
            if not self._is_shared():
                done = self._tried("update-ref", ref, made, before or _NOTHING)
            else:
                lease = f"--force-with-lease={ref}:{before or ''}"
                done = self._tried("push", "--quiet", lease, self.remote, f"{made}:{ref}")
                if done:
                    self._tried("update-ref", ref, made)
            if done:
                return
        raise ExecutionError(
            f"{ref} cannot be pushed to {self.remote}",
            hint="check that the job may push there, and run it again",
        )

    def _newest(self, ref: str) -> str | None:
        """Fetch and return the commit of the remote's ref, or None."""
        if not self._is_shared():
            return self.ask("rev-parse", ref).strip() if self._has(ref) else None
        listed = self.ask("ls-remote", self.remote, ref).split()
        if listed:
            self.ask("fetch", "--quiet", "--no-write-fetch-head", self.remote, ref)
        return listed[0] if listed else None

    def _is_shared(self) -> bool:
        return self.remote in self.ask("remote").split()

    def _has(self, name: str) -> bool:
        return self._tried("rev-parse", "--quiet", "--verify", name)

    def _file(self, number: int) -> str:
        return f"{place_in_repository(self.folder)}pr_{number}.md"

    @contextmanager
    def _index(self) -> Iterator[str]:
        with tempfile.TemporaryDirectory(prefix="vde-ci-") as folder:
            yield str(Path(folder) / "index")

    def ask(self, *arguments: str, given: str | None = None, index: str | None = None) -> str:
        """Return the output of a Git command; UsageError if it fails."""
        done = self._run(arguments, given, index)
        if done.returncode:
            told = done.stderr.strip().splitlines()[:1]
            raise UsageError(
                f"git {arguments[0]} failed: {''.join(told)}",
                hint="run it in a clone of the project's repository",
            )
        return done.stdout

    def _tried(self, *arguments: str) -> bool:
        return self._run(arguments, None, None).returncode == 0

    def _run(
        self, arguments: tuple[str, ...], given: str | None, index: str | None
    ) -> subprocess.CompletedProcess[str]:
        more = {"GIT_INDEX_FILE": index} if index else {}
        try:
            return subprocess.run(
                ["git", "-C", str(self.folder), *arguments],
                input=given,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_TIMEOUT,
                env={**os.environ, **_SIGNED, "GIT_TERMINAL_PROMPT": "0", **more},
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise ExecutionError(
                f"git {arguments[0]} cannot be run: {type(error).__name__}",
                hint="install git, and check that the remote can be reached",
            ) from None


def place_in_repository(root: Path) -> str:
    """Return a project's folder in its repository, empty or with `/` at its end."""
    return git_output(root, "rev-parse", "--show-prefix")


def git_output(folder: Path, *arguments: str) -> str:
    """Return the output of Git in a folder; empty without a repository, or without Git."""
    try:
        return PlainGit(folder).ask(*arguments).strip()
    except (ExecutionError, UsageError):
        return ""
