"""State and warehouse of earlier commits open, need nothing, and roll back."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.plan.plan import Category
from vde_dagster_tests.execution.earlier_warehouse import padded_folder, unpack

pytestmark = pytest.mark.long

KEPT = Path(__file__).parents[1] / "fixtures" / "earlier_warehouse.zip"
"""Made at bf6742c, the last commit with schema 0015."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = padded_folder(tmp_path)
    unpack(KEPT, found)
    return found


def test_nothing_is_computed_in_what_an_earlier_commit_left(folder: Path) -> None:
    with Workspace.open(folder) as workspace:
        for environment in ("prod", "dev"):
            plan = workspace.plan(environment)
            # FULL models were stored before they refreshed from changes by default.
            changed = {str(m.name): m.category for m in plan.models if m.category is not None}
            assert changed == {"marts.customers": Category.METADATA}
            assert not plan.builds
            workspace.apply(plan)
            assert workspace.plan(environment).is_empty
        assert workspace.maintenance.fsck() == ()


@pytest.mark.spark
@pytest.mark.usefixtures("spark_engine")
def test_it_is_read_and_rolled_back(folder: Path) -> None:
    query = "SELECT customer, revenue FROM marts.customers ORDER BY customer"
    with Workspace.open(folder) as workspace:
        assert workspace.query("prod", query).rows == ((10, 7.0), (11, 8.5), (12, 21.0))
        workspace.environments.rollback("prod")
        assert workspace.query("prod", query).rows == ((10, 6.0), (11, 7.5), (12, 20.0))
        assert workspace.query("dev", query).rows == ((10, 7.0), (11, 8.5), (12, 21.0))
        twice = "SELECT twice FROM marts.code ORDER BY 1"
        assert workspace.query("prod", twice).rows == ((12.0,), (15.0,), (40.0,))
        workspace.apply(workspace.plan("prod"))
        assert workspace.query("prod", twice).rows == ((14.0,), (17.0,), (42.0,))
