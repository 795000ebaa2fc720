"""Examples of kinds; `vde_dagster_tests/kinds` has complete ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from vde_dagster.api.errors import SourceLocation
from vde_dagster.api.kinds import (
    AddedColumn,
    IncrementalMeaning,
    Input,
    Kind,
    Meaning,
    Property,
    SemanticVersion,
    Value,
    WholeMeaning,
)
from vde_dagster.api.models import Model
from vde_dagster.api.values import ModelName, digest

PLACE = SourceLocation(Path("models/a.sql"))


def test_AddedColumn() -> None:
    column = AddedColumn("newest", "INT", "1 is the newest row of its key")
    assert column.type == "INT"


def test_IncrementalMeaning() -> None:
    class Newest(IncrementalMeaning):
        """Filled interval by interval; a changed number of rows changes the rows' version."""

        def rows(self, model: Model, version: SemanticVersion) -> str:
            return digest("newest", version.rows)

    assert Newest().rows(Model(ModelName("a", "b"), Kind(), PLACE), SemanticVersion("r", {}))


def test_Input() -> None:
    class FromCommits(Meaning):
        """Reads the rows that were added to a parent since the last fill."""

        def inputs(self, model: Model) -> Mapping[ModelName, Input]:
            return dict.fromkeys(model.depends_on, Input.BY_COMMITS)

    model = Model(ModelName("a", "b"), Kind(), PLACE, depends_on=(ModelName("a", "raw"),))
    assert FromCommits().inputs(model) == {ModelName("a", "raw"): Input.BY_COMMITS}


def test_Kind() -> None:
    @dataclass(frozen=True, slots=True)
    class Sampled(Kind):
        """Rebuilt as a whole, with every n-th row."""

        every: int = 10
        name: Literal["SAMPLED"] = "SAMPLED"

        summary = "whole, with every n-th row"
        properties = (Property.number("every"),)

    assert Sampled(every=5).name == "SAMPLED"
    assert Kind.from_json({"name": "VIEW"}).name == "VIEW"


def test_Meaning() -> None:
    class Distinct(Meaning):
        """Rows without repeats: another version of rows than the query's."""

        def rows(self, model: Model, version: SemanticVersion) -> str:
            return digest("distinct", version.rows)

    assert Distinct().filled_once is False


def test_Property() -> None:
    key = Property.columns("row_key", required=True)
    assert (key.name, key.required, key.names_columns) == ("row_key", True, True)


def test_SemanticVersion() -> None:
    version = SemanticVersion(rows="3f", columns={"day": "a1"})
    assert version.opaque is None  # Otherwise the reason that the query was not understood.


def test_Value() -> None:
    def read_copies(value: Value) -> int:
        number = value.integer()
        if number < 1:
            raise value.error("copies is at least 1")
        return number

    assert Property("copies", read_copies, {"type": "integer"}).read is read_copies


def test_WholeMeaning() -> None:
    assert WholeMeaning().replaces_all
