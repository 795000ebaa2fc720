"""Models that call the macros are understood: versions go by column, as in any query."""

from __future__ import annotations

from pathlib import Path

from vde_dagster.base.names import ModelName
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.loading.loader import load_project
from vde_dagster_tests.projects import ProjectFolder

FILES = {
    "external_models.yaml": """
        - name: crm.customers
          columns: {id: int, name: string, born: date, phone: string, loaded: timestamp}
    """,
    "models/stage.sql": """
        MODEL (name staging.customers, kind FULL);
        SELECT @HASH_KEY(id) AS customer_hk, @HASHDIFF(name, born) AS hashdiff, id, name, born,
          loaded AS ldts, 'crm' AS rsrc
        FROM crm.customers
    """,
}


def _stage(folder: ProjectFolder) -> Snapshot:
    made = build_snapshots(load_project(folder.root).models, lambda name: None, warnings=[])
    return {one.name: one for one in made.values()}[ModelName("staging", "customers")]


def test_a_column_more_in_a_hashdiff_changes_that_column_alone(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path, FILES)
    before = _stage(folder)
    read = {one.column for one in before.reads if one.output == "customer_hk"}
    assert read == {"id"}, "lineage goes through the macro"
    folder.edit("models/stage.sql", "@HASHDIFF(name, born)", "@HASHDIFF(phone, born, name)")
    after = _stage(folder)
    changed = {
        new.name
        for old, new in zip(before.columns, after.columns, strict=True)
        if old.version != new.version
    }
    assert changed == {"hashdiff"}
    assert before.fill_version == after.fill_version


def test_the_order_of_a_hashdiffs_columns_changes_nothing(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path, FILES)
    before = _stage(folder)
    folder.edit("models/stage.sql", "@HASHDIFF(name, born)", "@HASHDIFF(BORN, name)")
    after = _stage(folder)
    assert [one.version for one in before.columns] == [one.version for one in after.columns]
