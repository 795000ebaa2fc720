"""GitHub by its REST API: issue comments and check runs.

https://docs.github.com/en/rest/issues/comments, https://docs.github.com/en/rest/checks/runs
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import quote

from vde_dagster.api.errors import UsageError
from vde_dagster.plugins.ci.forges.forge import Annotation, Check, PullRequest, State
from vde_dagster.plugins.ci.forges.rest import Rest, RestForge, Token

MOST_ANNOTATIONS = 50
"""Maximum number of annotations in one request; further requests add more."""
_LONGEST_TEXT = 60_000
_ACTIONS_USER = "github-actions[bot]"
"""User who authors content sent with a workflow's token."""


@dataclass(frozen=True)
class GitHub(RestForge):
    repository: str = ""

    @classmethod
    def from_variables(cls, login: str = "") -> GitHub:
        """Create a client from the environment variables of a GitHub workflow.

        Raises:
            UsageError: The repository or the token is missing.
        """
        repository = os.environ.get("GITHUB_REPOSITORY", "")
        if repository.count("/") != 1:
            raise UsageError(
                "GITHUB_REPOSITORY does not name a repository",
                hint="outside of a workflow set it to owner/name",
            )
        base = os.environ.get("GITHUB_API_URL", "https://api.github.com").rstrip("/")
        token = Token.from_variable("Authorization", "Bearer ", "GITHUB_TOKEN")
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
        return cls(Rest(base, token, headers), login, repository)

    def pull_request(self, number: int) -> PullRequest:
        found = self.rest.get(f"{self._repo}/pulls/{number}")
        state: State = "open" if found["state"] == "open" else "closed"
        return PullRequest(str(found["head"]["sha"]), "merged" if found["merged"] else state)

    def find_merged(self, commit: str) -> int | None:
        found = list(self.rest.pages(f"{self._repo}/commits/{quote(commit)}/pulls?per_page=100"))
        merged = [one for one in found if one.get("merged_at")]
        own = [one for one in merged if one.get("merge_commit_sha") == commit]
        chosen = own or merged
        return int(chosen[0]["number"]) if chosen else None

    def write_check(self, check: Check) -> None:
        parts = [
            [_annotation_json(one) for one in check.annotations[at : at + MOST_ANNOTATIONS]]
            for at in range(0, len(check.annotations), MOST_ANNOTATIONS)
        ] or [[]]
        output = {"title": check.title[:255], "summary": check.summary[:_LONGEST_TEXT]}
        run = self.rest.send(
            "POST",
            f"{self._repo}/check-runs",
            {
                "name": check.name,
                "head_sha": check.commit,
                "status": "completed",
                "conclusion": "success" if check.passed else "failure",
                "output": {**output, "annotations": parts[0]},
            },
        )
        for part in parts[1:]:
            added = {"output": {**output, "annotations": part}}
            self.rest.send("PATCH", f"{self._repo}/check-runs/{run['id']}", added)

    @property
    def _repo(self) -> str:
        return f"/repos/{quote(self.repository)}"

    @cached_property
    def user(self) -> str:
        # An installation's token, as in a workflow, may not request its user.
        known = None if self.login else self.rest.get("/user", or_none=(403, 404))
        return self.login or (str(known["login"]) if known else _ACTIONS_USER)

    def comments_path(self, number: int) -> str:
        return f"{self._repo}/issues/{number}/comments"

    def comment_path(self, number: int, key: int) -> str:
        return f"{self._repo}/issues/comments/{key}"


def _annotation_json(one: Annotation) -> dict[str, Any]:
    return {
        "path": one.path,
        "start_line": one.line,
        "end_line": one.line,
        "annotation_level": one.level,
        "title": one.title[:255],
        "message": one.message[:_LONGEST_TEXT],
    }
