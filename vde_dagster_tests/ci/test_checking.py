"""Checks of pull requests, end to end: two clones of a bare repository, one state, real plans."""

from __future__ import annotations

import shutil

import pytest

from vde_dagster.errors import UsageError
from vde_dagster.plugins.ci.checking import check_pull_request
from vde_dagster.plugins.ci.forges.choose import choose_forge
from vde_dagster.plugins.ci.forges.github import GitHub
from vde_dagster.plugins.ci.seen import ReviewedPlan, load_reviewed_plan
from vde_dagster_tests.ci.conftest import Team, entries, git
from vde_dagster_tests.ci.servers import FakeForge, FakeGitHub
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake

DOUBLED = ("models/marts/customers.sql", "sum(amount) AS", "sum(amount * 2) AS")


def test_a_pull_request_has_an_environment_one_comment_and_a_check_that_clones_see(
    team: Team,
) -> None:
    team.publish()
    anna = team.clone("anna")
    anna.edit(*DOUBLED)
    commit = team.commit(anna, "doubled")
    with open_fake(anna.root) as workspace:
        production = entries(workspace, "prod")
        done = check_pull_request(workspace, choose_forge(workspace), 7)
        assert done.passed
        assert done.environment == "pr_7"
        built = entries(workspace, "pr_7")
        changed = {name for name in built if built[name] != production[name]}
        assert changed == {"marts.customers", "marts.top"}
        assert entries(workspace, "prod") == production
        seen = load_reviewed_plan(workspace, 7)
        assert seen is not None
        assert (seen.plan_id, seen.commit) == (done.plan_id, commit)
        plan = workspace.store.plans.load(done.plan_id)
        assert (plan.environment, plan.computed) == ("prod", ())
    bert = team.clone("bert")
    git(bert.root, "fetch", "-q", "origin", "refs/vde/*:refs/vde/*", "refs/notes/*:refs/notes/*")
    assert git(bert.root, "show", "refs/vde/comments:pr_7.md") == done.comment.strip()
    note = git(bert.root, "notes", "--ref=vde", "show", commit)
    assert note == "vde: passed: pr_7: 2 models computed, 2 reused"
    assert "`marts.customers`" in done.comment
    assert f"production gets plan `{done.plan_id}`" in done.comment
    assert "-SELECT customer, sum(amount) AS revenue" in done.comment
    assert "(`grain` in the header): marts.customers" in done.comment


def test_a_second_push_changes_the_same_comment(team: Team) -> None:
    team.publish()
    anna, bert = team.clone("anna"), team.clone("bert")
    anna.edit(*DOUBLED)
    team.commit(anna, "doubled")
    with open_fake(anna.root) as workspace:
        first = check_pull_request(workspace, choose_forge(workspace), 7)
    git(bert.root, "fetch", "-q", "origin", "doubled")
    git(bert.root, "checkout", "-q", "doubled")
    bert.edit("models/marts/customers.sql", "amount * 2", "amount * 3")
    team.commit(bert, "doubled")
    with open_fake(bert.root) as workspace:
        second = check_pull_request(workspace, choose_forge(workspace), 7)
        choose_forge(workspace).write_comment(8, "x", "x of another")
    assert first.plan_id != second.plan_id
    git(anna.root, "fetch", "-q", "origin", "+refs/vde/*:refs/vde/*")
    assert git(anna.root, "ls-tree", "--name-only", "refs/vde/comments") == "pr_7.md\npr_8.md"
    assert git(anna.root, "show", "refs/vde/comments:pr_7.md") == second.comment.strip()


def test_a_failed_audit_is_told_at_its_line_and_nothing_is_seen(
    team: Team, github: FakeGitHub
) -> None:
    team.publish()
    anna = team.clone("anna")
    anna.edit(*DOUBLED)
    github.heads[7] = team.commit(anna, "doubled")
    with open_fake(anna.root, FakeSpark(failing_audits=["marts.customers"])) as workspace:
        done = check_pull_request(workspace, choose_forge(workspace), 7)
        assert (done.passed, done.plan_id, load_reviewed_plan(workspace, 7)) == (False, "", None)
        assert entries(workspace, "pr_7") == {}
    (run,) = github.runs
    (remark,) = run["output"]["annotations"]
    line = (anna.root / "models/marts/customers.sql").read_text().splitlines()
    assert "unique_values" in line[remark["start_line"] - 1]
    assert remark["path"] == "models/marts/customers.sql"
    assert remark["message"] == "1 row failed"
    assert (run["conclusion"], run["head_sha"]) == ("failure", github.heads[7])
    (body,) = github.bodies(7)
    assert "### Problems" in body
    assert f"`models/marts/customers.sql:{remark['start_line']}`" in body


