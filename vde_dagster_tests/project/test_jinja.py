from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.project.loading.loader import Project, load_project
from vde_dagster_tests.project.conftest import LoadModel, WriteProject

MACROS = {
    "macros/text.sql": """
        {% macro twice(x) -%} 2 * {{ _plain(x) }} {%- endmacro %}
        {% macro day() %}'{{ start_ds }}'{% endmacro %}
        """,
    "macros/other.sql": """
        {%- macro _plain(x) -%} {{ x }} {%- endmacro -%}
        {%- macro schema() -%} {{ var('schema', 'raw') }} {%- endmacro -%}
        {% macro named(expression, name) %}
          {{ expression }} AS {{ name }}
        {% endmacro %}
        """,
    "macros/python.py": """
        from sqlglot import exp
        from vde_dagster import macro

        @macro()
        def names(evaluator, count):
            return [f"c{number}" for number in range(count)]

        @macro()
        def column(evaluator, name):
            return exp.column(name, table="t")
        """,
    "pyproject.toml": """
        [tool.vde.variables]
        size = 3
        place = "Ghent"
        """,
}
RENDERED = {
    "SELECT {{ 1 + 1 }} AS a": "SELECT 2 AS a",
    "SELECT '{{ var('place') }}' AS a, {{ var('SIZE') }} AS b": "SELECT 'Ghent' AS a, 3 AS b",
    "SELECT {{ var('none', 7) }} AS a, {{ var('x', default='b') }} AS c": "SELECT 7 AS a, b AS c",
    "SELECT {% if var('none') %} 1 {% else %} 2 {% endif %} AS a": "SELECT 2 AS a",
    "SELECT {% for c in ['a', 'b'] %} {{ c }}{{ ',' if not loop.last }} {% endfor %} FROM r.t": (
        "SELECT a, b FROM r.t"
    ),
    "{% set c = 'a' %} SELECT {{ c | upper }} FROM r.t {# it's #}": "SELECT A FROM r.t",
    "SELECT {{ twice('a') }} AS b FROM {{ schema() }}.t": "SELECT 2 * a AS b FROM raw.t",
    "SELECT {{ names(2) | join(', ') }}, {{ column('x') }} FROM r.t": "SELECT c0, c1, t.x FROM r.t",
    "SELECT a, {{ named('b', 'c') }}, {{ named(\"'d'\", 'e') }} FROM r.t": (
        "SELECT a, b AS c, 'd' AS e FROM r.t"
    ),
    "{% set kinds = ['x', 'y'] %} SELECT {% for k in kinds %}\n  v = '{{ k }}' AS is_{{ k }},\n"
    "{% endfor %}\nFROM r.t": "SELECT v = 'x' AS is_x, v = 'y' AS is_y FROM r.t",
    "{% set whole = true %} SELECT a, {% if whole %} b {% endif %} FROM r.t": (
        "SELECT a, b FROM r.t"
    ),
    "SELECT {{ blueprint_var('none', 'x') }} AS a": "SELECT x AS a",
    "SELECT @EVAL({{ 1 }} + 2) AS a": "SELECT 3 AS a",
    "SELECT 1 AS a {% raw %} -- {{ x }} {% endraw %}": "SELECT 1 AS a",
    "SELECT 1 AS a;": "SELECT 1 AS a",
    "{% set x %}a{% endset %} SELECT {{ 1 if x == 'a' else 2 }} AS a": "SELECT 1 AS a",
}
TIMES = {
    "'{{ start_ds }}'": "@start_ds",
    "'{{ start_date }}'": "@start_ds",
    "'{{ end_dt }}'": "@end_tstz",
    "'{{ execution_tstz }}'": "@execution_tstz",
    "DATE '{{ start_ds }}'": "CAST(@start_ds AS DATE)",
    "TIMESTAMP '{{ start_ts }}'": "CAST(@start_ts AS TIMESTAMP)",
    "'{{ start_ds }}'::DATE": "@start_ds::DATE",
    "'day={{ start_ds }}/{{ end_ds }}'": "CONCAT('day=', @start_ds, '/', @end_ds)",
    "'it''s {{ start_ds }}'": "CONCAT('it''s ', @start_ds)",
    "{{ start_epoch }}": "@start_epoch",
    "'{{ start_hour }}'": "CAST(@start_hour AS VARCHAR(30))",
    "{{ day() }}": "@start_ds",
    "'{{ start_ds | default('x') }}'": "@start_ds",
    "1 -- {{ start_ds }}\n": "1",
}


def _block(query: str) -> str:
    return f"MODEL (name a.m, kind FULL);\nJINJA_QUERY_BEGIN;\n{query}\nJINJA_END;"


@pytest.mark.parametrize("query", RENDERED)
def test_a_block_is_rendered_before_it_is_read(query: str, load_model: LoadModel) -> None:
    assert load_model(_block(query), MACROS).query == RENDERED[query]


@pytest.mark.parametrize("value", TIMES)
def test_times_stay_variables_until_the_query_runs(value: str, load_model: LoadModel) -> None:
    model = load_model(_block(f"SELECT {value} AS a"), MACROS)
    assert model.query == f"SELECT {TIMES[value]} AS a"


