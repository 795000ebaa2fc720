"""The command line on real Spark and Iceberg: from `init` to the janitor."""

from __future__ import annotations

import signal

import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.spark

REVENUE = "SELECT order_date, orders, revenue FROM marts.daily_revenue ORDER BY order_date"


def test_apply_computes_publishes_and_says_so(
    template: ProjectFolder, vde: Vde, spark_engine: SparkEngine
) -> None:
    done = vde("apply", "prod", "--project", template.root, "--json")
    assert done.code == 0, done.err
    assert done.json["published"] is True
    assert done.json["environment"]["name"] == "prod"
    assert done.json["environment"]["version"] == 1
    assert done.json["environment"]["models"] == 3
    assert done.json["plan"]["environment"] == "prod"
    assert "computing 2 models, 8 intervals" in done.err
    assert "published prod version 1" in done.err
    assert not list(template.root.rglob("*.crc")), "Hadoop writes its files as PyIceberg does"

    again = vde("apply", "prod", "--project", template.root, "--json")
    assert again.json["published"] is False
    assert again.json["plan"]["empty"] is True
    for_people = vde("apply", "prod", "--project", template.root)
    assert for_people.out == "prod is up to date: nothing to do\n"
    run = vde("run", "prod", "--project", template.root)
    assert run.out == (
        "prod is up to date: nothing is due; --ignore-cron computes before the next tick\n"
    )


def test_query_returns_columns_with_types_and_rows(unchanged: ProjectFolder, vde: Vde) -> None:
    found = vde("query", "prod", REVENUE, "--limit", "2", "--project", unchanged.root, "--json")
    assert found.json["columns"] == [
        {"name": "order_date", "type": "date"},
        {"name": "orders", "type": "bigint"},
        {"name": "revenue", "type": "decimal(20,2)"},
    ]
    assert found.json["rows"] == [["2024-01-01", 2, "55.50"], ["2024-01-02", 1, "80.25"]]
    assert found.json["publication"]
    for_people = vde("query", "prod", REVENUE, "--project", unchanged.root)
    assert "2024-01-07" in for_people.out


@pytest.mark.parametrize("sql", ["SELECT nothing FROM marts.daily_revenue", "SELECT (", "DROP x"])
def test_a_query_that_cannot_be_run_is_an_error_without_a_traceback(
    sql: str, unchanged: ProjectFolder, vde: Vde
) -> None:
    ended = vde("query", "prod", sql, "--project", unchanged.root, "--json")
    assert ended.code in (1, 2)
    assert ended.json["error"]["message"]
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT reflect('java.lang.System', 'getProperty', 'user.home') AS a", "reflect"),
        ("SELECT * FROM text.`{file}`", "neither a model"),
    ],
)
def test_a_query_reads_files_and_calls_java_with_raw_only(
    sql: str, said: str, unchanged: ProjectFolder, vde: Vde
) -> None:
    sql = sql.format(file=unchanged.root / "pyproject.toml")
    refused = vde("query", "prod", sql, "--project", unchanged.root, "--json")
    assert refused.code == 2
    assert said in refused.json["error"]["message"]
    assert "--raw" in refused.json["error"]["hint"]
    ended = vde("query", "prod", sql, "--raw", "--project", unchanged.root, "--json")
    assert ended.code == 0, ended.err
    assert ended.json["rows"]


def test_raw_queries_mean_the_models_too(unchanged: ProjectFolder, vde: Vde) -> None:
    calls = [
        vde("query", "prod", REVENUE, *raw, "--project", unchanged.root, "--json")
        for raw in ((), ("--raw",))
    ]
    assert calls[0].json["rows"] == calls[1].json["rows"] != []


