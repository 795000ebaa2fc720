"""Ids of plans: short enough for Dagster's lists, and different for each plan."""

from __future__ import annotations

import re

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.execution.plans.finish_plan import readable_id
from vde_dagster.planning.intervals.cadence import ALWAYS
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.long


@pytest.mark.parametrize("environment", ["d", "prod", "pr-1234_with_a_long-name-of-a-branch"])
def test_every_kind_of_plan_has_an_id_of_at_most_24_characters(
    shop: ProjectFolder, environment: str
) -> None:
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan(environment))
        workspace.apply(workspace.plans.due(environment, full=True))
        name = ModelName.parse("marts.daily")
        entry = workspace.store.environments.all()[0].entries[name]
        again = workspace.plan(environment, restate=("marts.daily",))
        filled = workspace.plans.backfill(entry.snapshot_id, ALWAYS, restate=True)
        ids = [again.id, filled.id, *(one.id for one in workspace.store.plans.recent())]
    assert len(ids) >= 4
    for plan_id in ids:
        assert len(plan_id) <= 24
        assert re.fullmatch(r"[a-z0-9_-]+-[0-3][0-9][A-Z][a-z]{2}-([\w]+-)?[0-9a-z]{6}", plan_id)
        assert plan_id[:2] == f"{environment}-"[:2]


def test_ids_of_equal_plans_differ(shop: ProjectFolder) -> None:
    with open_fake(shop.root) as workspace:
        plan = workspace.plan("prod")
    ids = {readable_id(plan, "orders_with_total") for _ in range(2000)}
    assert len(ids) == 2000
    assert all(re.fullmatch(r"prod-\d\d[A-Z][a-z]{2}-orders-[0-9a-z]{6}", one) for one in ids)
