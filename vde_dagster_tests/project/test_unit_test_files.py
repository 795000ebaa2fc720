from __future__ import annotations

from datetime import date, datetime, timezone
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.project.loading.loader import load_project
from vde_dagster.project.macros.scope import MacroScope
from vde_dagster.project.model import TestTable, UnitTest
from vde_dagster.project.reading.unit_tests import load_unit_tests
from vde_dagster.project.serialise import dump_tests, load_tests
from vde_dagster.project.table_names import TableNames
from vde_dagster_tests.project.conftest import WriteProject

TEXT = """
test_delay:
  model: a.m
  description: The delay is in minutes.
  inputs:
    b.flights:
      columns:
        ds: date
        delay: int
      rows:
      - ds: 2013-01-01
        carrier: AA
      - delay: 3
        at: 2013-01-01 10:00:00
    airports:
    - {code: JFK}
    lakehouse.b.c:
      query: SELECT 1 AS x
    b.wide:
      rows:
        x: [1, 2]
        y: [a, null]
  outputs:
    partial: true
    query:
      rows:
      - minutes: 3
    ctes:
      late:
        rows:
        - n: 1
  vars:
    start: 2013-01-01
    end: 2013-01-02
    execution_time: 2013-01-03 12:00:00
    limit: 5
test_small:
  model: a.m
  outputs:
    query: []
  vars:
    end: '2013-01-01 11:59:59.999999'
"""


FILES = {
    "data/orders.csv": 'id,amount,day,note,ok\n1,2.5,2024-01-01,"a, b",true\n2,,NULL,,false\n',
    "data/list.yaml": "- {id: 1, note: a}\n- {id: 2}\n",
    "data/rows.yaml": "rows:\n- {id: 1}\n",
    "data/wide.csv": "id\n1,2\n",
}
"""Files that tests read their rows from."""


def read(text: str = TEXT) -> tuple[UnitTest, ...]:
    return load_unit_tests(
        Path("tests/t.yaml"),
        text,
        TableNames("lakehouse", "default"),
        MacroScope({}, {}),
        FILES.__getitem__,
    )


def test_the_format_of_sqlmesh_is_read() -> None:
    test, small = read()

    assert (test.name, test.model, test.location.line) == ("test_delay", ModelName("a", "m"), 2)
    assert [str(name) for name, _ in test.inputs] == [
        "b.flights",
        "default.airports",
        "b.c",
        "b.wide",
    ]
    assert test.inputs[0][1] == TestTable(
        columns=("ds", "delay", "carrier", "at"),
        rows=(
            (date(2013, 1, 1), None, "AA", None),
            (None, 3, None, datetime(2013, 1, 1, 10)),
        ),
        types=(("ds", "date"), ("delay", "int")),
    )
    assert test.inputs[2][1].query == "SELECT 1 AS x"
    assert test.inputs[3][1].rows == ((1, "a"), (2, None))
    assert test.expected == TestTable(("minutes",), ((3,),), partial=True)
    assert test.ctes == (("late", TestTable(("n",), ((1,),), partial=True)),)
    assert test.start == datetime(2013, 1, 1, tzinfo=timezone.utc)
    assert test.end == datetime(2013, 1, 3, tzinfo=timezone.utc)
    assert test.execution_time == datetime(2013, 1, 3, 12, tzinfo=timezone.utc)
    assert test.variables == (("limit", 5),)
    assert small.expected == TestTable((), ())
    assert small.end == datetime(2013, 1, 1, 12, tzinfo=timezone.utc)


def test_tests_survive_the_cache() -> None:

    for test in read():
        assert load_tests(dump_tests([test])) == (test,)


@pytest.mark.parametrize(
    ("table", "columns", "rows"),
    [
        (
            "{format: csv, path: data/orders.csv}",
            ("id", "amount", "day", "note", "ok"),
            ((1, 2.5, "2024-01-01", "a, b", True), (2, None, None, None, False)),
        ),
        ("{path: data/list.yaml}", ("id", "note"), ((1, "a"), (2, None))),
        ("{path: data/rows.yaml, format: yaml}", ("id",), ((1,),)),
        ('{format: csv, rows: "id,n\\n1,x\\n"}', ("id", "n"), ((1, "x"),)),
        (
            '{format: csv, csv_settings: {sep: "#", na_values: x}, rows: "id#n\\n1#x\\n2#y\\n"}',
            ("id", "n"),
            ((1, None), (2, "y")),
        ),
        (
            '{format: csv, csv_settings: {skip_blank_lines: true}, rows: "id\\n\\n1\\n"}',
            ("id",),
            ((1,),),
        ),
        (
            '{format: csv, csv_settings: {skip_blank_lines: false}, rows: "id\\n\\n1\\n"}',
            ("id",),
            ((None,), (1,)),
        ),
    ],
)
def test_rows_may_be_csv_or_in_files(
    table: str, columns: tuple[str, ...], rows: tuple[tuple[object, ...], ...]
) -> None:
    text = f"test_x:\n  model: a.m\n  inputs:\n    b.t: {table}\n  outputs: {{query: []}}\n"
    (test,) = read(text)

    assert (test.inputs[0][1].columns, test.inputs[0][1].rows) == (columns, rows)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("{format: parquet, path: x}", "unknown format of rows 'parquet'"),
        ("{rows: {a: [1, 2], b: 5}}", "columns must be lists of equal length"),
        ("{rows: {a: 5}}", "columns must be lists of equal length"),
        ("{path: data/list.yaml, rows: []}", "'path' cannot be combined with rows: or query:"),
        (
            "{format: csv, path: data/wide.csv}",
            "CSV is invalid: Length of header",
        ),
        ("{format: csv, csv_settings: {spe: x}, path: data/wide.csv}", "CSV setting 'spe'"),
        ('{format: csv, rows: ""}', "the CSV is invalid: No columns to parse"),
    ],
)
def test_wrong_rows_in_files(table: str, message: str) -> None:
    text = f"test_x:\n  model: a.m\n  inputs:\n    b.t: {table}\n  outputs: {{query: []}}\n"

    with pytest.raises(ProjectError, match=message) as raised:
        read(text)
    assert raised.value.location is not None
    assert raised.value.location.line == 4