def test_a_change_is_tried_in_dev_compared_promoted_and_rolled_back(
    published: ProjectFolder, vde: Vde
) -> None:
    root = published.root
    published.edit("models/staging/orders.sql", "status = 'paid'", "status <> 'cancelled'")
    published.edit("models/marts/daily_revenue.sql", "COUNT(*) AS orders", "COUNT(*) + 0 AS orders")
    shown = vde("diff", "prod", "--project", root)
    assert "-  status = 'paid'" in shown.out

    plan = vde("plan", "dev", "--project", root, "--json").json
    done = vde("apply", "dev", "--plan", plan["id"], "--project", root, "--json")
    assert done.code == 0, done.err
    assert any(model["builds"] for model in done.json["plan"]["models"])

    promoted = vde("apply", "prod", "--project", root, "--json").json
    assert promoted["published"] is True
    assert not any(model["builds"] for model in promoted["plan"]["models"])

    versions = vde("history", "prod", "--project", root, "--json").json["versions"]
    assert [version["version"] for version in versions] == [2, 1]
    back = vde("rollback", "prod", "--to", "1", "--project", root, "--json").json
    assert back["restored"] == 1
    assert back["environment"]["version"] == 3
    assert back["missing"] == {}
    again = vde("rollback", "prod", "--to", "3", "--project", root)
    assert (again.code, "environment 'prod' is already at version 3" in again.err) == (2, True)

    listed = vde("environments", "--project", root, "--json").json["environments"]
    assert [environment["name"] for environment in listed] == ["dev", "prod"]


def test_a_plan_of_another_environment_is_refused(unchanged: ProjectFolder, vde: Vde) -> None:
    plan = vde("plan", "dev", "--project", unchanged.root, "--json").json
    refused = vde("apply", "prod", "--plan", plan["id"], "--project", unchanged.root)
    assert refused.code == 2
    assert "is for environment 'dev', not 'prod'" in refused.err


def test_an_environment_is_dropped_and_cleaned_up(published: ProjectFolder, vde: Vde) -> None:
    root = published.root
    assert vde("apply", "dev", "--project", root).code == 0
    assert vde("drop", "dev", "--project", root, "--json").json == {
        "environment": "dev",
        "dropped": True,
    }
    told = vde("janitor", "--dry-run", "--project", root, "--json").json
    assert {"drop_environment"} <= {decision["action"] for decision in told["decisions"]}
    done = vde("janitor", "--project", root)
    assert done.code == 0, done.err
    listed = vde("environments", "--project", root, "--json").json["environments"]
    assert [environment["name"] for environment in listed] == ["prod"]
    assert vde("drop", "prod", "--project", root).code == 2


def test_a_run_without_anything_due_publishes_nothing(unchanged: ProjectFolder, vde: Vde) -> None:
    done = vde("run", "prod", "--project", unchanged.root, "--json")
    assert done.code == 0, done.err
    assert done.json["plan"]["kind"] == "run"


def test_a_failed_audit_is_exit_code_1_and_publishes_nothing(
    published: ProjectFolder, vde: Vde
) -> None:
    published.edit("models/marts/daily_revenue.sql", "revenue > 0", "revenue > 40")
    published.edit("models/marts/daily_revenue.sql", "COUNT(*) AS", "COUNT(*) + 0 AS")
    ended = vde("apply", "prod", "--project", published.root, "--json")
    assert ended.code == 1
    assert "forall" in ended.json["error"]["message"]
    assert ended.json["error"]["hint"]
    listed = vde("environments", "--project", published.root, "--json").json["environments"]
    assert listed[0]["version"] == 1


def test_a_failed_unit_test_is_exit_code_1_unless_it_is_left_out(
    published: ProjectFolder, vde: Vde
) -> None:
    published.edit("models/marts/daily_revenue.sql", "COUNT(*) AS", "COUNT(*) + 1 AS")
    apply = ("apply", "prod", "--project", published.root, "--json")
    ended = vde(*apply)
    assert ended.code == 1
    assert "test_orders_of_a_day_are_added_up" in ended.json["error"]["message"]
    assert "vde test" in ended.json["error"]["hint"]
    assert "test_orders_of_a_day_are_added_up failed" in ended.err
    listed = vde("environments", "--project", published.root, "--json").json["environments"]
    assert listed[0]["version"] == 1

    assert vde(*apply, "--skip-tests").json["published"] is True


