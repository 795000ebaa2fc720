"""Rules that a pull request changes count for it as they were, too: the stricter wins."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from vde_dagster.errors import UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.plugins.ci.base_branch import (
    find_check_base,
    find_deployment_base,
    read_deployments,
)
from vde_dagster.plugins.ci.checking import CheckResult, check_pull_request
from vde_dagster.plugins.ci.deploying import MOST_PARENTS, DeployResult, deploy
from vde_dagster.plugins.ci.forges.choose import choose_forge
from vde_dagster.plugins.signatures.keys import make_key
from vde_dagster.state.db import schema
from vde_dagster_tests.ci.conftest import Team, git
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder

DOUBLED = ("models/marts/customers.sql", "sum(amount) AS", "sum(amount * 2) AS")
ASCENDING = ("models/marts/top.sql", "revenue DESC", "revenue ASC")
RULES = """
- name: frozen
  each: model.name == "marts.customers" && model.change != "unchanged"
  require: "false"
  message: customers stay as they are
"""
POLICIES = "[tool.vde.policies]\n"
BUDGETS = '[[tool.vde.budgets.plan]]\nbytes = 1\nlevel = "refuse"\n'


def guarded(team: Team, settings: str, rules: str = RULES) -> None:
    """Publish the main branch, then commit rules to it."""
    team.publish()
    clone = team.clone("guards")
    text = (clone.root / "pyproject.toml").read_text()
    clone.write("pyproject.toml", f"{text}\n{settings}")
    clone.write("policies.yaml", rules)
    team.commit(clone, "main")


def checked(team: Team, branch: str, relax: tuple[str, str, str] | None) -> CheckResult:
    """Check a pull request that edits a guarded model and, with that, its guard."""
    clone = team.clone(branch)
    clone.edit(*DOUBLED)
    if relax is not None:
        clone.edit(*relax)
    team.commit(clone, branch)
    with open_fake(clone.root) as workspace:
        return check_pull_request(workspace, choose_forge(workspace), 7)


def deployed(clone: ProjectFolder, number: int = 7) -> DeployResult:
    """Deploy what a clone has."""
    with open_fake(clone.root) as workspace:
        return deploy(workspace, choose_forge(workspace), number=number)


def base_of(workspace: Workspace, commit: str) -> str:
    """Return the commit whose rules apply when `commit` is deployed."""
    return find_deployment_base(workspace, read_deployments(workspace, commit))


def merge_passed(team: Team) -> ProjectFolder:
    """Merge pull request 8, which edits an unguarded model and passes its check."""
    clone = team.clone("next")
    clone.edit(*ASCENDING)
    team.commit(clone, "next")
    with open_fake(clone.root) as workspace:
        assert check_pull_request(workspace, choose_forge(workspace), 8).passed
    return team.merge("next")


RELAXED = {
    "the rule": ("policies.yaml", 'require: "false"', 'require: "true"'),
    "the table": ("pyproject.toml", POLICIES, ""),
}


@pytest.mark.parametrize("how", RELAXED)
def test_a_pull_request_that_relaxes_its_guard_is_held_to_the_one_there_was(
    team: Team, how: str
) -> None:
    guarded(team, POLICIES)
    check = checked(team, "relaxed", RELAXED[how])
    assert not check.passed
    assert "customers stay as they are (marts.customers)" in check.comment
    main = team.merge("relaxed")
    done = deployed(main)
    assert done.outcome == "waiting"
    reason = next(one for one in done.reasons if "customers stay as they are" in one)
    assert "before this change" in reason
    with open_fake(main.root) as workspace:
        current = workspace.store.environments.get("prod")
        assert current is not None
        assert current.version == 1


def test_a_guard_that_a_merge_relaxed_counts_no_longer_for_the_next_one(team: Team) -> None:
    guarded(team, POLICIES)
    clone = team.clone("only_rules")
    clone.edit(*RELAXED["the rule"])
    team.commit(clone, "only_rules")
    assert deployed(team.merge("only_rules"), 6).outcome == "unchanged"
    assert checked(team, "doubled", None).passed
    assert deployed(team.merge("doubled")).outcome == "published"


def test_a_guard_counts_until_the_merge_that_relaxes_it_is_deployed(team: Team) -> None:
    guarded(team, POLICIES)
    assert deployed(team.clone("main"), 5).outcome == "unchanged"
    assert not checked(team, "relaxed", RELAXED["the rule"]).passed
    assert deployed(team.merge("relaxed")).outcome == "waiting"
    main = merge_passed(team)
    done = deployed(main, 8)
    assert done.outcome == "waiting"
    assert any("before this change" in one for one in done.reasons)
    with open_fake(main.root) as workspace:
        plan = workspace.store.plans.load(done.plan_id)
        assert workspace.apply(plan, who="anna", approved=True).published
    last = team.clone("last")
    last.edit("models/marts/customers.sql", "amount * 2", "amount * 3")
    team.commit(last, "last")
    with open_fake(last.root) as workspace:
        assert check_pull_request(workspace, choose_forge(workspace), 9).passed
    assert deployed(team.merge("last"), 9).outcome == "published"


def test_a_guard_counts_too_if_a_shallow_clone_lacks_it(team: Team) -> None:
    guarded(team, POLICIES)
    checked(team, "relaxed", RELAXED["the rule"])
    assert deployed(team.merge("relaxed")).outcome == "waiting"
    team.push(ASCENDING)
    shallow = team.folder / "shallow"
    git(team.folder, "clone", "-q", "--depth", "2", f"file://{team.bare}", str(shallow))
    with open_fake(shallow) as workspace:
        head = git(shallow, "rev-parse", "HEAD")
        with pytest.raises(UsageError, match="the clone is shallow: it lacks the commit whose"):
            base_of(workspace, head)


def test_a_guard_counts_for_a_merge_of_more_commits_than_are_listed(team: Team) -> None:
    guarded(team, POLICIES)
    base = deployed(team.clone("main"), 5)
    assert base.outcome == "unchanged"
    many = team.push(RELAXED["the rule"]).root
    for number in range(MOST_PARENTS):
        git(many, "commit", "-q", "--allow-empty", "-m", f"commit {number}")
    git(many, "push", "-q", "origin", "main")
    head = git(many, "rev-parse", "HEAD")
    with open_fake(many) as workspace:
        assert base_of(workspace, head) == base.commit
    shallow = team.folder / "shallow"
    git(team.folder, "clone", "-q", "--depth", "50", f"file://{team.bare}", str(shallow))
    with open_fake(shallow) as workspace, pytest.raises(UsageError, match="the clone is shallow"):
        base_of(workspace, head)


def test_a_deployment_counts_after_the_janitor_deleted_its_plan(team: Team) -> None:
    guarded(team, POLICIES)
    assert deployed(team.clone("main"), 5).outcome == "unchanged"
    main = merge_passed(team)
    done = deployed(main, 8)
    assert done.outcome == "published"
    last = team.clone("last")
    last.write("notes.md", "A commit after the deployment.")
    commit = team.commit(last, "main")
    with open_fake(last.root) as workspace:
        plans = schema.plans
        workspace.store.database.run_transaction(
            lambda conn: conn.execute(sa.delete(plans).where(plans.c.plan_id == done.plan_id)),
            name="test.forget",
        )
        assert base_of(workspace, commit) == done.commit
    again = deployed(main, 8)
    assert (again.outcome, again.plan_id) == ("published", done.plan_id)


@pytest.mark.parametrize("exists", [False, True])
def test_a_project_that_moves_to_another_folder_asks_for_the_rules_that_it_leaves(
    team: Team, *, exists: bool
) -> None:
    guarded(team, POLICIES)
    if exists:
        other = team.clone("other")
        other.write("etl/README.md", "A folder without a project.")
        team.commit(other, "main")
    clone = team.clone("moved")
    (clone.root / "etl").mkdir(exist_ok=True)
    for part in ("models", "seeds", "pyproject.toml"):
        git(clone.root, "mv", part, f"etl/{part}")
    moved = ProjectFolder(clone.root / "etl")
    moved.write("policies.yaml", "[]\n")
    moved.edit(*DOUBLED)
    team.commit(clone, "moved")
    with open_fake(moved.root) as workspace:
        check = check_pull_request(workspace, choose_forge(workspace), 7)
    assert check.passed
    assert "earlier rules are unknown; the plan waits for an approval" in check.comment
    main = team.merge("moved")
    done = deployed(ProjectFolder(main.root / "etl"))
    assert done.outcome == "waiting"
    assert any("has no models in this folder" in one for one in done.reasons)


def test_an_approver_whom_the_pull_request_replaces_is_still_named(team: Team) -> None:
    asked = RULES + "  level: ask\n  approvers: [anna]\n"
    guarded(team, POLICIES, asked)
    comment = checked(team, "other", ("policies.yaml", "[anna]", "[eve]")).comment
    assert "the plan waits for an approval of eve" in comment
    assert "the plan waits for an approval of anna" in comment


def test_a_stricter_guard_of_the_pull_request_counts_as_well(team: Team) -> None:
    guarded(team, POLICIES, RULES.replace('"false"', '"true"'))
    stricter = ("policies.yaml", 'require: "true"', 'require: "false"')
    check = checked(team, "stricter", stricter)
    assert not check.passed
    assert "before this change" not in check.comment


def test_budgets_and_signatures_are_those_of_the_base_branch_too(team: Team) -> None:
    public = make_key(team.folder / "anna.pem")
    signatures = (
        f'[tool.vde.signatures.trusted]\nanna = "{public}"\n'
        "[tool.vde.signatures.required]\nprod = 1\n"
    )
    guarded(team, BUDGETS + signatures, "[]\n")
    clone = team.clone("relaxed")
    clone.edit(*DOUBLED)
    clone.edit("pyproject.toml", BUDGETS, "")
    clone.edit("pyproject.toml", "prod = 1", "prod = 0")
    clone.edit(*ASCENDING)
    team.commit(clone, "relaxed")
    with open_fake(clone.root) as workspace:
        check = check_pull_request(workspace, choose_forge(workspace), 7)
    assert "budget of a plan (as of " in check.comment
    assert "signatures (as of " in check.comment
    done = deployed(team.merge("relaxed"))
    assert done.outcome == "waiting"
    assert any(one.startswith("signatures (as of ") for one in done.reasons)


def test_settings_that_guard_are_the_stricter_ones(team: Team) -> None:
    guarded(team, "", "[]\n")
    clone = team.clone("strict")
    clone.edit(
        "pyproject.toml", "[tool.vde]\n", '[tool.vde]\nprotected = ["test"]\nmax_removed = 0.0\n'
    )
    team.commit(clone, "main")
    loose = team.clone("loose")
    loose.edit("pyproject.toml", 'protected = ["test"]\nmax_removed = 0.0\n', "max_removed = 1.0\n")
    for name in ("top", "customers", "daily"):
        loose.remove(f"models/marts/{name}.sql")
    team.commit(loose, "loose")
    with open_fake(loose.root) as workspace:
        check = check_pull_request(workspace, choose_forge(workspace), 7)
        assert workspace.settings.protected == ("test",)
        assert workspace.settings.max_removed == 0.0
    assert not check.passed
    assert "the plan would remove" in check.comment


def test_the_base_of_a_check_is_the_branch_that_it_goes_to(team: Team, vde: Vde) -> None:
    guarded(team, POLICIES)
    clone = team.clone("branch")
    clone.edit(*DOUBLED)
    team.commit(clone, "branch")
    main = git(team.bare, "rev-parse", "main")
    with open_fake(clone.root) as workspace:
        assert find_check_base(workspace, {}) == main
        assert find_check_base(workspace, {}, "origin/main") == main
        target = {"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main"}
        assert find_check_base(workspace, target) == main
        assert find_check_base(workspace, {"GITHUB_BASE_REF": "main"}) == main
        with pytest.raises(UsageError, match="was not found: other"):
            find_check_base(workspace, {"GITHUB_BASE_REF": "other"})
    merged = team.merge("branch")
    head = git(merged.root, "rev-parse", "HEAD")
    with open_fake(merged.root) as workspace:  # As GitHub checks it out.
        job = {"GITHUB_BASE_REF": "main", "GITHUB_REF": "refs/pull/7/merge"}
        assert find_check_base(workspace, {**job, "GITHUB_SHA": head}) == main
        # A merge by the author has another commit of the author as its first parent.
        assert find_check_base(workspace, {**job, "GITHUB_SHA": main}) == head
        gitea = {**job, "GITHUB_REF": "refs/pull/7/head", "GITHUB_SHA": head}
        assert find_check_base(workspace, gitea) == head
        assert base_of(workspace, head) == main
    shallow = team.folder / "shallow"
    git(team.folder, "clone", "-q", "--depth", "1", f"file://{team.bare}", str(shallow))
    with open_fake(shallow) as workspace, pytest.raises(UsageError, match="the clone is shallow"):
        base_of(workspace, git(shallow, "rev-parse", "HEAD"))
    done = vde("ci", "check", "--pr", "7", "--base", "nowhere", "--project", clone.root)
    assert done.code == 1
    assert "rev-parse failed" in done.out
