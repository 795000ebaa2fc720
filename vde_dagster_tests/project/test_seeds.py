from __future__ import annotations

import time
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.project.kinds import Seed
from vde_dagster.project.loading.loader import load_project
from vde_dagster.project.model import Model
from vde_dagster.project.reading.seeds import read_seed
from vde_dagster_tests.project.conftest import WriteProject

HEADER = "MODEL (name a.m, kind SEED (path '../seeds/x.csv'{}));\n"
CSV = """id,name,price,day,at,flag,code,empty
1,"Miller, Ann",1.5,2020-01-01,2020-01-01 10:00:00,true,007,
20, Bob ,-2,2020-02-30x,2020-01-01T10:00:00.5,FALSE,100,
"""


def seed(write_project: WriteProject, csv: str, settings: str = "") -> tuple[Path, Model]:
    root = write_project({"models/m.sql": HEADER.format(settings)})
    (root / "seeds").mkdir(exist_ok=True)
    (root / "seeds/x.csv").write_text(csv)
    return root, load_project(root).models[ModelName("a", "m")]


def kind(model: Model) -> Seed:
    assert isinstance(model.kind, Seed)
    return model.kind


def test_types_are_inferred_with_care(write_project: WriteProject) -> None:
    _, model = seed(write_project, CSV)

    assert [(column.name, column.type) for column in model.columns] == [
        ("id", "INT"),
        ("name", "STRING"),
        ("price", "DOUBLE"),
        ("day", "STRING"),
        ("at", "TIMESTAMP"),
        ("flag", "BOOLEAN"),
        ("code", "STRING"),
        ("empty", "STRING"),
    ]
    assert kind(model).row_count == 2
    assert kind(model).path == "seeds/x.csv"


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (["1", "-2", ""], "INT"),
        (["1", "2147483648"], "BIGINT"),
        (["1", "99999999999999999999"], "DOUBLE"),
        (["1", "1e3"], "DOUBLE"),
        (["1", "x"], "STRING"),
        (["2020-01-01", "2020-12-31"], "DATE"),
        (["2020-13-01"], "STRING"),
        (["2020-01-01", "2020-01-01 00:00"], "STRING"),
        (["true", "False"], "BOOLEAN"),
        (["0", "1"], "INT"),
        (["0.5", "007"], "STRING"),
    ],
)
def test_a_column_has_the_type_of_all_its_values(
    write_project: WriteProject, values: list[str], type_: str
) -> None:
    rows = "".join(f"{value},k\n" for value in values)

    assert seed(write_project, f"a,k\n{rows}")[1].columns[0].type == type_


def test_rows_are_read_as_text_ready_to_cast(write_project: WriteProject) -> None:
    root, model = seed(write_project, CSV, ", csv_settings (na_values = ('100'))")

    rows = read_seed(root, model).to_pylist()

    assert rows[0]["name"] == "Miller, Ann"
    assert rows[1]["name"] == " Bob "
    assert [row["id"] for row in rows] == ["1", "20"]
    assert [row["code"] for row in rows] == ["007", None]
    assert [row["empty"] for row in rows] == [None, None]


def test_another_delimiter(write_project: WriteProject) -> None:
    _, model = seed(write_project, "a;b\n1;2,3\n", ", csv_settings (delimiter = ';')")

    assert [column.name for column in model.columns] == ["a", "b"]


@pytest.mark.parametrize(
    "same",
    [
        'id,name\n1,"Ann"\n2,Bob\n',
        "id,name\r\n1,Ann\r\n2,Bob",
        "id,name\n 1 ,Ann\n2 ,Bob\n",
        "id , name\n1,Ann\n2,Bob\n",
        "\ufeffid,name\n1,Ann\n2,Bob\n",
    ],
)
def test_spelling_that_changes_no_value_changes_no_hash(
    write_project: WriteProject, same: str
) -> None:
    before = kind(seed(write_project, "id,name\n1,Ann\n2,Bob\n")[1])

    after = kind(seed(write_project, same)[1])

    assert (after.rows_hash, after.column_hashes) == (before.rows_hash, before.column_hashes)
    assert after.content_hash != before.content_hash


@pytest.mark.parametrize(
    ("changed", "rows", "columns"),
    [
        ("id,name\n1,Ann\n2,Bill\n", False, {"name"}),
        ("id,name\n2,Bob\n1,Ann\n", False, {"id", "name"}),
        ("id,name\n1,Ann\n2,Bob\n3,Cy\n", True, {"id", "name"}),
        ("id,name\n1,Ann\n2,\n", False, {"name"}),
        ("id,name\n1,AnnB\n2,ob\n", False, {"name"}),
        ("name,id\nAnn,1\nBob,2\n", False, set()),
        ("id,name,x\n1,Ann,\n2,Bob,\n", False, {"x"}),
    ],
)
def test_only_the_hashes_of_changed_columns_change(
    write_project: WriteProject, changed: str, rows: bool, columns: set[str]
) -> None:
    before = kind(seed(write_project, "id,name\n1,Ann\n2,Bob\n")[1])

    after = kind(seed(write_project, changed)[1])

    assert (after.rows_hash != before.rows_hash) == rows
    assert {name for name, _ in set(after.column_hashes) - set(before.column_hashes)} == columns


def test_an_empty_text_in_quotes_is_not_null(write_project: WriteProject) -> None:
    null = kind(seed(write_project, 'a,b\n,x\n"y",z\n')[1])
    root, model = seed(write_project, 'a,b\n"",x\n"y",z\n')

    assert kind(model).column_hashes[0] != null.column_hashes[0]
    assert read_seed(root, model)["a"].to_pylist() == ["", "y"]


def test_declared_columns_choose_and_order(write_project: WriteProject) -> None:
    root = write_project(
        {
            "models/m.sql": "MODEL (name a.m, kind SEED (path '$root/data/x.csv'), "
            "columns (B BIGINT, a STRING))",
            "data/x.csv": "a,b,c\n1,2,3\n",
        }
    )
    model = load_project(root).models[ModelName("a", "m")]

    assert [(c.name, c.type) for c in model.columns] == [("b", "BIGINT"), ("a", "STRING")]
    assert read_seed(root, model).to_pylist() == [{"b": "2", "a": "1"}]


def test_a_file_that_changed_since_the_plan_is_refused(write_project: WriteProject) -> None:
    root, model = seed(write_project, "a\n1\n")
    (root / "seeds/x.csv").write_text("a\n2\n")

    with pytest.raises(UsageError, match="changed since the plan"):
        read_seed(root, model)


def test_a_changed_csv_is_noticed_by_the_next_load(write_project: WriteProject) -> None:
    _, before = seed(write_project, "a\n1\n")
    _, after = seed(write_project, "a\n2\n")

    assert kind(before).column_hashes != kind(after).column_hashes


def test_large_files_are_hashed_fast(write_project: WriteProject) -> None:
    rows = "".join(f"{i},name {i},{i / 7}\n" for i in range(200_000))
    started = time.process_time()

    _, model = seed(write_project, "id,name,price\n" + rows)

    assert kind(model).row_count == 200_000
    assert time.process_time() - started < 3
