"""Production with tables in place of views, where only development is virtual."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.errors import ConflictError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.catalogs.catalog import TABLE, VIEW, Swap
from vde_dagster.lakehouse.io.files import read_metadata
from vde_dagster.lakehouse.maintenance import sweep
from vde_dagster.lakehouse.maintenance.fsck import Finding
from vde_dagster.lakehouse.metadata.table_metadata import current_columns, head_of, snapshot_ids
from vde_dagster.planning.tables.table import TableRef
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.execution.workers import ShiftedClock
from vde_dagster_tests.faults import Fault, FaultInjector, Mode, ProcessKilled
from vde_dagster_tests.lakehouse.test_safeguards import Interruption
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.builders import FakeClock

pytestmark = pytest.mark.long

FILES = {
    "models/orders.sql": "MODEL (name raw.orders, kind FULL); SELECT 1 AS id, 2 AS amount",
    "models/daily.sql": """
        MODEL (name marts.daily, start '2024-01-01',
          kind INCREMENTAL_BY_TIME_RANGE (time_column day));
        SELECT CAST(@start_ds AS DATE) AS day, id FROM raw.orders
    """,
    "models/sums.sql": "MODEL (name marts.sums, kind VIEW); SELECT sum(id) AS s FROM raw.orders",
}
ORDERS = TableRef("raw", "orders")
SHOWN = {ORDERS: TABLE, TableRef("marts", "daily"): TABLE, TableRef("marts", "sums"): VIEW}
VIEWS = dict.fromkeys(SHOWN, VIEW)


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    folder = ProjectFolder(tmp_path / "shop", FILES)
    mode(folder, "dev_only")
    return folder


def mode(folder: ProjectFolder, name: str) -> None:
    folder.write("pyproject.toml", f'[tool.vde]\nvirtual_environment_mode = "{name}"')


def apply(folder: ProjectFolder, environment: str = "prod") -> None:
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan(environment))


def kinds(workspace: Workspace, *namespaces: str) -> dict[TableRef, str]:
    """Return what is shown, by kind."""
    pointers = workspace.lakehouse.catalog.all_pointers()
    wanted = namespaces or ("raw", "marts")
    return {ref: at.kind for ref, at in pointers.items() if ref.namespace in wanted}


def metadata(workspace: Workspace, ref: TableRef) -> dict[str, Any]:
    pointer = workspace.lakehouse.catalog.pointers([ref])[ref]
    is_view = pointer.kind == VIEW
    return read_metadata(workspace.lakehouse.files, pointer.location, str(ref), is_view=is_view)


def physical(workspace: Workspace, ref: TableRef) -> TableRef:
    """Return the table that production shows by a name."""
    current = workspace.store.environments.get("prod")
    assert current is not None
    ids = {name: entry.table_id for name, entry in current.entries.items() if entry.table_id}
    own = next(
        i for name, i in ids.items() if (name.namespace, name.name) == (ref.namespace, ref.name)
    )
    return workspace.store.tables.load([own])[own].ref


def damages(workspace: Workspace) -> list[Finding]:
    """Return what is wrong."""
    return list(workspace.maintenance.fsck())


def is_as_shown(workspace: Workspace, ref: TableRef) -> bool:
    """Say whether a shown table is at the very commit of the table behind it."""
    behind = metadata(workspace, physical(workspace, ref))
    return head_of(metadata(workspace, ref)) == head_of(behind)


def test_production_has_tables_and_development_views(folder: ProjectFolder) -> None:
    apply(folder)
    apply(folder, "dev")
    with open_fake(folder.root) as workspace:
        assert kinds(workspace) == SHOWN
        assert set(kinds(workspace, "raw__dev", "marts__dev").values()) == {VIEW}
        assert is_as_shown(workspace, ORDERS)
        shown = metadata(workspace, ORDERS)
        assert [name for name, *_ in current_columns(shown)] == ["id", "amount"]
        assert shown["properties"]["gc.enabled"] == "false"
        assert list(shown["refs"]) == ["main"]
        assert not damages(workspace)
        assert workspace.plan("prod").is_empty


def test_columns_are_shown_by_name_and_order_without_a_copy(folder: ProjectFolder) -> None:
    apply(folder)
    with open_fake(folder.root) as workspace:
        before = physical(workspace, ORDERS)
    folder.write(
        "models/orders.sql", "MODEL (name raw.orders, kind FULL); SELECT 2 AS total, 1 AS id"
    )
    apply(folder)
    with open_fake(folder.root) as workspace:
        assert physical(workspace, ORDERS) == before, "the same values under other names"
        assert [name for name, *_ in current_columns(metadata(workspace, ORDERS))] == [
            "total",
            "id",
        ]
        fields = {f["name"]: f["id"] for f in metadata(workspace, before)["schemas"][0]["fields"]}
        schema = metadata(workspace, ORDERS)["schemas"][-1]
        assert {f["name"]: f["id"] for f in schema["fields"]} == {
            "total": fields["amount"],
            "id": fields["id"],
        }


def test_a_column_under_two_names_is_shown_by_a_view_as_long_as_it_is(
    folder: ProjectFolder,
) -> None:
    query = "MODEL (name raw.orders, kind FULL); SELECT 1 AS id, 2 AS amount"
    apply(folder)
    with open_fake(folder.root) as workspace:
        before = physical(workspace, ORDERS)
    folder.write("models/orders.sql", f"{query}, 2 AS also")
    apply(folder)
    with open_fake(folder.root) as workspace:
        assert physical(workspace, ORDERS) == before
        assert kinds(workspace) == {**SHOWN, ORDERS: VIEW}
        shown = metadata(workspace, ORDERS)
        (spark,) = [
            one["sql"]
            for one in shown["versions"][-1]["representations"]
            if one["dialect"] == "spark"
        ]
        assert "`amount` AS `also`" in spark
        assert not damages(workspace)
    folder.write("models/orders.sql", query)
    apply(folder)
    with open_fake(folder.root) as workspace:
        assert kinds(workspace) == SHOWN
        assert is_as_shown(workspace, ORDERS)


def test_a_revert_shows_the_earlier_table_and_computes_nothing(folder: ProjectFolder) -> None:
    apply(folder)
    with open_fake(folder.root) as workspace:
        before = physical(workspace, ORDERS)
    folder.write(
        "models/orders.sql", "MODEL (name raw.orders, kind FULL); SELECT 7 AS id, 2 AS amount"
    )
    apply(folder)
    with open_fake(folder.root) as workspace:
        assert physical(workspace, ORDERS) != before
    folder.write("models/orders.sql", FILES["models/orders.sql"])
    with open_fake(folder.root) as workspace:
        plan = workspace.plan("prod")
        assert not plan.builds
        workspace.apply(plan)
        assert physical(workspace, ORDERS) == before
        assert is_as_shown(workspace, ORDERS)
        workspace.environments.rollback("prod", 2)
        assert physical(workspace, ORDERS) != before
        assert is_as_shown(workspace, ORDERS)


def test_a_run_moves_what_is_shown_with_the_tables(folder: ProjectFolder) -> None:
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod", now=datetime(2024, 1, 3, tzinfo=timezone.utc)))
        head = head_of(metadata(workspace, TableRef("marts", "daily")))
        workspace.apply(workspace.plans.due("prod", now=datetime(2024, 1, 5, tzinfo=timezone.utc)))
        assert head_of(metadata(workspace, TableRef("marts", "daily"))) != head
        assert is_as_shown(workspace, TableRef("marts", "daily"))


@pytest.mark.parametrize(("first", "then"), [("full", "dev_only"), ("dev_only", "full")])
def test_another_mode_turns_views_into_tables_and_back_in_one_publication(
    folder: ProjectFolder, first: str, then: str
) -> None:
    shown = {"full": VIEWS, "dev_only": SHOWN}
    mode(folder, first)
    apply(folder)
    mode(folder, then)
    with open_fake(folder.root) as workspace:
        assert kinds(workspace) == shown[first]
        plan = workspace.plan("prod")
        assert not plan.is_empty
        assert not plan.builds
        workspace.apply(plan)
        assert kinds(workspace) == shown[then]
        assert workspace.plan("prod").is_empty
        assert not damages(workspace)


def test_a_model_that_becomes_a_view_or_goes_takes_its_table_with_it(folder: ProjectFolder) -> None:
    apply(folder)
    folder.write(
        "models/orders.sql", "MODEL (name raw.orders, kind VIEW); SELECT 1 AS id, 2 AS amount"
    )
    folder.remove("models/daily.sql")
    apply(folder)
    with open_fake(folder.root) as workspace:
        assert kinds(workspace) == {ORDERS: VIEW, TableRef("marts", "sums"): VIEW}
    folder.write("models/orders.sql", FILES["models/orders.sql"])
    apply(folder)
    with open_fake(folder.root) as workspace:
        assert kinds(workspace)[ORDERS] == TABLE


def test_what_somebody_wrote_to_a_shown_table_is_found_and_not_lost(folder: ProjectFolder) -> None:
    apply(folder)
    folder.write(
        "models/orders.sql", "MODEL (name raw.orders, kind FULL); SELECT 7 AS id, 2 AS amount"
    )
    with open_fake(folder.root) as workspace:
        pointer = workspace.lakehouse.catalog.pointers([ORDERS])[ORDERS]
        other = pointer.location.replace(".metadata.json", "-other.metadata.json")
        Path(pointer.location.removeprefix("file://")).with_name(Path(other).name).write_text("{}")
        workspace.lakehouse.catalog.swap([Swap(ORDERS, TABLE, pointer.location, other)])
        with pytest.raises(ConflictError, match=r"another program wrote to raw\.orders"):
            workspace.apply(workspace.plan("prod"))
        assert workspace.lakehouse.catalog.pointers([ORDERS])[ORDERS].location == other
        assert "raw.orders" in str(damages(workspace))


@pytest.mark.proof
@pytest.mark.parametrize("point", ["publish.file.write", "publish.commit"])
@pytest.mark.parametrize("death", ["kill_before", "kill_after"])
def test_a_kill_leaves_all_views_or_all_tables_and_the_next_plan_finishes(
    folder: ProjectFolder, point: str, death: Mode
) -> None:
    mode(folder, "full")
    apply(folder)
    mode(folder, "dev_only")
    workspace = open_fake(folder.root, effects=FaultInjector(Fault(point, death), in_process=True))
    with pytest.raises(ProcessKilled):
        workspace.apply(workspace.plan("prod"))
    workspace.close()
    with open_fake(folder.root, clock=ShiftedClock(timedelta(hours=1))) as again:
        done = (point, death) == ("publish.commit", "kill_after")
        assert kinds(again) == (SHOWN if done else VIEWS)
        again.apply(again.plan("prod"))
        assert kinds(again) == SHOWN
        assert is_as_shown(again, ORDERS)
        again.maintenance.janitor()
        assert not damages(again)


def _history(folder: ProjectFolder) -> FakeClock:
    """Run production daily, so that its tables have snapshots whose time is over."""
    settings = "history_versions = 1\nhistory_days = 1\nsnapshot_retention_days = 1\n"
    text = f'[tool.vde]\nvirtual_environment_mode = "dev_only"\n{settings}'
    folder.write("pyproject.toml", text)
    clock = FakeClock(datetime(2024, 1, 3, tzinfo=timezone.utc))
    with open_fake(folder.root, clock=clock) as workspace:
        workspace.apply(workspace.plan("prod"))
        for _ in range(3):
            clock.advance(days=1)
            workspace.apply(workspace.plans.due("prod"))
    clock.advance(hours=1)
    return clock


def _snapshots(workspace: Workspace, ref: TableRef) -> tuple[set[int], set[int]]:
    shown, behind = metadata(workspace, ref), metadata(workspace, physical(workspace, ref))
    return snapshot_ids(shown), snapshot_ids(behind)


@pytest.mark.proof
def test_shown_tables_forget_the_snapshots_whose_files_the_janitor_deletes(
    folder: ProjectFolder,
) -> None:
    daily, clock = TableRef("marts", "daily"), _history(folder)
    with open_fake(folder.root, clock=clock) as workspace:
        before, _ = _snapshots(workspace, daily)
        assert not workspace.maintenance.janitor().failures
        shown, behind = _snapshots(workspace, daily)
        assert shown == behind
        assert shown < before
        assert is_as_shown(workspace, daily)
        assert not damages(workspace)
        assert workspace.plan("prod").is_empty
        clock.advance(days=2)
        workspace.apply(workspace.plans.due("prod"))
        assert is_as_shown(workspace, daily)
        clock.advance(days=2)
        assert not workspace.maintenance.janitor().failures
        assert not damages(workspace)


@pytest.mark.proof
def test_fsck_finds_a_shown_table_that_lists_what_is_gone(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_fake(folder.root, clock=(clock := _history(folder))) as workspace:
        monkeypatch.setattr(sweep, "expire_in_shown_tables", lambda *_: [])
        workspace.maintenance.janitor()
        found = {one.problem: one for one in damages(workspace)}
        assert list(found) == ["shown_table_behind"]
        told = found["shown_table_behind"]
        assert "of its snapshots are missing in vde__marts.daily" in told.detail
        clock.advance(days=1)
        workspace.apply(workspace.plans.due("prod"))
        assert not damages(workspace), "the advice: the next plan repairs it"


@pytest.mark.proof
def test_a_publication_does_not_show_what_the_janitor_forgets_meanwhile(
    folder: ProjectFolder,
) -> None:
    """A revert shows a table that does not move, whose old snapshots go just before its commit."""
    clock = _history(folder)
    changed = FILES["models/daily.sql"].replace("id FROM", "id + 1 AS id FROM")
    with open_fake(folder.root, clock=clock) as workspace:
        before = physical(workspace, TableRef("marts", "daily"))
    folder.write("models/daily.sql", changed)
    with open_fake(folder.root, clock=clock) as workspace:
        workspace.apply(workspace.plan("prod"))
    folder.write("models/daily.sql", FILES["models/daily.sql"])

    def clean() -> None:
        with open_fake(folder.root, clock=clock) as other:
            acted = [one.action for one in other.maintenance.janitor().acted]
            assert "expire_snapshots" in acted

    port = Interruption("publish.file.write", clean)
    with open_fake(folder.root, clock=clock, effects=port) as workspace:
        workspace.apply(workspace.plan("prod"))
        daily = TableRef("marts", "daily")
        assert physical(workspace, daily) == before
        shown, behind = _snapshots(workspace, daily)
        assert shown == behind
        assert not damages(workspace)
