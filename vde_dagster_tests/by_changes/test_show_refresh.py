"""`vde render --refresh` prints how a model refreshes after changes of each table."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.errors import UsageError
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.long

FILES = {
    "models/orders.sql": "MODEL (name m.orders, kind FULL); SELECT 1 AS id, 2 AS c, 3 AS n",
    "models/names.sql": """
        MODEL (name m.names, kind FULL (refresh whole));
        SELECT 2 AS id, 'x' AS name
    """,
    "models/totals.sql": """
        MODEL (name m.totals, kind FULL (refresh changes));
        SELECT o.c, sum(o.n) AS n, max(k.name) AS name
        FROM m.orders AS o JOIN m.names AS k ON o.c = k.id GROUP BY o.c
    """,
    "models/first.sql": """
        MODEL (name m.first, kind FULL (refresh changes));
        SELECT id, c FROM m.orders ORDER BY n LIMIT 3
    """,
}


def test_each_table_has_the_sql_of_the_keys_that_its_changes_affect(tmp_path: Path) -> None:
    workspace = open_fake(ProjectFolder(tmp_path, FILES).root)
    workspace.apply(workspace.plan("prod"))
    found = workspace.models.refresh("m.totals")
    assert [one.key for one in found] == [("c",), ("c",)]
    for one in found:
        (changed,) = [line for line in one.sql.split("(SELECT") if "came or went" in line]
        assert one.table in changed
    (first,) = workspace.models.refresh("m.first")
    assert (first.key, first.why_all) == ((), "the query takes the first rows: LIMIT 3")
    with pytest.raises(UsageError, match=r"m\.names does not refresh from changes: its kind"):
        workspace.models.refresh("m.names")


def test_a_model_in_python_has_no_query_to_refresh(tmp_path: Path) -> None:
    code = """
        from vde_dagster import model

        @model("m.code", kind="FULL", columns={"id": "INT"})
        def code(context):
            return [{"id": 1}]
        """
    workspace = open_fake(ProjectFolder(tmp_path, {"models/code.py": code}).root)
    with pytest.raises(UsageError, match=r"m\.code does not refresh from changes: it has no query"):
        workspace.models.refresh("m.code")
