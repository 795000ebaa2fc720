"""Models whose files are removed while other models still read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.errors import ProjectError
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder

FILES = {
    "models/orders.sql": "MODEL (name staging.orders, kind VIEW); SELECT 1 AS id",
    "models/items.sql": "MODEL (name lists.items, kind FULL); SELECT 1 AS id",
    "models/daily.sql": "MODEL (name db.daily, kind FULL); SELECT id FROM staging.orders",
    "models/weekly.sql": "MODEL (name db.weekly, kind VIEW); SELECT id FROM lists.items",
}


@pytest.mark.parametrize(
    ("name", "reader"), [("staging.orders", "daily"), ("lists.items", "weekly")]
)
def test_the_view_of_a_removed_model_is_no_external_table(
    name: str, reader: str, tmp_path: Path
) -> None:
    folder = ProjectFolder(tmp_path / "shop", FILES)
    workspace = open_fake(folder.root)
    workspace.apply(workspace.plan("prod"))
    file = f"models/{name.partition('.')[2]}.sql"
    removed = folder.root / file
    text = removed.read_text()
    removed.unlink()
    workspace.reload()
    with pytest.raises(ProjectError) as raised:
        workspace.plan("prod")
    assert raised.value.message == (
        f"{name} is a view of 'prod', but no file of the project defines it"
    )
    assert raised.value.location is not None
    assert raised.value.location.path.name == f"{reader}.sql"
    folder.write(file, text)
    workspace.reload()
    assert workspace.plan("prod").is_empty
