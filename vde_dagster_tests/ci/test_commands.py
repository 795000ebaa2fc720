"""The commands `vde ci …` as jobs and people call them: exit codes, JSON, bad input, no secret."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from vde_dagster_tests.ci.conftest import Team, git
from vde_dagster_tests.ci.servers import TOKEN, FakeForge, FakeGitHub, FakeGitLab
from vde_dagster_tests.ci.test_running import DOUBLED, be_job
from vde_dagster_tests.cli.conftest import Called, Vde
from vde_dagster_tests.execution.fake_workspace import FakeSpark
from vde_dagster_tests.projects import ProjectFolder

PASSWORD = "hunter2-of-the-database"


@pytest.fixture
def anna(team: Team, engine: FakeSpark, vde: Vde, monkeypatch: pytest.MonkeyPatch) -> ProjectFolder:
    """A clone with a pushed edit, in which commands are called."""
    team.publish()
    clone = team.clone("anna")
    clone.edit(*DOUBLED)
    team.commit(clone, "doubled")
    monkeypatch.chdir(clone.root)
    return clone


def test_a_check_is_one_object_or_the_comment_and_ends_with_0_or_1(
    anna: ProjectFolder, engine: FakeSpark, vde: Vde
) -> None:
    done = vde("ci", "check", "--pr", 7, "--json")
    assert done.code == 0, done.err
    assert {key: type(value) for key, value in done.json.items()} == {
        "pull_request": int,
        "environment": str,
        "passed": bool,
        "plan": str,
        "commit": str,
        "annotations": list,
        "comment": str,
    }
    assert done.json["commit"] == git(anna.root, "rev-parse", "HEAD")
    assert vde("ci", "check", "--pr", 7).out.startswith("<!-- vde ci shop 7 -->\n")
    engine.failing_audits.add("marts.customers")
    anna.edit("models/marts/customers.sql", "amount * 2", "amount * 3")
    failed = vde("ci", "check", "--pr", 7, "--json")
    assert (failed.code, failed.json["passed"], failed.json["plan"]) == (1, False, None)
    (remark,) = failed.json["annotations"]
    assert set(remark) == {"file", "line", "title", "message", "level"}


def test_a_deployment_ends_with_0_or_3(team: Team, anna: ProjectFolder, vde: Vde) -> None:
    waits = vde("ci", "deploy", "--json")
    assert waits.code == 3, waits.err
    assert waits.json["outcome"] == "waiting"
    assert waits.json["reasons"] == [
        "it was not reviewed: no pull request with a passed check contains this commit"
    ]
    told = vde("ci", "deploy")
    assert told.code == 3
    assert f"vde apply prod --plan {waits.json['plan']}" in told.err
    assert vde("plan", "reject", waits.json["plan"]).code == 0
    rejected = vde("ci", "deploy", "--json")
    assert (rejected.code, rejected.json["outcome"]) == (3, "rejected")


def test_a_statement_that_fails_behind_a_publication_ends_with_1(
    team: Team, anna: ProjectFolder, vde: Vde, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = anna.root / "pyproject.toml"
    statement = "@IF(@this_env = 'prod', CALL fail_now(), CALL go_on())"
    path.write_text(f'{path.read_text()}after_all = ["{statement}"]\n')
    team.commit(anna, "doubled")
    assert vde("ci", "check", "--pr", 7).code == 0
    monkeypatch.chdir(team.merge("doubled").root)
    done = vde("ci", "deploy", "--json")
    assert (done.code, done.json["outcome"]) == (1, "published")
    assert "the statement failed" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("check",), "--pr"),
        (("check", "--pr", "seven"), "seven"),
        (("check", "--pr", 0), "--pr"),
        (("close", "--pr", -1), "--pr"),
        (("deploy", "--commit", "c0ffee"), "commit c0ffee is to be deployed"),
        (("run",), "this is not a job of GitHub or GitLab"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(
    anna: ProjectFolder, vde: Vde, arguments: Any, said: str
) -> None:
    done = vde("ci", *arguments, "--json")
    assert (done.code, list(done.json)) == (2, ["error"])
    assert said in done.json["error"]["message"]
    assert done.json["error"]["hint"]
    assert "Traceback" not in done.err


def test_a_mistake_in_the_settings_is_told_at_its_line(anna: ProjectFolder, vde: Vde) -> None:
    path = anna.root / "pyproject.toml"
    path.write_text(f'{path.read_text()}[tool.vde.ci]\nforge = "gitea"\n')
    done = vde("ci", "check", "--pr", 7, "--json")
    assert done.code == 2
    error = done.json["error"]
    line = path.read_text().splitlines().index('forge = "gitea"') + 1
    assert (error["file"], error["line"]) == ("pyproject.toml", line)
    assert "forge" in error["message"]


def test_outside_of_a_repository_it_says_so(tmp_path: Path, anna: ProjectFolder, vde: Vde) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    for path in ("pyproject.toml", "models", "seeds"):
        (anna.root / path).rename(alone / path)
    done = vde("ci", "check", "--pr", 7, "--project", alone)
    assert (done.code, "in a clone of the project's repository" in done.err) == (2, True)


@pytest.mark.parametrize("what", ["no token", "wrong token", "no such pull request", "server down"])
def test_a_forge_that_refuses_is_one_message(
    anna: ProjectFolder, server: FakeForge, vde: Vde, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    name = f"{server.name.upper()}_TOKEN"
    server.heads[7] = "abc"
    if what == "no token":
        monkeypatch.delenv(name)
    elif what == "wrong token":
        monkeypatch.setenv(name, "wrong")
    elif what == "server down":
        server.failures = 100
    number = 8 if what == "no such pull request" else 7
    done = vde("ci", "check", "--pr", number, "--json")
    assert done.code == (1 if what == "server down" else 2)
    assert done.json["error"]["hint"]
    assert "Traceback" not in done.err


def _everything(folder: Path) -> str:
    """Return all that lies in a folder, as text."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return "\n".join(path.read_bytes().decode("latin-1") for path in files)


