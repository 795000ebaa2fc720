"""A plan costs the same per model in a large project as in a small one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import vde_dagster.planning
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.loading.loader import load_project
from vde_dagster_tests.counted_lines import counted_lines
from vde_dagster_tests.planning.simulate import Warehouse
from vde_dagster_tests.projects import ProjectFolder

FOLDER = str(Path(vde_dagster.planning.__file__).parent)


def snapshots_of(folder: ProjectFolder, chains: int, edited: int) -> dict[Any, Snapshot]:
    """Build the snapshots of a project of chains: a table, a table by days, a view.

    The first tables all have the same rows and differ in a column, so they share a fill version.

    Args:
        folder: Where to write it.
        chains: How many chains of three models.
        edited: In how many of them the first model is another one.
    """
    for number in range(chains):
        value = number + (chains if number < edited else 0) + 2  # Another value than the id has.
        folder.write(
            f"models/chain_{number}.sql",
            f"""
            MODEL (name db.base_{number}, kind FULL);
            SELECT 1 AS id, {value} AS value, DATE '2024-01-01' AS day;
            MODEL (name db.daily_{number}, start '2024-01-01',
              kind INCREMENTAL_BY_TIME_RANGE (time_column day), audits (not_null(columns := (id))));
            SELECT id, value + 1 AS value, day FROM db.base_{number}
            WHERE day BETWEEN @start_date AND @end_date;
            MODEL (name db.view_{number}, kind VIEW, audits (not_null(columns := (id))));
            SELECT id, value + 2 AS value FROM db.daily_{number};
            """,
        )
    return build_snapshots(load_project(folder.root).models, lambda name: None)


@pytest.mark.parametrize(
    ("environment", "share_edited"), [("prod", 0.0), ("prod", 0.1), ("prod", 1.0), ("dev", 0.0)]
)
def test_lines_per_model_do_not_grow_with_the_project(
    environment: str, share_edited: float, tmp_path: Path
) -> None:
    lines = []
    for chains in (20, 40, 80):
        folder = ProjectFolder(tmp_path / str(chains))
        warehouse = Warehouse()
        warehouse.apply(warehouse.plan_snapshots(snapshots_of(folder, chains, 0)))
        target = snapshots_of(folder, chains, round(chains * share_edited))
        plan, count = counted_lines(
            lambda w=warehouse, t=target: w.plan_snapshots(t, environment), FOLDER
        )
        assert len(plan.models) == 3 * chains
        assert plan.is_empty == (environment == "prod" and not share_edited)
        lines.append(count)
    first, second = (lines[1] - lines[0]) / 60, (lines[2] - lines[1]) / 120
    assert second == pytest.approx(first, rel=0.03), f"{first:.0f}, then {second:.0f} lines a model"
