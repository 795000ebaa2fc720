"""Deployments of merged commits, end to end: clones of a bare repository, one state, real plans."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime, timezone

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ConflictError, ProjectError, UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.plugins.ci.checking import CheckResult, check_pull_request
from vde_dagster.plugins.ci.deploying import DeployResult, deploy
from vde_dagster.plugins.ci.forges.choose import choose_forge
from vde_dagster.plugins.ci.seen import deploying_plan_id
from vde_dagster_tests.ci.conftest import Team, entries, git
from vde_dagster_tests.ci.servers import FakeForge
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.builders import FakeClock

CUSTOMERS = "models/marts/customers.sql"
DOUBLED = (CUSTOMERS, "sum(amount) AS", "sum(amount * 2) AS")
ASCENDING = ("models/marts/top.sql", "revenue DESC", "revenue ASC")
WITHOUT_COUNT = ("models/marts/daily.sql", "count(*) AS orders, ", "")


def _checked(team: Team, number: int, branch: str, *edits: tuple[str, str, str]) -> CheckResult:
    clone = team.clone(branch)
    for edit in edits:
        clone.edit(*edit)
    team.commit(clone, branch)
    with open_fake(clone.root) as workspace:
        return check_pull_request(workspace, choose_forge(workspace), number)


def _deployed(clone: ProjectFolder, number: int = 0) -> tuple[DeployResult, int]:
    """Deploy what a clone has; return the result, and how often the engine was used."""
    engine = FakeSpark()
    with open_fake(clone.root, engine) as workspace:
        return deploy(workspace, choose_forge(workspace), number=number), engine.statements


def _state(team: Team) -> tuple[int, Sequence[str]]:
    """Return the version of production, and all stored plans."""
    with open_fake(team.folder / "first") as workspace:
        found = workspace.store.environments.get("prod")
        plans = [record.id for record in workspace.store.plans.recent(limit=100)]
        return (found.version if found else 0), plans


def test_what_was_seen_is_published_and_nothing_is_computed_again(team: Team) -> None:
    team.publish()
    seen = _checked(team, 7, "doubled", DOUBLED)
    main = team.merge("doubled")
    done, used = _deployed(main)
    assert (done.outcome, done.pull_requests, done.computed, used) == ("published", (7,), 0, 0)
    # It is the very plan of the comment, so that what was signed is what is published.
    assert (done.plan_id, done.version) == (seen.plan_id, 2)
    with open_fake(main.root) as workspace:
        assert entries(workspace, "prod") == entries(workspace, "pr_7")
        (version, _) = workspace.environments.history("prod")
        assert version.version.published_by == "pull request 7"
    comment = team.comment(7)
    assert f"plan {seen.plan_id} was published to prod as version 2, nothing computed" in comment
    rest = seen.comment.partition("status ends -->")[2]
    assert comment.partition("status ends -->")[2] == rest.rstrip()


def test_the_same_deployment_again_changes_nothing(team: Team) -> None:
    team.publish()
    _checked(team, 7, "doubled", DOUBLED)
    main = team.merge("doubled")
    done, _ = _deployed(main)
    refs, state = git(team.bare, "for-each-ref"), _state(team)
    assert _deployed(main) == (done, 0)
    assert (git(team.bare, "for-each-ref"), _state(team)) == (refs, state)
    with open_fake(main.root) as workspace:
        workspace.environments.rollback("prod")
        # Somebody meant that: the job of an old commit does not undo it.
        assert deploy(workspace, choose_forge(workspace)) == done
        assert not workspace.plan("prod", save=False).is_empty


def test_the_same_deployment_again_reports_statements_that_still_fail(team: Team) -> None:
    team.publish()
    _checked(team, 7, "doubled", DOUBLED)
    main = team.merge("doubled")
    done, _ = _deployed(main)
    with open_fake(main.root) as workspace:
        store, grant = workspace.store, (ModelName("marts", "customers"), "CALL fail()")
        store.database.run_transaction(
            lambda conn: store.statements.intend(conn, "prod", done.plan_id, [grant])
        )
        (waiting,) = store.statements.waiting("prod")
        store.statements.failed(waiting, "no such procedure")
    again, used = _deployed(main)
    assert (again.outcome, again.version, used) == ("published", done.version, 0)
    assert again.failed == ("marts.customers: no such procedure",)


def test_a_merge_that_changes_nothing_is_said_so(team: Team) -> None:
    team.publish()
    _checked(team, 7, "comment", (CUSTOMERS, "SELECT customer", "-- who\nSELECT customer"))
    done, used = _deployed(team.merge("comment"))
    assert (done.outcome, done.plan_id, used) == ("unchanged", "", 0)
    assert "prod already shows these changes" in team.comment(7)
    assert _state(team)[0] == 1


def test_production_that_moved_elsewhere_does_not_stop_what_was_seen(team: Team) -> None:
    team.publish()
    _checked(team, 8, "daily", WITHOUT_COUNT)
    _checked(team, 7, "doubled", DOUBLED)
    assert _deployed(team.merge("doubled"))[0].outcome == "published"
    done, used = _deployed(team.merge("daily"))
    assert (done.outcome, done.pull_requests, used) == ("published", (8,), 0)


def test_what_two_merges_make_together_waits_for_a_person(team: Team) -> None:
    team.publish()
    seen = _checked(team, 8, "ascending", ASCENDING)
    _checked(team, 7, "doubled", DOUBLED)
    assert _deployed(team.merge("doubled"))[0].outcome == "published"
    before = _state(team)
    main = team.merge("ascending")
    done, used = _deployed(main)
    assert (done.outcome, done.pull_requests, used) == ("waiting", (8,), 0)
    assert done.reasons[0] == "marts.top is computed in a way that was not reviewed"
    assert done.plan_id not in (seen.plan_id, *before[1])
    assert _state(team)[0] == before[0]
    comment = team.comment(8)
    assert f"plan {done.plan_id} waits for an approval" in comment
    assert "- marts.top is computed in a way that was not reviewed" in comment
    with open_fake(main.root) as workspace:
        files = workspace.project.files_hash
        (plan,) = workspace.store.plans.waiting(files)
        assert (plan.id, plan.proposal.author) == (done.plan_id, "pull request 8")
        assert deploy(workspace, choose_forge(workspace)) == done
        assert [one.id for one in workspace.store.plans.waiting(files)] == [done.plan_id]
        workspace.apply(workspace.store.plans.load(done.plan_id), who="anna", approved=True)
    approved, _ = _deployed(main)
    assert (approved.outcome, approved.plan_id, approved.version) == ("published", done.plan_id, 3)
    assert f"plan {done.plan_id} was published to prod as version 3" in team.comment(8)


def test_a_rejected_plan_is_not_made_again(team: Team) -> None:
    team.publish()
    main = team.push(DOUBLED)
    done, _ = _deployed(main)
    assert done.outcome == "waiting"
    with open_fake(main.root) as workspace:
        workspace.plans.reject(done.plan_id, "not today", who="anna")
    again, used = _deployed(main)
    assert (again.outcome, again.reasons, used) == (
        "rejected",
        ("rejected by anna: not today",),
        0,
    )
    assert _state(team)[0] == 1


def test_a_commit_without_a_pull_request_waits(team: Team) -> None:
    team.publish()
    done, used = _deployed(team.push(DOUBLED))
    assert (done.outcome, done.pull_requests, used) == ("waiting", (), 0)
    assert "it was not reviewed" in done.reasons[0]
    assert _state(team)[0] == 1


def test_a_push_after_the_check_was_not_seen(team: Team) -> None:
    team.publish()
    _checked(team, 7, "doubled", DOUBLED)
    clone = ProjectFolder(team.folder / "doubled")
    clone.edit(*WITHOUT_COUNT)
    team.commit(clone, "doubled")
    done, used = _deployed(team.merge("doubled"), number=7)
    assert (done.outcome, used) == ("waiting", 0)
    assert done.reasons == (
        "marts.daily is shown in a way that was not reviewed",
        "marts.daily.orders is removed",
    )


def test_a_model_that_somebody_changed_meanwhile_is_not_undone_unasked(team: Team) -> None:
    team.publish()
    _checked(team, 7, "doubled", DOUBLED)
    with open_fake(team.clone("bert").root) as workspace:
        folder = ProjectFolder(workspace.root)
        folder.edit(CUSTOMERS, "sum(amount) AS", "sum(amount * 5) AS")
        workspace.apply(workspace.plan("prod"))
    done, _ = _deployed(team.merge("doubled"))
    assert done.outcome == "waiting"
    assert done.reasons == (
        "marts.customers replaces a different definition than in the review",
        "marts.top replaces a different definition than in the review",
    )


def test_deployments_that_newer_ones_overtook_are_made_up_for(team: Team) -> None:
    team.publish()
    _deployed(team.clone("main"))
    _checked(team, 7, "doubled", DOUBLED)
    _checked(team, 8, "daily", WITHOUT_COUNT)
    overtaken = team.merge("doubled")
    done, used = _deployed(team.merge("daily"))
    assert (done.outcome, done.pull_requests, used) == ("published", (8, 7), 0)
    for number in (7, 8):
        assert f"plan {done.plan_id} was published to prod" in team.comment(number)
    # Its job may only be late, as GitLab starts the jobs of a resource group in any order.
    before = _state(team)
    late, used = _deployed(overtaken)
    assert (late.outcome, late.plan_id, late.pull_requests, used) == (
        "published",
        done.plan_id,
        (7,),
        0,
    )
    assert _state(team) == before


def test_the_late_job_of_a_commit_proposes_no_older_files_after_a_newer_plan_was_approved(
    team: Team,
) -> None:
    team.publish()
    _deployed(team.clone("main"))
    _checked(team, 7, "doubled", DOUBLED)
    overtaken = team.merge("doubled")
    clone = team.clone("daily")
    clone.edit(*WITHOUT_COUNT)
    team.commit(clone, "daily")  # Nobody checked it.
    done, _ = _deployed(team.merge("daily"))
    waits, _ = _deployed(overtaken)
    assert (done.outcome, waits.outcome, waits.plan_id) == ("waiting", "waiting", done.plan_id)
    with open_fake(team.folder / "first") as workspace:
        workspace.apply(workspace.store.plans.load(done.plan_id), who="anna", approved=True)
    before = _state(team)
    late, used = _deployed(overtaken)
    assert (late.outcome, late.plan_id, used) == ("published", done.plan_id, 0)
    assert _state(team) == before


@pytest.fixture(params=["team", pytest.param("team_on_server", marks=pytest.mark.server)])
def anywhere(request: pytest.FixtureRequest) -> Team:
    """A team on each kind of database."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Team)
    return found


