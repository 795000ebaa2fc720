"""A plan's file applies what was reviewed, to the state that it was made for, or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vde_dagster.base.json_values import canonical_json
from vde_dagster.errors import UsageError
from vde_dagster.execution.plans.plan_file import PlanFiles
from vde_dagster.execution.plans.plan_spelling import file_bytes
from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import SHOP, ProjectFolder
from vde_dagster_tests.signatures.conftest import Team
from vde_dagster_tests.state.builders import FakeClock


@pytest.fixture
def saved(team: Team, vde: Vde) -> Team:
    """The same, with an edit of the reviewer's planned and saved."""
    team.edit()
    ended = vde("plan", "prod", "--save", team.file, "--project", team.reviewer.root)
    assert ended.code == 0, ended.err
    return team


def refused(team: Team, vde: Vde) -> str:
    """Apply the file in the other clone, and return why that is refused."""
    before = team.shown()
    ended = vde("apply", "prod", "--plan", team.file, "--yes", "--project", team.production.root)
    assert ended.code == 2, ended.out
    assert team.shown() == before
    return ended.err


def test_a_clone_without_the_commit_applies_what_was_reviewed(saved: Team) -> None:
    assert "sum(n)" in (saved.production.root / "models/total.sql").read_text()
    with saved.open() as workspace:
        result = workspace.apply(workspace.plans.files.open(saved.file))
        assert result.published
    version, text = saved.shown()
    assert version == 2
    assert "max(n)" in text
    with saved.open() as workspace:
        assert not workspace.apply(workspace.plans.files.open(saved.file)).published, (
            "applied before"
        )


def test_the_file_of_a_stored_plan_has_the_same_bytes_each_time(saved: Team) -> None:
    first = saved.file.read_bytes()
    with saved.open() as workspace:
        workspace.plans.files.save(json.loads(first)["plan"]["id"], saved.file)
    assert saved.file.read_bytes() == first
    content = json.loads(first)
    (total,) = (one for one in content["definitions"].values() if one["model"] == "db.total")
    assert "max(n)" in total["text"], "people read what is applied"


def test_a_plan_that_the_state_lost_is_applied_from_its_file(saved: Team) -> None:
    from sqlalchemy import delete

    from vde_dagster.state.db import schema

    with saved.open() as workspace:
        database = workspace.store.database
        database.run_transaction(lambda conn: conn.execute(delete(schema.plans)), name="test")
        assert workspace.apply(workspace.plans.files.open(saved.file)).published
    assert saved.shown()[0] == 2


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("max(n)", "min(n)", "differs in the definition of db.total"),
        ('"environment": "prod"', '"environment": "dev"', "differs in plan.environment"),
        ('"base_version": 1', '"base_version": 2', "differs in plan.base_version"),
        ('"builds": true', '"builds": 1', "differs in plan.models"),
        ('"hash"', '"hush"', "was changed after it was written"),
        ('"vde-plan-1"', '"vde-plan-2"', "its format is not vde-plan-1"),
        ('"attached": {}', '"attached": []', "it has no 'attached'"),
        ("{", "[", "it is not valid JSON"),
    ],
)
def test_a_changed_file_is_refused_with_what_was_changed(
    saved: Team, vde: Vde, old: str, new: str, said: str
) -> None:
    text = saved.file.read_text()
    assert old in text
    saved.file.write_text(text.replace(old, new, 1))
    told = refused(saved, vde)
    assert said in told
    assert "hint:" in told


def test_a_file_that_is_not_there_is_said(team: Team, vde: Vde) -> None:
    assert "cannot read" in refused(team, vde)


def test_production_that_moved_meanwhile_is_another_state(saved: Team, vde: Vde) -> None:
    with saved.open() as workspace:
        saved.production.edit("models/total.sql", "sum(n) AS n", "count(n) AS n")
        workspace.reload()
        workspace.apply(workspace.plan("prod"))
    told = refused(saved, vde)
    assert "was created for another state" in told
    assert "'prod' was at version 1 and is at version 2" in told
    assert "as the definition of db.total, and now has" in told
    assert "db.orders" not in told


def test_a_run_meanwhile_is_no_other_state(saved: Team) -> None:
    with saved.open() as workspace:
        assert workspace.apply(workspace.plans.due("prod", full=True)).published
    assert saved.shown()[0] == 2
    with saved.open() as workspace:
        assert workspace.apply(workspace.plans.files.open(saved.file)).published
    assert "max(n)" in saved.shown()[1]


