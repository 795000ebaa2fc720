"""Plans whose fields say something else than they do: no gate is passed by a field of a plan."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from sqlalchemy import update

from vde_dagster.errors import ConflictError, UsageError, VdeError
from vde_dagster.execution.plans.plan_file import plan_document
from vde_dagster.execution.plans.plan_spelling import file_bytes
from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.planning.environments.environment import HeldState
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.plan.plan import (
    Category,
    Change,
    EnvironmentStatements,
    Plan,
    PlanKind,
    PlannedModel,
)
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.reports.plan import definition_text
from vde_dagster.state.db import schema
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.signatures.conftest import Team

RULES = """
- name: nothing
  require: "false"
  message: nobody may change anything
"""
Forge = Callable[[Plan], Plan]


@pytest.fixture
def guarded(team: Team) -> Team:
    """A project that asks for two signatures and refuses every plan by a rule."""
    team.trusting("anna", "ben", prod=2)
    for clone in (team.reviewer, team.production):
        text = (clone.root / "pyproject.toml").read_text()
        clone.write("pyproject.toml", f"{text}[tool.vde.policies]\n")
        clone.write("policies.yaml", RULES)
    return team


def models(plan: Plan, change: Callable[[PlannedModel], PlannedModel]) -> Plan:
    """Return a plan with each of its models changed."""
    return replace(plan, models=tuple(map(change, plan.models)))


def unchanged(plan: Plan) -> Plan:
    """Call every model of a plan unchanged."""
    return models(plan, lambda one: replace(one, change=Change.UNCHANGED, category=None))


def without(plan: Plan, name: str) -> Plan:
    """Leave a model out of what a plan tells."""
    return replace(plan, models=tuple(one for one in plan.models if one.name.name != name))


def claiming(plan: Plan) -> Plan:
    """Let a definition have the versions of the one that is published."""
    (key,) = (one.snapshot_id or "" for one in plan.models if one.change is Change.MODIFIED)
    snapshot = plan.snapshots[key]
    query = re.sub("max", "min", snapshot.model.query or "", flags=re.IGNORECASE)
    assert query != snapshot.model.query
    model = replace(snapshot.model, query=query)
    return replace(plan, snapshots={**plan.snapshots, key: replace(snapshot, model=model)})


OF_A_CHANGE: dict[str, Forge] = {
    "a run": lambda plan: replace(plan, kind=PlanKind.RUN),
    "a restatement": lambda plan: replace(plan, kind=PlanKind.RESTATEMENT),
    "a run of what is unchanged": lambda plan: unchanged(replace(plan, kind=PlanKind.RUN)),
    "unchanged models": unchanged,
    "a lighter category": lambda plan: models(
        plan, lambda one: replace(one, category=one.category and Category.METADATA)
    ),
    "added models": lambda plan: models(plan, lambda one: replace(one, change=Change.ADDED)),
    "a model that is left out": lambda plan: without(plan, "total"),
    "other entries": lambda plan: models(
        plan, lambda one: replace(one, snapshot_id=plan.models[0].snapshot_id)
    ),
    "a version that is not there": lambda plan: replace(plan, base_version=7),
    "a new environment": lambda plan: replace(plan, base_version=0),
    "an end of production": lambda plan: replace(plan, expires_at=datetime.now(timezone.utc)),
    "another table's place": lambda plan: models(
        plan,
        lambda one: replace(
            one, table=one.table and replace(one.table, ref=TableRef("vde__db", "other"))
        ),
    ),
    "versions of another definition": claiming,
    "an id that is a path": lambda plan: replace(plan, id="../../prod-28Nov-dead"),
    "another environment's name": lambda plan: replace(plan, environment="Prod"),
    "an environment that is a path": lambda plan: replace(plan, environment="../prod"),
    "an earlier state of a table": lambda plan: replace(
        plan,
        entries={
            name: replace(one, held=HeldState(1, 0)) if one.table_id else one
            for name, one in plan.entries.items()
        },
    ),
    "a table that is not there": lambda plan: models(
        plan,
        lambda one: replace(
            one,
            table=one.table
            and replace(one.table, id="f" * 32, created=True, ref=plan.models[0].table.ref),  # type: ignore[union-attr]
        ),
    ),
    "a table of other rows": lambda plan: models(
        plan, lambda one: replace(one, table=one.table and replace(one.table, fill_version="a"))
    ),
    "readers outdated for nothing": lambda plan: replace(
        plan,
        restates={
            plan.models[0].name: IntervalSet(
                (Interval(*(datetime(2024, 1, day, tzinfo=timezone.utc) for day in (1, 2))),)
            )
        },
    ),
}


def ways(team: Team, forged: Plan) -> list[Callable[[Workspace], Plan]]:
    """Return the ways by which a forged plan comes to an apply: as a file, and as a row."""
    path = team.root / "forged.json"
    project = {"id": "0123456789abcdef"}
    path.write_bytes(file_bytes({**plan_document(forged, project), "attached": {}}))

    def stored(workspace: Workspace) -> Plan:
        again = replace(forged, id=f"{forged.id[:-4]}beef")  # Another row than the file's.
        workspace.store.plans.save(again)
        return workspace.store.plans.load(again.id)

    return [lambda workspace: workspace.plans.files.open(path), stored]


@pytest.mark.parametrize("gates", [True, False], ids=["with gates", "without gates"])
def test_a_change_under_another_name_is_refused_and_changes_nothing(
    team: Team, request: pytest.FixtureRequest, gates: bool
) -> None:
    if gates:
        request.getfixturevalue("guarded")
    team.edit()
    with open_fake(team.reviewer.root) as workspace:
        plan = workspace.plan("prod", save=False)
    before = team.shown()
    for how, forge in OF_A_CHANGE.items():
        forged = forge(replace(plan, id=f"{plan.id[:-4]}dead", objections=()))
        assert forged != plan
        for get in ways(team, forged):
            with team.open() as workspace, refusal(how) as told:
                workspace.apply(get(workspace), approved=True)
            assert "nobody may change anything" not in told[0], how
        assert team.shown() == before, how


@contextmanager
def refusal(how: str) -> Iterator[list[str]]:
    """Expect a refusal, and give its message."""
    told: list[str] = []
    try:
        yield told
    except VdeError as error:
        told.append(error.message)
    else:
        pytest.fail(f"'{how}' was applied")


def due(team: Team) -> Plan:
    """Return production's run that is due."""
    with team.open() as workspace:
        plan = workspace.plans.due("prod", full=True, save=False)
    assert plan.kind is PlanKind.RUN
    assert not plan.is_empty
    return plan


