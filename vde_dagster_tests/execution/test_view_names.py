"""Where an environment's name goes in its views' names, and what moves when that changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.errors import ProjectError, UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.catalogs.catalog import VIEW
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.faults import Fault, FaultInjector, Mode, ProcessKilled
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.long

FILES = {
    "models/orders.sql": """
        MODEL (name raw.orders, kind FULL);
        SELECT 1 AS id;
        ON_VIRTUAL_UPDATE_BEGIN;
        GRANT SELECT ON VIEW @this_model TO ROLE `all`;
        ON_VIRTUAL_UPDATE_END;
    """,
    "models/sums.sql": "MODEL (name marts.sums, kind VIEW); SELECT sum(id) AS s FROM raw.orders",
    "models/other.sql": "MODEL (name marts.other, kind FULL); SELECT 2 AS two",
}
BY_SCHEMA = {"raw__dev.orders", "marts__dev.sums", "marts__dev.other"}
BY_TABLE = {"raw.orders__dev", "marts.sums__dev", "marts.other__dev"}
PROD = {"raw.orders", "marts.sums", "marts.other"}


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    folder = ProjectFolder(tmp_path / "shop", FILES)
    suffix(folder, "schema")
    return folder


def suffix(folder: ProjectFolder, target: str) -> None:
    folder.write("pyproject.toml", f'[tool.vde]\nenvironment_suffix_target = "{target}"')


def views(workspace: Workspace) -> set[str]:
    pointers = workspace.lakehouse.catalog.all_pointers()
    return {str(ref) for ref, pointer in pointers.items() if pointer.kind == VIEW}


def apply(folder: ProjectFolder, environment: str, engine: FakeSpark | None = None) -> set[str]:
    with open_fake(folder.root, engine) as workspace:
        workspace.apply(workspace.plan(environment))
        return views(workspace)


def test_the_name_goes_to_the_schema_or_to_the_table_and_not_into_production(
    folder: ProjectFolder,
) -> None:
    assert apply(folder, "dev") == BY_SCHEMA
    suffix(folder, "table")
    assert apply(folder, "prod") == BY_SCHEMA | PROD, "dev moves when dev is published"
    assert apply(folder, "dev") == BY_TABLE | PROD


@pytest.mark.parametrize("targets", [("schema", "table"), ("table", "schema")])
def test_another_setting_moves_every_view_with_the_next_plan_and_computes_nothing(
    folder: ProjectFolder, targets: tuple[str, str]
) -> None:
    names = {"schema": BY_SCHEMA, "table": BY_TABLE}
    before, after = targets
    suffix(folder, before)
    assert apply(folder, "dev") == names[before]
    suffix(folder, after)
    with open_fake(folder.root, engine := FakeSpark()) as workspace:
        plan = workspace.plan("dev")
        assert not plan.is_empty
        assert not plan.builds
        assert {str(ref) for ref in plan.views.created} == names[after]
        assert {str(ref) for ref in plan.views.dropped} == names[before]
        assert not plan.views.replaced
        # Until then the views are where they were published.
        workspace.query("dev", "SELECT s FROM marts.sums")
        workspace.apply(plan)
        assert views(workspace) == names[after]
        assert workspace.plan("dev").is_empty
        assert workspace.lakehouse.moved_views("dev") == set()
        assert {str(ref) for ref in workspace.lakehouse.published_views("dev")} == names[after]
    # A statement that a view's name is in is said of the new view.
    (grant,) = engine.session_statements
    (orders,) = (name for name in names[after] if "orders" in name)
    assert grant.replace("`", "") == f"GRANT SELECT ON VIEW lakehouse.{orders} TO ROLE all"


def test_a_dropped_view_comes_back_with_the_current_version(folder: ProjectFolder) -> None:
    apply(folder, "dev")
    with open_fake(folder.root) as workspace:
        before = views(workspace)
        with pytest.raises(UsageError, match="already at version 1"):
            workspace.environments.rollback("dev", 1)
        with workspace.store.database.engine.begin() as conn:
            conn.exec_driver_sql("DELETE FROM iceberg_tables WHERE table_namespace = 'marts__dev'")
        assert {one.problem for one in workspace.maintenance.fsck()} == {"view_gone"}
        assert workspace.environments.rollback("dev", 1).environment.version == 2
        assert views(workspace) == before
        assert workspace.maintenance.fsck() == ()


def test_queries_read_the_views_where_they_were_published(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply(folder, "dev")
    suffix(folder, "table")
    asked: list[str] = []
    analyze = FakeSpark.analyze
    monkeypatch.setattr(
        FakeSpark, "analyze", lambda self, sql, *rest: (asked.append(sql), analyze(self, sql))[1]
    )
    with open_fake(folder.root) as workspace:
        workspace.query("dev", "SELECT s FROM marts.sums")
        workspace.apply(workspace.plan("dev"))
        workspace.query("dev", "SELECT s FROM marts.sums")
    first, last = asked[0].replace("`", ""), asked[-1].replace("`", "")
    assert first.startswith("SELECT s FROM lakehouse.marts__dev.sums AS")
    assert last.startswith("SELECT s FROM lakehouse.marts.sums__dev AS")


def test_a_run_and_a_rollback_move_the_views_too(folder: ProjectFolder) -> None:
    apply(folder, "dev")
    folder.write("models/other.sql", "MODEL (name marts.other, kind FULL); SELECT 3 AS two")
    apply(folder, "dev")
    suffix(folder, "table")
    with open_fake(folder.root) as workspace:
        workspace.environments.rollback("dev", 1)
        assert views(workspace) == BY_TABLE
    suffix(folder, "schema")
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plans.due("dev"))
        assert views(workspace) == BY_SCHEMA


def test_what_drops_an_environment_drops_its_views_wherever_they_are(folder: ProjectFolder) -> None:
    apply(folder, "prod")
    apply(folder, "dev")
    suffix(folder, "table")
    with open_fake(folder.root) as workspace:
        workspace.environments.drop("dev")
        workspace.maintenance.janitor()
        assert views(workspace) == PROD
    apply(folder, "dev")
    suffix(folder, "schema")
    with open_fake(folder.root) as workspace:
        workspace.environments.drop("dev")
        workspace.maintenance.janitor()
        assert views(workspace) == PROD
        assert workspace.lakehouse.catalog.namespaces(["marts", "marts__dev"]) == {"marts"}


def test_a_schema_that_is_left_empty_goes_with_the_janitor(folder: ProjectFolder) -> None:
    apply(folder, "dev")
    suffix(folder, "table")
    apply(folder, "dev")
    with open_fake(folder.root) as workspace:
        workspace.maintenance.janitor()
        catalog = workspace.lakehouse.catalog
        assert catalog.namespaces(["raw", "marts", "raw__dev", "marts__dev"]) == {"raw", "marts"}
        assert views(workspace) == BY_TABLE


@pytest.mark.proof
@pytest.mark.parametrize("point", ["publish.file.write", "publish.commit"])
@pytest.mark.parametrize("mode", ["kill_before", "kill_after"])
def test_a_kill_leaves_all_views_here_or_all_there(
    folder: ProjectFolder, point: str, mode: Mode
) -> None:
    apply(folder, "dev")
    suffix(folder, "table")
    effects = FaultInjector(Fault(point, mode), in_process=True)
    workspace = open_fake(folder.root, effects=effects)
    with pytest.raises(ProcessKilled):
        workspace.apply(workspace.plan("dev"))
    workspace.close()
    with open_fake(folder.root) as again:
        done = (point, mode) == ("publish.commit", "kill_after")
        assert views(again) == (BY_TABLE if done else BY_SCHEMA)


def test_a_view_of_another_environment_is_not_taken_over(folder: ProjectFolder) -> None:
    folder.write("models/clash.sql", "MODEL (name raw.orders__dev, kind FULL); SELECT 9 AS nine")
    apply(folder, "prod")
    suffix(folder, "table")
    with open_fake(folder.root) as workspace, pytest.raises(UsageError) as caught:
        workspace.plan("dev")
    assert "would have the same name as raw.orders__dev" in str(caught.value)
    with open_fake(folder.root) as workspace:
        assert views(workspace) == PROD | {"raw.orders__dev"}


def test_a_catalog_for_each_environment_is_refused_with_the_reason(folder: ProjectFolder) -> None:
    suffix(folder, "catalog")
    with pytest.raises(ProjectError) as caught:
        open_fake(folder.root)
    assert caught.value.location is not None
    assert caught.value.location.line == 2
    assert "one transaction of one Iceberg catalog" in (caught.value.hint or "")
