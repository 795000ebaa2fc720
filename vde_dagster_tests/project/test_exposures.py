"""Names of models and columns that exposures read."""

from __future__ import annotations

from pathlib import Path

from vde_dagster.base.names import ModelName
from vde_dagster.project.reading.exposures import load_exposures
from vde_dagster.project.table_names import TableNames

TEXT = """
- name: Sales
  reads: ['marts.daily', 'marts.daily.Revenue', '`a.b`.`c.d`', '`a.b`.c.`x.y`', '"q r".t']
"""


def test_dots_in_quoted_names_are_parts_of_the_names() -> None:
    found = load_exposures(Path("exposures.yaml"), TEXT, TableNames("lakehouse", "default"))
    (exposure,) = found.exposures

    assert [(model, column) for model, column, _ in exposure.reads] == [
        (ModelName("marts", "daily"), None),
        (ModelName("marts", "daily"), "revenue"),
        (ModelName("a.b", "c.d"), None),
        (ModelName("a.b", "c"), "x.y"),
        (ModelName("q r", "t"), None),
    ]
