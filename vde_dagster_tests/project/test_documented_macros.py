"""Every macro that SQLMesh documents gives what is documented; cases in `fixtures/macros.yaml`."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from sqlglot import parse_one

from vde_dagster.errors import ProjectError
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.rendering.render import render_statements
from vde_dagster.project.macros.variables import sql_literal
from vde_dagster_tests.project.conftest import LoadModel
from vde_dagster_tests.yaml_files import read_yaml

GROUPS: list[dict[str, Any]] = read_yaml(Path(__file__).parent.parent / "fixtures" / "macros.yaml")
CASES = [(group["variables"], case) for group in GROUPS for case in group["cases"]]

MACROS = """
from datetime import date
from typing import List, Literal, Optional, Union
from sqlglot import exp
from vde_dagster import macro

def kind(value):
    if isinstance(value, list):
        return f"list[{kind(value[0])}]"
    return type(value).__name__

@macro()
def types_of(evaluator, t: exp.Table, c: exp.Column, s: str, n: List[int], i: int, b: bool):
    return exp.Literal.string(" ".join(map(kind, (t, c, s, n, i, b))))

@macro()
def optional(evaluator, value: Optional[str] = None):
    return exp.Literal.string("none" if value is None else kind(value))

@macro()
def one_of(evaluator, side: Literal["left", "right"]):
    return exp.Literal.string(kind(side))

@macro()
def sql_text(evaluator, value: "SQL"):
    return exp.Literal.string(value)

@macro()
def day(evaluator, value: date):
    return exp.Literal.string(str(value.day))

@macro()
def defaults(evaluator, a: int = exp.Literal.number(1)):
    return a + 2

@macro()
def named(evaluator, a: int, **others: str):
    return exp.Literal.string(" ".join([str(a), *(f"{k}={v}" for k, v in others.items())]))

@macro()
def plain_text(evaluator):
    return "words"

@macro()
def quoted_text(evaluator):
    return "'words'"

@macro()
def is_small(evaluator, value):
    return value in [1, 2, 3]

@macro()
def is_small_number(evaluator, value: int):
    return value in [1, 2, 3]

@macro()
def add_three(evaluator, a: int = 1, b: int = 2, c: int = 3):
    return a + b + c

@macro()
def add_all(evaluator, *values: int):
    return sum(values)

@macro()
def add_list(evaluator, values: List[int]) -> int:
    return sum(values)

@macro()
def indicators(evaluator, column, values):
    named = [(value, f"{column}_{value}") for value in values.expressions]
    return [f"CASE WHEN {column} = '{value}' THEN 1 END AS {name}" for value, name in named]

@macro()
def a_local(evaluator, name):
    return evaluator.locals[name]

@macro()
def between(evaluator, column, low, high):
    return column.between(low, high)

@macro()
def between_as_text(evaluator, column: "SQL", low: "SQL", high: "SQL"):
    return f"{column} BETWEEN {low} AND {high}"

@macro()
def stamped(evaluator, query: exp.Select) -> exp.Subquery:
    return query.select(exp.Literal.string("now").as_("stamp")).subquery()

@macro()
def of_dev(evaluator, table: exp.Table):
    assert isinstance(table, exp.Table)
    table.set("db", exp.to_identifier("dev"))
    return table

@macro()
def kinds_of(evaluator, pair: tuple[int, str], either: int | str):
    return exp.Literal.string(" ".join(map(kind, (*pair, either))))

@macro()
def epoch(evaluator):
    return evaluator.locals["execution_epoch"]

@macro()
def repeated(evaluator, text: str, count: int):
    return exp.Literal.string(text * count)

@macro()
def asked_for(evaluator, name: str):
    assert evaluator.var(name) is None
    return evaluator.var(name, "instead")

@macro()
def fqn(evaluator):
    return exp.Literal.string(evaluator.this_model_fqn.replace('"', ""))

@macro()
def words(evaluator, text: str, count: int):
    return text * count

@macro()
def two_statements(evaluator, name: str):
    return [f"SET {name} = 1", evaluator.parse_one(f"DROP TABLE IF EXISTS {name}")]