def test_times_are_read_in_the_model_s_dialect(load_model: LoadModel) -> None:
    text = _block("SELECT 'a\\{{ start_ds }}' AS a, \"B\" FROM r.t WHERE d = '{{ end_ds }}'")
    model = load_model(text.replace("kind FULL", "kind FULL, dialect duckdb"))
    assert model.query == (
        "SELECT CONCAT('a\\\\', COALESCE(CAST(@start_ds AS STRING), '')) AS a, `B` "
        "FROM r.t WHERE d = @end_ds"
    )


def test_statements_are_templates_too(load_model: LoadModel) -> None:
    model = load_model(
        """
        {# a comment's end: #}
        MODEL (name a.m, kind FULL);
        JINJA_STATEMENT_BEGIN;
        {% for n in [1, 2] %} SET x{{ n }} = {{ n }}; {% endfor %}
        JINJA_END;
        JINJA_QUERY_BEGIN; SELECT 1 AS a JINJA_END;
        JINJA_STATEMENT_BEGIN; ANALYZE TABLE {{ this_model }} COMPUTE STATISTICS; JINJA_END;
        JINJA_STATEMENT_BEGIN; {% if false %} SET y = 1 {% endif %} JINJA_END;
        ON_VIRTUAL_UPDATE_BEGIN;
        JINJA_STATEMENT_BEGIN; SET z = '{{ var("place") }}' JINJA_END;
        ON_VIRTUAL_UPDATE_END;
        """,
        MACROS,
    )
    assert model.pre_statements == ("SET x1 = 1", "SET x2 = 2")
    assert model.post_statements == ("ANALYZE TABLE @this_model COMPUTE STATISTICS",)
    assert model.on_virtual_update == ("SET z = 'Ghent'",)
    assert model.source.startswith("{# a comment's end: #}")


def test_comments_of_jinja_are_comments_of_plain_sql(load_model: LoadModel) -> None:
    text = "MODEL (name a.m); SELECT 1 AS a {# don't; #}, '{# b #}' AS b -- {# c\n"
    assert load_model(text).query == "SELECT 1 AS a, '{# b #}' AS b"


def test_an_audit_may_be_a_template(load_model: LoadModel) -> None:
    audit = """
        AUDIT (name above);
        JINJA_QUERY_BEGIN;
        SELECT * FROM {{ this_model }} WHERE @column <= {{ var('size') }}
        JINJA_END;
        """
    text = "MODEL (name a.m, kind FULL, audits (above(column := x))); SELECT 1 AS x"
    model = load_model(text, {**MACROS, "audits/above.sql": audit})
    assert model.audits[0].query == "SELECT * FROM @this_model WHERE x <= 3"


def test_variables_of_a_blueprint_are_known(load: Callable[[Mapping[str, str]], Project]) -> None:
    text = """
        MODEL (name @s.m, kind FULL, blueprints ((s := a, n := 1), (s := b, n := 2)));
        JINJA_QUERY_BEGIN; SELECT {{ blueprint_var('n') }} AS n JINJA_END;
        """
    models = load({"models/m.sql": text}).models
    assert {str(name): model.query for name, model in models.items()} == {
        "a.m": "SELECT 1 AS n",
        "b.m": "SELECT 2 AS n",
    }


def test_tables_are_placed_where_the_template_names_them(write_project: WriteProject) -> None:
    text = _block("{% for x in range(3) %}\n{% endfor %}\nSELECT 1 AS a\nFROM a.missing")
    with pytest.raises(ProjectError) as caught:
        load_project(write_project({"models/m.sql": text}))
    assert str(caught.value).startswith("models/m.sql:6")


def test_a_changed_macro_is_read_again(write_project: WriteProject) -> None:
    def query(root: Path) -> str | None:
        return load_project(root).models[ModelName("a", "m")].query

    text = _block("SELECT {{ twice(1) }} AS a")
    root = write_project({"models/m.sql": text, **MACROS})
    assert query(root) == "SELECT 2 * 1 AS a"
    write_project({"macros/other.sql": "{% macro _plain(x) -%} {{ x + 1 }} {%- endmacro %}"})
    assert query(root) == "SELECT 2 * 2 AS a"


def test_a_broken_file_of_macros_is_one_mistake(write_project: WriteProject) -> None:
    models = {
        f"models/m{n}.sql": _block("SELECT {{ f() }}").replace("a.m", f"a.m{n}") for n in "12"
    }
    root = write_project({**models, "macros/m.sql": "\n{% macro f( %}"})
    (problem,) = load_project(root, strict=False).problems
    assert str(problem).startswith("macros/m.sql:1: Jinja: expected token")


def test_a_model_goes_on_behind_an_audit_in_its_file(load_model: LoadModel) -> None:
    model = load_model(
        """
        MODEL (name a.m, audits (few), dialect bigquery);
        AUDIT (name few);
        SELECT * FROM @this_model WHERE n > 3;
        JINJA_QUERY_BEGIN;
        SELECT {{ 1 + 1 }} AS n, 'it\\'s' AS t FROM x.t
        JINJA_END;
        """
    )

    assert model.query == "SELECT 2 AS n, 'it\\'s' AS t FROM x.t"
    assert [audit.name for audit in model.audits] == ["few"]
