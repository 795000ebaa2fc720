"""Histories of sources as dbt-duckdb saw them, recorded by `benchmarks.dbt_histories --record`."""

from __future__ import annotations

import json
import shutil
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from vde_dagster_tests.dbt.conftest import PROJECTS, SETTINGS
from vde_dagster_tests.dbt.histories import History, Row, run_here

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_engine")]

RECORDED = PROJECTS.with_name("dbt_histories")


def _row(values: list[Any]) -> Row:
    id_, key, day, at, value = values
    ts = None if at is None else datetime.fromisoformat(at)
    return id_, key, date.fromisoformat(day), ts, value


def test_every_round_of_recorded_histories_has_the_rows_of_dbt(tmp_path: Path) -> None:
    root = tmp_path / "histories"
    shutil.copytree(RECORDED, root)
    (root / "pyproject.toml").write_text(SETTINGS.format(name="histories"))
    recorded = json.loads((RECORDED / "histories.json").read_text())
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
    assert kinds == {"append", "delete_insert", "merge", "microbatch", "snapshot"}
