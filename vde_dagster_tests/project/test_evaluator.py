"""What Python macros ask their first argument, in the names that SQLMesh's evaluator has."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.project.loading.loader import Project

Load = Callable[[Mapping[str, str]], Project]

CONFIG = """
gateways:
  main: {}
default_gateway: main
model_defaults: {dialect: %s}
variables: {region: eu}
"""


def query_of(load: Load, body: str, *, dialect: str = "spark", call: str = "@m(x + 1)") -> str:
    macro = (
        "from sqlglot import exp\nfrom sqlmesh import macro\n"
        "from sqlmesh.core.macros import MacroEvaluator, RuntimeStage\n\n"
        "@macro(metadata_only=True)\ndef twice(evaluator, value):\n    return value * 2\n\n"
        f"@macro()\ndef m(evaluator: MacroEvaluator, given=None):\n    {body}\n"
    )
    files = {
        "config.yaml": CONFIG % dialect,
        "macros/m.py": macro,
        "models/p.sql": "MODEL (name b.p, kind VIEW, columns (k INT, v TEXT)); SELECT k, v FROM c",
        "models/m.sql": f"MODEL (name a.m, kind VIEW); @DEF(size, n + 1); SELECT {call} AS a FROM "
        "b.p",
    }
    query = load(files).models[ModelName("a", "m")].query
    assert query is not None
    return query.removeprefix("SELECT ").partition(" AS a")[0]


@pytest.mark.parametrize("annotation", ["SQL", "str", "'SQL'"])
def test_an_argument_as_text_is_in_the_dialect_of_its_file(load: Load, annotation: str) -> None:
    macro = (
        "from sqlmesh import SQL, macro\n\n"
        f"@macro()\ndef typed(evaluator, given: {annotation}):\n    return repr(given)\n"
    )
    files = {
        "config.yaml": CONFIG % "duckdb",
        "macros/typed.py": macro,
        "models/m.sql": "MODEL (name a.m); SELECT @typed([1, 2]) AS a",
    }
    query = load(files).models[ModelName("a", "m")].query
    assert query == "SELECT '[1, 2]' AS a"  # In Spark's dialect: ARRAY(1, 2)


@pytest.mark.parametrize("dialect", ["spark", "duckdb"])
@pytest.mark.parametrize(
    ("body", "expanded"),
    [
        ("return repr(evaluator.runtime_stage)", "'evaluating'"),
        ("assert evaluator.runtime_stage != RuntimeStage.CREATING; return '1'", "1"),
        ("return repr(evaluator.locals['runtime_stage'])", "'evaluating'"),
        ("return repr(evaluator.gateway)", "'main'"),
        ("return repr(evaluator.var('region'))", "'eu'"),
        ("return [evaluator.var('nobody'), '1']", "1"),
        ("return evaluator.var('nobody') or '1'", "1"),
        ("return evaluator.locals['region']", "'eu'"),
        ("return evaluator.locals['size'] * 2", "(n + 1) * 2"),
        ("return f'f({evaluator.locals[\"size\"]})'", "F(n + 1)"),
        ("return exp.func('f', evaluator.locals['start_ds'])", "F(@start_ds)"),
        ("return repr(evaluator.this_model_fqn.replace(chr(34), ''))", "'a.m'"),
        ("return repr(','.join(evaluator.columns_to_types('b.p')))", "'k,v'"),
        ("return repr(evaluator.columns_to_types(exp.to_table('b.p'))['k'].sql())", "'INT'"),
        ("return evaluator.parse_one('f(a)')", "F(a)"),
        ("return evaluator.parse_one(given).this", "x"),
        ("return 'f_' + evaluator.parse_one('int', into=exp.DataType).sql() + '(1)'", "F_INT(1)"),
        ("return evaluator.send('twice', given)", "(x + 1) * 2"),
        ("return evaluator.macros['twice'](evaluator, given)", "(x + 1) * 2"),
        ("return evaluator.eval_expression(exp.Literal.number(3)) + 1", "4"),
        ("return repr(evaluator.template('@{region}_x', {}))", "'eu_x'"),
        ("return repr(evaluator.template('@y', {'y': exp.to_identifier('z')}))", "'z'"),
        ("return repr(evaluator.resolve_table('b.p'))", "'b.p'"),
        ("return evaluator.resolve_tables(given)", "(x + 1)"),
        (
            "return evaluator.transform(exp.func('f', exp.Parameter(this=exp.Var(this='size'))))",
            "F(n + 1)",
        ),
    ],
)
def test_what_a_macro_asks_is_told(load: Load, body: str, expanded: str, dialect: str) -> None:
    found = query_of(load, body, dialect=dialect)

    assert found.upper().strip("()") == expanded.upper().strip("()")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return evaluator.engine_adapter.fetchdf('SELECT 1')", "engine_adapter.*no engine yet"),
        ("return evaluator.snapshots", "snapshots.*no snapshots yet"),
        ("return evaluator.get_snapshot('b.p')", "get_snapshot.*no snapshots yet"),
        ("return evaluator.this_env", "this_env is available only in before_all"),
        ("return evaluator.send('twise', given)", "unknown macro 'twise'"),
        ("return evaluator.columns_to_types('c.unknown')", "columns of c.unknown are not known"),
        ("return evaluator.surplus", "the evaluator has no attribute 'surplus'"),
        ("return f'a + {evaluator.var(\"x\")}'", "the macro uses the unknown variable 'x'"),
        ("x = evaluator.var('x'); return ['1', str(x)]", "unknown variable 'x'"),
    ],
)
def test_what_cannot_be_known_at_load_says_so(load: Load, body: str, message: str) -> None:
    with pytest.raises(ProjectError, match=message) as error:
        query_of(load, body)

    assert "models/m.sql:1" in str(error.value.location)


def test_the_table_itself_is_known_when_the_statement_runs(load: Load) -> None:
    files = {
        "macros/m.py": "from sqlmesh import macro\n\n@macro()\ndef m(evaluator):\n"
        "    return f'ANALYZE TABLE {evaluator.this_model} COMPUTE STATISTICS'\n",
        "models/m.sql": "MODEL (name a.m, kind FULL); SELECT 1 AS a; @m();",
    }
    model = load(files).models[ModelName("a", "m")]

    assert model.post_statements == ("ANALYZE TABLE @this_model COMPUTE STATISTICS",)
