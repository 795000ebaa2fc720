"""The publish transaction on SQLite."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from vde_dagster.errors import ConflictError, ExecutionError, LeaseLostError
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.metadata.commit_summaries import committed_fills
from vde_dagster.lakehouse.publishing.publication import FastForward, Publication
from vde_dagster.planning.engine_tasks import ViewDefinition
from vde_dagster.planning.tables.table import PhysicalTable, TableRef
from vde_dagster.state.fills.fills import FillRecord
from vde_dagster.state.store import StateStore
from vde_dagster_tests.lakehouse.fake_engine import FakeEngine
from vde_dagster_tests.state.builders import (
    FakeClock,
    day,
    days,
    environment,
    plan,
    table,
    view,
)


def pointers(store: StateStore) -> dict[str, str]:
    with store.database.reading() as conn:
        rows = conn.exec_driver_sql(
            "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables"
        )
        return {f"{namespace}.{name}": location for namespace, name, location in rows}


def metadata_files(tmp_path: Path) -> set[str]:
    return {str(path) for path in (tmp_path / "warehouse").rglob("*.metadata.json")}


def publish(
    lakehouse: Lakehouse, views: list[ViewDefinition], base: int = 0, **more: object
) -> int:
    made = lakehouse.publish(
        Publication(environment("prod"), base, tuple(views), **more)  # type: ignore[arg-type]
    )
    return made.version


@pytest.fixture
def filled(store: StateStore, engine: FakeEngine) -> PhysicalTable:
    made = store.tables.ensure(table())
    engine.create_table(made)
    engine.fill(made, day(0), "p0")
    store.fills.record(FillRecord(made.id, day(0), "p0"))
    store.plans.save(plan("p1", tables=[made]))
    engine.fill(made, day(1), "p1", "vde_p1")
    store.pending.record(FillRecord(made.id, day(1), "p1", branch="vde_p1"))
    return made


def test_views_appear_are_replaced_and_go_together(lakehouse: Lakehouse, store: StateStore) -> None:
    assert publish(lakehouse, [view("a"), view("b")]) == 1
    first = pointers(store)
    assert set(first) == {"db.a", "db.b"}
    dropped = (TableRef("db", "a"),)
    assert publish(lakehouse, [view("b", "SELECT 2 AS a"), view("c")], 1, dropped=dropped) == 2
    second = pointers(store)
    assert set(second) == {"db.b", "db.c"}
    assert second["db.b"] != first["db.b"]


def test_unchanged_views_write_no_file(
    lakehouse: Lakehouse, store: StateStore, tmp_path: Path
) -> None:
    publish(lakehouse, [view("a"), view("b")])
    before, files = pointers(store), metadata_files(tmp_path)
    publish(lakehouse, [view("a"), view("b")], 1)
    assert pointers(store) == before
    assert metadata_files(tmp_path) == files


def test_lost_race_changes_nothing_and_leaves_no_file(
    lakehouse: Lakehouse, store: StateStore, tmp_path: Path
) -> None:
    publish(lakehouse, [view("a")])
    before, files = pointers(store), metadata_files(tmp_path)
    with pytest.raises(ConflictError, match="anna published"):
        publish(lakehouse, [view("a", "SELECT 9 AS a"), view("z")], 0)
    assert pointers(store) == before
    assert metadata_files(tmp_path) == files


def test_type_that_no_view_can_have_names_view_and_column(lakehouse: Lakehouse) -> None:
    columns = (("a", "INT", None), ("took", "INTERVAL DAY TO SECOND", None))
    with pytest.raises(ExecutionError, match=r"the view db\.b: column 'took': .*is not supported"):
        publish(lakehouse, [view("a"), view("b", columns=columns)])


@pytest.mark.parametrize("kind", ["TABLE", "VIEW"])
def test_what_others_made_is_never_touched(
    lakehouse: Lakehouse, store: StateStore, kind: str
) -> None:
    with store.database.transaction() as conn:
        conn.exec_driver_sql(
            f"INSERT INTO iceberg_tables VALUES ('lakehouse', 'db', 'a', 'x', NULL, '{kind}')"
        )
    with pytest.raises(ConflictError, match=f"a {kind.lower()} db.a that vde did not publish"):
        publish(lakehouse, [view("a")])
    publish(lakehouse, [view("b")], dropped=(TableRef("db", "a"),))
    assert pointers(store)["db.a"] == "x"


def test_view_that_somebody_replaced_is_published_again(
    lakehouse: Lakehouse, store: StateStore, tmp_path: Path
) -> None:
    publish(lakehouse, [view("a")])
    stray = tmp_path / "stray.metadata.json"
    stray.write_bytes(Path(pointers(store)["db.a"].removeprefix("file://")).read_bytes())
    with store.database.transaction() as conn:
        conn.exec_driver_sql(f"UPDATE iceberg_tables SET metadata_location = 'file://{stray}'")
    publish(lakehouse, [view("a")], 1)
    assert "stray" not in pointers(store)["db.a"]


def test_lost_lease_publishes_nothing(
    lakehouse: Lakehouse, store: StateStore, clock: FakeClock
) -> None:
    lease = store.leases.acquire("environment/prod", "anna", 60)
    clock.advance(seconds=61)
    with pytest.raises(LeaseLostError):
        publish(lakehouse, [view("a")], leases=(lease,))
    assert pointers(store) == {}
    assert store.environments.get("prod") is None


def test_branch_view_and_state_move_together(
    lakehouse: Lakehouse, store: StateStore, filled: PhysicalTable
) -> None:
    head = lakehouse.main_snapshot(filled.ref, "vde_p1")
    forward = FastForward(filled.ref, filled.id, "vde_p1", lakehouse.main_snapshot(filled.ref))
    made = environment("prod", [("db.orders", "db.orders@1", filled.id)], plan_id="p1")
    lakehouse.publish(
        Publication(made, 0, (view("orders"),), fast_forwards=(forward,), plan_id="p1")
    )
    assert lakehouse.main_snapshot(filled.ref) == head
    assert lakehouse.main_snapshot(filled.ref, "vde_p1") is None
    assert store.tables.load([filled.id])[filled.id].intervals == days(0, 1)
    assert store.pending.for_plan("p1") == []
    record = store.plans.record("p1")
    assert record is not None
    assert record.status == "applied"
    fills = committed_fills(lakehouse.table_metadata(filled.ref))
    assert [(fill.plan_id, fill.interval, fill.rows) for fill in fills] == [
        ("p1", day(1), 10),
        ("p0", day(0), 10),
    ]


def test_branch_is_refused_when_main_moved_away(
    lakehouse: Lakehouse, store: StateStore, engine: FakeEngine, filled: PhysicalTable
) -> None:
    engine.fill(filled, day(5), "p9")
    forward = FastForward(filled.ref, filled.id, "vde_p1")
    with pytest.raises(ConflictError, match="does not descend from the current main"):
        publish(lakehouse, [view("a")], fast_forwards=(forward,), plan_id="p1")
    assert "db.a" not in pointers(store)
    assert store.tables.load([filled.id])[filled.id].intervals == days(0)


def test_other_branch_on_the_same_table_is_no_conflict(
    lakehouse: Lakehouse,
    engine: FakeEngine,
    filled: PhysicalTable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_all = lakehouse.files.write_all
    meddled: list[int] = []

    def meddle(files: object, point: str) -> None:
        write_all(files, point)  # type: ignore[arg-type]
        if point == "publish.file.write" and not meddled:
            meddled.append(engine.fill(filled, day(7), "p2", "vde_p2"))

    monkeypatch.setattr(lakehouse.files, "write_all", meddle)
    forward = FastForward(filled.ref, filled.id, "vde_p1")
    publish(lakehouse, [view("a")], fast_forwards=(forward,))
    assert lakehouse.main_snapshot(filled.ref, "vde_p2") == meddled[0]
    assert committed_fills(lakehouse.table_metadata(filled.ref))[0].plan_id == "p1"


def test_applied_plan_is_not_applied_twice(
    lakehouse: Lakehouse, store: StateStore, filled: PhysicalTable
) -> None:
    forward = FastForward(filled.ref, filled.id, "vde_p1")
    made = Publication(
        environment("prod", plan_id="p1"),
        0,
        (view("orders"),),
        fast_forwards=(forward,),
        plan_id="p1",
    )
    first = lakehouse.publish(made)
    again = lakehouse.publish(made)
    assert again == first
    assert len(store.versions.history("prod")) == 1


def test_ended_environment_leaves_no_view_and_no_namespace(
    lakehouse: Lakehouse, store: StateStore
) -> None:
    views = (view("a", namespace="db__dev"), view("b", namespace="db__dev"))
    lakehouse.publish(Publication(environment("dev"), 0, views))
    publish(lakehouse, [view("a")])
    lakehouse.publish(Publication(environment("dev"), 1, ends_environment=True))
    assert set(pointers(store)) == {"db.a"}
    assert store.environments.get("dev") is None
    with store.database.reading() as conn:
        found = conn.exec_driver_sql(
            "SELECT DISTINCT namespace FROM iceberg_namespace_properties ORDER BY 1"
        ).scalars()
        assert list(found) == ["db", "vde_physical"]


def test_missing_metadata_file_is_named(lakehouse: Lakehouse, store: StateStore) -> None:
    publish(lakehouse, [view("a")])
    Path(pointers(store)["db.a"].removeprefix("file://")).unlink()
    with pytest.raises(Exception, match=r"the metadata file of db\.a is missing") as error:
        publish(lakehouse, [view("a", "SELECT 2 AS a")], 1)
    assert "vde fsck" in str(error.value)


@pytest.mark.parametrize(
    "name",
    ["select", "we`ird", 'do"uble', "it's", "ünï✓", "dot.ted", "per%cent", "a/b\\c", "n" * 200],
)
def test_any_name_can_be_published(lakehouse: Lakehouse, store: StateStore, name: str) -> None:
    definition = replace(view(name), namespace=f"ns {name}")
    publish(lakehouse, [definition])
    first = pointers(store)
    assert set(first) == {f"ns {name}.{name}"}
    publish(lakehouse, [definition], 1)
    assert pointers(store) == first
    publish(lakehouse, [], 2, dropped=(TableRef(f"ns {name}", name),))
    assert pointers(store) == {}
