"""Names of columns in the case of their author, for systems outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.planning.snapshots.spelling import column_spelling
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder

FIRST = "MODEL (name m.first, kind FULL); SELECT 1 AS CustomerId, 'x' AS `Full Name`, 2 AS plain"


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("SELECT * FROM m.first", ["CustomerId", "Full Name", "plain"]),
        ("SELECT CUSTOMERID, plain AS Plain FROM m.first", ["CUSTOMERID", "Plain"]),
        (
            "WITH x AS (SELECT * FROM m.first) SELECT f.*, 3 AS B FROM x AS f",
            ["CustomerId", "Full Name", "plain", "B"],
        ),
        ("WITH x(OneA, TwoB) AS (SELECT 1, 2) SELECT * FROM x", ["OneA", "TwoB"]),
        ("SELECT * FROM VALUES (1, 2) AS v(OneA, twoB)", ["OneA", "twoB"]),
        ("SELECT * FROM (SELECT 1, 2) AS v(OneA, twoB)", ["OneA", "twoB"]),
        ("SELECT * FROM m.first AS f(A, `b C`, dD)", ["A", "b C", "dD"]),
        (
            "SELECT * FROM VALUES (1) AS t(x) LATERAL VIEW explode(array(1)) l AS Each",
            ["x", "Each"],
        ),
        ("SELECT posexplode(array(1)) AS (Pos, Value)", ["Pos", "Value"]),
        ("SELECT CustomerId FROM m.first UNION ALL SELECT plain FROM m.first", ["CustomerId"]),
        (
            "SELECT * FROM m.first JOIN (SELECT customerid FROM m.first) USING (customerid)",
            ["CustomerId", "Full Name", "plain"],
        ),
    ],
)
def test_columns_have_their_authors_case(tmp_path: Path, model: str, names: list[str]) -> None:
    files = {"models/a.sql": FIRST, "models/b.sql": f"MODEL (name m.b, kind FULL); {model}"}
    assert spelling(tmp_path, files) == names


@pytest.mark.parametrize(
    ("path", "text", "names"),
    [
        ("b.sql", "MODEL (name m.b, kind FULL, columns (OneA INT)); SELECT 1 AS onea", ["OneA"]),
        (
            "b.py",
            "from vde_dagster import model\n"
            "@model('m.b', columns={'OneA': 'INT'})\ndef b(context, **more):\n    return None\n",
            ["OneA"],
        ),
    ],
)
def test_declared_columns_have_the_case_of_the_declaration(
    tmp_path: Path, path: str, text: str, names: list[str]
) -> None:
    assert spelling(tmp_path, {f"models/{path}": text}) == names


def spelling(root: Path, files: dict[str, str]) -> list[str]:
    with open_fake(ProjectFolder(root / "p", files).root) as workspace:
        plan = workspace.plan("prod")
    snapshots = {one.name: one for one in plan.snapshots.values()}
    return list(column_spelling(ModelName("m", "b"), snapshots).values())
