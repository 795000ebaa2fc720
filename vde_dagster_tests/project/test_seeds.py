from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError, UsageError
from vde_dagster.project.kinds import Kind, Seed
from vde_dagster.project.loading.loader import Project, load_project
from vde_dagster.project.model import Model
from vde_dagster.project.reading.seeds import read_seed
from vde_dagster.project.serialise import from_plain, to_plain
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


def test_a_file_without_rows_has_its_declared_types(write_project: WriteProject) -> None:
    model = """
        MODEL (name a.m, kind SEED (path '../seeds/m.csv'),
          columns (id INT, day DATE, at TIMESTAMP, size DOUBLE, ok BOOLEAN, text STRING));
        """
    root = write_project({"models/m.sql": model, "seeds/m.csv": "id,day,at,size,ok,text\n"})
    assert load_project(root, strict=False).problems == ()


def test_lines_of_blanks_at_the_end_are_no_rows(write_project: WriteProject) -> None:
    root, model = seed(write_project, 'a,b\n1," "\n   \n     ')
    assert read_seed(root, model).to_pylist() == [{"a": "1", "b": " "}]


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


def test_what_pandas_calls_missing_is_null_unless_told_otherwise(
    write_project: WriteProject,
) -> None:
    csv = 'a,b\n"",x\nNA,n/a\n"null",None\n nan,y\n?,z\n'
    root, model = seed(write_project, csv)
    assert read_seed(root, model)["a"].to_pylist() == [None, None, None, " nan", "?"]
    assert read_seed(root, model)["b"].to_pylist() == ["x", None, None, "y", "z"]

    root, model = seed(write_project, csv, ", csv_settings (na_values = (b = ['z', 'x']))")
    assert read_seed(root, model)["a"].to_pylist() == [None, None, None, " nan", "?"]
    assert read_seed(root, model)["b"].to_pylist() == [None, None, None, "y", None]

    told = ", csv_settings (keep_default_na = false, na_values = ['?', 'NA'])"
    root, model = seed(write_project, csv, told)
    assert read_seed(root, model)["a"].to_pylist() == ["", None, "null", " nan", None]
    assert read_seed(root, model)["b"].to_pylist() == ["x", "n/a", "None", "y", "z"]


def test_what_is_stored_of_how_a_seed_is_read_changes_no_hash(write_project: WriteProject) -> None:
    found = kind(seed(write_project, "id,name\n1,Ann\n2,\n")[1])
    before = Seed(found.path, found.content_hash, 2, found.rows_hash, found.column_hashes)
    assert before.text == found.text
    assert found.missing != before.missing


def test_a_seed_that_was_stored_before_has_the_values_of_its_plan(
    write_project: WriteProject,
) -> None:
    root, model = seed(write_project, "a,b\n1,\n,x\n")
    stored = replace(model, kind=from_plain(Kind, {**to_plain(model.kind), "missing": ""}))
    assert read_seed(root, stored).to_pydict() == {"a": ["1", None], "b": [None, "x"]}

    other = (("a", "0" * 32), kind(stored).column_hashes[1])
    stored = replace(stored, kind=replace(kind(stored), column_hashes=other))
    with pytest.raises(UsageError, match=r"the settings for seeds/.* have changed"):
        read_seed(root, stored)


def test_a_long_value_is_read(write_project: WriteProject) -> None:
    long = "x" * 200_000
    root, model = seed(write_project, f"a,b\n1,{long}\n")
    assert read_seed(root, model)["b"].to_pylist() == [long]


@pytest.mark.parametrize(
    ("csv", "settings", "rows"),
    [
        (b"a\tb\n1\t2,3\n", r"delimiter = '\t'", [("1", "2,3")]),
        (b"a;b\n'x;y';2\n", "sep = ';', quotechar = ''''", [("x;y", "2")]),
        (b"a,b\nx\\,y,2\n", r"escapechar = '\\'", [("x,y", "2")]),
        (b"a, b\nx,  y\n", "skipinitialspace = true", [("x", "y")]),
        (b'a,b\n"x""y",2\n', "doublequote = false", [('x"y"', "2")]),
        (b"a,b|1,2\n3|4,5", "lineterminator = '|'", [("1", "2\n3"), ("4", "5")]),
        ("a,b\n\u00e9,2\n".encode("latin-1"), "encoding = 'ISO-8859-1'", [("\u00e9", "2")]),
        ("a,b\n\u20ac,2\n".encode("utf-16"), "encoding = utf-16", [("\u20ac", "2")]),
    ],
)
def test_settings_say_how_a_file_is_read(
    write_project: WriteProject, csv: bytes, settings: str, rows: list[tuple[str, str]]
) -> None:
    root = write_project({"models/m.sql": HEADER.format(f", csv_settings ({settings})")})
    (root / "seeds").mkdir(exist_ok=True)
    (root / "seeds/x.csv").write_bytes(csv)
    model = load_project(root).models[ModelName("a", "m")]
    assert [tuple(row.values()) for row in read_seed(root, model).to_pylist()] == rows
    assert from_plain(Kind, to_plain(model.kind)) == model.kind


