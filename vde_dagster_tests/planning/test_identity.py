"""What of a model's identity does not depend on the process, nor on how tables are named."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from vde_dagster.planning.tables.table import TableRef
from vde_dagster_tests.planning.simulate import Warehouse
from vde_dagster_tests.projects import ProjectFolder

MODELS = {
    "models/base.sql": (
        "MODEL (name m.base, kind FULL);\nSELECT 1 AS id, 'a' AS name, map('x', 1) AS t"
    ),
    "models/star.sql": (
        "MODEL (name m.star, kind FULL, tags [b, a], grains [id, name]);\n"
        "SELECT @EACH([id, name], c -> @c) FROM (SELECT * FROM m.base)"
    ),
    "models/py.py": (
        "from vde_dagster import model\n\n"
        "@model('m.py', kind='FULL', columns={'id': 'int'}, depends_on={'m.star', 'm.base'})\n"
        "def rows(context, **_):\n    return context.table('m.star')\n"
    ),
}

SNAPSHOTS = """
import sys
from pathlib import Path
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.project.loading.loader import load_project
for name, snapshot in build_snapshots(
    load_project(Path(sys.argv[1])).models, lambda _: None
).items():
    print(name, snapshot.id, snapshot.fill_version, *sorted(snapshot.version.columns.items()))
"""


@pytest.mark.proof
def test_every_process_finds_the_same_snapshots(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path, MODELS)
    found = {
        subprocess.run(
            [sys.executable, "-c", SNAPSHOTS, str(folder.root)],
            env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    (lines,) = found
    assert [line.split()[0] for line in lines.splitlines()] == ["m.base", "m.star", "m.py"]


def test_tables_that_were_named_otherwise_go_on_serving(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path, {name: MODELS[name] for name in list(MODELS)[:2]})
    warehouse = Warehouse()
    warehouse.apply(warehouse.plan(folder.root))
    for table in list(warehouse.tables.values()):
        ref = TableRef("earlier_schema", f"t_{table.id[:8]}")
        warehouse.tables[table.id] = replace(table, ref=ref)
    assert warehouse.plan(folder.root).is_empty

    folder.edit("models/star.sql", "SELECT @EACH", "SELECT 2 AS two, @EACH")
    plan = warehouse.plan(folder.root)
    names = {str(model.name): model.table.ref.namespace for model in plan.models if model.table}
    assert names == {"m.base": "earlier_schema", "m.star": "vde__m"}


@pytest.mark.parametrize("environment", ["prod", "dev"])
def test_what_a_change_means_is_derived_and_the_same_for_every_environment(
    tmp_path: Path, environment: str
) -> None:
    """SQLMesh lets people choose a category; here none is asked for, so none can be wrong."""
    folder = ProjectFolder(tmp_path, {name: MODELS[name] for name in list(MODELS)[:2]})
    warehouse = Warehouse()
    warehouse.apply(warehouse.plan(folder.root))
    folder.edit("models/base.sql", "1 AS id", "2 AS id")
    plan = warehouse.plan(folder.root, environment)
    said = {
        str(m.name): (m.change.value, m.category.value, m.builds) for m in plan.models if m.category
    }
    assert said == {
        "m.base": ("modified", "breaking", True),
        "m.star": ("affected", "affected", True),
    }
