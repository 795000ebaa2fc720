"""Logins with the least right that their work takes, with Spark and its own connections."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from vde_dagster.errors import NotAllowedError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.state.db.rights import RIGHTS
from vde_dagster.state.store import StateStore
from vde_dagster_tests.projects import SHOP, ProjectFolder
from vde_dagster_tests.state.postgres_server import PostgresServer

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.usefixtures("spark_engine")]
REVENUE = "SELECT sum(revenue) FROM marts.daily"


@pytest.fixture
def url() -> Iterator[str]:
    """A state with a login for each right, as its owner sees it."""
    server = PostgresServer()
    url = server.url(server.create_database())
    with psycopg.connect(url, autocommit=True) as conn:
        for right in RIGHTS:
            conn.execute(f"CREATE ROLE u_{right} LOGIN")
    store = StateStore.open(url)
    store.rights.create("vde")
    for right in RIGHTS:
        store.rights.grant(right, f"u_{right}")
    store.close()
    yield url
    server.stop()


def test_each_right_is_enough_for_its_work_on_spark(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        **SHOP,
        "pyproject.toml": f"[tool.vde]\nid = 'shop'\nwarehouse = '{tmp_path / 'warehouse'}'\n",
    }
    folder = ProjectFolder(tmp_path / "project", files)

    def open_as(right: str) -> Workspace:
        monkeypatch.setenv("VDE_STATE_URL", url.replace("vde@", f"u_{right}@"))
        return Workspace.open(folder.root)

    with open_as("publish") as workspace:
        workspace.apply(workspace.plan("prod"))
    folder.edit("models/marts/daily.sql", "sum(amount) AS revenue", "sum(2 * amount) AS revenue")
    with open_as("plan") as workspace:
        plan_id = workspace.plan("prod").id
    with open_as("apply") as workspace:
        workspace.apply(workspace.plan("dev"))
        with pytest.raises(NotAllowedError, match="may not apply a plan to 'prod'"):
            workspace.apply(workspace.store.plans.load(plan_id))
        workspace.environments.audit("dev")
    with open_as("read") as workspace:
        shown = {of: workspace.query(of, REVENUE).rows[0][0] for of in ("prod", "dev")}
        assert shown == {"prod": 33.5, "dev": 67.0}
        assert not workspace.maintenance.fsck(deep=True)
    with open_as("publish") as workspace:
        done = workspace.apply(workspace.store.plans.load(plan_id))
        assert done.published
        assert workspace.query("prod", REVENUE).rows[0][0] == 67.0
        workspace.environments.rollback("prod")
        workspace.maintenance.janitor()
        assert workspace.store.log.verify().wrong is None
        acts = [
            (one.db_user, one.act, one.environment) for one in workspace.store.log.latest(limit=6)
        ]
    assert acts == [
        ("u_publish", "clean up", None),
        ("u_publish", "rollback", "prod"),
        ("u_publish", "publish", "prod"),
        ("u_publish", "apply", "prod"),
        ("u_apply", "publish", "dev"),
        ("u_apply", "apply", "dev"),
    ]
