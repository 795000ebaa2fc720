"""From what Spark says of a rendered query to the line of the model's file, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import SourceLocation
from vde_dagster.execution.apply.failure_report import find_place, query_start
from vde_dagster.planning.checks.diagnostics import audit_place
from vde_dagster.project.kinds import Full
from vde_dagster.project.loading.loader import load_project
from vde_dagster.project.model import Audit, Model
from vde_dagster.spark.session.failures import query_place
from vde_dagster_tests.yaml_files import read_yaml

FIXTURE = Path(__file__).parents[1] / "fixtures/failures/messages.yaml"
CASES: list[dict[str, Any]] = read_yaml(FIXTURE)


def model(source: str, query: str | None = None) -> Model:
    place = SourceLocation(Path("models/marts/m.sql"), 1)
    return Model(ModelName("marts", "m"), Full(), place, query=query, source=source)


def loaded(root: Path, files: Mapping[str, str]) -> Mapping[ModelName, Model]:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return load_project(root, use_cache=False).models


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_a_message_leads_to_the_authors_line(case: dict[str, Any], tmp_path: Path) -> None:
    files = {"models/marts/m.sql": case["source"]}
    if "inlined" in case:
        files["models/staging/m.sql"] = case["inlined"]
    known = loaded(tmp_path, files)
    models = [known[ModelName("marts", "m")], *(known[n] for n in known if n.name == "v")]
    place = query_place(case["message"], case["given"], case.get("words", ""))
    found = find_place(place, models) if place else None
    if case["at"] is None:
        assert found is None
        return
    folder, _, at = case["at"].rpartition(" ")
    assert str(found) == f"models/{folder or 'marts'}/m.sql:{at}"


def test_without_a_place_it_is_the_line_in_which_the_query_begins(tmp_path: Path) -> None:
    source = "MODEL (\n  name marts.m,\n  kind FULL\n);\n\n-- why\nSELECT 1 AS a\n"
    (found,) = loaded(tmp_path, {"models/marts/m.sql": source}).values()
    assert str(query_start(found)) == "models/marts/m.sql:7"
    assert str(query_start(model("nothing of ours"))) == "models/marts/m.sql:1"


def test_an_audit_has_the_line_that_calls_it() -> None:
    source = (
        "MODEL (name marts.m, kind FULL,\n  description 'forall of us',\n  audits (\n"
        "    not_null(columns := (a)),\n    forall(criteria := (a > 0))));\nSELECT 1 AS a\n"
    )
    assert str(audit_place(model(source), Audit("forall", (), "SELECT 1"))) == (
        "models/marts/m.sql:5:5"
    )
    assert str(audit_place(model(source), Audit("other", (), "SELECT 1"))) == "models/marts/m.sql:1"
