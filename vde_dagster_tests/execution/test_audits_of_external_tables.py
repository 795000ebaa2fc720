"""Audits of tables that others write: before what reads them is computed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import AuditFailedError, ProjectError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.publishing.new_table import NewTable
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.tables.table import TableRef
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.execution.recorder import Recorder
from vde_dagster_tests.projects import ProjectFolder

EXTERNALS = """
    - name: lake.orders
      columns: {id: INT, zip: STRING}
      audits:
        - name: not_null
          columns: "[id]"
        - {name: accepted_range, column: zip, min_v: "'00000'", max_v: "'99999'", blocking: false}
    - name: lake.other
      columns: {id: INT}
"""
FILES = {
    "external_models.yaml": EXTERNALS,
    "models/shown.sql": "MODEL (name db.shown, kind VIEW); SELECT id, zip FROM lake.orders",
    "models/far.sql": "MODEL (name db.far, kind FULL); SELECT id FROM db.shown",
    "models/apart.sql": "MODEL (name db.apart, kind FULL); SELECT id FROM lake.other",
}
OUTSIDE = ModelName("lake", "orders")


@pytest.fixture
def engine() -> Recorder:
    return Recorder()


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "project", FILES)


@pytest.fixture
def workspace(folder: ProjectFolder, engine: Recorder) -> Iterator[Workspace]:
    with open_fake(folder.root, engine) as opened:
        for name in ("orders", "other"):
            ref = TableRef("lake", name)
            location = opened.lakehouse.table_location(ref, name)
            opened.lakehouse.create_table(NewTable(ref, (("id", "INT", None),), location, {}))
        yield opened


def audited(plan: Plan) -> list[str]:
    return [str(model.name) for model in plan.models if model.audits]


def test_they_run_before_what_reads_the_table_is_computed(
    workspace: Workspace, engine: Recorder
) -> None:
    workspace.apply(workspace.plan("prod"))

    did = [what for what in engine.did if not what.endswith("apart")]
    assert did == ["not_null orders", "accepted_range orders", "fill far"]
    assert "FROM `lakehouse`.`lake`.`orders`" in engine.audited["not_null orders"]
    assert "'00000'" in engine.audited["accepted_range orders"]


def test_a_blocking_one_stops_what_reads_the_table_and_nothing_is_published(
    workspace: Workspace, engine: Recorder
) -> None:
    engine.failing_audits.add("lake.orders")

    with pytest.raises(AuditFailedError, match=r"lake\.orders.*not_null") as raised:
        workspace.apply(workspace.plan("prod"))

    (failure,) = raised.value.failures
    assert str(failure.location) == "external_models.yaml:4"
    assert ModelName("db", "far") in failure.skipped
    assert "fill far" not in engine.did
    assert workspace.store.environments.get("prod") is None


@pytest.mark.parametrize(("restated", "expected"), [("db.far", ["lake.orders"]), ("db.apart", [])])
def test_they_run_again_when_something_is_computed_of_the_table(
    workspace: Workspace, restated: str, expected: list[str]
) -> None:
    workspace.apply(workspace.plan("prod"))

    assert audited(workspace.plan("prod")) == []
    assert audited(workspace.plans.due("prod")) == []
    assert audited(workspace.plan("prod", restate=[restated])) == expected


def test_a_new_one_looks_at_the_rows_that_are_there_and_nothing_is_computed(
    workspace: Workspace, folder: ProjectFolder, engine: Recorder
) -> None:
    workspace.apply(workspace.plan("prod"))
    engine.did.clear()
    old = "- name: lake.other\n"
    folder.edit("external_models.yaml", old, old + "  audits: [at_least_one_id]\n")
    folder.write(
        "audits/own.sql", "AUDIT (name at_least_one_id); SELECT 1 FROM @this_model LIMIT 0"
    )
    workspace.reload()

    plan = workspace.plan("prod")
    workspace.apply(plan)

    assert not plan.builds
    assert audited(plan) == ["lake.other"]
    assert engine.did == ["at_least_one_id other"]


def test_vde_audit_runs_them_too(workspace: Workspace, engine: Recorder) -> None:
    workspace.apply(workspace.plan("prod"))

    report = workspace.environments.audit("prod")

    assert {str(one.model) for one in report.results} == {"lake.orders"}
    assert len(report.results) == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("audits: not_null", "'audits' must be a list of audits with their arguments"),
        ("audits: [{not_null: {columns: [id]}}]", "'audits' must be a list"),
        ("audits: [not_nul]", "unknown audit 'not_nul'"),
        ("audits: [{name: not_null, colums: '[id]'}]", "not_null has no argument 'colums'"),
        ("audits: [{name: not_null, columns: '[ix]'}]", "Column 'ix' does not exist"),
    ],
)
def test_mistakes_in_them_are_told_with_their_place(
    workspace: Workspace, folder: ProjectFolder, given: str, message: str
) -> None:
    folder.write(
        "external_models.yaml",
        f"- name: lake.orders\n  columns: {{id: INT, zip: STRING}}\n  {given}",
    )

    with pytest.raises(ProjectError) as raised:
        workspace.plan("prod")

    assert message in str(raised.value)
    assert "external_models.yaml:" in str(raised.value)
