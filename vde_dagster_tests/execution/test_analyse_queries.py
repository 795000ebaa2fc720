"""What Spark says of a plan's queries before anybody approves it: all mistakes, nothing written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from vde_dagster.execution.plans.analyse_queries import analyse_plan
from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.projects import SHOP, ProjectFolder

pytestmark = pytest.mark.spark

Open = Callable[[ProjectFolder], Workspace]

NEW = {
    **SHOP,
    "models/marts/by_status.sql": """
        MODEL (name marts.by_status, kind FULL, columns (status STRING, amount INT));
        SELECT o.status, struct(sum(c.amount) AS total) AS amount
        FROM raw.orders AS o JOIN staging.orders AS c USING (id)
        GROUP BY o.status
    """,
    "models/marts/after.sql": """
        MODEL (name marts.after, kind FULL);
        SELECT status FROM marts.by_status
    """,
    "models/marts/grouped.sql": """
        MODEL (name marts.grouped, kind FULL);
        SELECT
          customer,
          size(customer) AS amount
        FROM staging.orders
        GROUP BY customer
    """,
    "models/marts/summed.sql": """
        MODEL (name marts.summed, kind FULL);
        SELECT
          size(revenue) AS revenue
        FROM marts.customers
    """,
    "models/marts/nothing.sql": """
        MODEL (name marts.nothing, kind FULL);
        SELECT customer,
          NULL AS later
        FROM marts.customers
    """,
    "models/marts/when.sql": """
        MODEL (name marts.when, start '2024-01-01', cron '@daily',
          kind INCREMENTAL_BY_TIME_RANGE (time_column amount));
        SELECT element_at(transform(array(amount), x -> x), 1) AS amount
        FROM staging.orders WHERE amount > 0
    """,
    # It has the rows and a column of marts.customers, so one table serves both.
    "models/marts/audited.sql": """
        MODEL (name marts.audited, kind FULL, audits (
          not_null(columns := (who)),
          forall(criteria := (length(who, 1) > 1))));
        SELECT customer AS who FROM marts.customers
    """,
    "models/marts/elsewhere.sql": """
        MODEL (name marts.elsewhere, kind VIEW);
        SELECT a.customer,
          l.rate
        FROM marts.customers AS a
        JOIN finance.rates AS l ON true
    """,
    "external_models.yaml": """
        - name: finance.rates
          columns: {day: date, rate: double}
    """,
    "models/marts/code.py": """
        from vde_dagster import model

        @model("marts.code", columns={"n": "BIGINT"}, depends_on=["raw.orders"])
        def execute(context):
            raise RuntimeError("must not be run")
    """,
    "models/marts/of_code.sql": """
        MODEL (name marts.of_code, kind FULL);
        SELECT explode(n) AS n FROM marts.code
    """,
    "models/marts/prepared.sql": """
        MODEL (name marts.prepared, kind FULL);
        INSERT INTO marts.log SELECT 1;
        SELECT 1 AS a;
    """,
    "models/marts/with_view.sql": """
        MODEL (name marts.with_view, kind FULL);
        CREATE TEMPORARY VIEW own AS SELECT customer,
          size(customer) AS a FROM staging.orders;
        SELECT a FROM own
    """,
    "models/marts/in_session.sql": """
        MODEL (name marts.in_session, kind FULL, audits (
          forall(criteria := (CAST(length(a) AS BINARY) IS NOT NULL))));
        SET spark.sql.ansi.enabled = false;
        SELECT customer AS a FROM staging.orders
    """,
}


def test_every_mistake_is_told_with_model_and_line_before_anything_is_written(
    tmp_path: Path, open_workspace: Open
) -> None:
    folder = ProjectFolder(tmp_path / "shop", NEW)
    workspace = open_workspace(folder)
    plan = workspace.plan("prod", save=False)
    found = analyse_plan(workspace, plan)
    said = {
        str(mistake.location).removeprefix("models/marts/"): mistake.message
        for mistake in found.mistakes
    }
    expected = {
        "by_status.sql:2:52": "marts.by_status: [DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION] ",
        "grouped.sql:4:3": "marts.grouped: [DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE] ",
        "with_view.sql:3:3": "marts.with_view: [DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE] ",
        "summed.sql:3:3": "marts.summed: [DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE] ",
        "nothing.sql:3:11": "marts.nothing: the column 'later' is of type void, which cannot",
        "when.sql:3": "marts.when: the time column 'amount' is of type double, which is not s",
        "audited.sql:3:3": "marts.audited: audit forall(criteria=(length(who, 1) > 1)): "
        "[WRONG_NUM_ARGS.WITHOUT_SUGGESTION] ",
        "elsewhere.sql:5:6": "marts.elsewhere: [TABLE_OR_VIEW_NOT_FOUND] ",
        "of_code.sql:2:8": "marts.of_code: [DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE] ",
    }
    begun = {place: said[place][: len(expected.get(place, ""))] for place in said}
    assert begun == expected
    assert {str(name) for name in found.left_out} == {
        "marts.after",
        "marts.code",
        "marts.prepared",
    }
    assert {"staging.orders", "marts.daily", "marts.top", "marts.in_session"} <= set(
        map(str, found.analysed)
    )

    assert workspace.store.tables.load(m.table.id for m in plan.models if m.table) == {}
    assert not list((folder.root / ".vde").rglob("*.parquet"))
    assert not list((folder.root / ".vde").rglob("*.metadata.json"))


def test_what_is_there_is_read_as_it_is_and_only_what_changed_is_looked_at(
    shop: ProjectFolder, open_workspace: Open
) -> None:
    workspace = open_workspace(shop)
    workspace.apply(workspace.plan("prod"))
    assert analyse_plan(workspace, workspace.plan("prod")).analysed == ()
    shop.edit("models/marts/top.sql", "customer, revenue,", "customer, revenue + array(1) AS r,")
    shop.edit("models/marts/customers.sql", "sum(amount)", "sum(amount * 2)")
    again = open_workspace(shop)
    plan = again.plan("dev", save=False)
    found = analyse_plan(again, plan)
    assert list(map(str, found.analysed)) == ["marts.customers", "marts.top"]
    (mistake,) = found.mistakes
    assert str(mistake.location) == "models/marts/top.sql:2:18"


def test_a_plan_without_queries_starts_no_spark(shop: ProjectFolder, open_workspace: Open) -> None:
    workspace = open_workspace(shop)
    workspace.apply(workspace.plan("prod"))
    shop.edit("models/marts/top.sql", "MODEL (name marts.top, kind FULL);", "")
    shop.remove("models/marts/top.sql")
    again = open_workspace(shop)
    found = analyse_plan(again, again.plan("prod", save=False))
    assert (found.analysed, found.mistakes) == ((), ())
    assert not again.started_engine
