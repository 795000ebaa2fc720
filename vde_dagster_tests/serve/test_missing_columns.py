"""A view whose columns the state has lost is refused with the command that restores them."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import delete

from vde_dagster.base.names import ModelName
from vde_dagster.execution.workspace import Workspace
from vde_dagster.programs.serve.errors import ServeError
from vde_dagster.programs.serve.loading import Loader
from vde_dagster.programs.serve.served import ServedVersions, WarehouseName
from vde_dagster.state.db.schema import view_types
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import SHOP, ProjectFolder

pytestmark = pytest.mark.long

NAME = ModelName("marts", "shown")


def test_the_message_has_the_command_that_publishes_it_again(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path / "shop", SHOP)
    folder.write("models/shown.sql", f"MODEL (name {NAME}, kind VIEW); SELECT 1 + 1 AS n")
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        database = workspace.store.database
        database.run_transaction(lambda conn: conn.execute(delete(view_types)), name="lost")
        with pytest.raises(ServeError, match="vde apply prod --restate MODEL"):
            _view(workspace)
        workspace.apply(workspace.plan("prod", restate=("marts.customers",)))
        assert b'"name":"n"' in _view(workspace)


def _view(workspace: Workspace) -> bytes:
    served = ServedVersions(workspace).find(WarehouseName.parse("prod"))
    return Loader({}).view(served, NAME, None).content
