"""Statements around queries, on real Spark: temporary views, and what views' statements do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from vde_dagster.errors import ExecutionError
from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.spark

Open = Callable[[ProjectFolder], Workspace]


def rows(workspace: Workspace, sql: str, environment: str = "prod") -> list[tuple[Any, ...]]:
    return list(workspace.query(environment, sql).rows)


def test_temporary_views_read_the_environments_tables_and_never_meet(
    published: ProjectFolder, open_workspace: Open
) -> None:
    for number, name in enumerate(("one", "two"), 1):
        published.write(
            f"models/{name}.sql",
            f"""
            MODEL (name marts.{name}, kind {"FULL" if number == 1 else "VIEW"});
            CREATE TEMPORARY VIEW best AS SELECT * FROM marts.top WHERE place = {number};
            SELECT customer, revenue FROM best;
            """,
        )
    published.write(
        "tests/test_one.yaml",
        """
        test_one:
          model: marts.one
          inputs:
            marts.top:
              rows:
                - {customer: 1, revenue: 2.0, place: 1}
                - {customer: 2, revenue: 1.0, place: 2}
          outputs:
            ctes:
              best:
                rows: [{customer: 1, revenue: 2.0, place: 1}]
            query:
              rows: [{customer: 1, revenue: 2.0}]
        """,
    )
    workspace = open_workspace(published)
    workspace.apply(workspace.plan("prod"))
    assert rows(workspace, "SELECT * FROM marts.one") == [(12, 20.0)]
    assert rows(workspace, "SELECT * FROM marts.two") == [(11, 7.5)]
    assert "best AS (SELECT" in workspace.models.render("marts.one")

    published.edit("models/marts/customers.sql", "sum(amount)", "sum(-amount)")
    again = open_workspace(published)
    again.apply(again.plan("dev"))
    assert rows(again, "SELECT * FROM marts.one", "dev") == [(10, -6.0)]
    assert rows(again, "SELECT * FROM marts.two", "dev") == [(11, -7.5)]
    assert rows(again, "SELECT * FROM marts.one") == [(12, 20.0)]


def test_a_view_that_a_later_statement_reads_is_there_in_the_session(
    published: ProjectFolder, open_workspace: Open
) -> None:
    workspace = open_workspace(published)
    session = workspace.engine().guest_session
    session.sql("CREATE TABLE lakehouse.marts.log (customer INT) USING iceberg")
    published.write(
        "models/one.sql",
        """
        MODEL (name marts.one, kind FULL);
        CREATE TEMPORARY VIEW best AS SELECT customer FROM marts.top WHERE place < 3;
        SELECT customer FROM best;
        INSERT INTO lakehouse.marts.log SELECT max(customer) FROM best;
        """,
    )
    again = open_workspace(published)
    again.apply(again.plan("prod"))
    assert rows(again, "SELECT count(*) FROM marts.one") == [(2,)]
    assert [row.customer for row in session.table("lakehouse.marts.log").collect()] == [12]


def test_statements_of_a_view_run_once_for_each_version_around_its_analysis(
    published: ProjectFolder, open_workspace: Open
) -> None:
    workspace = open_workspace(published)
    engine = workspace.engine()
    engine.guest_session.sql("CREATE TABLE lakehouse.marts.log (what STRING) USING iceberg")
    published.write(
        "models/shown.sql",
        """
        MODEL (name marts.shown, kind VIEW, audits (forall(criteria := (map(1, 2, 1, 3)[1] = 3))));
        SET spark.sql.ansi.enabled = true;
        SET spark.sql.mapKeyDedupPolicy = LAST_WIN;
        INSERT INTO lakehouse.marts.log SELECT 'before';
        SELECT customer, revenue / 2 AS half FROM marts.top;
        INSERT INTO lakehouse.marts.log SELECT 'after' WHERE @start_ds < '9';
        INSERT INTO lakehouse.marts.log SELECT 'ansi' WHERE size(CAST(NULL AS ARRAY<INT>)) IS NULL;
        """,
    )
    again = open_workspace(published)
    again.apply(again.plan("prod"))
    log = "SELECT what FROM lakehouse.marts.log ORDER BY what"

    def said() -> list[str]:
        return [row.what for row in engine.guest_session.sql(log).collect()]

    once = ["after", "ansi", "before"]
    assert said() == once
    assert rows(again, "SELECT count(*) FROM marts.shown") == [(3,)]

    published.write("models/other.sql", "MODEL (name marts.other, kind VIEW);\nSELECT 1 AS a")
    again = open_workspace(published)
    again.apply(again.plan("dev"))
    assert rows(again, "SELECT count(*) FROM marts.shown", "dev") == [(3,)]
    assert said() == once
    published.edit("models/marts/customers.sql", "sum(amount)", "sum(amount * 2)")
    third = open_workspace(published)
    third.apply(third.plan("prod"))
    assert said() == sorted(once * 2), "the view's version is another one, as its parent's is"


def test_statements_on_virtual_update_run_on_the_views_of_the_environment(
    published: ProjectFolder, open_workspace: Open
) -> None:
    workspace = open_workspace(published)
    session = workspace.engine().guest_session
    session.sql("CREATE TABLE lakehouse.marts.log (what STRING, n BIGINT) USING iceberg")
    published.write(
        "models/top_two.sql",
        """
        MODEL (name marts.top_two, kind FULL);
        SELECT customer FROM marts.top WHERE place < 3;
        ON_VIRTUAL_UPDATE_BEGIN;
        INSERT INTO lakehouse.marts.log SELECT 'own', count(*) FROM @this_model;
        GRANT SELECT ON VIEW @this_model TO ROLE nobody_has;
        INSERT INTO lakehouse.marts.log SELECT 'top', count(*) FROM marts.top;
        ON_VIRTUAL_UPDATE_END;
        """,
    )
    again = open_workspace(published)
    result = again.apply(again.plan("dev"))
    assert result.published
    assert rows(again, "SELECT count(*) FROM marts.top_two", "dev") == [(2,)]
    said = session.sql("SELECT what, n FROM lakehouse.marts.log ORDER BY what").collect()
    assert [tuple(row) for row in said] == [("own", 2), ("top", 3)]
    (failed,) = result.failed_statements
    assert "marts__dev" in failed.statement
    assert failed.error is not None
    assert "GRANT is not valid" in failed.error, "Spark itself has no grants"


def test_python_models_have_statements_blueprints_and_unit_tests_of_both(
    published: ProjectFolder, open_workspace: Open
) -> None:
    published.write(
        "models/python.py",
        """
        from vde_dagster import model

        @model(
            "marts.place_@{number}",
            columns={"customer": "INT", "number": "INT"},
            blueprints=[{"number": 1}, {"number": 2}],
            pre_statements=["CREATE TEMPORARY VIEW own AS SELECT * FROM marts.top"
                            " WHERE place = @number"],
        )
        def execute(context):
            number = context.blueprint_var("number")
            return context.sql(f"SELECT customer, {number} AS number FROM own")

        @model("marts.places", is_sql=True, kind="VIEW")
        def places(evaluator):
            return " UNION ALL ".join(f"SELECT * FROM marts.place_{n}" for n in (1, 2))
        """,
    )
    published.write(
        "tests/test_place.yaml",
        """
        test_place:
          model: marts.place_2
          inputs:
            marts.top:
              rows:
                - {customer: 7, revenue: 2.0, place: 1}
                - {customer: 8, revenue: 1.0, place: 2}
          outputs:
            query:
              rows: [{customer: 8, number: 2}]
        """,
    )
    workspace = open_workspace(published)
    workspace.apply(workspace.plan("prod"))
    assert sorted(rows(workspace, "SELECT * FROM marts.places")) == [(11, 2), (12, 1)]


def test_statements_around_a_seed_run_when_its_rows_are_written(
    published: ProjectFolder, open_workspace: Open
) -> None:
    published.write("seeds/letters.csv", "letter\na\nb\n")
    published.write(
        "models/letters.sql",
        """
        MODEL (name raw.letters, kind SEED (path '../seeds/letters.csv'));
        SET letters.before = 1;
        @INSERT_SEED();
        DROP TABLE @{nowhere}.table_of_letters;
        """,
    )
    published.write("pyproject.toml", '[tool.vde.variables]\nnowhere = "raw_of_nobody"\n')
    workspace = open_workspace(published)
    with pytest.raises(ExecutionError, match="table_of_letters"):
        workspace.apply(workspace.plan("prod"))

    published.edit("models/letters.sql", "DROP TABLE", "DROP TABLE IF EXISTS")
    again = open_workspace(published)
    again.apply(again.plan("prod"))
    assert rows(again, "SELECT letter FROM raw.letters ORDER BY letter") == [("a",), ("b",)]
