"""Files that Spark wrote and never committed, beside all those that it did commit."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.spark

Open = Callable[[ProjectFolder], Workspace]
KEYED = """
    MODEL (name marts.latest, kind INCREMENTAL_BY_UNIQUE_KEY (unique_key customer));
    SELECT customer, max(amount) AS amount FROM staging.orders GROUP BY customer
"""


def test_only_what_nobody_committed_goes(shop: ProjectFolder, open_workspace: Open) -> None:
    shop.write("models/marts/latest.sql", KEYED)
    workspace = open_workspace(shop)
    workspace.apply(workspace.plan("prod"))
    environment = workspace.store.environments.get("prod")
    assert environment is not None
    table_id = environment.entries[ModelName("marts", "latest")].table_id
    assert table_id is not None
    ref = workspace.store.tables.load([table_id])[table_id].ref
    name = f"lakehouse.{ref.namespace}.{ref.name}"
    session = workspace.engine().session  # type: ignore[attr-defined]
    # Rows with delete files, on `main` and on a branch, and a commit that only its history has.
    session.sql(f"DELETE FROM {name} WHERE customer = 10")
    session.sql(f"ALTER TABLE {name} CREATE BRANCH vde_other")
    session.sql(f"DELETE FROM {name}.branch_vde_other WHERE customer = 11")
    session.sql(f"INSERT INTO {name}.branch_vde_other SELECT * FROM {name}")
    session.sql(f"INSERT OVERWRITE {name} SELECT * FROM {name} WHERE customer = 12")
    location = str(workspace.lakehouse.table_metadata(ref)["location"])
    data = Path(location.removeprefix("file:").replace("///", "/")) / "data"
    committed = set(data.rglob("*.parquet"))
    before = {query: session.sql(query).collect() for query in queries(name)}

    for stray in (
        "00000-9-stray.parquet",
        "00000-9-stray-deletes.parquet",
        "00000-9-young.parquet",
    ):
        shutil.copy(next(iter(committed)), data / stray)
    written = time.time() - timedelta(days=4).total_seconds()
    for path in data.rglob("*"):
        if "young" not in path.name:
            os.utime(path, (written, written))

    (told,) = [
        d
        for d in workspace.maintenance.janitor(dry_run=True).decisions
        if d.action == "delete_orphans"
    ]
    assert (told.subject, told.reason.split(" ")[0]) == (str(ref), "2")
    assert told.bytes
    (finding,) = workspace.maintenance.fsck()
    assert (finding.problem, finding.subject) == ("orphans", str(ref))
    assert workspace.maintenance.janitor().failures == ()
    assert set(data.rglob("*.parquet")) == {*committed, data / "00000-9-young.parquet"}
    assert {query: session.sql(query).collect() for query in queries(name)} == before
    assert workspace.maintenance.fsck() == ()


def queries(name: str) -> list[str]:
    """Return queries of everything that a table still has."""
    return [
        f"SELECT * FROM {name} ORDER BY 1",
        f"SELECT * FROM {name} VERSION AS OF 'vde_other' ORDER BY 1, 2",
    ]
