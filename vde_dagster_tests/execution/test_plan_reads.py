"""A plan reads from the state store only the definitions of what changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vde_dagster.state.db import codec
from vde_dagster.state.db.codec import load_snapshot
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import Prepared, ProjectFolder

CHAINS = 8


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models whose stored definitions are decoded, from now on."""
    names: list[str] = []

    def load(data: bytes, key: str) -> Any:
        snapshot = load_snapshot(data, key)
        names.append(str(snapshot.name))
        return snapshot

    monkeypatch.setattr(codec, "load_snapshot", load)
    return names


@pytest.fixture
def folder(prepared: Prepared) -> ProjectFolder:
    return prepared(publish)


def publish(root: Path) -> None:
    """Publish a project of chains of a table and a view."""
    folder = ProjectFolder(root)
    for number in range(CHAINS):
        _write(folder, number, value=number + 2)
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))


def _write(folder: ProjectFolder, number: int, value: int) -> None:
    folder.write(
        f"models/chain_{number}.sql",
        f"""
        MODEL (name db.base_{number}, kind FULL);
        SELECT 1 AS id, {value} AS value;
        MODEL (name db.view_{number}, kind VIEW);
        SELECT id, value + 1 AS value FROM db.base_{number};
        """,
    )


def test_a_plan_without_a_change_decodes_nothing(folder: ProjectFolder, decoded: list[str]) -> None:
    with open_fake(folder.root) as workspace:
        assert workspace.plan("prod").is_empty
    assert decoded == []


def test_a_plan_with_an_edit_decodes_what_was_edited_and_its_readers(
    folder: ProjectFolder, decoded: list[str]
) -> None:
    _write(folder, 3, value=100)
    with open_fake(folder.root) as workspace:
        plan = workspace.plan("prod")
    assert len(plan.models) == 2 * CHAINS
    assert sorted(decoded) == ["db.base_3", "db.view_3"]


def test_a_plan_of_a_second_environment_decodes_nothing(
    folder: ProjectFolder, decoded: list[str]
) -> None:
    with open_fake(folder.root) as workspace:
        plan = workspace.plan("dev")
    assert len(plan.views.created) == 2 * CHAINS
    assert not plan.builds
    assert decoded == []


def test_a_stored_plan_is_the_one_that_was_made(folder: ProjectFolder) -> None:
    _write(folder, 3, value=100)
    with open_fake(folder.root) as workspace:
        for environment in ("prod", "dev"):
            plan = workspace.plan(environment)
            assert workspace.store.plans.load(plan.id) == plan
