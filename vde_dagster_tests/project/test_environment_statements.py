"""`before_all` and `after_all`: how their texts are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from vde_dagster.errors import ProjectError
from vde_dagster.project.configuration.settings_source import read_settings_and_inputs
from vde_dagster.project.loading.environment_statements import environment_statements
from vde_dagster.project.loading.loader import load_project

Write = Callable[[Mapping[str, str]], Path]


def read(root: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Read both as the environment `dev` runs them."""
    settings = read_settings_and_inputs(root)[0]
    return environment_statements(settings, "dev", schemas=["a__dev"], views=["a__dev.m"])


def test_blocks_of_jinja_make_statements(write_project: Write) -> None:
    text = '''
    from sqlmesh.core.config import Config, ModelDefaultsConfig

    config = Config(
        model_defaults=ModelDefaultsConfig(dialect="spark"),
        before_all=["""
            SET a.b = 1;
            JINJA_STATEMENT_BEGIN;
            {% for schema in schemas %}
            CREATE TABLE log.{{ this_env }} AS SELECT '{{ schema }}' AS s, '{{ start_ds }}' AS d;
            {% endfor %}
            JINJA_END;
            SET a.b = 2
        """],
        after_all=["JINJA_STATEMENT_BEGIN; REFRESH TABLE {{ views[0] }}; JINJA_END;"],
    )
    '''

    before, after = read(write_project({"config.py": text}))

    assert before[0] == "SET a.b = 1"
    assert before[1].startswith("CREATE TABLE log.dev AS SELECT 'a__dev' AS s, ")
    assert before[2:] == ("SET a.b = 2",)
    assert after == ("REFRESH TABLE a__dev.m",)


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("SELECT @nothing", "config.yaml:5.*nothing"),
        ("|\n    SET a.b = 1;\n    SELECT @nothing()", "config.yaml:7.*nothing"),
    ],
)
def test_mistakes_have_the_line_of_the_configuration(
    write_project: Write, statement: str, says: str
) -> None:
    text = f"model_defaults:\n  dialect: spark\nbefore_all:\n  - SET x = 1\n  - {statement}\n"

    with pytest.raises(ProjectError, match=says):
        read(write_project({"config.yaml": text}))


def test_jinja_outside_of_blocks_is_refused(write_project: Write) -> None:
    text = 'before_all = ["SET a.b = {{ this_env }}"]'

    with pytest.raises(ProjectError, match=r"pyproject.toml:2.*Jinja is evaluated only in blocks"):
        read(write_project({"pyproject.toml": f"[tool.vde]\n{text}\n"}))


def test_the_own_catalog_has_the_name_that_spark_knows(write_project: Write) -> None:
    files = {
        "config.yaml": """
            model_defaults: {dialect: spark}
            before_all: [ANALYZE TABLE shop.raw.m COMPUTE STATISTICS, REFRESH TABLE crm.raw.m]
        """,
        "models/m.sql": """
            MODEL (name shop.raw.m);
            SELECT 1 AS shop, 2 AS x;
            ON_VIRTUAL_UPDATE_BEGIN;
            GRANT SELECT ON VIEW Shop.raw.m TO x;
            ON_VIRTUAL_UPDATE_END;
        """,
    }
    root = write_project(files)

    [model] = load_project(root).models.values()

    assert model.on_virtual_update == ("GRANT SELECT ON VIEW `lakehouse`.`raw`.`m` TO x",)
    assert read(root)[0] == (
        "ANALYZE TABLE `lakehouse`.`raw`.`m` COMPUTE STATISTICS",
        "REFRESH TABLE crm.raw.m",
    )


def test_macros_of_another_tool_are_not_read(write_project: Write) -> None:
    macro = "{% test positive(model) %}\nSELECT 1\n{% endtest %}\n"
    settings = '[tool.vde]\nbefore_all = ["SET a.b = 1"]\n'
    files = {"dbt_project.yml": "name: x\n", "macros/m.sql": macro, "pyproject.toml": settings}

    assert read(write_project(files)) == (("SET a.b = 1",), ())
