"""Python functions that return SQL, and statements that decorators give."""

from __future__ import annotations

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster_tests.project.conftest import LoadModel

HEAD = "from sqlglot import exp, select\nfrom vde_dagster import model\n\n"


def python(arguments: str, body: str) -> dict[str, str]:
    text = f'{HEAD}@model("a.m", {arguments})\ndef execute(evaluator, **kwargs):\n    {body}\n'
    return {"models/m.py": text}


def load_python(load_model: LoadModel, arguments: str, body: str) -> object:
    return load_model("MODEL (name a.beside); SELECT 1 AS a", python(arguments, body))


@pytest.mark.parametrize(
    "body",
    [
        "return 'SELECT id, amount * 2 AS double FROM raw.orders WHERE day = @start_date;'",
        "return select('id', 'amount * 2 AS double').from_('raw.orders')"
        ".where(exp.column('day').eq(exp.Parameter(this=exp.var('start_date'))))",
    ],
)
def test_a_function_that_returns_sql_is_a_sql_model(load_model: LoadModel, body: str) -> None:
    made = load_python(load_model, "is_sql=True, kind='VIEW', description='D'", body)
    written = load_model(
        "MODEL (name a.beside);\nSELECT id, amount * 2 AS double FROM raw.orders"
        " WHERE day = @start_date",
    )

    assert made.python is None
    assert made.description == "D"
    assert made.depends_on == (ModelName("raw", "orders"),)
    assert made.source.startswith("from sqlglot")
    snapshot = build_snapshots({made.name: made}, lambda _: None)[made.name]
    assert snapshot.version.opaque is None
    assert [column.name for column in snapshot.columns] == ["id", "double"]
    assert {read.column for read in snapshot.reads} == {"id", "amount", "day"}
    assert written.query is not None


def test_what_the_function_returns_is_what_counts_not_its_code(load_model: LoadModel) -> None:
    one = load_python(load_model, "is_sql=True", "return 'SELECT 1 AS a'")
    two = load_python(load_model, "is_sql=True", "return ' '.join(['SELECT', '1', 'AS', 'a'])")
    versions = [build_snapshots({m.name: m}, lambda _: None)[m.name] for m in (one, two)]
    assert versions[0].fill_version == versions[1].fill_version


def test_statements_of_a_decorator_are_those_of_a_file(load_model: LoadModel) -> None:
    model = load_python(
        load_model,
        "is_sql=True, pre_statements=['SET a.b = c;', 'CREATE TEMP VIEW x AS SELECT 1 AS one'], "
        "post_statements='DELETE FROM a.log', on_virtual_update=[exp.Command(this='REFRESH', "
        "expression=exp.Literal.string('TABLE @this_model')), 'REFRESH TABLE @this_model']",
        "return 'SELECT one FROM x'",
    )

    assert model.query == "WITH x AS (SELECT 1 AS one) SELECT one FROM x"
    assert model.pre_statements == ("SET a.b = c",)
    assert model.post_statements == ("DELETE FROM a.log",)
    assert model.on_virtual_update[-1] == "REFRESH TABLE @this_model"


def test_a_view_of_a_statement_is_known_to_a_python_models_code(load_model: LoadModel) -> None:
    model = load_python(
        load_model,
        "columns={'n': 'INT'}, pre_statements=['CREATE TEMPORARY VIEW x AS SELECT 1 AS n FROM "
        "raw.t', 'CREATE TEMP VIEW y AS SELECT * FROM x']",
        "return evaluator.sql('SELECT n FROM x JOIN y USING (n) JOIN raw.u USING (n)')",
    )

    assert model.python is not None
    assert set(map(str, model.depends_on)) == {"raw.t", "raw.u"}
    assert model.pre_statements[0] == (
        "CREATE OR REPLACE TEMPORARY VIEW `x` AS SELECT 1 AS n FROM raw.t"
    )


@pytest.mark.parametrize(
    ("arguments", "body", "place", "message"),
    [
        ("is_sql=True", "return 3", "4", "must return SQL text or an expression, not int"),
        ("is_sql=True", "return 'SELECT (1 AS a'", "4", "syntax error in the query"),
        ("is_sql=True", "return 'SELECT @nobody'", "4", "unknown variable '@nobody'"),
        ("is_sql=True", "raise KeyError('x')", "6", "the function execute failed: KeyError"),
        ("is_sql=True", "return evaluator.table('x')", "6", "failed: AttributeError"),
        ("is_sql=True, kind='SEED'", "return 'SELECT 1'", "4", "SEED"),
        ("columns={'a': 'INT'}, pre_statements=[3]", "pass", "4", "3 in pre_statements"),
        ("columns={'a': 'INT'}, pre_statements=['DELETE FROM (']", "pass", "4", "syntax error"),
        ("columns={'a': 'INT'}, blueprints=[]", "pass", "4", "is not a list of values"),
        (
            "columns={'a': 'INT'}, blueprints=[{'a': None}]",
            "pass",
            "4",
            "'a' of a blueprint has the unsupported value",
        ),
        ("columns={'a': 'INT'}, blueprints='@x()'", "pass", "4", "unknown macro '@x'"),
    ],
)
def test_a_mistake_points_at_the_decorator_or_the_line_that_raised(
    load_model: LoadModel, arguments: str, body: str, place: str, message: str
) -> None:
    with pytest.raises(ProjectError) as caught:
        load_python(load_model, arguments, body)
    assert str(caught.value.location) == f"models/m.py:{place}"
    assert message in caught.value.message
    assert "\n" not in caught.value.message
