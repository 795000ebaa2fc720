"""Variables and macros in headers, `@model(…)`, external models and tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.project.loading.loader import Project

Load = Callable[[Mapping[str, str]], Project]

SETTINGS = """
[tool.vde.variables]
s = "sales"
who = "data"
size = 3
keys = ["a", "b"]
cadence = "@hourly"
"""
MACROS = """
from vde_dagster import macro

@macro()
def team(evaluator, name):
    return f"'{name.name} of {evaluator.var('who')}'"

@macro()
def nothing(evaluator):
    return None
"""


@pytest.fixture
def load_with(load: Load) -> Load:
    """Load files beside settings with variables and two macros."""
    return lambda files: load({"pyproject.toml": SETTINGS, "macros/m.py": MACROS, **files})


def test_every_property_of_a_header_takes_variables_and_macros(load_with: Load) -> None:
    project = load_with(
        {
            "models/m.sql": """
            MODEL (
              name @s.m_@{who},
              kind INCREMENTAL_BY_TIME_RANGE (time_column day, batch_size @size),
              owner @who,
              tags (@who, 'fixed'),
              description @'Of @{who}, @size days',
              grain @keys,
              stamp @team(crew),
              cron @cadence,
              start @IF(@size > 2, '2024-01-01', '2025-01-01'),
              physical_properties ('of.team' = @who),
              audits (forall(criteria := (a > @size)))
            );
            SELECT a, b, day FROM raw.t WHERE day BETWEEN @start_ds AND @end_ds
            """
        }
    )
    model = project.models[ModelName("sales", "m_data")]
    assert model.owner == "data"
    assert model.tags == ("data", "fixed")
    assert model.description == "Of data, 3 days"
    assert model.grains == (("a", "b"),)
    assert model.stamp == "crew of data"
    assert model.cron == "0 * * * *"
    assert model.start is not None
    assert model.start.year == 2024
    assert model.table_properties == (("of.team", "data"),)
    assert "a > 3" in (model.audits[0].query or "")


@pytest.mark.parametrize("value", ["@nothing()", "@IF(@size > 5, 'me', NULL)"])
def test_a_property_that_becomes_nothing_was_not_written(load_with: Load, value: str) -> None:
    project = load_with({"models/m.sql": f"MODEL (name a.m, owner {value}); SELECT 1 AS x"})
    assert project.models[ModelName("a", "m")].owner is None


def test_a_quoted_name_takes_variables(load_with: Load) -> None:
    project = load_with({"models/m.sql": "MODEL (name `@{s}`.`m`); SELECT 1 AS x"})
    assert ModelName("sales", "m") in project.models


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("owner @nobody", "property 'owner': unknown variable '@nobody'"),
        ("owner @no_macro(1)", "property 'owner': unknown macro '@no_macro'"),
        ("start @start_ds", "property 'start': '@start_ds' is not available here"),
        ("tags (@{start_ds})", "property 'tags': @{start_ds} has no value before"),
        ("cron @dayly", "property 'cron': unknown variable '@dayly'"),
    ],
)
def test_what_is_unknown_in_a_header_is_said_with_its_place(
    load_with: Load, value: str, message: str
) -> None:
    with pytest.raises(ProjectError) as caught:
        load_with({"models/m.sql": f"MODEL (\n  name a.m,\n  {value}\n);\nSELECT 1 AS x\n"})
    assert caught.value.mistakes[0].message.startswith(message)
    assert str(caught.value.mistakes[0].location).startswith("models/m.sql:3:")


PYTHON = """
from vde_dagster import model

@model({name}, columns={{"a": "int"}}, {more})
def execute(context, start, end, execution_time):
    return context.sql("SELECT 1 AS a")
