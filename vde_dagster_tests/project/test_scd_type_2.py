"""What may be written of dimensions that keep every version of a row."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.project.kinds import Kind, ScdType2ByColumn, ScdType2ByTime
from vde_dagster.project.kinds.scd_type_2 import columns_in, key_columns_in
from vde_dagster.project.loading.loader import load_project
from vde_dagster.project.serialise import from_plain, to_plain
from vde_dagster_tests.projects import ProjectFolder

KINDS = {
    "SCD_TYPE_2 (unique_key id)": ScdType2ByTime(("id",)),
    "SCD_TYPE_2_BY_TIME (unique_key [id, part], updated_at_name at, updated_at_as_valid_from true,"
    " invalidate_hard_deletes true, disable_restatement false)": ScdType2ByTime(
        ("id", "part"),
        "at",
        updated_at_as_valid_from=True,
        invalidate_hard_deletes=True,
        disable_restatement=False,
    ),
    "SCD_TYPE_2_BY_TIME (unique_key COALESCE(id, 0) || '-' || `my part`, time_data_type DATE)": (
        ScdType2ByTime(("COALESCE(id, 0) || '-' || `my part`",), time_data_type="DATE")
    ),
    'SCD_TYPE_2_BY_COLUMN (unique_key "iD", columns *, time_data_type timestamptz)': (
        ScdType2ByColumn(("iD",), ("*",))
    ),
    "SCD_TYPE_2_BY_COLUMN (unique_key (`a b`), columns [x, y], execution_time_as_valid_from true,"
    " valid_from_name since, valid_to_name until, batch_size 1, updated_at_name ds)": (
        ScdType2ByColumn(("`a b`",), ("x", "y"), True, "ds", "since", "until", batch_size=1)
    ),
}


@pytest.mark.parametrize("text", KINDS)
def test_it_is_read_from_a_header_and_from_json(text: str, tmp_path: Path) -> None:
    sql = f"MODEL (name a.m, kind {text});\nSELECT 1 AS id"
    kind = read(ProjectFolder(tmp_path, {"models/m.sql": sql}))
    assert kind == KINDS[text]
    assert from_plain(Kind, to_plain(kind)) == kind


def test_a_python_model_has_it_too(tmp_path: Path) -> None:
    code = """
        from vde_dagster import model


        @model(
            "a.m",
            kind={
                "name": "SCD_TYPE_2_BY_COLUMN",
                "unique_key": ["id", "COALESCE(part, '')"],
                "columns": ["*"],
                "time_data_type": "TIMESTAMP_NTZ",
                "invalidate_hard_deletes": True,
            },
            columns={"id": "INT", "part": "STRING"},
        )
        def execute(context, start, end, execution_time):
            return None
    """
    kind = read(ProjectFolder(tmp_path, {"models/m.py": code}))
    assert kind == ScdType2ByColumn(
        ("id", "COALESCE(part, '')"),
        ("*",),
        time_data_type="TIMESTAMP_NTZ",
        invalidate_hard_deletes=True,
    )


def read(folder: ProjectFolder) -> Kind:
    return load_project(folder.root).models[ModelName("a", "m")].kind


def test_a_key_names_the_columns_that_it_is_made_of() -> None:
    assert columns_in("COALESCE(a, `b c`, 'd')") == ("a", "b c")
    assert key_columns_in(("a", "lower(A)", "`b c`")) == ("a", "b c")


@pytest.mark.parametrize(
    "part", ["(SELECT a)", "a AS b", "t.a", "a, b", "a FROM t", "sum(a) OVER ()", "a +"]
)
def test_what_is_no_value_of_a_row_is_no_key(part: str) -> None:
    with pytest.raises(
        ValueError, match=r"^(it is|it contains an alias|columns must|Expected|Required)"
    ):
        columns_in(part)


def test_its_history_is_not_made_anew_unless_that_is_allowed() -> None:
    kind = ScdType2ByTime(("id",))
    assert (kind.disable_restatement, kind.restates_whole, kind.in_order) == (True, True, True)
    assert not ScdType2ByTime(("id",), disable_restatement=False).disable_restatement
