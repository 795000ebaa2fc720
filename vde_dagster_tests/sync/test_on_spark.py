"""Nested values of Spark's tables outside: NULL, empty and numbers that JSON lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from vde_dagster.execution.workspace import Workspace
from vde_dagster.plugins.sync.definitions import read_syncs
from vde_dagster.plugins.sync.syncs import Syncs
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.sync.receiver import receiving

pytestmark = pytest.mark.spark

NESTED = """
    MODEL (name m.t, kind FULL);
    SELECT * FROM VALUES
      (1, ARRAY(NAMED_STRUCT('InnerCase', 1)), MAP(1, NAMED_STRUCT('a', DOUBLE('NaN')))),
      (2, NULL, NULL),
      (3, ARRAY(), MAP())
    AS v(Customer, Items, ByNumber)
"""


def test_a_list_that_was_null_and_is_empty_is_sent(
    tmp_path: Path, spark_engine: SparkEngine
) -> None:
    with receiving() as receiver:
        sync = {"name": "t", "source": "m.t", "key": ["customer"], "mode": "mirror"}
        to = {"sink": "http", "to": {"prod": {"url": receiver.url}}}
        folder = ProjectFolder(
            tmp_path / "nested",
            {"models/t.sql": NESTED, "syncs.yaml": yaml.safe_dump([{**sync, **to}])},
        )

        def publish() -> int:
            with Workspace.open(folder.root) as workspace:
                assert workspace.apply(workspace.plan("prod")).published
                return Syncs(workspace).run(read_syncs(workspace)["t"], "prod").sent

        assert publish() == 3
        expected: dict[str, dict[str, Any]] = {
            "1": {"Customer": 1, "Items": [{"InnerCase": 1}], "ByNumber": {"1": {"a": "NaN"}}},
            "2": {"Customer": 2, "Items": None, "ByNumber": None},
            "3": {"Customer": 3, "Items": [], "ByNumber": {}},
        }
        assert receiver.rows == expected
        folder.edit("models/t.sql", "(2, NULL, NULL)", "(2, ARRAY(), NULL)")
        assert publish() == 1
        assert receiver.rows == {**expected, "2": {"Customer": 2, "Items": [], "ByNumber": None}}
