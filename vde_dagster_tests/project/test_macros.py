from __future__ import annotations

import pytest

from vde_dagster_tests.project.conftest import LoadModel

MACROS = """
from sqlglot import exp
from vde_dagster import macro

@macro()
def add(evaluator, a, b):
    return a + b

@macro("SHOUT")
def loud(evaluator, column, mark: str = "!", times: int = 1):
    return f"CONCAT(UPPER({column.sql('spark')}), '{mark * times}')"

@macro()
def columns(evaluator, names: list, prefix: str = ""):
    return [exp.column(n.name).as_(prefix + n.name) for n in names]

@macro()
def nothing(evaluator):
    return None

@macro()
def recent(evaluator, column):
    return f"{column.sql('spark')} BETWEEN @start_ds AND @end_ds"

@macro()
def variable(evaluator):
    return str(evaluator.var("limit"))

@macro()
def table(evaluator, name: str):
    return f"b.{name}"

@macro()
def wrap(evaluator, value, other=None):
    return exp.Anonymous(this="f", expressions=[value, *([other.copy()] if other else [])])

@macro()
def upper_case(evaluator, value):
    value.set("this", value.this.upper())
    return value

@macro()
def text_of(evaluator, value: str):
    return f"g({value})"

@macro()
def length_of(evaluator, value: str):
    return len(value)

@macro()
def length_in_tree(evaluator, value):
    return len(value.this)

@macro()
def as_read(evaluator):
    return evaluator.parse_one("'C''1'")

@macro()
def kind_of(evaluator, tree):
    return exp.Literal.string(type(tree).__name__)
"""


@pytest.mark.parametrize(
    ("written", "expanded"),
    [
        ("SELECT @add(x, 1) * 2 AS a", "SELECT (x + 1) * 2 AS a"),
        ("SELECT @ADD(@add(1, 2), y) AS a", "SELECT ((1 + 2) + y) AS a"),
        ("SELECT @shout(x) AS a", "SELECT CONCAT(UPPER(x), '!') AS a"),
        (
            "SELECT @shout(t.x, times := 2, mark := '?') AS a",
            "SELECT CONCAT(UPPER(t.x), '??') AS a",
        ),
        ("SELECT @columns([a, b], 'p_')", "SELECT a AS p_a, b AS p_b"),
        ("SELECT x, @nothing(), y", "SELECT x, y"),
        ("SELECT x WHERE @nothing() AND y", "SELECT x WHERE y"),
        ("SELECT x WHERE @nothing()", "SELECT x"),
        ("SELECT x WHERE @recent(ds)", "SELECT x WHERE ds BETWEEN @start_ds AND @end_ds"),
        ("SELECT x FROM @table(t) AS u", "SELECT x FROM b.t AS u"),
        ("SELECT @limit, @VAR('limit'), @VAR('no', 7), @variable()", "SELECT 3, 3, 7, 3"),
        ("SELECT @kind_of(@end_ds), @kind_of(x -> 1)", "SELECT 'Parameter', 'Lambda'"),
        (
            "SELECT @EACH([a, b], x -> SUM(x) AS sum_@{x})",
            "SELECT SUM(a) AS sum_a, SUM(b) AS sum_b",
        ),
        (
            "SELECT @EACH(('a', 'b'), x -> c = @x AS is_@{x})",
            "SELECT c = 'a' AS is_a, c = 'b' AS is_b",
        ),
        ("SELECT 1, @EACH([], x -> x)", "SELECT 1"),
        ("SELECT @IF(@limit > 2, 'many', 'few') AS a", "SELECT 'many' AS a"),
        ("SELECT a, @IF('x' = 'y', b)", "SELECT a"),
        ("SELECT @EVAL(1 + 2) AS a", "SELECT 3 AS a"),
        (
            "SELECT a FROM t WHERE @AND(a > 1, @nothing(), NULL)",
            "SELECT a FROM default.t WHERE ((a > 1))",
        ),
        ("@DEF(n, 5); SELECT @n AS a", "SELECT 5 AS a"),
        ("@DEF(twice, x -> x * 2); SELECT @twice(a) AS a", "SELECT (a * 2) AS a"),
        ("SELECT '@add(1, 2)' AS a, `@x` /* @nope */ -- @nope\n", "SELECT '@add(1, 2)' AS a, `@x`"),
        ("SELECT @'is_@{limit}' AS a", "SELECT 'is_3' AS a"),
        ("SELECT @SAFE_DIV(a, b) AS a", "SELECT ((a) / NULLIF(b, 0)) AS a"),
        ("SELECT @wrap(to_char(x, '999')) AS a", "SELECT F(to_char(x, '999')) AS a"),
        ("SELECT @wrap(x, other := date_trunc('D', y))", "SELECT F(x, date_trunc('D', y))"),
        ("SELECT @wrap(@wrap('O''Brien'))", "SELECT F(F('O''Brien'))"),
        ("SELECT @text_of(nvl(x, @end_ds)) AS a", "SELECT g(nvl(x, @end_ds)) AS a"),
        ("SELECT @upper_case('a') AS a", "SELECT 'A' AS a"),
        ("SELECT @IF('C''1' = \"C'1\", 'same', 'other') AS a", "SELECT 'same' AS a"),
        ("SELECT @EVAL('C''1') AS a", "SELECT 'C''1' AS a"),
        ("SELECT @length_of('C''1') AS a", "SELECT 3 AS a"),
        ("SELECT @length_in_tree('C''1') AS a", "SELECT 3 AS a"),
        ("SELECT @as_read() AS a", "SELECT 'C\\'1' AS a"),
        ("SELECT @add(\n  x, -- one\n  1\n) AS a", "SELECT (x + 1) AS a"),
    ],
)
def test_macros_expand(load_model: LoadModel, written: str, expanded: str) -> None:
    other = {
        "macros/m.py": MACROS,
        "pyproject.toml": "[tool.vde.variables]\nlimit = 3\n",
    }

    assert load_model(f"MODEL (name a.m);\n{written}", other).query == expanded


def test_macros_may_lie_inside_the_models_folder_and_import_helpers(load_model: LoadModel) -> None:
    other = {
        "models/macros/m.py": """
            from vde_dagster import macro
            from helpers.text import MARK

            @macro()
            def marked(evaluator, column):
                return f"CONCAT({column.sql('spark')}, '{MARK}')"
            """,
        "helpers/text.py": "MARK = '#'\n",
    }

    model = load_model("MODEL (name a.m); SELECT @marked(x) AS a", other)

    assert model.query == "SELECT CONCAT(x, '#') AS a"


def test_a_table_named_by_a_macro_is_a_dependency(load_model: LoadModel) -> None:
    model = load_model("MODEL (name a.m); SELECT x FROM @table(t)", {"macros/m.py": MACROS})

    assert [str(name) for name in model.depends_on] == ["b.t"]
