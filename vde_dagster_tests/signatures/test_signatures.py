"""Signed plans: what is asked for by environment, what holds, and what the history says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from vde_dagster.errors import UsageError
from vde_dagster.execution.plans.plan_file import PlanFiles, plan_document
from vde_dagster.execution.plans.plan_spelling import file_bytes
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.plugins.signatures.keys import VARIABLE, read_private_key
from vde_dagster.state.db.codec import dump_plan
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.signatures.conftest import Team
from vde_dagster_tests.signatures.test_plan_files import refused

pytestmark = pytest.mark.long


def plan(team: Team, vde: Vde) -> str:
    """Plan the reviewer's edit, save it, and return its id."""
    team.edit()
    ended = vde("plan", "prod", "--save", team.file, "--project", team.reviewer.root, "--json")
    assert ended.code == 0, ended.err
    return str(ended.json["id"])


def sign(team: Team, vde: Vde, name: str, what: object = None) -> None:
    """Sign the plan's file with somebody's key, in the clone of production."""
    signed = what or team.file
    key = team.root / f"{name}.pem"
    ended = vde("plan", "sign", signed, "--key", key, "--project", team.production.root)
    assert ended.code == 0, ended.err


def applied(team: Team) -> bool:
    """Apply the file in the clone of production, on an engine without Spark."""
    with team.open() as workspace:
        return workspace.apply(workspace.plans.files.open(team.file)).published


def test_a_signed_plan_is_applied_and_the_history_says_who_signed(team: Team, vde: Vde) -> None:
    team.trusting("anna", "deploy", prod=2)
    made = plan(team, vde)
    told = refused(team, vde)
    assert f"prod requires 2 signatures, but the plan has 0: vde plan sign {made}" in told
    sign(team, vde, "anna")
    assert "but the plan has 1 (anna)" in refused(team, vde)
    sign(team, vde, "anna")
    assert "but the plan has 1 (anna)" in refused(team, vde), "two of one person are one"
    sign(team, vde, "deploy")
    assert applied(team)
    assert "max(n)" in team.shown()[1]
    shown = vde("history", "prod", "--project", team.production.root)
    assert "signed by anna, deploy" in shown.out
    versions = vde("history", "prod", "--project", team.production.root, "--json").json["versions"]
    assert [one["attached"] for one in versions] == ["signed by anna, deploy", None]
    with team.open() as workspace:
        logged = [one for one in workspace.store.log.latest() if one.act == "sign"]
    told = [(one.environment, one.details["signers"]) for one in logged]
    assert told == [("prod", ["deploy"]), ("prod", ["anna"]), ("prod", ["anna"])]


def test_a_stored_plan_is_signed_by_its_id(team: Team, vde: Vde) -> None:
    team.trusting("anna", prod=1)
    plan_id = plan(team, vde)
    with team.open() as workspace:
        stored = workspace.store.plans.load(plan_id)
        with pytest.raises(UsageError, match="requires 1 signature"):
            workspace.apply(stored)
    sign(team, vde, "anna", plan_id)
    with team.open() as workspace:
        assert workspace.apply(workspace.store.plans.load(plan_id)).published
    assert "signed by anna" in vde("history", "prod", "--project", team.production.root).out


def test_what_is_planned_and_applied_at_once_has_no_signature(team: Team, vde: Vde) -> None:
    team.trusting("anna", prod=1)
    team.edit()
    ended = vde("apply", "prod", "--yes", "--project", team.reviewer.root)
    assert ended.code == 2
    assert "requires 1 signature" in ended.err
    assert team.shown()[0] == 1
    with team.open() as workspace:
        assert workspace.apply(workspace.plans.due("prod", full=True)).published, "a run needs none"
    team.settings("[tool.vde.signatures]\n")
    with team.open() as workspace:
        other = workspace.apply(workspace.plan("dev"))
        assert other.published, "nothing is asked of this environment"