def test_what_vde_test_found_right_an_apply_does_not_run_again(
    template: ProjectFolder, vde: Vde, spark_engine: SparkEngine
) -> None:
    tested = "test_orders_of_a_day_are_added_up"
    assert vde("test", "--project", template.root).code == 0
    ended = vde("apply", "prod", "--project", template.root)
    assert ended.code == 0
    assert tested not in ended.err
    (template.root / ".vde/cache/unit_tests").unlink()
    template.edit("models/marts/daily_revenue.sql", "COUNT(*) AS", "COUNT(*) + 0 AS")
    assert f"{tested} passed" in vde("apply", "prod", "--project", template.root).err


def test_unit_tests_pass_and_a_failing_one_shows_the_rows(
    template: ProjectFolder, vde: Vde, spark_engine: SparkEngine
) -> None:
    passed = vde("test", "--project", template.root, "--json")
    assert passed.code == 0, passed.err
    assert (passed.json["passed"], passed.json["failed"]) == (1, 0)

    path = "models/tests/test_daily_revenue.yaml"
    template.edit(path, "revenue: 21.50", "revenue: 21.49")
    failed = vde("test", "--project", template.root, "--json")
    assert failed.code == 1
    (result,) = failed.json["tests"]
    assert result["file"] == path
    assert result["passed"] is False
    (difference,) = result["differences"]
    assert difference["missing"] == [["2024-01-01", 2, 1, "21.49"]]
    assert difference["unexpected"] == [["2024-01-01", 2, 1, "21.50"]]
    assert "21.49" in vde("test", "--project", template.root).out


def test_ctrl_c_stops_the_work_and_publishes_nothing(
    template: ProjectFolder, vde: Vde, spark_engine: SparkEngine
) -> None:
    template.write(
        "models/marts/slow.py",
        """
        import os, signal, time

        from vde_dagster import model

        @model("marts.slow", columns={"n": "BIGINT"})
        def execute(context):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
            return context.spark.range(3).withColumnRenamed("id", "n")
        """,
    )
    before = signal.getsignal(signal.SIGINT)
    ended = vde("apply", "prod", "--project", template.root, "--json")
    assert ended.code == 130, ended.err
    assert ended.json["error"]["message"] == "canceled"
    assert "completed intervals are kept" in ended.err
    assert signal.getsignal(signal.SIGINT) is before
    listed = vde("environments", "--project", template.root, "--json")
    assert listed.json == {"environments": []}


def test_a_checked_plan_lists_what_spark_refuses_and_is_stored_when_it_is_right(
    template: ProjectFolder, vde: Vde, spark_engine: SparkEngine
) -> None:
    check = ("plan", "prod", "--check", "--project", template.root)
    right = vde(*check, "--json")
    assert right.code == 0, right.err
    assert right.json["check"] == {
        "analysed": ["raw.orders", "staging.orders", "marts.daily_revenue"],
        "left_out": {},
    }
    with Workspace.open(template.root) as workspace:
        assert workspace.store.plans.load(right.json["id"]).environment == "prod"
        assert workspace.store.tables.load(m["table"] for m in right.json["models"]) == {}
    assert "Spark analyzed 3 models: no errors" in vde(*check).err

    template.edit("models/marts/daily_revenue.sql", "COUNT(*) AS", "COUNT(*) + array(1) AS")
    wrong = vde(*check, "--json")
    assert wrong.code == 2
    (mistake,) = wrong.json["error"]["mistakes"]
    assert mistake["file"] == "models/marts/daily_revenue.sql"
    text = (template.root / mistake["file"]).read_text().splitlines()
    assert "COUNT(*) + array(1)" in text[mistake["line"] - 1]
    assert "DATATYPE_MISMATCH" in mistake["message"]
    assert "whole stacks" not in wrong.err
