"""Plain Git: comments are files of a pushed ref, checks are notes on commits.

`git log --notes=vde` shows the checks, `git show refs/vde/comments:pr_123.md` a comment. A project
in a subfolder has its comments in a folder of that name.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from vde_dagster.api.errors import ExecutionError, UsageError
from vde_dagster.api.values import mask
from vde_dagster.plugins.ci.forges.forge import Check, PullRequest

COMMENTS = "refs/vde/comments"
NOTES = "refs/notes/vde"
_ATTEMPTS = 10
_TIMEOUT = 120
_NO_COMMIT = "0" * 40
_IDENTITY = {
    "GIT_AUTHOR_NAME": "vde",
    "GIT_AUTHOR_EMAIL": "vde@localhost",
    "GIT_COMMITTER_NAME": "vde",
    "GIT_COMMITTER_EMAIL": "vde@localhost",
}


@dataclass(frozen=True, slots=True)
class PlainGit:
    """Stores comments and checks in Git refs that it pushes to a remote, without a forge.

    Args:
        folder: A folder in the clone.
        remote: The remote's name. If the clone lacks the remote, nothing is pushed.
        find_checked: Returns the pull request whose newest check passed for one of the commits.
    """

    folder: Path
    remote: str = "origin"
    find_checked: Callable[[Sequence[str]], int | None] = lambda commits: None

    def pull_request(self, number: int) -> PullRequest:
        """Return the checked-out commit as a pull request in the state `unknown`."""
        # Git itself records no pull requests.
        return PullRequest(self.head(), "unknown")

    def head(self) -> str:
        return self.run_git("rev-parse", "--verify", "HEAD").strip()

    def find_merged(self, commit: str) -> int | None:
        """Return the pull request that a commit merged, or None.

        The pull request's newest check passed for the commit, or for a head that the commit merged.
        """
        _, *parents = self.run_git("rev-list", "--parents", "-n", "1", commit).split()
        return self.find_checked([commit, *parents[1:]])

    def first_parents(self, commit: str, limit: int) -> list[str]:
        """Return a commit and its first parents, newest first.

        The list ends where a shallow clone ends.

        Args:
            limit: Maximum number of commits; -1 for all.
        """
        listed = self.run_git("rev-list", "--first-parent", "-n", f"{limit}", commit)
        return listed.split()

    def comment(self, number: int, marker: str) -> str | None:
        known = self._fetch_newest(COMMENTS)
        path = f"{known}:{self._comment_file(number)}"
        if known is None or not self._exists(path):
            return None
        text = self.run_git("cat-file", "blob", path)
        return text if text.startswith(marker) else None

    def write_comment(self, number: int, marker: str, text: str) -> None:

        def change(before: str | None) -> str:
            blob = self.run_git("hash-object", "-w", "--stdin", stdin=mask(text)).strip()
            with tempfile.TemporaryDirectory(prefix="vde-ci-") as folder:
                index = str(Path(folder) / "index")
                if before is not None:
                    self.run_git("read-tree", before, index=index)
                entry = f"100644,{blob},{self._comment_file(number)}"
                self.run_git("update-index", "--add", "--cacheinfo", entry, index=index)
                tree = self.run_git("write-tree", index=index).strip()
            parents = ["-p", before] if before is not None else []
            subject = f"comment of {number}"
            return self.run_git("commit-tree", tree, *parents, "-m", subject).strip()

        self._push_commit(COMMENTS, change)

    def write_check(self, check: Check) -> None:
        begin = f"{check.name}: "
        lines = [f"{begin}{'passed' if check.passed else 'failed'}: {check.title}"]
        # Blank lines separate the paragraphs of projects.
        lines += [" ".join(f"{one.level}: {one}".split()) for one in check.annotations]

        def change(before: str | None) -> str:
            # Git changes only whole refs of notes: this ref has no other writers.
            own = f"{NOTES}-{uuid.uuid4().hex}"
            notes = ("notes", f"--ref={own}")
            try:
                if before is not None:
                    self.run_git("update-ref", own, before)
                noted = self._succeeds(*notes, "list", check.commit)
                known = self.run_git(*notes, "show", check.commit) if noted else ""
                # Each project of the repository has a paragraph.
                others = [one for one in known.strip().split("\n\n") if not one.startswith(begin)]
                text = "\n\n".join(filter(None, [*others, "\n".join(lines)]))
                self.run_git(*notes, "add", "-f", "-F", "-", check.commit, stdin=mask(text))
                return self.run_git("rev-parse", own).strip()
            finally:
                self._succeeds("update-ref", "-d", own)

        self._push_commit(NOTES, change)

    def fetch_newest(self, branch: str = "") -> str | None:
        """Fetch a branch (empty for the default branch) and return its newest commit, if any."""
        if not branch and self._is_shared():
            listed = self.run_git("ls-remote", "--symref", self.remote, "HEAD").split()
            branch = listed[1].removeprefix("refs/heads/") if listed[:1] == ["ref:"] else ""
        if not branch and not self._is_shared():
            branch = next((one for one in ("main", "master") if self._exists(one)), "")
        return self._fetch_newest(f"refs/heads/{branch}") if branch else None

    def _push_commit(self, ref: str, change: Callable[[str | None], str]) -> None:
        """Push the commit that `change(parent)` creates; retry if another process was faster."""
        for _ in range(_ATTEMPTS):
            before = self._fetch_newest(ref)
            made = change(before)
            if not self._is_shared():
                done = self._succeeds("update-ref", ref, made, before or _NO_COMMIT)
            else:
                lease = f"--force-with-lease={ref}:{before or ''}"
                done = self._succeeds("push", "--quiet", lease, self.remote, f"{made}:{ref}")
                if done:
                    self._succeeds("update-ref", ref, made)
            if done:
                return
        raise ExecutionError(
            f"{ref} cannot be updated",
            hint=f"check that the job may push to {self.remote}, and run the job again",
        )

    def _fetch_newest(self, ref: str) -> str | None:
        if not self._is_shared():
            return self.run_git("rev-parse", ref).strip() if self._exists(ref) else None
        # Git also lists refs that only end with this name, such as a branch `refs/heads/main`.
        listed = (line.split() for line in self.run_git("ls-remote", self.remote, ref).splitlines())
        newest = next((commit for commit, name in listed if name == ref), None)
        if newest is not None:
            self.run_git("fetch", "--quiet", "--no-write-fetch-head", self.remote, ref)
        return newest

    def _is_shared(self) -> bool:
        return self.remote in self.run_git("remote").split()

    def _exists(self, name: str) -> bool:
        return self._succeeds("rev-parse", "--quiet", "--verify", name)

    def _comment_file(self, number: int) -> str:
        return f"{place_in_repository(self.folder)}pr_{number}.md"

    def run_git(self, *arguments: str, stdin: str | None = None, index: str | None = None) -> str:
        """Run a Git command and return its output.

        Raises:
            UsageError: The command fails.
        """
        done = self._run(arguments, stdin, index)
        if done.returncode:
            first_line = done.stderr.strip().splitlines()[:1]
            raise UsageError(
                f"git {arguments[0]} failed: {''.join(first_line)}",
                hint="run it in a clone of the project's repository",
            )
        return done.stdout

    def _succeeds(self, *arguments: str) -> bool:
        return self._run(arguments, None, None).returncode == 0

    def _run(
        self, arguments: tuple[str, ...], stdin: str | None, index: str | None
    ) -> subprocess.CompletedProcess[str]:
        more = {"GIT_INDEX_FILE": index} if index else {}
        try:
            return subprocess.run(
                ["git", "-C", str(self.folder), *arguments],
                input=stdin,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_TIMEOUT,
                env={**os.environ, **_IDENTITY, "GIT_TERMINAL_PROMPT": "0", **more},
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise ExecutionError(
                f"git {arguments[0]} cannot be run: {type(error).__name__}",
                hint="install git, and check that the remote can be reached",
            ) from None


def place_in_repository(root: Path) -> str:
    """Return a project's folder in its repository, such as `shop/`; empty for the root."""
    return git_output(root, "rev-parse", "--show-prefix")


def git_output(folder: Path, *arguments: str) -> str:
    """Run Git in a folder and return its output; empty if it fails."""
    try:
        return PlainGit(folder).run_git(*arguments).strip()
    except (ExecutionError, UsageError):
        return ""