def test_the_late_job_of_an_earlier_commit_replaces_nothing(team: Team, server: FakeForge) -> None:
    team.publish()
    anna = team.clone("anna")
    anna.edit(*DOUBLED)
    first = team.commit(anna, "doubled")
    anna.edit("models/marts/customers.sql", "amount * 2", "amount * 3")
    server.heads[7] = newest = team.commit(anna, "doubled")
    with open_fake(anna.root) as workspace:
        forge = choose_forge(workspace)
        done = check_pull_request(workspace, forge, 7, newest)
        git(anna.root, "checkout", "-q", first)
        workspace.reload()
        with pytest.raises(UsageError, match=f"commit {first[:12]} was not checked"):
            check_pull_request(workspace, forge, 7, first)
        assert load_reviewed_plan(workspace, 7) == ReviewedPlan(done.plan_id, newest)
    assert server.bodies(7) == [done.comment.strip() if server.name == "gitlab" else done.comment]


@pytest.mark.parametrize("method", ["write_comment", "write_check"])
def test_what_no_comment_and_no_check_shows_was_not_reviewed(
    team: Team, github: FakeGitHub, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    team.publish()
    anna = team.clone("anna")
    anna.edit(*DOUBLED)
    github.heads[7] = team.commit(anna, "doubled")

    def refuse(*_: object) -> None:
        raise UsageError("POST is refused (403)")

    monkeypatch.setattr(GitHub, method, refuse)
    with open_fake(anna.root) as workspace:
        with pytest.raises(UsageError, match="is refused"):
            check_pull_request(workspace, choose_forge(workspace), 7)
        assert load_reviewed_plan(workspace, 7) is None


def test_a_mistake_is_told_at_its_line_in_the_repository(team: Team, github: FakeGitHub) -> None:
    anna = team.clone("anna")
    (anna.root / "transform").mkdir()
    for part in ("models", "seeds", "pyproject.toml"):
        git(anna.root, "mv", part, f"transform/{part}")
    anna.edit("transform/models/marts/top.sql", "marts.customers", "marts.clients")
    anna.edit("transform/models/marts/customers.sql", "sum(amount)", "sum(amuont)")
    github.heads[7] = team.commit(anna, "mistaken")
    with open_fake(anna.root / "transform") as workspace:
        done = check_pull_request(workspace, choose_forge(workspace), 7)
    assert not done.passed
    assert github.runs[0]["name"] == "vde transform"
    told = {(one["path"], one["start_line"]) for one in github.runs[0]["output"]["annotations"]}
    assert told == {
        ("transform/models/marts/customers.sql", 4),
        ("transform/models/marts/top.sql", 3),
    }


def test_projects_of_one_repository_are_told_beside_each_other(team: Team) -> None:
    team.publish()
    anna = team.clone("anna")
    shutil.copytree(anna.root / "models", anna.root / "other" / "models")
    shutil.copytree(anna.root / "seeds", anna.root / "other" / "seeds")
    anna.write("other/pyproject.toml", '[tool.vde]\nid = "other"\n')
    anna.edit(*DOUBLED)
    commit = team.commit(anna, "doubled")
    for folder in (anna.root, anna.root / "other", anna.root):
        with open_fake(folder) as workspace:
            check_pull_request(workspace, choose_forge(workspace), 7)
    files = git(team.bare, "ls-tree", "-r", "--name-only", "refs/vde/comments").split()
    assert files == ["other/pr_7.md", "pr_7.md"]
    note = git(team.bare, "notes", "--ref=vde", "show", commit).split("\n\n")
    assert [one.split(":")[0] for one in note] == ["vde other", "vde"]


def test_a_template_of_a_pull_request_runs_no_code_where_it_is_checked(team: Team) -> None:
    team.publish()
    anna = team.clone("anna")
    mark = anna.root / "mark"
    code = "{{ cycler.__init__.__globals__.os.popen('touch " + str(mark) + "').read() }}"
    anna.write(
        "models/marts/customers.sql",
        f"MODEL (name marts.customers);\nJINJA_QUERY_BEGIN;\nSELECT {code}\nJINJA_END;",
    )
    team.commit(anna, "doubled")
    with open_fake(anna.root) as workspace:
        done = check_pull_request(workspace, choose_forge(workspace), 7)
    assert not mark.exists()
    assert not done.passed
    assert "access to attribute" in done.comment