def test_another_state_at_the_same_version_is_found_by_what_it_shows(
    saved: Team, vde: Vde, tmp_path: Path
) -> None:
    text = (saved.production.root / "pyproject.toml").read_text()
    other = text.replace("/state.db", "/other.db").replace("/warehouse", "/elsewhere")
    saved.production.write("pyproject.toml", other)
    assert "'prod' had" in refused(saved, vde), "nothing is published there"
    with saved.open() as workspace:
        workspace.apply(workspace.plan("prod"))
    assert saved.shown()[0] == 1
    told = refused(saved, vde)
    assert "of db.orders does not exist" in told, "equal definitions, and other tables"


def test_rows_that_are_gone_are_another_state(saved: Team, vde: Vde) -> None:
    from sqlalchemy import delete

    from vde_dagster.state.db import schema

    with saved.open() as workspace:
        database = workspace.store.database
        database.run_transaction(lambda conn: conn.execute(delete(schema.intervals)), name="test")
    assert "the table of db.orders is no longer filled for 2024-01-01" in refused(saved, vde)


def test_a_plan_of_another_project_is_refused(saved: Team, vde: Vde) -> None:
    content = json.loads(saved.file.read_text())
    plan = PlanFiles.read(saved.file).plan
    from vde_dagster.execution.plans.plan_file import plan_document

    saved.file.write_bytes(file_bytes({**plan_document(plan, {"id": "f" * 16}), "attached": {}}))
    assert content["project"] == {"id": "0123456789abcdef"}
    assert "it belongs to another project" in refused(saved, vde)


def test_a_plan_that_was_made_anew_under_the_id_of_a_stored_one_is_refused(
    saved: Team, vde: Vde
) -> None:
    """Without signatures too: the state says what the plan of the id is."""
    from dataclasses import replace

    from vde_dagster.execution.plans.plan_file import plan_document

    found = PlanFiles.read(saved.file)
    models = tuple(replace(model, builds=False) for model in found.plan.models)
    forged = plan_document(replace(found.plan, models=models), found.document["project"])
    saved.file.write_bytes(file_bytes({**forged, "attached": {}}))
    assert PlanFiles.read(saved.file).plan.models == models, "it is whole in itself"
    assert "the stored plan differs in plan.models" in refused(saved, vde)


def test_a_definition_of_the_state_cannot_be_replaced_by_that_of_a_file(
    saved: Team, vde: Vde
) -> None:
    from dataclasses import replace

    from vde_dagster.execution.plans.plan_file import plan_document

    found = PlanFiles.read(saved.file)
    snapshots = {
        key: replace(one, model=replace(one.model, query="SELECT 'forged' AS n"))
        for key, one in found.plan.snapshots.items()
    }
    plan = replace(found.plan, id="prod-forged", snapshots=snapshots)
    forged = plan_document(plan, found.document["project"])
    saved.file.write_bytes(file_bytes({**forged, "attached": {}}))
    assert "its stored values cannot be read" in refused(saved, vde)


def test_a_rejected_plan_is_refused(saved: Team, vde: Vde) -> None:
    plan_id = json.loads(saved.file.read_text())["plan"]["id"]
    vde("plan", "reject", plan_id, "--project", saved.reviewer.root)
    assert "was rejected by" in refused(saved, vde)


def clean_up_after(saved: Team, days: int) -> Workspace:
    """Run the janitor after some days, and open production's clone at that time."""
    clock = FakeClock(datetime.now(timezone.utc) + timedelta(days=days))
    workspace = open_fake(saved.production.root, clock=clock)
    workspace.maintenance.janitor(compact=False)
    return workspace


@pytest.mark.parametrize("days", [3, 40])
def test_a_rejected_plan_is_refused_however_long_ago_that_was(saved: Team, days: int) -> None:
    plan_id = json.loads(saved.file.read_text())["plan"]["id"]
    with saved.open() as workspace:
        workspace.store.plans.reject(plan_id, "anna")
    with clean_up_after(saved, days) as workspace, pytest.raises(UsageError, match="rejected by"):
        workspace.plans.files.open(saved.file)


def test_a_plan_that_waited_for_too_long_can_still_be_rejected(saved: Team) -> None:
    plan_id = json.loads(saved.file.read_text())["plan"]["id"]
    with clean_up_after(saved, 3) as workspace:
        workspace.store.plans.reject(plan_id, "anna")
        with pytest.raises(UsageError, match="rejected by"):
            workspace.plans.files.open(saved.file)


def test_a_rejected_plan_of_an_earlier_version_is_forgotten(saved: Team) -> None:
    plan_id = json.loads(saved.file.read_text())["plan"]["id"]
    with saved.open() as workspace:
        workspace.store.plans.reject(plan_id, "anna")
    saved.production.edit("models/total.sql", "sum(n) AS n", "min(n) AS n")
    with saved.open() as workspace:
        workspace.apply(workspace.plan("prod"))
    with clean_up_after(saved, 40) as workspace:
        assert workspace.store.plans.record(plan_id) is None