def days(*numbers: int) -> IntervalSet:
    """Return days of January 2024."""
    return IntervalSet.of(
        Interval(start, start + timedelta(days=1))
        for start in (datetime(2024, 1, number, tzinfo=timezone.utc) for number in numbers)
    )


def refilled(plan: Plan) -> Plan:
    """Fill days again that are filled, without telling it."""
    return models(
        plan,
        lambda one: (
            replace(one, builds=True, intervals=days(2, 3)) if one.name.name == "orders" else one
        ),
    )


OF_A_RUN: dict[str, Forge] = {
    "a restatement without a word": refilled,
    "a restatement": lambda plan: models(
        refilled(plan), lambda one: replace(one, restate=one.name.name == "orders")
    ),
    "statements around it": lambda plan: replace(
        plan, statements=EnvironmentStatements(before=("DROP TABLE x",))
    ),
    "other definitions that are kept": lambda plan: replace(plan, kept={"metrics": "other"}),
    "filled ranges that nobody computes": lambda plan: models(
        plan, lambda one: replace(one, records_only=True)
    ),
    "a model less": lambda plan: replace(
        without(plan, "orders"),
        entries={name: one for name, one in plan.entries.items() if name.name != "orders"},
    ),
    "the table of another model": lambda plan: replace(
        models(plan, lambda one: replace(one, table=plan.models[0].table)),
        entries={
            name: replace(one, table_id=plan.models[0].table and plan.models[0].table.id)
            for name, one in plan.entries.items()
        },
    ),
}


def test_a_run_that_does_more_than_a_run_is_refused(guarded: Team) -> None:
    plan, before = due(guarded), guarded.shown()
    for how, forge in OF_A_RUN.items():
        forged = forge(replace(plan, id=f"{plan.id[:-4]}dead"))
        assert forged != plan
        for get in ways(guarded, forged):
            with guarded.open() as workspace, refusal(how):
                workspace.apply(get(workspace), approved=True)
        assert guarded.shown() == before, how


def test_a_run_that_shows_less_and_does_nothing_publishes_nothing(guarded: Team) -> None:
    plan, before = due(guarded), guarded.shown()
    entries = {name: one for name, one in plan.entries.items() if name.name != "total"}
    forged = replace(without(plan, "total"), entries=entries, id=f"{plan.id[:-4]}dead")
    assert forged.is_empty
    with guarded.open() as workspace:
        assert not workspace.apply(forged, approved=True).published
    assert guarded.shown() == before


