"""GitLab by its REST API: notes of merge requests, and a report of code quality.

https://docs.gitlab.com/api/notes/, https://docs.gitlab.com/ci/testing/code_quality/
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from vde_dagster.api.errors import UsageError
from vde_dagster.api.values import mask
from vde_dagster.plugins.ci.forges.forge import Annotation, Check, PullRequest, State
from vde_dagster.plugins.ci.forges.rest import Rest, RestForge, Token

REPORT = "gl-code-quality-report.json"
"""The job's file with remarks on lines, for `artifacts:reports:codequality`."""
_TOKEN = "GITLAB_TOKEN"
_STATES: dict[str, State] = {"opened": "open", "merged": "merged", "closed": "closed"}
_COMMAND = re.compile("^/", re.MULTILINE)
"""Prefix of a quick action, which GitLab would execute."""


@dataclass(frozen=True)
class GitLab(RestForge):
    """A project on GitLab.

    Args:
        project: The project's number, or its path.
        folder: The folder for the code quality report.
    """

    project: str = ""
    folder: Path = Path()
    update: ClassVar[str] = "PUT"
    author: ClassVar[tuple[str, str]] = ("author", "username")
    oldest_first: ClassVar[str] = "sort=asc&order_by=created_at&"

    @classmethod
    def from_variables(cls, login: str = "") -> GitLab:
        """Create a client from the environment variables of a GitLab job.

        Raises:
            UsageError: The project, or a token that can write notes, is missing.
        """
        known = os.environ
        project = known.get("CI_PROJECT_ID", "") or known.get("CI_PROJECT_PATH", "")
        if not project:
            raise UsageError(
                "CI_PROJECT_ID does not name a project",
                hint="outside of a job set it to the project's number or path",
            )
        if known.get("CI_JOB_TOKEN") and not known.get(_TOKEN, "").strip():
            raise UsageError(
                f"{_TOKEN} is not set, and CI_JOB_TOKEN cannot write notes",
                hint="create a project access token with the role Reporter and the scope api, and "
                f"pass it to the job as the masked variable {_TOKEN}",
            )
        base = known.get("CI_API_V4_URL", "https://gitlab.com/api/v4").rstrip("/")
        token = Token.from_variable("PRIVATE-TOKEN", "", _TOKEN)
        folder = Path(known.get("CI_PROJECT_DIR", "."))
        return cls(Rest(base, token), login, project, folder)

    def pull_request(self, number: int) -> PullRequest:
        found = self.rest.get(f"{self._path}/merge_requests/{number}")
        # The state is `locked` while it is being merged.
        state = _STATES.get(found["state"], "unknown")
        return PullRequest(str(found["sha"]), state)

    def find_merged(self, commit: str) -> int | None:
        path = f"{self._path}/repository/commits/{quote(commit)}/merge_requests?per_page=100"
        merged = [one for one in self.rest.pages(path) if one["state"] == "merged"]
        # A squash has its own commit; a fast-forward has only the request's.
        names = ("merge_commit_sha", "squash_commit_sha", "sha")
        own = [one for one in merged if commit in (one.get(name) for name in names)]
        chosen = own or merged
        return int(chosen[0]["iid"]) if chosen else None

    def write_comment(self, number: int, marker: str, text: str) -> None:
        # A leading `/` is escaped, so that GitLab runs no quick action.
        super().write_comment(number, marker, _COMMAND.sub(r"\\/", text))

    def write_check(self, check: Check) -> None:
        """Write the remarks of a check to the job's code quality report."""
        # GitLab shows the remarks at the lines of the merge request. It shows the job's own result
        # as the check of the commit.
        report = [_report_entry(one, check.name) for one in check.annotations]
        (self.folder / REPORT).write_text(json.dumps(mask(report), indent=2), "utf-8")

    @property
    def _path(self) -> str:
        return f"/projects/{quote(self.project, safe='')}"

    @cached_property
    def user(self) -> str:
        return self.login or str(self.rest.get("/user")["username"])

    def comments_path(self, number: int) -> str:
        return f"{self._path}/merge_requests/{number}/notes"

    def comment_path(self, number: int, key: int) -> str:
        return f"{self.comments_path(number)}/{key}"


def _report_entry(one: Annotation, name: str) -> dict[str, Any]:
    text = f"{one.title}: {one.message}"
    return {
        "description": text,
        "check_name": name,
        # Reports are compared by it, which separates new remarks from old ones.
        "fingerprint": hashlib.sha256(f"{one.path}\n{text}".encode()).hexdigest(),
        "severity": "major" if one.level == "failure" else "minor",
        "location": {"path": one.path, "lines": {"begin": one.line}},
    }
