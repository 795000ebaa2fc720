"""SQL that SQLGlot reads as Spark's and Spark does not: written as Spark has it, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vde_dagster.errors import ProjectError
from vde_dagster_tests.project.conftest import LoadModel
from vde_dagster_tests.yaml_files import read_yaml

FORMS: dict[str, list[dict[str, Any]]] = read_yaml(
    Path(__file__).parent.parent / "fixtures" / "spark_forms.yaml"
)


@pytest.mark.parametrize("case", FORMS["rewritten"], ids=lambda case: case["written"])
def test_a_form_is_written_as_spark_has_it(load_model: LoadModel, case: dict[str, Any]) -> None:
    assert load_model(f"MODEL (name a.m);\n{case['written']}").query == case["is"]


@pytest.mark.parametrize("case", FORMS["with_columns"], ids=lambda case: case["written"])
def test_a_form_is_written_with_the_columns_that_files_tell(
    load_model: LoadModel, case: dict[str, Any]
) -> None:
    other = {
        "models/external_models.yaml": """
            - name: x.t
              columns: {a: INT, b: STRING, ar: ARRAY<INT>}
            - name: x.u
              columns: {a: INT, c: STRING}
            """
    }

    assert load_model(f"MODEL (name a.m);\n{case['written']}", other).query == case["is"]


@pytest.mark.parametrize("case", FORMS["refused"], ids=lambda case: case["written"])
def test_a_form_that_spark_has_not_is_refused(load_model: LoadModel, case: dict[str, Any]) -> None:
    with pytest.raises(ProjectError) as caught:
        load_model(f"MODEL (name a.m);\n{case['written']}")

    assert case["says"] in str(caught.value)


def test_lines_of_dashes_behind_a_comma_are_read_at_once(load_model: LoadModel) -> None:
    dashes = "-" * 200

    model = load_model(
        f"MODEL (name a.m);\nSELECT 1 AS a,\n{dashes}\n2 AS b,\n{dashes}\nFROM x.t\n"
    )

    assert model.query == "SELECT 1 AS a, 2 AS b FROM x.t"
