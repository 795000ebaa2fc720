"""What Dagster shows of a dimension that keeps every version of a row."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from vde_dagster_tests.orchestration.conftest import apply_all, version_of
from vde_dagster_tests.orchestration.test_preview import previews
from vde_dagster_tests.projects import ProjectFolder

FILES = {
    "models/dishes.sql": """
        MODEL (name kitchen.dishes, kind SEED (path '../seeds/dishes.csv'),
          columns (id INT, dish STRING, price INT));
    """,
    "models/menu.sql": """
        MODEL (name marts.menu, start '2024-01-01', end '2024-01-03', cron '@daily',
          kind SCD_TYPE_2_BY_COLUMN (unique_key id, columns *));
        SELECT id, dish, price FROM kitchen.dishes
    """,
    "models/steps.py": """
        from vde_dagster import model


        @model(
            "marts.steps",
            kind={
                "name": "SCD_TYPE_2_BY_COLUMN",
                "unique_key": "id",
                "columns": ["step"],
                "batch_size": 1,
                "time_data_type": "DATE",
            },
            columns={"id": "INT", "step": "INT"},
            start="2024-01-01",
            end="2024-01-03",
        )
        def execute(context, start, end, execution_time):
            return context.spark.sql(f"SELECT 1 AS id, {start.day} div 2 AS step")
    """,
    "seeds/dishes.csv": """
        id,dish,price
        1,soup,4
        2,pie,9
    """,
}


@pytest.mark.spark
@pytest.mark.usefixtures("spark_engine")
def test_its_intervals_are_partitions_and_its_newest_rows_a_preview(
    tmp_path: Path,
) -> None:
    folder = ProjectFolder(tmp_path / "project", FILES)
    with dg.DagsterInstance.ephemeral() as instance:
        assert apply_all(folder, instance).success
        for name in ("menu", "steps"):
            version = version_of(folder, f"marts.{name}")
            filled = instance.get_materialized_partitions(dg.AssetKey(["marts", name]))
            assert filled == {f"{version}|2024-01-0{day}" for day in (1, 2, 3)}
        (_, shown) = previews(instance, "marts/menu")[-1]
        assert "| id | dish | price | valid_from | valid_to |" in shown
        assert "1970-01-01" in shown
        # Each of the batches was filled by itself, in order.
        (_, steps) = previews(instance, "marts/steps")[-1]
        assert "| 1 | 0 | 1970-01-01 | 2024-01-02 |" in steps
        assert "| 1 | 1 | 2024-01-02 |" in steps
