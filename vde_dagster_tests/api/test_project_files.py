"""Examples of the names of `vde_dagster` itself, for project files and code locations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg

from vde_dagster import (
    Rule,
    RuleViolation,
    Workspace,
    macro,
    materialization,
    model,
    signal,
    vde_definitions,
)
from vde_dagster_tests.projects import ProjectFolder


def test_Rule() -> None:
    class NoTabs(Rule):
        """Queries have no tabs."""

        def check_model(self, model: Any) -> RuleViolation | None:
            return self.violation("a tab in the query") if "\t" in (model.source or "") else None

    assert NoTabs.__name__ == "NoTabs"


def test_RuleViolation() -> None:
    assert issubclass(RuleViolation, object)


def test_Workspace(tmp_path: Path) -> None:
    ProjectFolder(tmp_path, {"models/a.sql": "MODEL (name a.b, kind VIEW);\nSELECT 1 AS n"})
    with Workspace.open(tmp_path) as workspace:
        assert not workspace.plan("dev", save=False).is_empty


def test_macro() -> None:
    @macro()
    def cents(evaluator: Any, amount: Any) -> str:
        return f"CAST({amount} * 100 AS BIGINT)"

    assert cents.__name__ == "cents"


def test_materialization() -> None:
    @materialization("keep_newest")
    def write(context: Any) -> None:
        """Writes the tables of models of the kind CUSTOM (materialization 'keep_newest')."""

    assert callable(write)


def test_model() -> None:
    @model("marts.numbers", columns={"n": "BIGINT"})
    def numbers(context: Any) -> Any:
        return context.spark.range(3).toDF("n")

    assert callable(numbers)


def test_signal() -> None:
    @signal()
    def has_arrived(batch: Any) -> Iterator[Any] | bool:
        return Path("arrived").exists()

    assert callable(has_arrived)


def test_vde_definitions(tmp_path: Path) -> None:
    ProjectFolder(tmp_path, {"models/a.sql": "MODEL (name a.b, kind VIEW);\nSELECT 1 AS n"})
    definitions: dg.Definitions = vde_definitions(tmp_path)
    assert definitions.resolve_asset_graph().has(dg.AssetKey(["a", "b"]))
