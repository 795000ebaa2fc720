"""What `@runtime_stage` is in each text: what the text is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.planning.checks.check_model import check_model
from vde_dagster.planning.checks.diagnostics import CheckedModel
from vde_dagster.project.loading.loader import load_project, read_with_test_variables
from vde_dagster.project.model import Model
from vde_dagster_tests.project.conftest import LoadModel, WriteProject

MACROS = """
from sqlmesh import macro
from sqlmesh.core.macros import RuntimeStage

@macro()
def stage(evaluator):
    assert evaluator.locals["runtime_stage"] == evaluator.runtime_stage
    return f"'{RuntimeStage(evaluator.runtime_stage).value}'"
"""
SAYS = {
    "a variable": "@runtime_stage",
    "a macro": "@stage()",
    "a condition": "@IF(@runtime_stage = '{}', '{}', 'other')",
}


def _model(load_model: LoadModel, says: str) -> Model:
    def said(stage: str) -> str:
        return SAYS[says].replace("{}", stage)

    return load_model(
        f"""
        MODEL (name a.m, kind FULL, audits (found));
        SET before = {said("evaluating")};
        SELECT {said("evaluating")} AS s;
        SET after = {said("evaluating")};
        ON_VIRTUAL_UPDATE_BEGIN;
        SET shown = {said("promoting")};
        ON_VIRTUAL_UPDATE_END;
        """,
        {
            "macros/m.py": MACROS,
            "audits/found.sql": f"AUDIT (name found); SELECT {said('auditing')} FROM @this_model",
        },
    )


@pytest.mark.parametrize("says", SAYS)
def test_every_text_knows_what_it_is_for(load_model: LoadModel, says: str) -> None:
    model = _model(load_model, says)

    assert model.query == "SELECT 'evaluating' AS s"
    assert model.pre_statements == ("SET before = 'evaluating'",)
    assert model.post_statements == ("SET after = 'evaluating'",)
    assert model.on_virtual_update == ("SET shown = 'promoting'",)
    assert [audit.query for audit in model.audits] == ["SELECT 'auditing' FROM @this_model"]


def test_blocks_of_jinja_and_defaults_of_models_know_it(load_model: LoadModel) -> None:
    block = "JINJA_STATEMENT_BEGIN; SET {} = '{{{{ runtime_stage }}}}' JINJA_END;"
    config = """
        gateways: {g: {}}
        model_defaults:
          dialect: spark
          on_virtual_update: ["SET d = @runtime_stage"]
          pre_statements: ["SET d = @runtime_stage"]
        """
    model = load_model(
        "MODEL (name a.m, kind FULL);\n"
        + block.format("a")
        + "\nJINJA_QUERY_BEGIN; SELECT '{{ runtime_stage }}' AS s JINJA_END;\n"
        + f"ON_VIRTUAL_UPDATE_BEGIN; {block.format('b')} ON_VIRTUAL_UPDATE_END;",
        {"config.yaml": config},
    )

    assert model.query == "SELECT 'evaluating' AS s"
    assert model.pre_statements == ("SET d = 'evaluating'", "SET a = 'evaluating'")
    assert model.on_virtual_update == ("SET d = 'promoting'", "SET b = 'promoting'")


def test_decorators_and_standalone_audits_know_it(write_project: WriteProject) -> None:
    root = write_project(
        {
            "models/p.py": """
                from sqlmesh import model

                @model("a.p", is_sql=True, kind="FULL", columns={"s": "text"},
                       pre_statements=["SET x = @runtime_stage"],
                       on_virtual_update=["SET x = @runtime_stage"])
                def entry(evaluator):
                    return f"SELECT '{evaluator.runtime_stage}' AS s"
                """,
            "audits/alone.sql": "AUDIT (name a.alone, standalone true);\n"
            "SELECT @runtime_stage AS s FROM a.p",
        }
    )
    models = load_project(root).models
    model = models[ModelName("a", "p")]

    assert model.query == "SELECT 'evaluating' AS s"
    assert model.pre_statements == ("SET x = 'evaluating'",)
    assert model.on_virtual_update == ("SET x = 'promoting'",)
    assert [audit.query for audit in models[ModelName("a", "alone")].audits] == [
        "SELECT 'auditing' AS s FROM a.p"
    ]


@pytest.mark.parametrize("says", ["@stage()", "@runtime_stage", "@IF(@limit = 2, @stage(), 1)"])
def test_a_unit_test_is_the_stage_of_testing(write_project: WriteProject, says: str) -> None:
    root = write_project(
        {
            "models/m.sql": f"MODEL (name a.m); SELECT {says} AS s",
            "macros/m.py": MACROS,
            "pyproject.toml": "[tool.vde.variables]\nlimit = 2\n",
            "tests/t.yaml": """
                test_m:
                  model: a.m
                  outputs: {query: {rows: [{s: testing}]}}
                test_again:
                  model: a.m
                  vars: {limit: 2}
                  outputs: {query: {rows: [{s: testing}]}}
                """,
        }
    )
    project = load_project(root)
    tested = [read_with_test_variables(test, root, project.models).tested for test in project.tests]

    assert project.models[ModelName("a", "m")].query == "SELECT 'evaluating' AS s"
    assert [model.query for model in tested if model] == ["SELECT 'testing' AS s"] * 2


def test_a_model_that_nobody_asks_for_its_stage_is_not_read_again(
    write_project: WriteProject,
) -> None:
    root = write_project(
        {
            "models/m.sql": "MODEL (name a.m); SELECT 1 AS s",
            "tests/t.yaml": "test_m:\n  model: a.m\n  outputs: {query: {rows: [{s: 1}]}}\n",
        }
    )
    project = load_project(root)

    assert read_with_test_variables(project.tests[0], root, project.models) is project.tests[0]


@pytest.mark.parametrize("stage", ["creating", "demoting", "loading"])
def test_what_is_for_a_stage_that_there_is_not_is_told(load_model: LoadModel, stage: str) -> None:
    model = load_model(
        f"MODEL (name a.m, kind FULL);\n@IF(@runtime_stage = '{stage}', SET x = 1);\nSELECT 1 AS a;"
    )
    (problem,) = check_model(CheckedModel(model, None), {})

    assert not problem.certain
    assert f"@runtime_stage is never '{stage}' here" in problem.message
    assert str(problem.location) == "models/m.sql:2:22"


def test_a_stage_that_there_is_is_not_told(load_model: LoadModel) -> None:
    model = load_model(
        "MODEL (name a.m, kind FULL);\n@IF(@runtime_stage = 'evaluating', SET x = 1);\n"
        "@IF(@runtime_stage IN ('creating', 'evaluating'), SET x = 1);\nSELECT 1 AS a;"
    )

    assert check_model(CheckedModel(model, None), {}) == ()


@pytest.mark.parametrize(
    "asks",
    [
        "evaluator.runtime_stage != 'loading'",
        "evaluator.runtime_stage not in ('loading', 'creating')",
        "evaluator.locals['runtime_stage'] != RuntimeStage.LOADING",
    ],
)
def test_what_is_not_for_loading_does_not_run_while_files_are_read(
    load_model: LoadModel, tmp_path: Path, asks: str
) -> None:
    ran = tmp_path / "ran"
    macros = f"""
        from pathlib import Path
        from sqlmesh import macro
        from sqlmesh.core.macros import RuntimeStage

        @macro()
        def tell(evaluator):
            if {asks}:
                Path("{ran}").touch()
            return "1"
        """
    with pytest.raises(ProjectError, match="compares runtime_stage with 'loading': macros run"):
        load_model("MODEL (name a.m); SELECT @tell() AS s", {"macros/m.py": macros})

    assert not ran.exists()


@pytest.mark.parametrize(
    ("asks", "taken"),
    [
        ("SELECT @IF(@runtime_stage <> 'loading', @tell(), 2) AS s", "tell"),
        ("@IF(@{runtime_stage} != 'loading', @tell());\nSELECT 1 AS s", "tell"),
        ("SELECT @IF('loading' = @runtime_stage, 2, @AND(TRUE, @tell())) AS s", "tell"),
        (
            "@DEF(f, x -> @tell());\nSELECT @IF(@runtime_stage NOT IN ('loading'), @f(1)) AS s",
            "tell",
        ),
        ("SELECT @IF(@runtime_stage = 'loading', @tell(), 2) AS s", None),
        ("SELECT @IF(@runtime_stage <> 'loading', 2, @tell()) AS s", None),
    ],
)
def test_no_macro_runs_while_files_are_read_under_a_condition_that_it_is_not_to(
    load_model: LoadModel, tmp_path: Path, asks: str, taken: str | None
) -> None:
    ran = tmp_path / "ran"
    macros = f"""
        from pathlib import Path
        from sqlmesh import macro

        @macro()
        def tell(evaluator):
            Path("{ran}").touch()
            return "1"
        """
    text = f"MODEL (name a.m);\n{asks}"
    if taken is None:
        assert load_model(text, {"macros/m.py": macros}).query == "SELECT 2 AS s"
    else:
        with pytest.raises(ProjectError, match="condition of @tell compares runtime_stage"):
            load_model(text, {"macros/m.py": macros})
    assert not ran.exists()
