"""A stored definition that cannot be read is mended by a plan from the project's files."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import StoreError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.plan.plan import Category, Change
from vde_dagster.planning.plan.plan_options import PlanOptions
from vde_dagster.state.db import schema
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.builders import FakeClock

DAILY = ModelName("marts", "daily")
FILES = {
    "models/orders.sql": "MODEL (name raw.orders); SELECT 1 AS id, DATE'2024-01-01' AS d",
    "models/daily.sql": """
        MODEL (name marts.daily, kind INCREMENTAL_BY_TIME_RANGE (time_column d),
          start '2024-01-01', end '2024-01-03');
        SELECT d, count(*) AS n FROM raw.orders WHERE d BETWEEN @start_date AND @end_date GROUP BY d
    """,
    "models/top.sql": "MODEL (name marts.top, kind VIEW); SELECT max(n) AS n FROM marts.daily",
}
OTHER_FORM = b"x\x9c\x8bV2T\xd2QPJT\x8a\x05\x00\x0b\xf3\x02\x1e"


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    folder = ProjectFolder(tmp_path / "shop", FILES)
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    return folder


def damage(workspace: Workspace, name: ModelName, payload: bytes = b"no zlib") -> None:
    table = schema.snapshots
    with workspace.store.database.engine.begin() as connection:
        connection.execute(
            table.update()
            .where(table.c.model_namespace == name.namespace, table.c.model_name == name.name)
            .values(payload=payload)
        )


def test_what_the_project_still_has_is_written_again_and_computes_nothing(
    folder: ProjectFolder,
) -> None:
    with open_fake(folder.root) as workspace:
        damage(workspace, DAILY)
        with pytest.raises(
            StoreError, match=r"of marts\.daily: a stored value is damaged"
        ) as caught:
            workspace.plans.due("prod")
        advice = "run `vde plan prod` with the project's files to rewrite it"
        assert advice in str(caught.value.hint)
        plan = workspace.plan("prod")
        assert plan.is_empty
        assert [w for w in plan.warnings if "stored definition of marts.daily" in w]
        assert workspace.plan("prod").warnings == ()
        assert workspace.plans.due("prod").is_empty


@pytest.mark.parametrize("payload", [b"no zlib", OTHER_FORM], ids=["damaged", "of another form"])
def test_of_what_has_changed_meanwhile_nothing_is_known_and_the_plan_says_so(
    folder: ProjectFolder, payload: bytes
) -> None:
    folder.edit("models/daily.sql", "count(*)", "count(*) + 1")
    with open_fake(folder.root) as workspace:
        before = workspace.store.environments.get("prod")
        assert before is not None
        damage(workspace, DAILY, payload)
        plan = workspace.plan("prod")
        (daily,) = (model for model in plan.models if model.name == DAILY)
        assert (daily.change, daily.category) == (Change.MODIFIED, Category.BREAKING)
        assert daily.builds
        assert [w for w in plan.warnings if "cannot be read" in w and "marts.daily" in w]
        workspace.apply(workspace.store.plans.load(plan.id))
        assert workspace.plan("prod").is_empty
        assert workspace.plans.due("prod").is_empty
        assert {str(ref) for ref in workspace.lakehouse.published_views("prod")} == {
            "raw.orders",
            "marts.daily",
            "marts.top",
        }
        with pytest.raises(StoreError, match=r"marts\.daily"):
            workspace.environments.rollback("prod", before.version)


def test_a_model_that_is_gone_leaves_no_view(folder: ProjectFolder) -> None:
    folder.remove("models/top.sql")
    with open_fake(folder.root) as workspace:
        damage(workspace, ModelName("marts", "top"))
        plan = workspace.plan("prod")
        assert [str(ref) for ref in plan.views.dropped] == ["marts.top"]
        workspace.apply(plan)
        assert "marts.top" not in map(str, workspace.lakehouse.published_views("prod"))
        assert workspace.plan("prod").is_empty


def test_development_leaves_productions_table_alone_though_its_definition_is_damaged(
    folder: ProjectFolder,
) -> None:
    folder.edit("models/daily.sql", "'2024-01-03'", "'2024-01-05'")
    with open_fake(folder.root) as workspace:
        production = workspace.store.environments.get("prod")
        assert production is not None
        shown = production.entries[DAILY].table_id
        damage(workspace, DAILY)
        plan = workspace.plan("dev")
        assert not [m for m in plan.models if m.builds and m.table and m.table.id == shown]
        workspace.apply(plan)
        # Production itself is mended by its own plan.
        workspace.apply(workspace.plan("prod"))
        assert workspace.plans.due("prod").is_empty


@pytest.mark.parametrize(
    ("status", "payload"),
    [("planned", b"no zlib"), ("applying", OTHER_FORM), ("rejected", b""), ("applied", b"no zlib")],
)
def test_a_stored_plan_that_cannot_be_read_stops_no_other_work(
    folder: ProjectFolder, status: str, payload: bytes
) -> None:
    """Every login with the right to plan can store such a row."""
    folder.write("models/top.sql", FILES["models/top.sql"].replace("max", "min"))
    clock = FakeClock(datetime.now(timezone.utc) + timedelta(days=40))
    with open_fake(folder.root, clock=clock) as workspace:
        waiting = workspace.plan("prod")
        table = schema.plans
        with workspace.store.database.engine.begin() as connection:
            (row,) = connection.execute(table.select().where(table.c.plan_id == waiting.id))
            row = {**row._mapping, "plan_id": "theirs", "status": status, "payload": payload}
            connection.execute(table.insert().values(row))
        store = workspace.store
        assert [one.id for one in store.plans.waiting("files")] == []
        assert store.plans.find_rejected(waiting) is None
        assert store.plans.git_branch("prod") in (None, "")
        assert store.plans.save(replace(waiting, id="own"), once=True) == waiting.id
        assert not workspace.maintenance.janitor(compact=False).failures
        assert workspace.apply(waiting).published
        restating = PlanOptions(restate=("marts.daily",))
        assert workspace.apply(workspace.plan("prod", restating)).published
        assert not workspace.maintenance.janitor(compact=False).failures
        assert "theirs" in [one.subject for one in workspace.maintenance.fsck()]


def test_a_shown_table_that_is_not_live_is_one_clear_error(folder: ProjectFolder) -> None:
    folder.write("models/top.sql", FILES["models/top.sql"].replace("max", "min"))
    with open_fake(folder.root) as workspace:
        with workspace.store.database.engine.begin() as connection:
            connection.execute(schema.tables.update().values(status="tombstoned"))
        with pytest.raises(StoreError, match=r"has no live table .*, which 'prod' shows as"):
            workspace.plans.due("prod")
        assert "shown_table_not_live" in {one.problem for one in workspace.maintenance.fsck()}