"""


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_toml(one)}' for key, one in value.items())} }}"
    return str(value).lower() if isinstance(value, bool) else repr(value)


@pytest.mark.parametrize(("variables", "case"), CASES, ids=[case["written"] for _, case in CASES])
def test_a_macro_gives_what_is_documented(
    load_model: LoadModel, variables: dict[str, Any], case: dict[str, str]
) -> None:
    lines = "".join(f"{name} = {_toml(value)}\n" for name, value in variables.items())
    other = {"macros/m.py": MACROS, "pyproject.toml": f"[tool.vde.variables]\n{lines}"}

    assert load_model(f"MODEL (name a.m);\n{case['written']}", other).query == case["is"]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("SELECT @EACH([a])", "@EACH takes a list and a function"),
        ("SELECT @EACH([(a, b)], (x, y, z) -> x)", "the function takes 3 arguments"),
        ("@DEF(half, x -> x / 2); SELECT @half(1, 2)", "@half takes 1 argument, not 2"),
        ("SELECT @REDUCE([], (x, y) -> x)", "@REDUCE has no items"),
        ("SELECT @IF(a.b > 1, 1, 2)", "is not a constant"),
        ("SELECT a FROM t @WHERE(a + 1 > @start_date) b", "is not a constant"),
        ("SELECT @EVAL(1 / 0)", "is not a constant"),
        ("SELECT @PIVOT(a)", "@PIVOT needs values"),
        ("SELECT @PIVOT(a, ['v'], prefx := 'x')", "@PIVOT has no argument 'prefx'"),
        ("@DATE_SPINE('hour', '2026-01-01', '2026-01-02')", "does not support date part 'hour'"),
        ("@DATE_SPINE('day', '2026-01-02', '2026-01-01')", "starts at 2026-01-02, after its end"),
        ("@DATE_SPINE('day', 'x', '2026-01-01')", "@DATE_SPINE takes dates"),
        ("SELECT @HAVERSINE_DISTANCE(a, b, c)", "@HAVERSINE_DISTANCE needs lon2"),
        ("SELECT 1 AS @{start_ds}", "cannot be part of a name"),
        ("SELECT @RESOLVE_TEMPLATE('a/@{table_name}') AS a", "which is unknown in its query"),
        ("SELECT @RESOLVE_TEMPLATE('a/@{tabel}') AS a", "@RESOLVE_TEMPLATE has no 'tabel'"),
        ("SELECT @words('tea ', 3) AS a", "syntax error in the query near 'tea'"),
        ("SELECT @named(a := 1, 2)", "a positional argument follows a named argument"),
    ],
)
def test_a_wrong_call_is_told_at_its_place(
    load_model: LoadModel, written: str, message: str
) -> None:
    with pytest.raises(ProjectError) as caught:
        load_model(f"MODEL (name a.m);\n{written}", {"macros/m.py": MACROS})

    assert message in caught.value.message
    assert caught.value.location is not None
    assert caught.value.location.line == 2


def test_a_template_of_a_statement_gets_the_names_of_the_models_table(
    load_model: LoadModel,
) -> None:
    template = "@RESOLVE_TEMPLATE('s3://lake/@{catalog_name}/@{schema_name}/@{table_name}.csv')"
    model = load_model(f"MODEL (name a.m, kind FULL);\nSET place = {template};\nSELECT 1 AS a")
    day = Interval(
        datetime(2026, 1, 1, tzinfo=timezone.utc), datetime(2026, 1, 2, tzinfo=timezone.utc)
    )

    rendered = render_statements(
        model.pre_statements, lambda name: None, "`lake`.`vde__a`.`m__1`", day, day.end
    )

    assert rendered == (
        "SET place = CONCAT('s3://lake/', 'lake', '/', 'vde__a', '/', 'm__1', '.csv')",
    )


def test_a_list_of_statements_is_several_statements(load_model: LoadModel) -> None:
    model = load_model(
        "MODEL (name a.m, kind FULL);\n@two_statements(x);\n@IF(FALSE, SET y = 2);\nSELECT 1 AS a",
        {"macros/m.py": MACROS},
    )

    assert model.pre_statements == ("SET x = 1", "DROP TABLE IF EXISTS x")


@pytest.mark.parametrize("dialect", ["spark", "duckdb", "bigquery", "redshift", "clickhouse"])
@pytest.mark.parametrize("value", ["it's", "a\\b", "", [1, "x'y"]])
def test_a_variable_has_its_value_in_every_dialect(dialect: str, value: Any) -> None:
    in_spark = parse_one(sql_literal(value, dialect), dialect=dialect).sql("spark")

    assert in_spark == parse_one(sql_literal(value), dialect="spark").sql("spark")


@pytest.mark.parametrize("dialect", ["duckdb", "bigquery", "trino"])
def test_a_table_among_the_variables_is_a_map_in_every_dialect(dialect: str) -> None:
    written = sql_literal({"key": 1, "k'2": 2}, dialect)

    in_spark = "MAP_FROM_ARRAYS(ARRAY('key', 'k\\'2'), ARRAY(1, 2))"
    assert parse_one(written, dialect=dialect).sql("spark") == in_spark


def test_a_table_among_the_variables_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    sql_literal({"key": 1}, "mysql")

    assert not caplog.records


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "redshift", "bigquery", "trino", "tsql"])
def test_dates_of_a_spine_are_rows_in_every_dialect(load_model: LoadModel, dialect: str) -> None:
    spine = "@DATE_SPINE('quarter', '2022-01-20', '2024-12-16')"
    model = load_model(f"MODEL (name a.m, kind FULL, dialect {dialect});\n{spine}")

    assert model.query == (
        "SELECT date_quarter FROM (SELECT EXPLODE(SEQUENCE(CAST('2022-01-20' AS DATE), "
        "CAST('2024-12-16' AS DATE), INTERVAL '3' MONTH)) AS date_quarter) AS _exploded"
    )
