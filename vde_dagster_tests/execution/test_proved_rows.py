"""Rows of the state that are stored under a hash of their content are proved when they are read."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, insert, update

from vde_dagster.base.names import ModelName
from vde_dagster.errors import StoreError, VdeError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.plan.plan import Change, Plan
from vde_dagster.planning.snapshots.snapshot import OutputColumn, Read, Snapshot
from vde_dagster.project.model import Audit
from vde_dagster.state.db import codec, schema
from vde_dagster.state.db.codec import dump_plan, dump_snapshot
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder

TOP = ModelName("marts", "top")
FILES = {
    "models/orders.sql": "MODEL (name raw.orders, kind FULL); SELECT 1 AS id, 2 AS n",
    "models/top.sql": "MODEL (name marts.top, kind FULL); SELECT count(*) AS n FROM raw.orders",
    "models/shown.sql": "MODEL (name marts.shown, kind VIEW); SELECT n FROM marts.top",
    "models/code.py": """
from vde_dagster import model
from helpers import number

@model("marts.code", columns={"n": "int"}, kind="FULL", depends_on=["raw.orders"])
def execute(context, **kwargs):
    return number()
""",
    "helpers.py": "def number():\n    return [{'n': 1}]\n",
}
HONEST = ("count(*) AS n", "count(*) + 1 AS n")


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    """A published project with an edit that nobody has planned yet."""
    folder = ProjectFolder(tmp_path / "shop", FILES)
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    folder.edit("models/top.sql", *HONEST)
    return folder


def model(**changed: Any) -> Callable[[Snapshot], Snapshot]:
    """Return the change of a definition's fields."""
    return lambda one: replace(one, model=replace(one.model, **changed))


EVIL: dict[str, Callable[[Snapshot], Snapshot]] = {
    "query": model(query="SELECT count(*) + 1001 AS n FROM raw.orders"),
    "case of a text": model(query="SELECT count(*) + 1 AS N FROM raw.orders"),
    "statements before": model(pre_statements=("DROP TABLE x",)),
    "statements after": model(post_statements=("DROP TABLE x",)),
    "statements of views": model(on_virtual_update=("GRANT ALL",)),
    "session": model(session=(("spark.sql.ansi.enabled", "false"),)),
    "audits": model(audits=(Audit("never", (), "SELECT 1 WHERE FALSE"),)),
    "text for people": model(source="SELECT 'harmless'"),
    "owner": model(owner="eve"),
    "physical version": model(physical_version="7"),
    "columns": lambda one: replace(one, columns=(OutputColumn("n", "STRING", "0" * 32),)),
    "types": lambda one: replace(
        one, columns=tuple(c._replace(type="STRING") for c in one.columns)
    ),
    "lineage": lambda one: replace(one, reads=(Read("raw.orders", "id", "n", "identity"),)),
    "fill version": lambda one: replace(one, fill_version="f" * 32),
    "parents": lambda one: replace(one, parents=()),
    "an earlier canonicaliser": lambda one: replace(one, canonicaliser="14/sqlglot 1"),
    "an earlier canonicaliser and query": lambda one: replace(
        one,
        canonicaliser="14/sqlglot 1",
        model=replace(one.model, query="SELECT 1001 AS n"),
    ),
}


def poison(workspace: Workspace, key: str, evil: Snapshot) -> None:
    """Write a definition under an id, as a program may that speaks SQL."""
    values = {
        "snapshot_id": key,
        "model_namespace": evil.name.namespace,
        "model_name": evil.name.name,
        "payload": dump_snapshot(evil),
        "created_at": workspace.store.database.clock.now(),
    }
    workspace.store.database.run_transaction(
        lambda conn: conn.execute(insert(schema.snapshots), [values]), name="test"
    )


def findings(workspace: Workspace) -> list[tuple[str, str]]:
    """Return what fsck finds, but for files."""
    return [(one.problem, one.subject) for one in workspace.maintenance.fsck()]


