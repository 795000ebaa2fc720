"""What a failed apply says, model by model, on real Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.projects import SHOP, ProjectFolder

pytestmark = pytest.mark.spark

SHOP_WITH_MISTAKES = {
    **SHOP,
    "models/staging/orders.sql": """
        MODEL (name staging.orders, kind VIEW);
        SELECT id, customer, amount, day,
          amount / (id - 3) AS part
        FROM raw.orders
    """,
    "models/marts/part.sql": """
        MODEL (name marts.part, kind FULL);
        SELECT sum(part) AS part FROM staging.orders
    """,
    "models/marts/child.sql": """
        MODEL (name marts.child, kind FULL);
        SELECT part FROM marts.part
    """,
    "models/marts/ratio.sql": """
        MODEL (name marts.ratio, kind FULL);

        WITH a AS (SELECT id, amount FROM staging.orders)
        SELECT id,
          -- the mistake: nope
          amount + nope AS x
        FROM (SELECT *, array(1) AS nope FROM a)
    """,
    "models/marts/customers.sql": """
        MODEL (name marts.customers, kind FULL, audits (
            unique_values(columns := (customer)),
            forall(criteria := (revenue > 1000))));
        SELECT id AS customer, amount + 0 AS revenue FROM staging.orders
    """,
    "models/marts/frame.py": """
        from vde_dagster import model


        def helper(rows):
            return rows["nothing"]


        @model("marts.frame", columns={"n": "BIGINT"}, depends_on=["raw.orders"])
        def execute(context):
            return helper(context.table("raw.orders").toPandas())
    """,
    "models/marts/worker.py": """
        from vde_dagster import model


        @model("marts.worker", columns={"n": "BIGINT"}, depends_on=["raw.orders"])
        def execute(context):
            from pyspark.sql import functions, types

            @functions.udf(types.LongType())
            def half(x):
                return {}[x]

            return context.table("raw.orders").select(half("id").alias("n"))
    """,
}


def test_every_model_that_failed_is_told_with_its_line_its_cause_and_its_rows(
    tmp_path: Path, vde: Vde, spark_engine: SparkEngine
) -> None:
    folder = ProjectFolder(tmp_path / "shop", SHOP_WITH_MISTAKES)
    ended = vde("apply", "prod", "--project", folder.root, "--json")
    assert ended.code == 1, ended.err
    error = ended.json["error"]
    failures = {failure["model"]: failure for failure in error["failures"]}
    places = {
        model: f"{failure['file'].removeprefix('models/')}:{failure['line']}"
        for model, failure in failures.items()
    }
    assert places == {
        "marts.part": "staging/orders.sql:3",  # the view's, which it inlines
        "marts.ratio": "marts/ratio.sql:6",
        "marts.customers": "marts/customers.sql:3",
        "marts.frame": "marts/frame.py:5",
        "marts.worker": "marts/worker.py:10",
    }
    assert failures["marts.part"]["skipped"] == ["marts.child"]
    assert "[DIVIDE_BY_ZERO] Division by zero" in failures["marts.part"]["message"]
    assert "DATATYPE_MISMATCH" in failures["marts.ratio"]["message"]
    assert failures["marts.frame"]["message"].endswith("failed: KeyError: 'nothing'")
    assert failures["marts.worker"]["message"].endswith("failed: KeyError: 1")
    (audit,) = failures["marts.customers"]["audits"]
    assert audit["rows"] == 5
    assert len(audit["sample"]) == 5
    assert {"customer": "1", "revenue": "5.0"} in audit["sample"]
    for failure in failures.values():
        assert "\n" not in failure["message"]
        assert "\tat " not in failure["message"]

    stacks = Path(error["log"]).read_text()
    assert Path(error["log"]).is_relative_to(folder.root)
    for model in failures:
        assert f"{model}\n" in stacks
    assert "at org.apache.spark" in stacks
    assert 'in helper\n    return rows["nothing"]' in stacks

    assert "models/marts/frame.py:5: " in ended.err
    assert "skipped because of them: marts.child, marts.top" in ended.err
    assert "marts.customers: forall(criteria=(revenue > 1000)), 5 of 5 failing rows:" in ended.err
    assert "    1         5.0\n" in ended.err
    assert f"full tracebacks: {error['log']}" in ended.err
    assert "Py4J" not in ended.err
    assert "NativeMethodAccessorImpl" not in ended.err


def test_a_view_that_spark_refuses_is_told_with_its_line(
    tmp_path: Path, vde: Vde, spark_engine: SparkEngine
) -> None:
    folder = ProjectFolder(
        tmp_path / "views",
        {
            "models/v.sql": """
                MODEL (name db.v, kind VIEW);
                SELECT
                  1 AS a,
                  size(1) AS b
            """
        },
    )
    ended = vde("apply", "prod", "--project", folder.root, "--json")
    assert ended.code == 1
    error = ended.json["error"]
    assert (error["file"], error["line"]) == ("models/v.sql", 4)
    assert error["message"].startswith("db.v: ")
