"""Running a model's query without writing, and comparing tables row by row."""

from __future__ import annotations

import pytest

from vde_dagster.execution.environments.compare_tables import TableDiff
from vde_dagster.execution.workspace import Workspace
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.projects import ProjectFolder

ROWS = """
    MODEL (name shop.rows, kind FULL, grain id);
    SELECT * FROM VALUES (1, 'a', 1.5D), (2, 'b', 2.5D), (3, NULL, 3.5D), (NULL, 'n', 0.0D)
      AS t(id, name, amount)
"""
OTHER = """
    MODEL (name shop.rows, kind FULL, grain id);
    SELECT id, name, CAST(amount AS DECIMAL(4, 1)) AS amount, map('a', id) AS more
    FROM VALUES (1, 'a', 1.5), (2, 'B', 2.5), (4, 'd', 4.5), (NULL, 'n', 0.0) AS t(id, name, amount)
"""
DAYS = """
    MODEL (name shop.days, start '2024-01-01', end '2024-01-03', cron '@daily',
      kind INCREMENTAL_BY_TIME_RANGE (time_column day));
    SELECT CAST(@start_ds AS DATE) AS day, count(*) AS n FROM shop.seen GROUP BY 1
"""
SEEN = "MODEL (name shop.seen, kind VIEW); SELECT id FROM shop.rows"


@pytest.mark.spark
def test_queries_are_run_and_tables_are_compared(
    tmp_path_factory: pytest.TempPathFactory, spark_engine: SparkEngine, vde: Vde
) -> None:
    files = {"models/rows.sql": ROWS, "models/days.sql": DAYS, "models/seen.sql": SEEN}
    shop = ProjectFolder(tmp_path_factory.mktemp("compare") / "shop", files)
    at = ("--project", shop.root, "--json")

    early = vde("evaluate", "shop.days", *at)
    assert early.code == 2
    assert (
        "shop.days reads shop.rows, whose current definition has no table yet"
        in early.json["error"]["message"]
    )
    with Workspace.open(shop.root) as workspace:
        workspace.apply(workspace.plan("prod", skip_backfill=False))
    shop.edit("models/days.sql", "count(*) AS n", "count(*) * 10 AS n")
    found = vde("evaluate", "shop.days", "--start", "2024-01-02", "--end", "2024-01-02", *at).json
    assert found["rows"] == [["2024-01-02", 40]]
    assert [column["name"] for column in found["columns"]] == ["day", "n"]
    assert (found["start"], found["end"]) == ("2024-01-02T00:00:00Z", "2024-01-03T00:00:00Z")
    assert len(vde("evaluate", "shop.rows", "--limit", "2", *at).json["rows"]) == 2

    shop.write("models/rows.sql", OTHER)
    shop.remove("models/days.sql")
    with Workspace.open(shop.root) as workspace:
        workspace.apply(workspace.plan("dev"))
    diff = vde("table-diff", "prod:dev", "shop.rows", *at)
    assert diff.code == 0, diff.err
    assert diff.json["on"] == ["id"]
    assert diff.json["schema"] == {
        "added": {"more": "map<string,int>"},
        "removed": {},
        "changed": {"amount": ["double", "decimal(4,1)"]},
    }
    assert diff.json["rows"] == {
        "source": 4,
        "target": 4,
        "joined": 3,
        "identical": 2,
        "differing": 1,
        "only_source": 1,
        "only_target": 1,
        "repeated_source": 0,
        "repeated_target": 0,
    }
    assert diff.json["columns"] == {"name": 1, "amount": 0}
    assert diff.json["samples"]["differing"] == [
        {"id": 2, "name (source)": "b", "name (target)": "B"}
    ]
    assert [row["id"] for row in diff.json["samples"]["only_source"]] == [3]
    assert [row["id"] for row in diff.json["samples"]["only_target"]] == [4]

    assert vde("table-diff", "shop.rows", "shop__dev.rows", *at).json["on"] == ["id"]
    same = vde("table-diff", "shop.rows", "lakehouse.shop__dev.rows", "--on", "name,ID", *at).json
    assert same["on"] == ["name", "id"]
    assert same["rows"]["identical"] == 2
    some = vde("table-diff", "prod:dev", "shop.rows", "--where", "id < 3", "--limit", "0", *at).json
    assert (some["rows"]["joined"], some["samples"]) == (2, {})
    shown = vde("table-diff", "prod:dev", "shop.rows", "--project", shop.root).out
    assert "rows only in the second" in shown
    wrong = vde("table-diff", "prod:dev", "shop.rows", "--on", "idd", *at)
    assert wrong.code == 2
    assert "'idd' is not a column of both tables" in wrong.json["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["table-diff", "prod:dev", "shop.rows"], "environment 'prod' does not exist"),
        (["table-diff", "shop.more", "shop.others"], "compared without key columns"),
        (["table-diff", "rows", "shop.others", "--on", "id"], "'rows' is not a table name"),
        (["evaluate", "shop.rwos"], "model 'shop.rwos' does not exist"),
    ],
)
def test_what_cannot_be_compared_is_one_message_without_spark(
    arguments: list[str], said: str, tmp_path_factory: pytest.TempPathFactory, vde: Vde
) -> None:
    shop = ProjectFolder(tmp_path_factory.mktemp("none") / "shop", {"models/rows.sql": ROWS})
    ended = vde(*arguments, "--project", shop.root, "--json")
    assert ended.code == 2
    assert said in ended.json["error"]["message"]
    assert ended.json["error"]["hint"]


def test_names_of_columns_have_no_case_and_may_be_any_text() -> None:
    diff = TableDiff("a", "b", ["ID"], {"id": "int", "a b`c": "int"}, {"Id": "int", "A B`c": "int"})
    assert diff.keys == ("id",)
    assert "`a b``c` AS c0" in diff.counts()
