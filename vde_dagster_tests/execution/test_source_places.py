"""From what Spark says of a rendered query to the line of the model's file, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from vde_dagster.base.names import ModelName
from vde_dagster.errors import SourceLocation
from vde_dagster.execution.apply.failure_report import audit_place, find_place, query_start
from vde_dagster.project.kinds import Full
from vde_dagster.project.model import Audit, Model
from vde_dagster.spark.session.failures import query_place

FIXTURE = Path(__file__).parents[1] / "fixtures/failures/messages.yaml"
CASES: list[dict[str, Any]] = yaml.safe_load(FIXTURE.read_text("utf-8"))


def model(source: str, line: int = 1, folder: str = "marts", query: str = "SELECT 1") -> Model:
    place = SourceLocation(Path(f"models/{folder}/m.sql"), line)
    return Model(ModelName(folder, "m"), Full(), place, query=query, source=source)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_a_message_leads_to_the_authors_line(case: dict[str, Any]) -> None:
    models = [model(case["source"], case.get("line", 1), query=case["given"])]
    if "inlined" in case:
        models.append(model(case["inlined"], folder="staging"))
    place = query_place(case["message"], case["given"], case.get("words", ""))
    found = find_place(place, models) if place else None
    if case["at"] is None:
        assert found is None
        return
    folder, _, at = case["at"].rpartition(" ")
    assert str(found) == f"models/{folder or 'marts'}/m.sql:{at}"


def test_without_a_place_it_is_the_line_in_which_the_query_begins() -> None:
    source = "MODEL (\n  name marts.m,\n  kind FULL\n);\n\n-- why\nSELECT 1 AS a\n"
    assert str(query_start(model(source))) == "models/marts/m.sql:7"
    assert str(query_start(model("nothing of ours"))) == "models/marts/m.sql:1"


def test_an_audit_has_the_line_that_calls_it() -> None:
    source = (
        "MODEL (name marts.m, kind FULL,\n  description 'forall of us',\n  audits (\n"
        "    not_null(columns := (a)),\n    forall(criteria := (a > 0))));\nSELECT 1 AS a\n"
    )
    assert str(audit_place(model(source), Audit("forall", (), "SELECT 1"))) == (
        "models/marts/m.sql:5"
    )
    assert str(audit_place(model(source), Audit("other", (), "SELECT 1"))) == "models/marts/m.sql:1"
