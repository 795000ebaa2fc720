"""What would follow if a column held other values, beside the versions after an edit of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.snapshots.lineage import find_affected_parts
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster_tests.projects import ProjectFolder

COLUMNS = ("id", "day", "kind", "amount", "rate")
BASE = "MODEL (name m.base, kind FULL); SELECT {} FROM raw.events"
FILES = {
    "external_models.yaml": """
        - name: raw.events
          columns: {id: INT, day: DATE, kind: STRING, amount: INT, rate: DOUBLE}
    """,
    "models/few.sql": """
        MODEL (name m.few, kind VIEW); SELECT id, day, amount FROM m.base WHERE kind = 'a'
    """,
    "models/cases.sql": """
        MODEL (name m.cases, kind FULL);
        SELECT id, CASE WHEN rate > 1 THEN 'high' ELSE 'low' END AS band, amount * 2 AS twice
        FROM m.base
    """,
    "models/sums.sql": """
        MODEL (name m.sums, kind FULL);
        SELECT f.day, sum(c.twice) AS total, count(CASE WHEN c.band = 'high' THEN 1 END) AS high
        FROM m.few AS f JOIN m.cases AS c ON f.id = c.id GROUP BY f.day
    """,
    "models/ranked.sql": """
        MODEL (name m.ranked, kind VIEW);
        SELECT day, rank() OVER (ORDER BY total) AS place, high FROM m.sums
    """,
    "models/hashed.sql": """
        MODEL (name m.hashed, kind FULL);
        SELECT id, xxhash64(* EXCEPT (id)) AS h, md5(to_json(struct(b.*))) AS j FROM m.base AS b
    """,
    "models/opaque.sql": """
        MODEL (name m.opaque, kind FULL);
        SELECT amount AS x, id AS y FROM m.base TABLESAMPLE (100 PERCENT)
    """,
}


def _snapshots(folder: ProjectFolder) -> dict[ModelName, Snapshot]:
    with Workspace.open(folder.root) as workspace:
        return workspace.snapshots()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    root: Path = tmp_path_factory.mktemp("impact")
    return ProjectFolder(root, {**FILES, "models/base.sql": BASE.format(", ".join(COLUMNS))})


@pytest.mark.parametrize("edited", COLUMNS)
def test_what_an_edit_of_a_column_changes_was_foretold(project: ProjectFolder, edited: str) -> None:
    before = _snapshots(project)
    foretold = find_affected_parts(before, ModelName("m", "base"), edited)
    other = "date_add(day, 1)" if edited == "day" else f"concat({edited}, '1')"
    columns = [f"{other} AS {one}" if one == edited else one for one in COLUMNS]
    project.write("models/base.sql", BASE.format(", ".join(columns)))
    try:
        after = _snapshots(project)
    finally:
        project.write("models/base.sql", BASE.format(", ".join(COLUMNS)))
    changed: dict[ModelName, set[str]] = {}
    for name, snapshot in before.items():
        now = after[name].version
        if now.rows != snapshot.version.rows:
            assert foretold[name].rows, name
        differ = {c for c, v in snapshot.version.columns.items() if now.columns[c] != v}
        if differ and str(name) != "m.base":
            changed[name] = differ
    assert changed.keys() <= foretold.keys()
    for name, columns_of in changed.items():
        assert columns_of <= set(foretold[name].columns), name
    assert changed  # Each of the columns is read by somebody.


def test_a_column_that_only_decides_others_reaches_those_alone(project: ProjectFolder) -> None:
    found = find_affected_parts(_snapshots(project), ModelName("m", "base"), "rate")
    assert {str(name): (one.columns, one.rows) for name, one in found.items()} == {
        "m.cases": (("band",), False),
        "m.hashed": (("h", "j"), False),
        "m.sums": (("high",), False),
        "m.ranked": (("high",), False),
        "m.opaque": (("x", "y"), True),  # Nobody knows what it reads.
    }


def test_a_column_that_decides_rows_reaches_all_columns_below(project: ProjectFolder) -> None:
    found = find_affected_parts(_snapshots(project), ModelName("m", "base"), "kind")
    assert {str(name): one.rows for name, one in found.items()} == {
        "m.few": True,
        "m.hashed": False,
        "m.sums": True,
        "m.ranked": True,
        "m.opaque": True,
    }
