"""The repository's own workflows for GitHub."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from vde_dagster_tests.corpora import each_of

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
_PINNED = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


def _jobs(path: Path) -> dict[str, Any]:
    jobs: dict[str, Any] = yaml.safe_load(path.read_text())["jobs"]
    return jobs


@each_of("path", WORKFLOWS)
def test_actions_are_pinned_by_hash_and_name_their_version(path: Path) -> None:
    used = re.findall(r"uses: (.*)", path.read_text())
    assert used
    assert [one for one in used if not _PINNED.fullmatch(one)] == []


@each_of("path", WORKFLOWS)
def test_jobs_have_the_permissions_that_they_name_and_a_time_limit(path: Path) -> None:
    assert yaml.safe_load(path.read_text())["permissions"] == {}
    for job in _jobs(path).values():
        assert job["permissions"]
        assert job["timeout-minutes"] <= 90


@each_of("path", WORKFLOWS)
def test_checked_out_code_gets_no_token(path: Path) -> None:
    for job in _jobs(path).values():
        for step in job["steps"]:
            if "checkout" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False


def test_only_the_job_without_code_of_the_repository_may_publish() -> None:
    jobs = _jobs(ROOT / ".github" / "workflows" / "release.yml")
    may_sign = [name for name, job in jobs.items() if "id-token" in job["permissions"]]
    assert may_sign == ["publish"]
    assert all("run" not in step for step in jobs["publish"]["steps"])
