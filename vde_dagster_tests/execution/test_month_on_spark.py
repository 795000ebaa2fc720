"""Some days of random projects on Spark and Iceberg end in equal tables, with and without skipping.

`python -m benchmarks.skipped_runs_on_spark` is the long version.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vde_dagster_tests.execution.month_on_spark import Month, Tally

pytestmark = pytest.mark.spark

SEED = int(os.environ.get("VDE_MONTH_SEED", "2"))
DAYS = int(os.environ.get("VDE_MONTH_DAYS", "3"))


@pytest.mark.turns(8, "histories on Spark")
@pytest.mark.usefixtures("spark_engine")
def test_production_shows_the_same_every_day_whether_or_not_runs_skip(tmp_path: Path) -> None:
    tally = Tally()
    print(f"VDE_MONTH_SEED={SEED}")
    Month(SEED, tmp_path, tally, size=6).run(DAYS)
    assert tally.compared == 6 * DAYS
    assert 0 < tally.computed < tally.due
