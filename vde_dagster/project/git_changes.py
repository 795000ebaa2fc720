"""Which files of a project differ from a branch of its git repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

from vde_dagster.errors import UsageError


def git_changes(root: Path, branch: str) -> frozenset[str]:
    """Return the files that differ from where the branch was left, committed or not.

    Args:
        root: The project's folder, in a git repository.
        branch: The branch, or any other name of a commit.

    Returns:
        Paths relative to the root, with forward slashes; removed files are not among them.

    Raises:
        UsageError: There is no repository, no such branch, or no git.
    """
    if not branch or branch.startswith("-"):
        raise UsageError(f"'git:{branch}' names no branch", hint="write git:main")
    committed = _git(root, branch, "diff", "--name-only", "-z", "--relative", f"{branch}...HEAD")
    changed = _git(root, branch, "diff", "--name-only", "-z", "--relative", "HEAD")
    new = _git(root, branch, "ls-files", "-z", "--others", "--exclude-standard")
    return committed | changed | new


def _git(root: Path, branch: str, *arguments: str) -> frozenset[str]:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments, "--"], capture_output=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as error:
        told = getattr(error, "stderr", None) or str(error).encode()
        why = told.decode(errors="replace").strip().splitlines()[:1]
        raise UsageError(
            f"git cannot tell what differs from '{branch}': {''.join(why)}",
            hint="give the name of a branch of the repository that the project lies in",
        ) from None
    return frozenset(path for path in done.stdout.decode(errors="replace").split("\0") if path)
