"""Audits that read other models: no edges of the graph, run when all is filled that they read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import AuditFailedError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.plan.plan import Plan
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.execution.recorder import Recorder
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.long

KNOWN = """
    AUDIT (name known_in);
    SELECT t.id FROM @this_model AS t LEFT ANTI JOIN @other AS o ON t.id = o.id
"""
# They audit each other's keys; neither reads the other.
CIRCLE = {
    "audits/known_in.sql": KNOWN,
    "models/orders.sql": """
        MODEL (name db.orders, kind FULL, audits (known_in(other := db.payments)));
        SELECT 2 AS id
    """,
    "models/payments.sql": """
        MODEL (name db.payments, kind FULL, audits (known_in(other := db.orders),
          not_null(columns := (id))));
        SELECT 1 AS id
    """,
}
# The first in every order by name is audited against the last.
ONE_WAY = {
    "audits/known_in.sql": KNOWN,
    "models/a.sql": """
        MODEL (name db.a, kind FULL, audits (known_in(other := db.z))); SELECT 3 AS id
    """,
    "models/m.sql": "MODEL (name db.m, kind FULL); SELECT id + 1 AS id FROM db.a",
    "models/z.sql": "MODEL (name db.z, kind FULL); SELECT 1 AS id",
}
AUDITED_BY_ITS_CHILD = {
    "audits/known_in.sql": KNOWN,
    "models/base.sql": """
        MODEL (name db.base, kind FULL, audits (known_in(other := db.child))); SELECT 1 AS id
    """,
    "models/child.sql": "MODEL (name db.child, kind FULL); SELECT id + 1 AS id FROM db.base",
}


@pytest.fixture
def engine() -> Recorder:
    return Recorder()


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    """Return a folder that tests write models to; one without any cannot be opened."""
    files = {"models/first.sql": "MODEL (name db.first, kind VIEW); SELECT 1 AS n"}
    return ProjectFolder(tmp_path / "project", files)


@pytest.fixture
def workspace(folder: ProjectFolder, engine: Recorder) -> Iterator[Workspace]:
    opened = open_fake(folder.root, engine)
    yield opened
    opened.close()


def write(folder: ProjectFolder, files: dict[str, str]) -> None:
    for path, text in files.items():
        folder.write(path, text)


def day(number: int) -> datetime:
    return datetime(2024, 1, number, tzinfo=timezone.utc)


def planned_audits(plan: Plan) -> list[str]:
    return sorted(model.name.name for model in plan.models if model.audits)


@pytest.mark.parametrize("files", [CIRCLE, AUDITED_BY_ITS_CHILD])
def test_audits_in_a_circle_run_when_both_are_filled(
    workspace: Workspace, folder: ProjectFolder, engine: Recorder, files: dict[str, str]
) -> None:
    write(folder, files)

    workspace.apply(workspace.plan("prod"))

    late = [what for what in engine.did if what.startswith("known_in")]
    assert late
    assert engine.did[-len(late) :] == late
    # Both sides are the tables of this plan.
    plan = workspace.plans.due("prod", save=False)
    tables = {model.name.name: model.table for model in plan.models}
    for sql in (engine.audited[what] for what in late):
        assert all(str(table.ref.name) in sql for table in tables.values() if table)


def test_what_an_audit_reads_is_filled_before_it_runs(
    workspace: Workspace, folder: ProjectFolder, engine: Recorder
) -> None:
    write(folder, ONE_WAY)

    workspace.apply(workspace.plan("prod"))

    assert engine.did.index("fill z") < engine.did.index("known_in a")
    assert engine.did.index("known_in a") < engine.did.index("fill m")


def test_what_an_audit_reads_is_no_parent(workspace: Workspace, folder: ProjectFolder) -> None:
    write(folder, ONE_WAY)
    workspace.apply(workspace.plan("prod"))
    before = workspace.snapshots()
    folder.edit("models/z.sql", "SELECT 1 AS id", "SELECT 2 AS id")
    workspace.reload()

    plan = workspace.plan("prod")

    after = workspace.snapshots()
    assert before[ModelName("db", "a")].id == after[ModelName("db", "a")].id
    assert after[ModelName("db", "a")].parents == ()
    assert [model.name.name for model in plan.builds] == ["z"]
    # Its rows stay, and are held against the new ones of what the audit reads.
    assert planned_audits(plan) == ["a"]


def test_a_late_audit_that_fails_publishes_nothing_and_is_not_forgotten(
    workspace: Workspace, folder: ProjectFolder, engine: Recorder
) -> None:
    write(folder, CIRCLE)
    engine.failing_audits.add("db.orders")
    with pytest.raises(AuditFailedError, match=r"db\.orders.*known_in"):
        workspace.apply(workspace.plan("prod"))
    assert workspace.store.environments.get("prod") is None
    # The rows are there by now, and no plan takes them for audited.
    again = workspace.plan("prod")
    assert [model.name.name for model in again.builds] == []
    assert planned_audits(again) == ["orders", "payments"]
    with pytest.raises(AuditFailedError, match="known_in"):
        workspace.apply(again)

    engine.failing_audits.clear()
    workspace.apply(workspace.plan("prod"))

    assert planned_audits(workspace.plan("prod")) == []


def test_runs_audit_what_they_fill_and_late_audits_see_all_of_it(
    workspace: Workspace, folder: ProjectFolder, engine: Recorder
) -> None:
    write(folder, CIRCLE)
    workspace.apply(workspace.plan("prod"))
    engine.did.clear()

    workspace.apply(workspace.plan("prod", restate=("db.orders",)))

    assert engine.did == ["fill orders", "known_in orders"]
    assert "VERSION AS OF" in engine.audited["known_in orders"]


def test_rows_of_other_intervals_are_audited_beside_those_that_are_filled(
    workspace: Workspace, folder: ProjectFolder, engine: Recorder
) -> None:
    write(folder, {"models/days.sql": DAYS})
    workspace.apply(workspace.plan("prod", end=day(4)))
    folder.edit("models/days.sql", "column day)", "column day), audits (not_null(columns := (n)))")
    workspace.reload()
    engine.did.clear()

    plan = workspace.plan("prod", end=day(5))
    workspace.apply(plan)

    assert len(plan.builds) == 1
    assert planned_audits(plan) == ["days"]
    results = workspace.store.audits.results(plan_id=plan.id)
    assert sorted(str(one.interval.start.date()) for one in results) == ["2024-01-01", "2024-01-04"]


DAYS = """
    MODEL (name db.days, start '2024-01-01', kind INCREMENTAL_BY_TIME_RANGE (time_column day));
    SELECT 1 AS n, CAST('2024-01-01' AS DATE) AS day
"""


def test_rows_that_another_definition_made_are_audited_before_they_are_taken_over(
    workspace: Workspace, folder: ProjectFolder
) -> None:
    audited = "MODEL (name db.a, kind FULL, audits (not_null(columns := (id)))); SELECT 1 AS id"
    write(folder, {"models/a.sql": audited})
    workspace.apply(workspace.plan("prod"))
    folder.write("models/a.sql", "MODEL (name db.a, kind FULL); SELECT 2 AS id")
    workspace.reload()
    workspace.apply(workspace.plan("dev"))
    folder.write("models/a.sql", audited.replace("SELECT 1", "SELECT 2"))
    workspace.reload()

    plan = workspace.plan("prod")

    assert not plan.builds
    assert planned_audits(plan) == ["a"]