def test_a_plan_that_was_changed_behind_its_signature_is_refused(team: Team, vde: Vde) -> None:
    team.trusting("anna", prod=1)
    plan(team, vde)
    sign(team, vde, "anna")
    found = PlanFiles.read(team.file)
    forged = replace(found.plan, warnings=("harmless",))
    content = {**plan_document(forged, found.document["project"]), "attached": found.attached}
    team.file.write_bytes(file_bytes(content))
    assert "the stored plan differs in plan.warnings" in refused(team, vde)
    with team.open() as workspace:  # Whoever can write the state's tables changes that, too.
        _write_over(workspace, forged)
    assert "differs from what was signed (by anna)" in refused(team, vde)


def test_a_plan_that_was_changed_in_the_state_after_it_was_signed_is_refused(
    team: Team, vde: Vde
) -> None:
    team.trusting("anna", prod=1)
    plan_id = plan(team, vde)
    sign(team, vde, "anna", plan_id)
    with team.open() as workspace:
        stored = workspace.store.plans.load(plan_id)
        _write_over(workspace, replace(stored, warnings=("harmless",)))
        with pytest.raises(UsageError, match="anna signed another plan"):
            workspace.apply(workspace.store.plans.load(plan_id))
    assert team.shown()[0] == 1


def _write_over(workspace: Workspace, forged: Plan) -> None:
    from sqlalchemy import update

    from vde_dagster.state.db import schema

    statement = update(schema.plans).where(schema.plans.c.plan_id == forged.id)
    values = statement.values(payload=dump_plan(forged))
    workspace.store.database.run_transaction(lambda conn: conn.execute(values), name="test")


@pytest.mark.parametrize("required", [0, 1])
def test_a_signature_by_nobody_who_is_trusted_is_refused(
    team: Team, vde: Vde, required: int
) -> None:
    team.trusting("anna", prod=required)
    team.key("eve")
    plan(team, vde)
    sign(team, vde, "eve")
    assert "has no signature by a trusted key, only by ed25519:" in refused(team, vde)


@pytest.mark.parametrize("part", ["at", "signature", "key"])
def test_a_signature_with_anything_changed_is_refused(team: Team, vde: Vde, part: str) -> None:
    team.trusting("anna", "bert", prod=1)
    plan(team, vde)
    sign(team, vde, "anna")
    sign(team, vde, "bert")
    content = json.loads(team.file.read_text())
    one, other = content["attached"]["signatures"]
    one[part] = {
        "at": "2020-01-01T00:00:00Z",
        "signature": other["signature"],
        "key": other["key"],
    }[part]
    if part == "key":
        content["attached"]["signatures"] = [one]
    team.file.write_bytes(file_bytes(content))
    assert "differs from what was signed" in refused(team, vde)


@pytest.mark.parametrize("value", [{}, [1], [{"key": 1}], "no", [{"key": "k", "at": "a"}]])
def test_signatures_of_another_form_are_refused(team: Team, vde: Vde, value: object) -> None:
    team.trusting("anna", prod=1)
    plan(team, vde)
    content = json.loads(team.file.read_text())
    team.file.write_bytes(file_bytes({**content, "attached": {"signatures": value}}))
    assert "signatures cannot be read" in refused(team, vde)


def test_the_signature_of_one_plan_is_none_of_another(team: Team, vde: Vde) -> None:
    team.trusting("anna", prod=1)
    plan(team, vde)
    sign(team, vde, "anna")
    signed = json.loads(team.file.read_text())["attached"]
    team.reviewer.edit("models/total.sql", "max(n)", "min(n)")
    vde("plan", "prod", "--save", team.file, "--project", team.reviewer.root)
    team.file.write_bytes(file_bytes({**json.loads(team.file.read_text()), "attached": signed}))
    assert "differs from what was signed (by anna)" in refused(team, vde)
    sign_again = vde(
        "plan", "sign", team.file, "--key", team.root / "anna.pem", "--project", team.reviewer.root
    )
    assert sign_again.code == 2
    assert "earlier signatures are for other content" in sign_again.err