def test_a_run_needs_no_signature_by_what_it_does(guarded: Team) -> None:
    plan = due(guarded)
    with guarded.open() as workspace:
        workspace.store.plans.save(plan)
        assert workspace.apply(workspace.store.plans.load(plan.id)).published


def test_a_plan_that_was_called_applied_while_gates_were_asked_is_not_applied(
    guarded: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded.edit()
    with open_fake(guarded.reviewer.root) as workspace:
        plan = workspace.plan("prod")
    before = guarded.shown()

    def status(workspace: Workspace, text: str) -> None:
        changed = update(schema.plans).where(schema.plans.c.plan_id == plan.id)
        workspace.store.database.run_transaction(
            lambda conn: conn.execute(changed.values(status=text)), name="test"
        )

    with guarded.open() as workspace:
        status(workspace, "applied")
        done = workspace.apply(plan, approved=True)
        assert not done.published
        recover = type(workspace.lakehouse).recover

        def meanwhile(lakehouse: Lakehouse) -> object:
            status(workspace, "planned")
            return recover(lakehouse)

        monkeypatch.setattr(type(workspace.lakehouse), "recover", meanwhile)
        with pytest.raises(ConflictError, match="its status was changed meanwhile"):
            workspace.apply(plan, approved=True)
    assert guarded.shown() == before


def test_a_file_has_no_run(team: Team, vde: Vde) -> None:
    plan = due(team)
    with team.open() as workspace:
        workspace.store.plans.save(plan)
    team.file.write_bytes(
        file_bytes({**plan_document(plan, {"id": "0123456789abcdef"}), "attached": {}})
    )
    root = team.production.root
    team.key("anna")
    sign = ("plan", "sign", "--key", team.root / "anna.pem")
    for command in (("apply", "prod", "--yes", "--plan"), sign):
        ended = vde(*command, team.file, "--project", root)
        assert ended.code == 2
        assert "it is a run, which cannot be in a file" in ended.err
    assert team.shown()[0] == 1


def test_a_plan_for_a_frozen_environment_is_refused(team: Team) -> None:
    with team.open() as workspace:
        workspace.environments.freeze("prod", "close")
    team.edit()
    with open_fake(team.reviewer.root) as workspace:
        plan = workspace.plan("dev", save=False)
    forged = replace(plan, environment="close", base_version=1)
    with team.open() as workspace, pytest.raises(UsageError, match="is frozen"):
        workspace.apply(forged)


def test_rules_see_derived_facts_of_a_new_environment(guarded: Team) -> None:
    """A plan for an environment that is not there yet is held against production as it is now."""
    rule = 'each: model.change != "unchanged"'
    for clone in (guarded.reviewer, guarded.production):
        clone.write(
            "policies.yaml", RULES.replace('require: "false"', f'{rule}\n  require: "false"')
        )
    guarded.edit()
    with open_fake(guarded.reviewer.root) as workspace:
        plan = unchanged(workspace.plan("dev", save=False))
    with guarded.open() as workspace, pytest.raises(UsageError, match="nobody may change anything"):
        workspace.apply(plan, approved=True)


HARMLESS = "MODEL (name db.total, kind FULL);\nSELECT sum(n) AS n FROM db.orders WHERE n > 0\n"
HIDDEN = {
    "another query": "SELECT 1001 AS n",
    "less of the query": "SELECT sum(n) AS n FROM db.orders",
    "the end of the query": "n > 0",
    "a query in a comment": "SELECT 5 AS n",
}


@pytest.mark.parametrize("how", HIDDEN)
def test_people_see_a_query_that_the_text_of_its_file_does_not_have(team: Team, how: str) -> None:
    with team.open() as workspace:
        before = workspace.snapshots()
    (name,) = (one for one in before if one.name == "total")
    source = HARMLESS + "-- SELECT 5 AS n\n"
    model = replace(before[name].model, source=source, query=HIDDEN[how])
    shown = definition_text(replace(before[name], model=model))
    assert f"-- runs:\n{HIDDEN[how]}" in shown
    honest = "SELECT sum(n) AS n FROM db.orders WHERE n > 0"
    model = replace(model, query=honest)
    assert definition_text(replace(before[name], model=model)) == source
