"""What is sent to GitHub: one comment among others' on any page, check runs, and no secret."""

from __future__ import annotations

import pytest

from vde_dagster.errors import ExecutionError, UsageError
from vde_dagster.plugins.ci.forges.forge import Annotation, Check, PullRequest
from vde_dagster.plugins.ci.forges.github import GitHub
from vde_dagster_tests.ci.github import BOT, TOKEN, FakeGitHub

MARK = "<!-- vde ci shop 12 -->"


def test_there_is_one_comment_which_is_updated(github: FakeGitHub) -> None:
    for number in range(5):
        github.add_comment(12, "anna", f"what about {number}?")
    forge = GitHub.of_variables()
    assert forge.comment(12, MARK) is None
    for text in ("first", "second", "second"):
        forge.write_comment(12, MARK, f"{MARK}\n{text}")
    assert github.bodies(12) == [f"{MARK}\nsecond"]
    assert forge.comment(12, MARK) == f"{MARK}\nsecond"
    assert [one for one, _ in github.asked if one != "GET"] == ["POST", "PATCH"]
    assert ("GET", "/repos/acme/shop/issues/12/comments?per_page=100&page=3") in github.asked


def test_the_comment_of_somebody_else_is_never_taken_for_ours(github: FakeGitHub) -> None:
    github.add_comment(12, "mallory", f"{MARK}\nall is well")
    github.add_comment(12, BOT, "welcome")
    forge = GitHub.of_variables()
    assert forge.comment(12, MARK) is None
    forge.write_comment(12, MARK, f"{MARK}\nit fails")
    assert github.bodies(12) == ["welcome", f"{MARK}\nit fails"]
    assert github.bodies(12, "mallory") == [f"{MARK}\nall is well"]


@pytest.mark.parametrize("how", ["asked", "told"])
def test_whose_the_token_is_may_be_asked_or_told(github: FakeGitHub, how: str) -> None:
    github.user = "deployer"
    forge = GitHub.of_variables("deployer" if how == "told" else "")
    for text in ("first", "second"):
        forge.write_comment(12, MARK, f"{MARK}\n{text}")
    assert github.bodies(12, "deployer") == [f"{MARK}\nsecond"]
    assert (("GET", "/user") in github.asked) == (how == "asked")


def test_a_check_has_all_annotations_fifty_a_request(github: FakeGitHub) -> None:
    remarks = [Annotation("models/a.sql", line, "audit", "1 row") for line in range(1, 121)]
    GitHub.of_variables().write_check(Check("c0ffee", False, "pr_12: fails", "see", remarks))
    (run,) = github.runs
    assert (run["name"], run["head_sha"], run["status"]) == ("vde", "c0ffee", "completed")
    assert (run["conclusion"], run["output"]["title"]) == ("failure", "pr_12: fails")
    found = run["output"]["annotations"]
    assert [one["start_line"] for one in found] == list(range(1, 121))
    assert found[0] == {
        "path": "models/a.sql",
        "start_line": 1,
        "end_line": 1,
        "annotation_level": "failure",
        "title": "audit",
        "message": "1 row",
    }


def test_the_newest_commit_and_the_merge_are_asked_for(github: FakeGitHub) -> None:
    github.heads[12], github.merges["abc"] = "def", 12
    forge = GitHub.of_variables()
    assert forge.pull_request(12) == PullRequest("def", False)
    assert (forge.merged_by("abc"), forge.merged_by("aaa")) == (12, None)
    github.merged.add(12)
    assert forge.pull_request(12).merged


def test_a_server_that_fails_for_a_moment_is_asked_again(github: FakeGitHub) -> None:
    github.heads[12], github.failures = "def", 2
    assert GitHub.of_variables().pull_request(12).head == "def"


def test_what_makes_something_is_sent_once_as_it_might_be_made_twice(github: FakeGitHub) -> None:
    github.failures = 1
    with pytest.raises(ExecutionError, match=r"POST .*check-runs failed \(502: Server Error\)"):
        GitHub.of_variables().write_check(Check("c0ffee", True, "fine", "see"))
    assert [one for one, _ in github.asked] == ["POST"]
    assert github.runs == []


def test_what_is_refused_says_what_to_do_and_never_the_token(
    github: FakeGitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"pulls/99 is refused \(404: Not Found\)"):
        GitHub.of_variables().pull_request(99)
    secret = f"{TOKEN}-which-is-wrong"
    monkeypatch.setenv("GITHUB_TOKEN", secret)
    forge = GitHub.of_variables()
    with pytest.raises(UsageError, match="401: Bad credentials") as raised:
        forge.pull_request(12)
    assert secret not in f"{raised.value!r} {raised.value} {raised.value.__context__} {forge!r}"


@pytest.mark.parametrize("name", ["GITHUB_TOKEN", "GITHUB_REPOSITORY"])
def test_a_variable_that_is_not_set_is_named(
    github: FakeGitHub, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv(name)
    with pytest.raises(UsageError, match=name):
        GitHub.of_variables()


def test_the_token_goes_to_no_other_server(github: FakeGitHub) -> None:
    forge = GitHub.of_variables()
    with pytest.raises(ExecutionError, match="another server"):
        list(forge.rest.pages("http://localhost:9/repos/acme/shop/issues/12/comments"))
    assert github.asked == []