@pytest.mark.parametrize("days", [3, 40])
def test_a_plan_that_waits_for_longer_than_the_grace_time_is_applied(
    saved: Team, days: int
) -> None:
    with clean_up_after(saved, days) as workspace:
        assert workspace.apply(workspace.plans.files.open(saved.file)).published
    assert saved.shown()[0] == 2


MORE = {
    **SHOP,
    "models/staging/part.sql": "MODEL (name staging.part, kind EMBEDDED); SELECT 1 AS one",
    "models/marts/whole.sql": """
        MODEL (name marts.whole, kind FULL);
        SELECT p.one, o.id FROM staging.part AS p CROSS JOIN staging.orders AS o
    """,
    "external_models.yaml": "- name: outside.rates\n  columns: {day: date, rate: double}\n",
    "models/marts/rated.sql": "MODEL (name marts.rated, kind VIEW); SELECT day FROM outside.rates",
}


def _edited(folder: ProjectFolder) -> None:
    folder.edit("models/marts/customers.sql", "sum(amount)", "max(amount)")
    folder.edit("models/staging/part.sql", "1 AS one", "2 AS one")


def _removed(folder: ProjectFolder) -> None:
    folder.remove("models/marts/top.sql")
    folder.remove("models/marts/rated.sql")


@pytest.mark.parametrize(
    ("environment", "change", "options"),
    [
        ("prod", _edited, {}),
        ("prod", _edited, {"select": ("marts.customers",)}),
        ("prod", _edited, {"forward_only": True}),
        ("prod", _removed, {}),
        ("prod", None, {"restate": ("marts.daily",)}),
        ("dev", _edited, {}),
        ("dev", None, {}),
    ],
)
def test_plans_of_all_kinds_are_whole_and_of_their_own_state(
    tmp_path: Path,
    environment: str,
    change: Callable[[ProjectFolder], None] | None,
    options: dict[str, Any],
) -> None:
    folder = ProjectFolder(tmp_path / "shop", MORE)
    path = tmp_path / "plan.json"
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        if environment == "dev" and change:
            workspace.apply(workspace.plan("dev"))
        if change:
            change(folder)
            workspace.reload()
        plan = workspace.plan(environment, **options)
        assert not plan.is_empty
        workspace.plans.files.save(plan.id, path)
    with open_fake(folder.root) as workspace:
        opened = workspace.plans.files.open(path)
        assert opened == workspace.store.plans.load(plan.id)
        assert workspace.apply(opened).published


def test_a_seed_of_which_the_clone_has_other_rows_is_refused(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path / "shop", SHOP)
    path = tmp_path / "plan.json"
    with open_fake(folder.root) as workspace:
        plan = workspace.plan("prod")
        workspace.plans.files.save(plan.id, path)
        planned = (folder.root / "seeds/orders.csv").read_text()
        folder.edit("seeds/orders.csv", "1,10,5.0", "1,10,6.0")
        with pytest.raises(UsageError, match="differs here"):
            workspace.plans.files.open(path)
        (folder.root / "seeds/orders.csv").write_text(planned)
        assert workspace.apply(workspace.plans.files.open(path)).published


def test_a_plan_that_changes_nothing_writes_no_file(team: Team, vde: Vde) -> None:
    ended = vde("plan", "prod", "--save", team.file, "--project", team.reviewer.root)
    assert ended.code == 0
    assert "was not written" in ended.err
    assert not team.file.exists()


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value in JSON's values, its own first."""
    inside = value.items() if isinstance(value, dict) else ()
    inside = enumerate(value) if isinstance(value, list) else inside
    return [path, *(place for key, one in inside for place in _places(one, (*path, key)))]


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_a_document_with_any_value_changed_is_refused(saved: Team, data: st.DataObject) -> None:
    text = saved.root / "whole.json"
    if not text.exists():
        text.write_bytes(saved.file.read_bytes())
    content = json.loads(text.read_text())
    places = [one for one in _places(content) if one and one[0] != "attached"]
    *above, last = data.draw(st.sampled_from(places))
    parent = reduce(lambda value, key: value[key], above, content)
    before = parent[last]
    how = data.draw(st.sampled_from(["replace", "remove", "add"]))
    if how == "remove":
        del parent[last]
    elif how == "add" and isinstance(before, dict):
        before[data.draw(st.text(max_size=5).filter(lambda key: key not in before))] = None
    else:
        value = data.draw(_VALUES.filter(lambda one: canonical_json(one) != canonical_json(before)))
        parent[last] = value
    changed = saved.root / "changed.json"
    changed.write_bytes(file_bytes(content))
    with pytest.raises(UsageError):
        PlanFiles.read(changed)