def test_a_definition_under_the_id_of_the_next_one_is_found_everywhere(
    folder: ProjectFolder,
) -> None:
    with open_fake(folder.root) as workspace:
        honest = workspace.plan("prod", save=False)
        before = workspace.store.environments.get("prod")
    snapshot = honest.target[TOP]
    for how, change in EVIL.items():
        evil = change(snapshot)
        assert evil != snapshot
        with open_fake(folder.root) as workspace:
            poison(workspace, snapshot.id, evil)
            for look in (
                lambda one: one.store.snapshots.load([snapshot.id]),
                lambda one: one.plan("prod"),
                lambda one: one.apply(honest),
            ):
                with pytest.raises(StoreError, match="its content does not match its id"):
                    look(workspace)
            assert workspace.store.environments.get("prod") == before, how
            (found,) = workspace.store.snapshots.foreign()
            assert found[:2] == (snapshot.id, TOP)
            gone = delete(schema.snapshots).where(schema.snapshots.c.snapshot_id == snapshot.id)
            workspace.store.database.run_transaction(
                lambda conn, one=gone: conn.execute(one), name="test"
            )
    with open_fake(folder.root) as workspace:
        poison(workspace, snapshot.id, evil)
        assert findings(workspace) == [("foreign_definition", f"marts.top ({snapshot.id})")]


def test_a_payload_with_something_behind_it_or_too_much_in_it_is_damaged(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec, "_MOST_BYTES", 100_000)
    with open_fake(folder.root) as workspace:
        current = workspace.store.environments.get("prod")
        assert current is not None
        key = current.entries[TOP].snapshot_id
        (shown,) = workspace.store.snapshots.load([key]).values()
        bomb = zlib.compress(b"\0" * 200_000)
        for payload in (dump_snapshot(shown) + b"more", dump_snapshot(shown)[:-9], bomb):
            changed = update(schema.snapshots).where(schema.snapshots.c.snapshot_id == key)
            workspace.store.database.run_transaction(
                lambda conn, one=changed, data=payload: conn.execute(one.values(payload=data)),
                name="test",
            )
            with pytest.raises(StoreError, match="a stored value is damaged"):
                workspace.store.snapshots.load([key])


def test_a_published_definition_that_was_exchanged_computes_nothing_and_is_mended(
    folder: ProjectFolder,
) -> None:
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        current = workspace.store.environments.get("prod")
        assert current is not None
        key = current.entries[TOP].snapshot_id
        (shown,) = workspace.store.snapshots.load([key]).values()
        evil = model(query="SELECT 1001 AS n")(shown)
        changed = update(schema.snapshots).where(schema.snapshots.c.snapshot_id == key)
        workspace.store.database.run_transaction(
            lambda conn: conn.execute(changed.values(payload=dump_snapshot(evil))), name="test"
        )
        with pytest.raises(StoreError, match=r"of marts\.top: its content does not match its id"):
            workspace.plans.due("prod", full=True)
        assert findings(workspace) == [("foreign_definition", f"marts.top ({key})")]
        plan = workspace.plan("prod")
        assert [one for one in plan.warnings if "stored definition of marts.top" in one]
        assert findings(workspace) == []
        assert workspace.store.snapshots.load([key]) == {key: shown}


def test_two_texts_of_one_meaning_have_two_ids_and_the_published_one_stays(
    folder: ProjectFolder,
) -> None:
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    text = (folder.root / "models/top.sql").read_text()
    folder.write("models/top.sql", text.replace("SELECT", "-- a comment\nselect"))
    folder.write("helpers.py", FILES["helpers.py"] + "\n\ndef unused():\n    return 2\n")
    with open_fake(folder.root) as workspace:
        current = workspace.store.environments.get("prod")
        assert current is not None
        snapshots = workspace.snapshots()
        for name in (TOP, ModelName("marts", "code")):
            key = current.entries[name].snapshot_id
            (shown,) = workspace.store.snapshots.load([key]).values()
            assert snapshots[name].meaning == shown.meaning
            assert snapshots[name].id != key
        plan = workspace.plan("prod")
        assert plan.is_empty
        assert {name: one.snapshot_id for name, one in plan.entries.items()} == {
            name: one.snapshot_id for name, one in current.entries.items()
        }


