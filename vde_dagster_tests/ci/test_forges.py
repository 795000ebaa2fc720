"""What is sent to GitHub and GitLab: one comment among others' on any page, remarks, no secret."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from vde_dagster.errors import ExecutionError, UsageError
from vde_dagster.plugins.ci.forges.forge import Annotation, Check, PullRequest
from vde_dagster.plugins.ci.forges.github import GitHub
from vde_dagster.plugins.ci.forges.gitlab import REPORT, GitLab
from vde_dagster.plugins.ci.forges.plain_git import PlainGit
from vde_dagster.plugins.ci.forges.rest import RestForge
from vde_dagster_tests.ci.conftest import git
from vde_dagster_tests.ci.servers import TOKEN, FakeForge, FakeGitHub, FakeGitLab, served

MARK = "<!-- vde ci shop 12 -->"
KINDS: dict[str, Callable[..., RestForge]] = {
    "github": GitHub.from_variables,
    "gitlab": GitLab.from_variables,
}


def _forge(server: FakeForge, login: str = "") -> RestForge:
    return KINDS[server.name](login)


def test_there_is_one_comment_which_is_updated(server: FakeForge) -> None:
    for number in range(5):
        server.add_comment(12, "anna", f"what about {number}?")
    forge = _forge(server)
    assert forge.comment(12, MARK) is None
    for text in ("first", "second", "second"):
        forge.write_comment(12, MARK, f"{MARK}\n{text}")
    assert server.bodies(12) == [f"{MARK}\nsecond"]
    assert forge.comment(12, MARK) == f"{MARK}\nsecond"
    assert [one for one, _ in server.asked if one != "GET"] == ["POST", forge.update]
    assert any(path.endswith("per_page=100&page=3") for _, path in server.asked)


def test_the_oldest_of_two_is_updated_where_two_jobs_made_one_each(server: FakeForge) -> None:
    for text in ("first", "second"):
        server.add_comment(12, server.login, f"{MARK}\n{text}")
    _forge(server).write_comment(12, MARK, f"{MARK}\nnew")
    assert server.bodies(12) == [f"{MARK}\nnew", f"{MARK}\nsecond"]


def test_the_comment_of_somebody_else_is_never_taken_for_ours(server: FakeForge) -> None:
    server.add_comment(12, "mallory", f"{MARK}\nall is well")
    server.add_comment(12, server.login, "welcome")
    forge = _forge(server)
    assert forge.comment(12, MARK) is None
    forge.write_comment(12, MARK, f"{MARK}\nit fails")
    assert server.bodies(12) == ["welcome", f"{MARK}\nit fails"]
    assert server.bodies(12, "mallory") == [f"{MARK}\nall is well"]


@pytest.mark.parametrize("how", ["asked", "told"])
def test_whose_the_token_is_may_be_asked_or_told(server: FakeForge, how: str) -> None:
    server.user = "deployer"
    forge = _forge(server, "deployer" if how == "told" else "")
    for text in ("first", "second"):
        forge.write_comment(12, MARK, f"{MARK}\n{text}")
    assert server.bodies(12, "deployer") == [f"{MARK}\nsecond"]
    assert (("GET", "/user") in server.asked) == (how == "asked")


def test_the_newest_commit_and_the_merge_are_asked_for(server: FakeForge) -> None:
    server.heads[12], server.merges["abc"] = "def", 12
    forge = _forge(server)
    assert forge.pull_request(12) == PullRequest("def", "open")
    assert (forge.find_merged("abc"), forge.find_merged("aaa")) == (12, None)
    server.closed.add(12)
    assert forge.pull_request(12).state == "closed"
    server.merged.add(12)
    assert forge.pull_request(12).state == "merged"


def test_a_server_that_fails_for_a_moment_is_asked_again(server: FakeForge) -> None:
    server.heads[12], server.failures = "def", 2
    forge = _forge(server)
    quick = replace(forge, rest=replace(forge.rest, backoff=0.01))
    assert quick.pull_request(12).head == "def"


def test_what_makes_something_is_sent_once_as_it_might_be_made_twice(server: FakeForge) -> None:
    forge = _forge(server, "deployer")
    assert forge.comment(12, MARK) is None
    server.asked.clear()
    server.failures = 1
    with pytest.raises(ExecutionError, match=r"POST .* failed \(502: Server Error\)"):
        forge.rest.send("POST", forge.comments_path(12), {"body": MARK})
    assert [one for one, _ in server.asked] == ["POST"]
    assert server.comments == []


def test_what_is_refused_says_what_to_do_and_never_the_token(
    server: FakeForge, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"/99 is refused \(404: 404 Not Found\)"):
        _forge(server).pull_request(99)
    secret = f"{TOKEN}-which-is-wrong"
    monkeypatch.setenv(f"{server.name.upper()}_TOKEN", secret)
    forge = _forge(server)
    with pytest.raises(UsageError, match="is refused \\(401: ") as raised:
        forge.pull_request(12)
    assert secret not in f"{raised.value!r} {raised.value} {raised.value.__context__} {forge!r}"


@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("GITHUB_TOKEN", "github"),
        ("GITHUB_REPOSITORY", "github"),
        ("GITLAB_TOKEN", "gitlab"),
        ("CI_PROJECT_ID", "gitlab"),
    ],
)
def test_a_variable_that_is_not_set_is_named(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, name: str, of: str
) -> None:
    request.getfixturevalue(of)
    monkeypatch.delenv(name)
    with pytest.raises(UsageError, match=name):
        KINDS[of]()


def test_the_token_goes_to_no_other_server(server: FakeForge) -> None:
    forge = _forge(server)
    with pytest.raises(ExecutionError, match="another server"):
        list(forge.rest.pages("http://localhost:9/repos/acme/shop/issues/12/comments"))
    assert server.asked == []


def test_a_redirect_is_followed_on_the_server_and_the_token_goes_to_no_other(
    server: FakeForge,
) -> None:
    server.heads[12] = "def"
    forge = _forge(server)
    path = (
        "/repos/acme/shop/pulls/12" if server.name == "github" else "/projects/35/merge_requests/12"
    )
    for target in (path, f"{server.url}{path}"):
        server.odd = [(301, {"Location": target}, b"")]
        assert forge.pull_request(12).head == "def"
    with served(type(server)()) as other:
        other.heads[12] = "evil"
        server.odd = [(302, {"Location": f"{other.url}{path}?token=x"}, b"")]
        with pytest.raises(ExecutionError, match=f"refers to another server: {other.url}\\. "):
            forge.pull_request(12)
        assert other.asked == []
    server.odd = [(301, {"Location": path}, b"")] * 20
    with pytest.raises(ExecutionError, match=r"failed \(301\)") as raised:
        forge.pull_request(12)
    assert "correct the repository" in str(raised.value.hint)


@pytest.mark.parametrize("body", [b"", b"<html>Please log in</html>", b"null", b'"text"'])
def test_an_answer_without_json_is_one_message(server: FakeForge, body: bytes) -> None:
    forge = _forge(server, "deployer")
    for ask in (lambda: forge.pull_request(12), lambda: forge.comment(12, MARK)):
        server.odd = [(200, {}, body)]
        with pytest.raises(
            ExecutionError, match=r"GET http.*/12.* without the expected JSON \(200"
        ):
            ask()


@pytest.mark.parametrize(
    ("code", "headers", "text"),
    [
        (403, {"Retry-After": "60"}, "slow down"),
        (403, {"X-RateLimit-Remaining": "0"}, "Forbidden"),
        (403, {}, "You have exceeded a secondary rate limit"),
    ],
)
def test_a_rate_limit_is_no_refusal_and_says_nothing_about_the_tokens_user(
    github: FakeGitHub, code: int, headers: dict[str, str], text: str
) -> None:
    github.user = "deployer"
    github.add_comment(12, "deployer", f"{MARK}\nfirst")
    forge = GitHub.from_variables()
    limited = (code, headers, json.dumps({"message": text}).encode())
    page = (200, {}, json.dumps(github.of(12)).encode())
    github.odd = [page, limited]
    with pytest.raises(
        ExecutionError, match=f"GET .*/user failed: the forge's rate limit .*{text}"
    ):
        forge.write_comment(12, MARK, f"{MARK}\nsecond")
    assert github.bodies(12) == [f"{MARK}\nfirst"]


def test_github_gets_all_annotations_of_a_check_fifty_a_request(github: FakeGitHub) -> None:
    remarks = [Annotation("models/a.sql", line, "audit", "1 row") for line in range(1, 121)]
    GitHub.from_variables().write_check(Check("c0ffee", False, "pr_12: fails", "see", remarks))
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


def test_gitlab_gets_a_report_of_the_job_with_all_annotations(
    gitlab: FakeGitLab, tmp_path: Path
) -> None:
    remarks = [
        Annotation("models/a.sql", 3, "audit", "1 row"),
        Annotation("models/a.sql", 3, "late", "by 2 hours", "warning"),
    ]
    GitLab.from_variables().write_check(Check("c0ffee", False, "pr_12: fails", "see", remarks))
    first, second = json.loads((tmp_path / REPORT).read_text())
    assert first.pop("fingerprint") != second["fingerprint"]
    assert first == {
        "description": "audit: 1 row",
        "check_name": "vde",
        "severity": "major",
        "location": {"path": "models/a.sql", "lines": {"begin": 3}},
    }
    assert second["severity"] == "minor"
    GitLab.from_variables().write_check(Check("c0ffee", True, "pr_12: fine", "see"))
    assert json.loads((tmp_path / REPORT).read_text()) == []
    assert gitlab.asked == []


def test_no_secret_is_in_the_report_of_gitlab_or_in_a_note_of_git(
    gitlab: FakeGitLab, tmp_path: Path
) -> None:
    remark = Annotation("a.sql", 3, "a", "no table postgresql://anna:hunter2-of-all@db/vde")
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "first")
    check = Check(git(tmp_path, "rev-parse", "HEAD"), False, "it fails", "see", [remark])
    GitLab.from_variables().write_check(check)
    assert "anna:***@db" in (tmp_path / REPORT).read_text()
    PlainGit(tmp_path).write_check(check)
    assert "anna:***@db" in git(tmp_path, "notes", "--ref=vde", "show")


def test_a_note_of_git_is_one_paragraph_a_project(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "first")
    remark = Annotation("a.sql", 3, "m", "no column x\n\nSELECT x\n")
    check = Check(git(tmp_path, "rev-parse", "HEAD"), False, "it fails", "see", [remark])
    PlainGit(tmp_path).write_check(check)
    note = git(tmp_path, "notes", "--ref=vde", "show")
    assert note == "vde: failed: it fails\nfailure: a.sql:3: m: no column x SELECT x"


def test_a_branch_whose_name_ends_like_a_ref_of_git_is_not_taken_for_it(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "trunk")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "first")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "evil")
    git(tmp_path, "branch", "refs/heads/trunk")
    git(tmp_path, "reset", "-q", "--hard", "HEAD^")
    git(tmp_path, "remote", "add", "origin", str(tmp_path))
    forge = PlainGit(tmp_path)
    assert forge.fetch_newest("trunk") == forge.head()
    assert forge.fetch_newest("heads/trunk") is None


def test_a_job_of_gitlab_is_told_which_token_may_write(
    gitlab: FakeGitLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITLAB_TOKEN")
    with pytest.raises(UsageError, match="CI_JOB_TOKEN cannot write notes") as raised:
        GitLab.from_variables()
    assert "project access token with the role Reporter" in (raised.value.hint or "")
    assert gitlab.variables["CI_JOB_TOKEN"] not in str(raised.value)


def test_no_line_of_a_note_is_a_quick_action(gitlab: FakeGitLab) -> None:
    forge = GitLab.from_variables()
    for text in ("/approve", "see\n/merge\n a/b /close"):
        forge.write_comment(12, MARK, f"{MARK}\n{text}")
    assert gitlab.bodies(12) == [f"{MARK}\nsee\n\\/merge\n a/b /close"]