def test_of_two_deployments_at_once_one_publishes_and_the_other_is_told(anywhere: Team) -> None:
    team = anywhere
    team.publish()
    _checked(team, 7, "doubled", DOUBLED)
    main = team.merge("doubled")
    told: list[DeployResult | ConflictError] = []
    begin = threading.Barrier(2)

    def work() -> None:
        with open_fake(main.root) as workspace:
            workspace.plan("prod", save=False)
            begin.wait()
            try:
                told.append(deploy(workspace, choose_forge(workspace)))
            except ConflictError as error:
                told.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 2
    done = [one for one in told if isinstance(one, DeployResult)]
    assert {one.outcome for one in done} == {"published"}
    assert len({one.plan_id for one in done}) == 1
    assert _state(team)[0] == 2


SIGNED = """
[tool.vde.signatures]
required = {{ prod = 1 }}

[tool.vde.signatures.trusted]
anna = "{public}"
"""


def test_a_signature_of_the_plan_that_people_saw_counts_and_one_that_is_missing_is_waited_for(
    team: Team, vde: Vde, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cryptography")
    key = team.folder / "anna.pem"
    public = vde("keys", "make", "anna", "--to", key, "--json").json["public"]
    team.publish()
    settings = team.clone("settings")
    path = settings.root / "pyproject.toml"
    path.write_text(path.read_text() + SIGNED.format(public=public))
    team.commit(settings, "main")
    seen = _checked(team, 7, "doubled", DOUBLED)
    monkeypatch.chdir(settings.root)
    assert vde("plan", "sign", seen.plan_id, "--key", key).code == 0
    done, used = _deployed(team.merge("doubled"))
    assert (done.outcome, done.plan_id, used) == ("published", seen.plan_id, 0)
    _checked(team, 8, "daily", WITHOUT_COUNT)
    main = team.merge("daily")
    waits, _ = _deployed(main)
    assert waits.outcome == "waiting"
    (reason,) = waits.reasons
    assert "signatures: prod requires 1 signature" in reason
    assert vde("plan", "sign", waits.plan_id, "--key", key).code == 0
    done, used = _deployed(main)
    assert (done.outcome, done.plan_id, used) == ("published", waits.plan_id, 0)


def test_what_became_due_since_the_check_is_computed_and_is_no_reason_to_wait(team: Team) -> None:
    clock = FakeClock(datetime(2024, 3, 1, 12, tzinfo=timezone.utc))
    first = ProjectFolder(team.folder / "first")
    first.edit("models/marts/daily.sql", "end '2024-01-05', ", "")
    team.commit(first, "main")
    with open_fake(first.root, clock=clock) as workspace:
        workspace.apply(workspace.plan("prod"))
    clone = team.clone("renamed")
    clone.edit("models/marts/daily.sql", "sum(amount) AS", "sum(amount * 2) AS")
    team.commit(clone, "renamed")
    with open_fake(clone.root, clock=clock) as workspace:
        assert check_pull_request(workspace, choose_forge(workspace), 7).passed
    clock.advance(days=2)
    with open_fake(team.folder / "first", clock=clock) as workspace:
        workspace.apply(workspace.plans.due("prod"))
    engine = FakeSpark()
    with open_fake(team.merge("renamed").root, engine, clock=clock) as workspace:
        done = deploy(workspace, choose_forge(workspace))
        assert done.outcome == "published", done.reasons
        plan = workspace.store.plans.load(done.plan_id)
        (built,) = [model for model in plan.builds if str(model.name) == "marts.daily"]
        (due,) = built.intervals.ranges
        assert str(due) == "2024-03-01T00:00:00Z/2024-03-03T00:00:00Z"
        assert engine.statements > 0


def test_a_deployment_that_died_is_gone_on_with(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    team.publish()
    seen = _checked(team, 7, "doubled", DOUBLED)
    main = team.merge("doubled")
    with open_fake(main.root) as workspace, monkeypatch.context() as patch:
        patch.setattr(Workspace, "apply", _dies)
        with pytest.raises(KeyboardInterrupt):
            deploy(workspace, choose_forge(workspace))
        assert deploying_plan_id(workspace, git(main.root, "rev-parse", "HEAD")) == seen.plan_id
    done, _ = _deployed(main)
    assert (done.outcome, done.plan_id, done.version) == ("published", seen.plan_id, 2)


VIP = "MODEL (name marts.vip, kind FULL); SELECT customer, revenue FROM marts.customers"


def test_a_deployment_that_fails_is_told_with_the_place_and_changes_nothing(team: Team) -> None:
    team.publish()
    renamed = (CUSTOMERS, "AS revenue", "AS sales")
    ranked = "revenue, rank() OVER (ORDER BY revenue"
    sales = ("models/marts/top.sql", ranked, "sales AS revenue, rank() OVER (ORDER BY sales")
    _checked(team, 7, "renamed", renamed, sales)
    first = ProjectFolder(team.folder / "first")
    first.write("models/marts/vip.sql", VIP)
    team.commit(first, "main")
    team.publish()
    version, _ = _state(team)
    main = team.merge("renamed")
    with pytest.raises(ProjectError):
        _deployed(main)
    comment = team.comment(7)
    assert "## ❌ vde: prod is unchanged, the deployment failed" in comment
    assert "`models/marts/vip.sql:1`" in comment
    assert _state(team)[0] == version
    ProjectFolder(main.root).edit("models/marts/vip.sql", "revenue", "sales")
    team.commit(main, "main")
    waits, _ = _deployed(main, number=7)
    assert waits.outcome == "waiting"
    assert waits.reasons == (
        "marts.vip is shown in a way that was not reviewed",
        "marts.customers.revenue is renamed to sales; read by marts.top (revenue, place), "
        "marts.vip (revenue)",
        "marts.vip.revenue is renamed to sales",
    )


def test_a_removal_that_nobody_saw_waits_and_one_that_people_saw_does_not(team: Team) -> None:
    team.publish()
    anna = team.clone("fewer")
    anna.remove("models/marts/top.sql")
    team.commit(anna, "fewer")
    with open_fake(anna.root) as workspace:
        check_pull_request(workspace, choose_forge(workspace), 7)
    main = team.merge("fewer")
    main.remove("models/marts/daily.sql")
    team.commit(main, "main")
    waits, _ = _deployed(main, number=7)
    assert waits.reasons == (
        "marts.daily is removed",
        "marts.daily is no longer shown",
    )
    git(main.root, "revert", "--no-edit", "HEAD")
    done, used = _deployed(main, number=7)
    assert (done.outcome, used) == ("published", 0)


def test_another_statement_around_all_else_waits(team: Team) -> None:
    team.publish()
    clone = team.clone("said")
    path = clone.root / "pyproject.toml"
    path.write_text(f'{path.read_text()}after_all = ["CALL one()"]\n')
    team.commit(clone, "said")
    with open_fake(clone.root) as workspace:
        check_pull_request(workspace, choose_forge(workspace), 7)
    main = team.merge("said")
    path = main.root / "pyproject.toml"
    path.write_text(path.read_text().replace('"CALL one()"', '"CALL one()", "CALL two()"'))
    team.commit(main, "main")
    waits, _ = _deployed(main, number=7)
    assert waits.reasons == ("before_all or after_all runs another statement: CALL two()",)
    git(main.root, "revert", "--no-edit", "HEAD")
    assert _deployed(main, number=7)[0].outcome == "published"


def test_two_that_would_wait_leave_one_plan_for_people(anywhere: Team) -> None:
    team = anywhere
    team.publish()
    main = team.push(DOUBLED)
    told: list[DeployResult] = []

    def work() -> None:
        with open_fake(main.root) as workspace:
            told.append(deploy(workspace, choose_forge(workspace)))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (plan_id,) = {one.plan_id for one in told}
    assert [one.outcome for one in told] == ["waiting"] * 3
    with open_fake(main.root) as workspace:
        waiting = workspace.store.plans.waiting(workspace.project.files_hash)
        assert [one.id for one in waiting] == [plan_id]


def _dies(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_the_forge_says_what_a_squashed_commit_merged(team: Team, server: FakeForge) -> None:
    team.publish()
    clone = team.clone("anna")
    clone.edit(*DOUBLED)
    server.heads[7] = team.commit(clone, "doubled")
    with open_fake(clone.root) as workspace:
        check_pull_request(workspace, choose_forge(workspace), 7)
    main = team.clone("bert")
    git(main.root, "merge", "-q", "--squash", "origin/doubled")
    git(main.root, "commit", "-q", "-m", "doubled (#7)")
    server.merges[git(main.root, "rev-parse", "HEAD")] = 7
    done, used = _deployed(main)
    assert (done.outcome, done.pull_requests, used) == ("published", (7,), 0)
    (body,) = server.bodies(7)
    assert "🚀" in body.splitlines()[2]


def test_another_commit_than_what_is_checked_out_is_refused(team: Team) -> None:
    team.publish()
    with open_fake(team.folder / "first") as workspace, pytest.raises(UsageError, match="checked"):
        deploy(workspace, choose_forge(workspace), "c0ffee")