def test_no_secret_is_printed_or_written_anywhere(
    team: Team,
    server: FakeForge,
    engine: FakeSpark,
    vde: Vde,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    team.publish()
    monkeypatch.setenv("DB_PASSWORD", PASSWORD)
    clone = team.clone("anna")
    path = clone.root / "pyproject.toml"
    path.write_text(f'{path.read_text()}io = {{ "s3.secret-access-key" = "${{DB_PASSWORD}}" }}\n')
    clone.edit(*DOUBLED)
    head = server.heads[7] = team.commit(clone, "doubled")
    said: list[Called] = []

    def run(*more: object) -> None:
        said.append(vde("ci", "run", "--debug", *more))

    be_job(monkeypatch, clone, server, "opened", head)
    run("--json")
    engine.failing_audits.add("marts.customers")
    clone.edit("models/marts/customers.sql", "amount * 2", "amount * 3")
    run()
    server.failures = 100
    run("--json")
    server.failures = 0
    name = f"{server.name.upper()}_TOKEN"
    monkeypatch.setenv(name, f"{TOKEN} ")
    run()
    monkeypatch.setenv(name, f"{TOKEN}\r\nX-Other: 1")
    run()
    monkeypatch.setenv(name, TOKEN)
    main = team.merge("doubled")
    be_job(monkeypatch, main, server, "push", git(main.root, "rev-parse", "HEAD"))
    run("--json")
    be_job(monkeypatch, main, server, "closed", head)
    run()
    assert [one.code for one in said] == [0, 1, 1, 1, 2, 3, 0]
    told = "".join(f"{one.out}{one.err}" for one in said)
    sent = json.dumps(server.comments) + json.dumps(getattr(server, "runs", []))
    for secret in (TOKEN, PASSWORD, FakeGitLab.variables["CI_JOB_TOKEN"]):
        assert secret not in told
        assert secret not in sent
        assert secret not in _everything(team.folder)


def test_json_is_one_object_on_stdout_whatever_git_says(
    anna: ProjectFolder, github: FakeGitHub, vde: Vde
) -> None:
    git(anna.root, "config", "advice.detachedHead", "true")
    git(anna.root, "checkout", "-q", "--detach")
    github.heads[7] = git(anna.root, "rev-parse", "HEAD")
    done = vde("ci", "check", "--pr", 7, "--json")
    assert done.json["passed"]
    assert re.fullmatch("[0-9a-f]{40}", done.json["commit"])