def test_missing_values_by_column_are_lists_of_anything(write_project: WriteProject) -> None:
    told = ", csv_settings (na_values = (a = ('x', 1), b = [true, null]))"
    found = kind(seed(write_project, "a,b\nx,true\n1,\n", told)[1])
    assert found.column_null_values == (("a", ("x", "1")), ("b", ("true",)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("delimiter = '||'", "'delimiter' must be one character"),
        ("quotechar = ''", "'quotechar' must be one character"),
        ("escapechar = ab", "'escapechar' must be one character"),
        ("lineterminator = 'ab'", "'lineterminator' must be one character"),
        ("encoding = 'utf-9'", "unknown encoding 'utf-9'"),
        ("encoding = 'base64'", "unknown encoding 'base64'"),
        ("keep_default_na = maybe", "must be true or false"),
        ("doublequote = 2", "must be true or false"),
        ("delimeter = ';'", "unknown CSV setting 'delimeter'.*delimiter"),
        ("na_values = (c = ['x'])", "column 'c' of na_values is not in seeds/x.csv"),
    ],
)
def test_a_wrong_setting_is_told_at_its_place(
    write_project: WriteProject, settings: str, message: str
) -> None:
    with pytest.raises(ProjectError, match=message) as caught:
        seed(write_project, "a,b\n1,2\n", f", csv_settings ({settings})")
    assert caught.value.location is not None
    assert caught.value.location.line == 1


def test_a_file_of_another_encoding_says_which_line(write_project: WriteProject) -> None:
    root = write_project({"models/m.sql": HEADER.format("")})
    (root / "seeds").mkdir(exist_ok=True)
    (root / "seeds/x.csv").write_bytes("a,b\n1,2\n\u00e9,2\n".encode("latin-1"))
    with pytest.raises(ProjectError, match=r"is not UTF-8.*encoding = 'latin-1'") as caught:
        load_project(root)
    assert caught.value.location is not None
    assert caught.value.location.line == 3


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


def test_statements_stand_around_a_seed(load: Callable[[Mapping[str, str]], Project]) -> None:
    text = """
        MODEL (name a.m, kind SEED (path '../seeds/s.csv'));
        SET one = 1;
        JINJA_STATEMENT_BEGIN; SET two = {{ 1 + 1 }} JINJA_END;
        @INSERT_SEED();
        SET three = @this_model;
        ON_VIRTUAL_UPDATE_BEGIN; SET four = 4; ON_VIRTUAL_UPDATE_END;
        """
    config = "gateways: {g: {}}\nmodel_defaults: {dialect: spark, pre_statements: [SET zero = 0]}\n"
    files = {"models/m.sql": text, "seeds/s.csv": "a\n1\n", "config.yaml": config}
    (model,) = load(files).models.values()

    assert model.pre_statements == ("SET zero = 0", "SET one = 1", "SET two = 2")
    assert model.post_statements == ("SET three = @this_model",)
    assert model.on_virtual_update == ("SET four = 4",)


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        ("@INSERT_SEED();\n@INSERT_SEED();", "models/m.sql:3:1.*twice"),
        ("SET x = 1;\nSELECT 1 AS a;", "models/m.sql:3:1.*has no query"),
        ("JINJA_QUERY_BEGIN; SELECT 1 JINJA_END;", "models/m.sql:2.*has no query"),
    ],
)
def test_what_cannot_stand_around_a_seed_is_told(
    load: Callable[[Mapping[str, str]], Project], statements: str, message: str
) -> None:
    header = "MODEL (name a.m, kind SEED (path '../seeds/s.csv'));"
    with pytest.raises(ProjectError, match=message):
        load({"models/m.sql": f"{header}\n{statements}", "seeds/s.csv": "a\n1\n"})
