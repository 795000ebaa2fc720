"""Histories with rows of dbt-duckdb and dbt-spark, recorded by `benchmarks.dbt_histories`."""

from __future__ import annotations

import json
import shutil
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from vde_dagster_tests.dbt.conftest import PROJECTS, SETTINGS
from vde_dagster_tests.dbt.histories import KINDS, History, Row, run_here

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_engine")]

RECORDED = {
    "duckdb": PROJECTS.with_name("dbt_histories"),
    "spark": PROJECTS.with_name("dbt_histories_spark"),
}


def _row(values: list[Any]) -> Row:
    id_, key, day, at, value = values
    ts = None if at is None else datetime.fromisoformat(at)
    return id_, key, date.fromisoformat(day), ts, value


@pytest.mark.parametrize("adapter", ["duckdb", "spark"])
def test_every_round_of_recorded_histories_has_the_rows_of_dbt(
    tmp_path: Path, adapter: str
) -> None:
    root = tmp_path / "histories"
    shutil.copytree(RECORDED[adapter], root)
    (root / "pyproject.toml").write_text(SETTINGS.format(name="histories"))
    recorded = json.loads((root / "histories.json").read_text())
    begun = [datetime.fromisoformat(at) for at in recorded["begun"]]
    histories = [
        History(one["name"], {}, tuple(tuple(map(_row, r)) for r in one["rounds"]), one["shown"])
        for one in recorded["histories"]
    ]

    ours = run_here(root, histories, begun)

    for one in recorded["histories"]:
        found = [rows[one["name"]] for rows in ours]
        assert found == one["dbt"], one["files"]
    kinds = {one.name.partition("_")[2] for one in histories}
    assert kinds == KINDS[adapter].keys()
