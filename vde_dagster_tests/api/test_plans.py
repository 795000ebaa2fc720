"""Examples of plans and environments, read from a project of one model."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from vde_dagster.api.errors import UsageError
from vde_dagster.api.plans import (
    PRODUCTION,
    Change,
    Environment,
    Interval,
    Level,
    Objection,
    Plan,
    PlanKind,
    Snapshot,
    environment_name,
)
from vde_dagster.api.values import ModelName
from vde_dagster.api.workspace import Workspace


def test_PRODUCTION() -> None:
    assert PRODUCTION == "prod"


def test_Change(workspace: Workspace) -> None:
    plan = workspace.plan("prod", save=False)
    assert [model.change for model in plan.models] == [Change.ADDED]


def test_Environment(workspace: Workspace) -> None:
    workspace.apply(workspace.plan("prod"))
    published: Environment | None = workspace.store.environments.get("prod")
    assert published is not None
    assert (published.version, list(map(str, published.entries))) == (1, ["marts.daily"])


def test_Interval() -> None:
    day = Interval.parse("2024-01-01/2024-01-02")
    assert day.end == datetime(2024, 1, 2, tzinfo=timezone.utc)  # The end is excluded.


def test_Level() -> None:
    strictest: Level = "refuse"  # Or "ask", or "warn".
    assert Objection("freeze", "it is Friday", strictest).level == "refuse"


def test_Objection() -> None:
    objection = Objection("freeze", "no plan of prod on a Friday", "ask", approvers=("ann",))
    assert objection.sentence.startswith("freeze: no plan of prod on a Friday; the plan waits")


def test_Plan(workspace: Workspace) -> None:
    plan: Plan = workspace.plan("prod", save=False)
    assert (plan.environment, plan.is_empty) == ("prod", False)
    assert [str(model.name) for model in plan.builds] == ["marts.daily"]


def test_PlanKind(workspace: Workspace) -> None:
    assert workspace.plan("prod", save=False).kind is PlanKind.PLAN


def test_Snapshot(workspace: Workspace) -> None:
    plan = workspace.plan("prod", save=False)
    snapshot: Snapshot = plan.target[ModelName("marts", "daily")]
    assert [column.name for column in snapshot.columns] == ["day", "orders"]


def test_environment_name() -> None:
    assert environment_name("Dev") == "dev"
    with pytest.raises(UsageError):
        environment_name("dev 1")
