"""`vde ci run` in jobs of CI systems, by their variables: what is done, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.errors import UsageError
from vde_dagster.plugins.ci.checking import check_pull_request
from vde_dagster.plugins.ci.deploying import close, deploy
from vde_dagster.plugins.ci.events import Event, read_event
from vde_dagster.plugins.ci.forges.choose import choose_forge
from vde_dagster_tests.ci.conftest import Team, git
from vde_dagster_tests.ci.servers import FakeForge, FakeGitHub, FakeGitLab
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.projects import ProjectFolder

DOUBLED = ("models/marts/customers.sql", "sum(amount) AS", "sum(amount * 2) AS")
OWN = {"id": 1, "full_name": "acme/shop", "default_branch": "main"}
FORK = {"id": 9, "full_name": "mallory/shop"}
GITLAB = {
    "GITLAB_CI": "true",
    "CI_COMMIT_SHA": "abc",
    "CI_DEFAULT_BRANCH": "main",
    "CI_MERGE_REQUEST_IID": "7",
    "CI_MERGE_REQUEST_PROJECT_ID": "1",
    "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "1",
    "CI_MERGE_REQUEST_SOURCE_PROJECT_PATH": "acme/shop",
}


def pull(action: str, head: Mapping[str, Any] | None = OWN, **more: Any) -> dict[str, Any]:
    """An event of a pull request, as far as it is read."""
    request = {"number": 7, "head": {"sha": "abc", "repo": head}}
    return {"action": action, "pull_request": request, "repository": OWN, **more}


def push(ref: str = "refs/heads/main", after: str = "abc") -> dict[str, Any]:
    """An event of a push, as far as it is read."""
    return {"ref": ref, "after": after, "deleted": False, "repository": OWN}


def github_job(folder: Path, name: str, payload: Any) -> dict[str, str]:
    """The variables of a job, with the file of its event."""
    path = folder / "event.json"
    path.write_text(payload if isinstance(payload, str) else json.dumps(payload))
    return {"GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": str(path)}


@pytest.mark.parametrize("action", ["opened", "synchronize", "reopened", "ready_for_review"])
def test_a_pull_request_of_github_is_checked(tmp_path: Path, action: str) -> None:
    event = read_event(github_job(tmp_path, "pull_request", pull(action)))
    assert (event.action, event.number, event.commit) == ("check", 7, "abc")


def test_a_pull_request_of_github_is_closed(tmp_path: Path) -> None:
    event = read_event(github_job(tmp_path, "pull_request", pull("closed")))
    assert (event.action, event.number) == ("close", 7)


def test_a_push_to_the_main_branch_of_github_is_deployed_and_no_other(tmp_path: Path) -> None:
    event = read_event(github_job(tmp_path, "push", push()))
    assert (event.action, event.commit) == ("deploy", "abc")
    for payload in (push("refs/heads/doubled"), push("refs/tags/main"), push() | {"deleted": True}):
        assert read_event(github_job(tmp_path, "push", payload)).action == "nothing"


@pytest.mark.parametrize(
    ("more", "action", "commit"),
    [
        ({}, "check", "abc"),
        ({"CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": "head"}, "check", "head"),
        ({"CI_ENVIRONMENT_ACTION": "stop"}, "close", "abc"),
        ({"CI_ENVIRONMENT_ACTION": "start"}, "check", "abc"),
        ({"CI_MERGE_REQUEST_IID": "", "CI_COMMIT_BRANCH": "main"}, "deploy", "abc"),
        ({"CI_MERGE_REQUEST_IID": "", "CI_COMMIT_BRANCH": "doubled"}, "nothing", ""),
        ({"CI_MERGE_REQUEST_IID": "", "CI_COMMIT_TAG": "v1"}, "nothing", ""),
    ],
)
def test_a_job_of_gitlab(more: dict[str, str], action: str, commit: str) -> None:
    event = read_event({**GITLAB, **more})
    assert (event.action, event.commit) == (action, commit)


FORKS = [
    ("pull_request", pull("opened", FORK)),
    ("pull_request", pull("opened", None)),
    ("pull_request", pull("closed", FORK)),
    ("pull_request_target", pull("synchronize", FORK)),
    ("pull_request_target", pull("labeled", FORK, label={"name": "bug"})),
]


@pytest.mark.parametrize(("name", "payload"), FORKS)
@pytest.mark.parametrize("label", ["", "safe to run"])
def test_code_of_a_fork_is_refused(tmp_path: Path, name: str, payload: Any, label: str) -> None:
    with pytest.raises(UsageError, match=r"7 comes from a fork .* are code"):
        read_event(github_job(tmp_path, name, payload), label)


def test_code_of_a_fork_runs_when_it_is_given_the_label_and_not_after_the_next_push(
    tmp_path: Path,
) -> None:
    labels = [{"name": "safe to run"}]
    given = pull("labeled", FORK, label={"name": "safe to run"})
    event = read_event(github_job(tmp_path, "pull_request_target", given), "safe to run")
    assert (event.action, event.fork) == ("check", "mallory/shop")
    later = pull("synchronize", FORK)
    later["pull_request"]["labels"] = labels
    with pytest.raises(UsageError, match="comes from a fork"):
        read_event(github_job(tmp_path, "pull_request_target", later), "safe to run")


def test_a_fork_of_gitlab_is_refused_without_the_label() -> None:
    fork = {**GITLAB, "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "9"}
    with pytest.raises(UsageError, match="comes from a fork"):
        read_event(fork, "safe")
    labelled = read_event({**fork, "CI_MERGE_REQUEST_LABELS": "bug,safe"}, "safe")
    assert labelled.action == "check"
    with pytest.raises(UsageError, match="comes from a fork"):
        read_event({**fork, "CI_MERGE_REQUEST_LABELS": "bug,safe"})


@pytest.mark.parametrize(
    ("name", "payload", "said"),
    [
        ("pull_request", "{", "cannot be read"),
        ("pull_request", "{}", "missing or invalid: 'pull_request'"),
        ("pull_request", "[]", "is not an event"),
        ("pull_request", json.dumps({**pull("opened"), "pull_request": None}), "is not an event"),
        ("push", "{}", "missing or invalid: 'repository'"),
        ("schedule", "{}", "vde has no action for the event 'schedule'"),
    ],
)
def test_an_event_that_cannot_be_read_is_refused(
    tmp_path: Path, name: str, payload: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        read_event(github_job(tmp_path, name, payload))


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "is not a job of GitHub or GitLab"),
        ({"GITHUB_EVENT_NAME": "push"}, "GITHUB_EVENT_PATH cannot be read: ''"),
        ({**GITLAB, "CI_MERGE_REQUEST_IID": "seven"}, "is not a number: 'seven'"),
    ],
)
def test_variables_that_say_nothing_are_refused(variables: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_event(variables)


def be_job(
    monkeypatch: pytest.MonkeyPatch,
    clone: ProjectFolder,
    server: FakeForge | None,
    what: str,
    commit: str = "abc",
    head: Mapping[str, Any] = OWN,
) -> None:
    """Be a job that a forge starts for what happened, in a clone."""
    if isinstance(server, FakeGitLab):
        more = {"CI_ENVIRONMENT_ACTION": "stop" if what == "closed" else "start"}
        if what == "push":
            more = {"CI_MERGE_REQUEST_IID": "", "CI_COMMIT_BRANCH": "main"}
        variables = {**GITLAB, "CI_COMMIT_SHA": commit, **more}
    else:
        payload = push(after=commit) if what == "push" else pull(what, head)
        if what != "push":
            payload["pull_request"]["head"]["sha"] = commit
        name = "push" if what == "push" else "pull_request"
        variables = github_job(clone.root.parent, name, payload)
    for key, value in variables.items():
        monkeypatch.setenv(key, value)
    monkeypatch.chdir(clone.root)


def test_one_command_checks_deploys_and_closes(
    team: Team,
    server: FakeForge,
    engine: FakeSpark,
    vde: Vde,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    team.publish()
    anna = team.clone("anna")
    anna.edit(*DOUBLED)
    head = server.heads[7] = team.commit(anna, "doubled")
    be_job(monkeypatch, anna, server, "opened", head)
    checked = vde("ci", "run", "--json")
    assert checked.code == 0, checked.err
    assert (checked.json["action"], checked.json["commit"]) == ("check", head)
    main = team.merge("doubled")
    merged = git(main.root, "rev-parse", "HEAD")
    server.merges[merged] = 7
    server.merged.add(7)
    be_job(monkeypatch, main, server, "push", merged)
    used = engine.statements
    deployed = vde("ci", "run", "--json")
    assert (deployed.code, engine.statements) == (0, used), deployed.err
    assert deployed.json["outcome"] == "published"
    assert (deployed.json["plan"], deployed.json["pull_requests"]) == (checked.json["plan"], [7])
    be_job(monkeypatch, main, server, "closed", head)
    assert vde("ci", "run", "--json").json == {
        "action": "close",
        "pull_request": 7,
        "environment": "pr_7",
        "dropped": True,
    }
    assert vde("ci", "run", "--json").json["dropped"] is False
    (body,) = server.bodies(7)
    assert "was published to prod as version 2" in body


def test_a_fork_is_refused_before_any_of_its_code_is_read(
    team: Team, vde: Vde, monkeypatch: pytest.MonkeyPatch
) -> None:
    mallory = team.clone("mallory")
    ran = team.folder / "ran"
    code = f"open({str(ran)!r}, 'w').close()\n"
    for path in ("config.py", "macros/__init__.py", "macros/evil.py", "models/evil.py"):
        mallory.write(path, code)
    be_job(monkeypatch, mallory, None, "opened", head=FORK)
    refused = vde("ci", "run")
    assert refused.code == 2
    assert "comes from a fork (mallory/shop)" in refused.err
    assert not ran.exists()
    assert not (mallory.root / ".vde").exists()


def test_an_environment_of_what_was_closed_unmerged_goes_and_is_seen_no_longer(
    team: Team, github: FakeGitHub, engine: FakeSpark, vde: Vde, monkeypatch: pytest.MonkeyPatch
) -> None:
    team.publish()
    anna = team.clone("anna")
    anna.edit(*DOUBLED)
    github.heads[7] = team.commit(anna, "doubled")
    monkeypatch.chdir(anna.root)
    assert vde("ci", "check", "--pr", 7).code == 0
    github.closed.add(7)
    closed = vde("ci", "close", "--pr", 7)
    assert (closed.code, closed.out) == (
        0,
        "environment pr_7 of pull request 7 was dropped\n",
    )
    (body,) = github.bodies(7)
    assert "closed without a merge" in body
    assert "environment pr_7 of pull request 7 does not exist" in vde("ci", "close", "--pr", 7).out
    assert github.bodies(7) == [body]
    late = vde("ci", "check", "--pr", 7)
    assert (late.code, "pull request 7 is closed: there is nothing to check" in late.err) == (
        2,
        True,
    )
    waits = vde("ci", "deploy", "--pr", 7)
    assert (waits.code, "it was not reviewed" in waits.err) == (3, True)


def test_what_was_built_outlives_its_environment_until_it_is_deployed(team: Team) -> None:
    team.publish()
    anna = team.clone("anna")
    anna.edit(*DOUBLED)
    team.commit(anna, "doubled")
    with open_fake(anna.root) as workspace:
        check_pull_request(workspace, choose_forge(workspace), 7)
        assert close(workspace, choose_forge(workspace), 7).dropped
        assert any("pr_7" in one.subject for one in workspace.maintenance.janitor().acted)
        assert not workspace.store.environments.exists("pr_7")
    engine = FakeSpark()
    with open_fake(team.merge("doubled").root, engine) as workspace:
        assert deploy(workspace, choose_forge(workspace)).outcome == "published"
    assert engine.statements == 0


def test_an_event_is_for_people_too() -> None:
    assert read_event({**GITLAB, "CI_MERGE_REQUEST_IID": "", "CI_COMMIT_BRANCH": "x"}) == Event(
        "nothing", description="a pipeline of 'x' deploys nothing"
    )
