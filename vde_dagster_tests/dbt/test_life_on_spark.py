"""A dbt project's life: planned and filled on Spark, beside models of our own, and edited."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ExecutionError, UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.plugins.dbt.answers import Answers, published_state
from vde_dagster.reports.reasons import describe_break
from vde_dagster_tests.dbt.conftest import MANIFEST, PROJECTS, SETTINGS
from vde_dagster_tests.dbt.test_beside import FILES
from vde_dagster_tests.projects import ProjectFolder

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_engine")]


def _rows(workspace: Workspace, query: str) -> list[tuple[Any, ...]]:
    return [tuple(map(str, row)) for row in workspace.query("prod", query).rows]


def test_a_dbt_project_in_a_folder_is_filled_with_models_of_our_own(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path, FILES)
    shutil.copytree(PROJECTS / "shop", folder.root / "transform")

    with Workspace.open(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))

        assert _rows(workspace, "SELECT * FROM reports.spent ORDER BY name") == [
            ("Ada", "10.50"),
            ("Grace", "7.25"),
        ]
        assert _rows(workspace, "SELECT * FROM main.visits") == [("1", "home", "Ada")]
        assert _rows(workspace, "SELECT customer_id FROM main.big_spenders") == [("1",)]
        current = "SELECT name, dbt_valid_to FROM main.customer_history ORDER BY name"
        assert _rows(workspace, current) == [("Ada", "None"), ("Grace", "None")]
        since = "SELECT order_id, CAST(since AS DATE), until FROM main.order_history ORDER BY 1"
        assert _rows(workspace, since)[0] == ("1", "2024-01-05", "None")
        assert len(_rows(workspace, "SELECT * FROM main.order_facts")) == 3
        assert workspace.plan("prod").is_empty

        # A customer that a test of dbt's has to find.
        with (folder.root / "transform/seeds/raw_customers.csv").open("a") as file:
            file.write("1;Ada;2024-01-02\n")
        workspace.reload()
        with pytest.raises(ExecutionError) as raised:
            workspace.apply(workspace.plan("prod"))
        assert "unique_customers_customer_id" in str(raised.value)
        assert len(_rows(workspace, "SELECT * FROM main.customers")) == 2


def test_hooks_act_on_what_is_filled_and_shown(tmp_path: Path) -> None:
    root = tmp_path / "hooks"
    shutil.copytree(PROJECTS / "hooks", root)
    (root / "pyproject.toml").write_text(SETTINGS.format(name="hooks"))

    with Workspace.open(root) as workspace:
        workspace.apply(workspace.plan("prod"))

        assert _rows(workspace, "SELECT id FROM main.shown ORDER BY id") == [("1",), ("2",)]
        log = "SELECT what, about FROM raw.log ORDER BY what, about"
        assert _rows(workspace, log) == [
            ("before", "orders"),
            ("end", "all"),
            ("shown", "3"),
            ("start", "all"),
        ]
        entry = workspace.store.environments.get("prod").entries[ModelName("main", "orders")]
        table = workspace.store.tables.get(entry.table_id)
        properties = workspace.lakehouse.table_metadata(table.ref)["properties"]
        assert (properties["writer"], properties["rows"]) == ("dbt", "*/")
        assert workspace.plan("prod").is_empty


def test_what_is_governed_is_told_by_audits_and_plans(tmp_path: Path) -> None:
    root = tmp_path / "governed"
    shutil.copytree(PROJECTS / "governed", root)
    (root / "pyproject.toml").write_text(SETTINGS.format(name="governed"))

    with Workspace.open(root) as workspace:
        session = workspace.engine().session  # type: ignore[attr-defined]
        session.sql("CREATE NAMESPACE lakehouse.raw")
        columns = "id BIGINT, amount BIGINT, loaded_at TIMESTAMP"
        session.sql(f"CREATE TABLE lakehouse.raw.orders ({columns}) USING iceberg")
        session.sql("INSERT INTO lakehouse.raw.orders VALUES (1, 5, TIMESTAMP '2024-01-01')")
        workspace.apply(workspace.plan("prod"))

        # The newest version is the one that others mean, and old rows of a source stop nothing.
        assert _rows(workspace, "SELECT * FROM main.report") == [("5", "1")]
        report = workspace.environments.audit("prod", select=["raw.orders"])
        found = [(one.audit.label, one.result.failed_rows) for one in report.results]
        assert found == [("freshness(limit=warn_after)", 1), ("freshness(limit=error_after)", 1)]
        assert not report.is_blocked

        answers = Answers(workspace, [("raw", "orders"), ("raw", "none")])
        shown, source = ModelName("main", "report"), ModelName("raw", "orders")
        tables = (shown, source, ModelName("raw", "none"), ModelName("main", "none"))
        assert [answers.exists(name) for name in tables] == [True, True, False, False]
        given = {"ask": "columns", "relation": list(source)}
        assert answers.answer(given)["columns"] == [
            ("id", "bigint"),
            ("amount", "bigint"),
            ("loaded_at", "timestamp"),
        ]
        given = {"ask": "columns", "relation": list(shown)}
        assert [type_ for _, type_ in answers.answer(given)["columns"]] == ["bigint", "bigint"]
        query = "SELECT max(o.id), max(r.total) FROM raw.orders o CROSS JOIN main.report r;"
        asked = {"ask": "rows", "sql": query, "limit": 5}
        assert answers.answer(asked)["rows"] == [[1, 5]]
        for query in (
            "DROP TABLE raw.orders",
            "SELECT * FROM other.t",
            "SHOW TABLES IN raw",
        ):
            with pytest.raises(UsageError):
                answers.rows(query, None)
        before = published_state(workspace, [("raw", "orders")])
        session.sql("INSERT INTO lakehouse.raw.orders VALUES (2, 6, TIMESTAMP '2024-01-01')")
        assert published_state(workspace, [("raw", "orders")]) != before
        assert published_state(workspace, []) == published_state(workspace, []) != ""

        manifest = root / MANIFEST
        manifest.write_text(manifest.read_text().replace(", max(amount) as largest", ""))
        workspace.reload()
        plan = workspace.plan("prod")

        assert [describe_break(one) for one in plan.breaks] == [
            "main.totals_v1.largest is removed; read by the dashboard The board"
        ]

        # A source that is not there fails its own audits alone.
        session.sql("DROP TABLE lakehouse.raw.orders")
        report = workspace.environments.audit("prod", select=["raw.orders"])
        missing = ({"problem": "the table raw.orders does not exist"},)
        assert [one.result.sample for one in report.results] == [missing, missing]
        assert not report.is_blocked