@pytest.mark.parametrize(("key", "line"), [("on", 3), ("querry", 4), ("1", 3)])
def test_an_output_that_there_is_not_is_told_also_where_yaml_reads_no_text(
    key: str, line: int
) -> None:
    text = f"test_x:\n  model: a.m\n  outputs:\n    {key}: []\n"

    with pytest.raises(ProjectError, match=r"unknown key '\w+' of outputs") as raised:
        read(text)
    assert raised.value.location is not None
    assert raised.value.location.line == line


def test_a_changed_file_of_rows_is_read_again(write_project: WriteProject) -> None:
    root = write_project(
        {
            "models/m.sql": "MODEL (name a.m, kind FULL); SELECT id FROM b.t",
            "tests/test_m.yaml": "test_x:\n  model: a.m\n  gateway: local\n  inputs:\n"
            "    b.t: {format: csv, path: tests/t.csv}\n  outputs: {query: {rows: []}}\n",
            "tests/t.csv": "id\n1\n",
            "tests/rows.yaml": "- {id: 1}\n",
        }
    )
    (before,) = load_project(root).tests
    (root / "tests/t.csv").write_text("id\n22\n")
    (after,) = load_project(root).tests

    assert [test.inputs[0][1].rows for test in (before, after)] == [((1,),), ((22,),)]
    (root / "tests/t.csv").unlink()
    with pytest.raises(ProjectError, match=r"tests/t.csv cannot be read: the file does not exist"):
        load_project(root)


def test_types_of_expected_columns_may_stand_beside_the_query(write_project: WriteProject) -> None:
    root = write_project(
        {
            "models/m.sql": "MODEL (name a.m); SELECT 1 AS n, 2 AS k",
            "tests/test_m.yaml": """
                test_m:
                  model: a.m
                  outputs:
                    columns: {n: INT, k: INT, other: INT}
                    query:
                      columns: {k: BIGINT}
                      rows: [{n: null, k: 2}]
            """,
        }
    )

    [test] = load_project(root).tests

    assert test.expected is not None
    assert dict(test.expected.types) == {"n": "INT", "k": "BIGINT"}


JINJA = """
{# Names are those of the settings. #}
test_x:
  model: {{ var('layer') }}.m
  inputs:
    {{ var('source', 'b') }}.t:
      rows:
        {% for id in [1, 2] %}
        - {id: {{ id }}, by: {{ env_var('WHO', 'ann') }} }
        {% endfor %}
  outputs: {query: [{id: 1}]}
"""


def test_jinja_in_a_file_is_rendered_first(
    write_project: WriteProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_project(
        {
            "models/m.sql": "MODEL (name a.m, kind FULL); SELECT id, by FROM b.t",
            "external_models.yaml": "- name: b.t\n  columns: {id: INT, by: STRING}\n",
            "pyproject.toml": "[tool.vde.variables]\nlayer = 'a'\n",
            "tests/test_m.yaml": JINJA,
        }
    )
    [test] = load_project(root).tests
    monkeypatch.setenv("WHO", "bob")
    [other] = load_project(root).tests

    assert (test.model, test.inputs[0][0]) == (ModelName("a", "m"), ModelName("b", "t"))
    assert test.inputs[0][1].rows == ((1, "ann"), (2, "ann"))
    assert other.inputs[0][1].rows == ((1, "bob"), (2, "bob"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("{{ var('nobody') }}", "tests/test_m.yaml:2.*unknown variable 'nobody'"),
        ("{{ nobody }}", "tests/test_m.yaml:2.*'nobody' is undefined"),
        ("{% if %}", "tests/test_m.yaml:2.*invalid Jinja"),
    ],
)
def test_wrong_jinja_is_told_at_its_line(
    write_project: WriteProject, name: str, message: str
) -> None:
    files = {
        "models/m.sql": "MODEL (name a.m); SELECT 1 AS a",
        "tests/test_m.yaml": f"test_x:\n  model: {name}\n  outputs: {{query: [{{a: 1}}]}}\n",
    }
    with pytest.raises(ProjectError, match=message):
        load_project(write_project(files))


def test_a_time_with_a_zone_is_told_in_utc() -> None:
    text = "test_x:\n  model: a.m\n  vars: {execution_time: '2024-01-01 12:05:03+02:00'}\n"
    (test,) = read(text + "  outputs: {query: []}\n")

    assert test.execution_time == datetime(2024, 1, 1, 10, 5, 3, tzinfo=timezone.utc)