def test_a_key_is_made_once_for_its_owner_alone_and_never_printed(
    team: Team, vde: Vde, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = team.root / "carla.pem"
    made = vde("keys", "make", "carla", "--to", path)
    assert made.code == 0
    assert path.stat().st_mode & 0o777 == 0o600
    secret = path.read_text().splitlines()[1]
    assert secret not in made.out + made.err
    assert made.out.startswith('carla = "ed25519:')
    again = vde("keys", "make", "carla", "--to", path)
    assert again.code == 2
    assert path.read_text().splitlines()[1] == secret
    team.settings(
        f"[tool.vde.signatures.trusted]\n{made.out}[tool.vde.signatures.required]\nprod = 1\n"
    )
    plan(team, vde)
    monkeypatch.setenv(VARIABLE, path.read_text())
    signed = vde("plan", "sign", team.file, "--project", team.production.root, "--json")
    assert signed.json["name"] == "carla"
    assert secret not in signed.out + signed.err + team.file.read_text()
    assert applied(team)


@pytest.mark.parametrize("name", ["anna@shop.example", "Anna B", 'the "boss"', "änne", "🦊"])
def test_the_printed_line_is_read_as_the_key_of_that_name(
    team: Team, vde: Vde, tmp_path: Path, name: str
) -> None:
    made = vde("keys", "make", name, "--to", tmp_path / "key.pem")
    team.settings(f"[tool.vde.signatures.trusted]\n{made.out}")
    with team.open() as workspace:
        trusted = workspace.settings.plugins["signatures"]["trusted"]
    assert list(trusted) == [name]
    assert made.out.endswith(f' = "{trusted[name]}"\n')


@pytest.mark.parametrize(
    "text", ["", "no key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"]
)
def test_what_is_no_key_is_said_without_a_word_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    path = tmp_path / "key.pem"
    path.write_text(text)
    with pytest.raises(UsageError, match="has no private Ed25519 key as PEM") as raised:
        read_private_key(path)
    assert "AAAA" not in str(raised.value)
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(UsageError, match="no key for signing was given"):
        read_private_key(None)
    with pytest.raises(UsageError, match="cannot read the key"):
        read_private_key(tmp_path / "nowhere.pem")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[tool.vde.signatures.trusted]\nanna = "abc"\n', "has no public key of anna"),
        ("[tool.vde.signatures.required]\nprod = 1\n", "requires 1 signature for plans of 'prod'"),
        ('[tool.vde.signatures.required]\n"pr-1" = 0\n', "has an invalid environment 'pr-1'"),
    ],
)
def test_settings_that_ask_for_what_nobody_can_give_are_a_mistake(
    team: Team, vde: Vde, text: str, said: str
) -> None:
    team.settings(text)
    ended = vde("plan", "prod", "--project", team.reviewer.root)
    assert ended.code == 2
    assert said in ended.err


def test_one_key_under_two_names_is_a_mistake(team: Team, vde: Vde) -> None:
    key = team.key("anna")
    team.settings(f'[tool.vde.signatures.trusted]\nanna = "{key}"\nbert = "{key}"\n')
    ended = vde("plan", "prod", "--project", team.reviewer.root)
    assert ended.code == 2
    assert "has one key under two names" in ended.err


@pytest.mark.parametrize(
    "variables",
    [
        {"VDE_SIGNATURES__TRUSTED__ANNA": "{key}", "VDE_SIGNATURES__REQUIRED__PROD": "1"},
        {"VDE_SIGNATURES__TRUSTED": '{{"anna": "{key}"}}', "VDE_SIGNATURES__REQUIRED__PROD": "1"},
        {"vde_signatures": '{{"trusted": {{"anna": "{key}"}}, "required": {{"prod": 1}}}}'},
    ],
    ids=["by name", "a table", "the plug-in's table"],
)
def test_where_the_job_that_applies_has_keys_those_of_the_files_count_nothing(
    team: Team, vde: Vde, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    team.trusting("anna", "ANNA_", "eve", prod=0)
    plan(team, vde)
    sign(team, vde, "eve")
    with team.open() as workspace:
        anna = workspace.settings.plugins["signatures"]["trusted"]["anna"]
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(key=anna))
    assert "has no signature by a trusted key" in refused(team, vde)
    sign(team, vde, "anna")
    assert applied(team)
    assert "signed by anna" in vde("history", "prod", "--project", team.production.root).out