"""


def test_arguments_of_a_decorator_take_variables_and_macros(load_with: Load) -> None:
    more = """owner="@who", tags=["@who", "me@example.com"], description="@team(crew)",
    cron="@daily", depends_on=["@{who}.raw"], kind={"name": "FULL"}"""
    project = load_with({"models/m.py": PYTHON.format(name='"@{s}.m"', more=more)})
    model = project.models[ModelName("sales", "m")]
    assert model.owner == "data"
    assert model.tags == ("data", "me@example.com")
    assert model.description == "crew of data"
    assert model.depends_on == (ModelName("data", "raw"),)


def test_an_unknown_variable_in_a_decorator_s_name_is_a_mistake(load_with: Load) -> None:
    with pytest.raises(ProjectError) as caught:
        load_with({"models/m.py": PYTHON.format(name='"@{schema}.m"', more="")})
    assert "unknown variable '@schema'" in str(caught.value)
    assert str(caught.value.location) == "models/m.py:3"


def test_a_decorated_function_may_be_switched_off(load_with: Load) -> None:
    project = load_with(
        {
            "models/m.py": PYTHON.format(name='"a.m"', more="enabled=False"),
            "models/n.sql": "MODEL (name a.n); SELECT 1 AS x",
        }
    )
    assert list(project.models) == [ModelName("a", "n")]


def test_external_models_and_tests_take_variables(load_with: Load) -> None:
    project = load_with(
        {
            "external_models.yaml": "- name: '@{s}.raw'\n  owner: '@who'\n  columns: {a: int}\n",
            "models/m.sql": "MODEL (name @s.m); SELECT a FROM sales.raw",
            "tests/t.yaml": """
            test_m:
              model: '@{s}.m'
              inputs: {'@{s}.raw': {rows: [{a: 1}]}}
              outputs: {query: {rows: [{a: 1}]}}
            """,
        }
    )
    assert project.models[ModelName("sales", "raw")].owner == "data"
    assert project.tests[0].model == ModelName("sales", "m")
    assert project.tests[0].inputs[0][0] == ModelName("sales", "raw")


def test_an_unknown_variable_in_yaml_is_a_mistake_with_its_line(load_with: Load) -> None:
    with pytest.raises(ProjectError) as caught:
        load_with(
            {
                "external_models.yaml": "- name: raw.t\n- name: '@{nobody}.t'\n",
                "models/m.sql": "MODEL (name a.m); SELECT 1 AS a",
                "tests/t.yaml": "test_m:\n  model: '@{nobody}.m'\n  outputs: {query: []}\n",
            }
        )
    assert [str(one.location) for one in caught.value.mistakes] == [
        "external_models.yaml:2",
        "tests/t.yaml:2",
    ]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("kind FULL", "FULL"),
        ("kind incremental_by_unique_key (unique_key a)", "INCREMENTAL_BY_UNIQUE_KEY"),
        ("cron '@daily'", "VIEW"),
    ],
)
def test_a_header_knows_the_kind_that_is_written_in_it(
    load_with: Load, header: str, expected: str
) -> None:
    text = f"MODEL (name a.m, {header}, tags (@IF(@model_kind_name = '{expected}', 'x', 'y')));"
    project = load_with({"models/m.sql": f"{text} SELECT 1 AS a"})

    assert project.models[ModelName("a", "m")].tags == ("x",)


def test_a_kind_that_a_macro_writes_is_not_known_in_its_header(load_with: Load) -> None:
    text = "MODEL (name a.m, kind @IF(@size > 2, FULL, VIEW), owner @model_kind_name);"
    with pytest.raises(ProjectError, match="a model whose kind is written as a literal"):
        load_with({"models/m.sql": f"{text} SELECT 1 AS a"})


def test_defaults_of_models_may_be_others_for_other_kinds(load: Load) -> None:
    config = """
        gateways: {g: {}}
        model_defaults:
          dialect: spark
          kind: FULL
          physical_properties:
            a.b: "@IF(@model_kind_name = 'FULL', 'whole', NULL)"
            c.d: "@model_kind_name"
        """
    python = (
        "from sqlmesh import model\n\n@model('a.p', columns={'a': 'int'},\n"
        "       kind={'name': 'INCREMENTAL_BY_UNIQUE_KEY', 'unique_key': 'a'})\n"
        "def entry(context, **kwargs):\n    return []\n"
    )
    project = load(
        {
            "config.yaml": config,
            "models/f.sql": "MODEL (name a.f); SELECT 1 AS a",
            "models/k.sql": "MODEL (name a.k, kind INCREMENTAL_BY_UNIQUE_KEY (unique_key a));"
            " SELECT 1 AS a",
            "models/p.py": python,
        }
    )
    found = {str(name): dict(model.table_properties) for name, model in project.models.items()}

    assert found == {
        "a.f": {"a.b": "whole", "c.d": "FULL"},
        "a.k": {"c.d": "INCREMENTAL_BY_UNIQUE_KEY"},
        "a.p": {"c.d": "INCREMENTAL_BY_UNIQUE_KEY"},
    }