def test_ids_are_the_same_in_every_process_and_clone(folder: ProjectFolder, tmp_path: Path) -> None:
    import os
    import subprocess
    import sys

    files = {**FILES, "models/keyed.sql": _KEYED}
    other = ProjectFolder(tmp_path / "elsewhere" / "clone", files)
    code = (
        "import sys; from pathlib import Path; from vde_dagster.execution.workspace import "
        "Workspace; w = Workspace.open(Path(sys.argv[1])); "
        "print(sorted(one.id for one in w.snapshots().values()))"
    )
    found = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        ended = subprocess.run(
            [sys.executable, "-c", code, str(other.root)],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(ended.stdout)
        if seed == "1":  # From now on without what this clone remembers.
            other = ProjectFolder(tmp_path / "third", files)
    assert len(found) == 1, found


_KEYED = """
MODEL (name marts.keyed, kind FULL, audits (
  unique_combination_of_columns(columns := (alpha, beta, gamma)),
  unique_values(columns := (delta))));
SELECT id AS alpha, n AS beta, id + n AS gamma, id * n AS delta FROM raw.orders
"""


def stored(workspace: Workspace) -> Plan:
    """Store the honest plan, and return it."""
    plan = workspace.plan("prod")
    assert any(one.change is Change.MODIFIED for one in plan.models)
    return plan


@pytest.mark.parametrize(
    "columns",
    [{"environment": "dev"}, {"kind": "run"}, {"base_version": 7}],
    ids=["environment", "kind", "base"],
)
def test_a_plans_row_that_contradicts_its_content_is_refused(
    folder: ProjectFolder, columns: dict[str, Any]
) -> None:
    with open_fake(folder.root) as workspace:
        plan = stored(workspace)
        changed = update(schema.plans).where(schema.plans.c.plan_id == plan.id).values(**columns)
        workspace.store.database.run_transaction(lambda conn: conn.execute(changed), name="test")
        with pytest.raises(StoreError, match="a program other than vde wrote it"):
            workspace.store.plans.load(plan.id)
        with pytest.raises(VdeError):
            workspace.apply(plan)
        assert findings(workspace) == [("foreign_plan", plan.id)]


def test_a_plan_is_not_applied_under_the_id_of_another_one(folder: ProjectFolder) -> None:
    with open_fake(folder.root) as workspace:
        plan = stored(workspace)
        other = dump_plan(replace(plan, warnings=("harmless",)))
        changed = update(schema.plans).where(schema.plans.c.plan_id == plan.id)
        workspace.store.database.run_transaction(
            lambda conn: conn.execute(changed.values(payload=other)), name="test"
        )
        with pytest.raises(StoreError, match="the state has another plan with the id"):
            workspace.apply(plan)


def test_tables_that_are_found_as_others_and_types_of_other_columns_are_told(
    folder: ProjectFolder,
) -> None:
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        assert findings(workspace) == []
        current = workspace.store.environments.get("prod")
        assert current is not None
        entry = current.entries[TOP]
        view = current.entries[ModelName("marts", "shown")].snapshot_id
        assert workspace.store.snapshots.view_types([view])
        for statement in (
            update(schema.tables)
            .where(schema.tables.c.table_id == entry.table_id)
            .values(fill_version="f" * 32),
            update(schema.view_types).values(columns=json.dumps([["other", "STRING"]])),
        ):
            workspace.store.database.run_transaction(
                lambda conn, one=statement: conn.execute(one), name="test"
            )
        found = findings(workspace)
        assert {problem for problem, _ in found} == {"foreign_table", "foreign_view_types"}
        assert ("foreign_view_types", view) in found
        changed = update(schema.tables).where(schema.tables.c.table_id == entry.table_id)
        workspace.store.database.run_transaction(
            lambda conn: conn.execute(changed.values(columns_version="c" * 32)), name="test"
        )
        told = [one.detail for one in workspace.maintenance.fsck()]
        assert "its columns do not match their stored hash" in told


def test_view_types_of_other_columns_are_asked_for_again(folder: ProjectFolder) -> None:
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        wrong = update(schema.view_types).values(columns=json.dumps([["other", "STRING"]]))
        workspace.store.database.run_transaction(lambda conn: conn.execute(wrong), name="test")
        view = workspace.apply(workspace.plan("dev")).environment
        assert view is not None
        key = view.entries[ModelName("marts", "shown")].snapshot_id
        assert ("foreign_view_types", key) not in findings(workspace)
        assert [name for name, _ in workspace.store.snapshots.view_types([key])[key]] == ["n"]
