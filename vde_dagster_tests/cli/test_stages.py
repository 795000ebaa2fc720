"""The stages of an apply: what a plan announces is what runs, in that order."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.planning.plan.stages import FillTables, apply_stages, stage_json
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.faults import FaultInjector
from vde_dagster_tests.projects import ProjectFolder

FILES = {
    "config.yaml": "model_defaults: {dialect: spark, start: 2024-01-01}\n"
    "before_all: [SET a.b = 1]\nafter_all: [SET a.c = 2]\n",
    "models/raw.sql": "MODEL (name db.raw, kind FULL);\nSELECT 1 AS id",
    "models/view.sql": "MODEL (name db.view, kind VIEW);\nSELECT id FROM db.raw",
    "models/last.sql": "MODEL (name db.last, kind FULL, audits (covers));\nSELECT id FROM db.view",
    "models/more.sql": "MODEL (name db.more, kind FULL);\nSELECT id + 1 AS id FROM db.last",
    "audits/covers.sql": "AUDIT (name covers);\n"
    "SELECT id FROM @this_model WHERE id NOT IN (SELECT id - 1 FROM db.more)",
    "tests/test_view.yaml": "t:\n  model: db.view\n  inputs: {db.raw: [{id: 3}]}\n"
    "  outputs: {query: [{id: 3}]}\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "shop", FILES)


def stages(folder: ProjectFolder) -> list[str]:
    with open_fake(folder.root) as workspace:
        return [stage.name for stage in apply_stages(workspace.plan("prod", save=False))]


def test_a_first_plan_has_every_stage_with_work(folder: ProjectFolder) -> None:
    assert stages(folder) == [
        "test",
        "statements",
        "lock",
        "fill",
        "audit",
        "publish",
        "statements",
    ]


def test_a_layout_alone_fills_nothing(folder: ProjectFolder) -> None:
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    folder.edit("models/raw.sql", "kind FULL", "kind FULL, partitioned_by (id)")

    assert [one for one in stages(folder) if one != "statements"] == [
        "test",
        "lock",
        "layout",
        "publish",
    ]


def test_models_wait_for_those_they_read_through_views(folder: ProjectFolder) -> None:
    with open_fake(folder.root) as workspace:
        plan = workspace.plan("prod", save=False)
    (fill,) = (stage for stage in apply_stages(plan) if isinstance(stage, FillTables))

    assert stage_json(fill) == {
        "stage": "fill",
        "after": {"db.raw": [], "db.last": ["db.raw"], "db.more": ["db.last"]},
    }
    assert list(map(str, fill.models)) == ["db.raw", "db.last", "db.more"]


def test_an_apply_runs_the_stages_in_their_order(folder: ProjectFolder) -> None:
    effects, events = FaultInjector(), list[str]()
    with open_fake(folder.root, FakeSpark(), effects=effects) as workspace:
        plan = workspace.plan("prod")
        workspace.apply(plan, on_event=lambda event: events.append(type(event).__name__))

    marks = ["before_all.run", "publish.commit", "virtual_update.run"]
    assert [name for name in effects.passed if name in marks] == marks
    order = ["ApplyStarted", "UnitTestFinished", "IntervalFilled", "Published", "VirtualUpdateRan"]
    assert sorted(order, key=events.index) == order


def test_explain_lists_the_stages_and_their_models(folder: ProjectFolder, vde: Vde) -> None:
    plan = ("plan", "prod", "--project", folder.root)
    text = vde(*plan, "--explain").out
    assert "1. run the unit tests of db.raw, db.view" in text
    assert "db.last: whole table, after db.raw" in text
    assert "publish version 1 of prod in one commit" in text
    assert "SET a.c = 2" in text
    assert "1. run the unit tests" not in vde(*plan).out

    shown = vde(*plan, "--explain", "--json").json["stages"]
    assert [one["stage"] for one in shown] == stages(folder)
    assert shown[-1] == {"stage": "statements", "when": "after", "statements": ["SET a.c = 2"]}
