"""Names of columns in the case of their author, for systems outside."""

from __future__ import annotations

from pathlib import Path

from vde_dagster.base.names import ModelName
from vde_dagster.planning.snapshots.spelling import column_spelling
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder

FIRST = "MODEL (name m.first, kind FULL); SELECT 1 AS CustomerId, 'x' AS `Full Name`, 2 AS plain"


QUERIES: dict[str, list[str]] = {
    "SELECT * FROM m.first": ["CustomerId", "Full Name", "plain"],
    "SELECT CUSTOMERID, plain AS Plain FROM m.first": ["CUSTOMERID", "Plain"],
    "WITH x AS (SELECT * FROM m.first) SELECT f.*, 3 AS B FROM x AS f": [
        *("CustomerId", "Full Name", "plain", "B")
    ],
    "WITH x(OneA, TwoB) AS (SELECT 1, 2) SELECT * FROM x": ["OneA", "TwoB"],
    "SELECT * FROM VALUES (1, 2) AS v(OneA, twoB)": ["OneA", "twoB"],
    "SELECT * FROM (SELECT 1, 2) AS v(OneA, twoB)": ["OneA", "twoB"],
    "SELECT * FROM m.first AS f(A, `b C`, dD)": ["A", "b C", "dD"],
    "SELECT * FROM VALUES (1) AS t(x) LATERAL VIEW explode(array(1)) l AS Each": ["x", "Each"],
    "SELECT posexplode(array(1)) AS (Pos, Value)": ["Pos", "Value"],
    "SELECT CustomerId FROM m.first UNION ALL SELECT plain FROM m.first": ["CustomerId"],
    "SELECT * FROM m.first JOIN (SELECT customerid FROM m.first) USING (customerid)": [
        *("CustomerId", "Full Name", "plain")
    ],
}
PYTHON = """
from vde_dagster import model
@model("m.code", columns={"OneA": "INT"})
def execute(context, **more):
    return None
"""
DECLARED = "MODEL (name m.declared, kind FULL, columns (OneA INT)); SELECT 1 AS onea"


def test_columns_have_their_authors_case(tmp_path: Path) -> None:
    files = {"models/a.sql": FIRST, "models/code.py": PYTHON, "models/declared.sql": DECLARED}
    for number, query in enumerate(QUERIES):
        files[f"models/q{number}.sql"] = f"MODEL (name m.q{number}, kind FULL); {query}"
    with open_fake(ProjectFolder(tmp_path / "p", files).root) as workspace:
        plan = workspace.plan("prod")
    snapshots = {one.name: one for one in plan.snapshots.values()}

    def spelled(name: str) -> list[str]:
        return list(column_spelling(ModelName("m", name), snapshots).values())

    found = {query: spelled(f"q{number}") for number, query in enumerate(QUERIES)}
    assert found == QUERIES
    assert (spelled("code"), spelled("declared")) == (["OneA"], ["OneA"])
