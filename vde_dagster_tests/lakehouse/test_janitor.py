"""What the janitor drops, what it keeps, and how it explains itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Connection

from vde_dagster.lakehouse.catalogs.catalog import Swap
from vde_dagster.lakehouse.catalogs.sql import SqlCatalog
from vde_dagster.lakehouse.maintenance import compaction
from vde_dagster.lakehouse.maintenance.fsck import fsck
from vde_dagster.lakehouse.maintenance.janitor import JanitorReport, clean
from vde_dagster.lakehouse.metadata.commit_summaries import scratch_branch
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state.db import schema
from vde_dagster.state.store import StateStore
from vde_dagster_tests.faults import Fault, FaultInjector
from vde_dagster_tests.lakehouse.oracle import look, query
from vde_dagster_tests.lakehouse.protocol import RETENTION, Job, Process, World, fast_folder
from vde_dagster_tests.state.builders import FakeClock, day, days, plan, snapshot, table

pytestmark = pytest.mark.long


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def world(empty_database: Path, clock: FakeClock) -> Iterator[World]:
    folder = Path(fast_folder())
    shutil.copy(empty_database, folder / "vde.db")
    made = World(f"sqlite:///{folder / 'vde.db'}", folder / "warehouse", clock)
    made.process().lakehouse.catalog.create_namespaces({"vde_physical": {}})
    yield made
    shutil.rmtree(folder)


def janitor(world: World, *, dry_run: bool = False, **policy: object) -> JanitorReport:
    process = world.process()
    retention = replace(RETENTION, **policy)  # type: ignore[arg-type]
    return clean(process.lakehouse, retention, timedelta(days=7), dry_run=dry_run)


def told(report: JanitorReport, action: str) -> list[str]:
    return [decision.subject for decision in report.decisions if decision.action == action]


def publish(world: World, *versions: str, name: str = "prod") -> None:
    for number, version in enumerate(versions):
        world.process().apply(Job(f"{name}{version}", name, number, (("orders", version),)))


def test_table_is_given_up_then_deleted_after_the_grace_time(
    world: World, clock: FakeClock
) -> None:
    publish(world, "1", "2")
    clock.advance(days=60)
    (given_up,) = told(janitor(world), "give_up_table")
    assert given_up in look(world.url).tables
    clock.advance(hours=1)
    assert told(janitor(world), "drop_table") == []
    clock.advance(days=2)
    report = janitor(world)
    assert told(report, "drop_table") == [given_up]
    assert report.bytes == 200
    assert given_up not in look(world.url).tables
    assert not list(world.warehouse.glob(f"vde_physical/{given_up.split('.')[1]}*"))


def test_versions_that_can_be_rolled_back_to_keep_their_tables(
    world: World, clock: FakeClock
) -> None:
    publish(world, "1", "2", "3", "4")
    clock.advance(days=2)
    report = janitor(world)
    assert told(report, "forget_version") == ["prod version 1"]
    assert len(told(report, "give_up_table")) == 1
    assert world.process().rollback("prod", 2).version == 5


def test_a_clock_that_went_back_leaves_no_kept_version_without_its_models(
    world: World, clock: FakeClock
) -> None:
    """States of earlier releases have versions that are older than the version before."""
    publish(world, "1", "2", "3", "4")
    process = world.process()
    known = schema.environment_versions
    with process.store.database.transaction() as conn:
        long_ago = clock.now() - timedelta(days=400)
        conn.execute(known.update().where(known.c.version == 3).values(published_at=long_ago))
    shown = {number: _models_of(process, number) for number in (1, 2, 3, 4)}
    janitor(world, history_versions=50)
    kept = [one.version for one in process.store.versions.history("prod")]
    assert 1 in kept
    assert {number: _models_of(process, number) for number in kept} == shown


def _models_of(process: Process, version: int) -> object:
    found = process.store.versions.at("prod", version)
    return found and found.entries


def test_dry_run_explains_everything_and_does_nothing(world: World, clock: FakeClock) -> None:
    publish(world, "1", "2")
    clock.advance(days=60)
    before = look(world.url)
    report = janitor(world, dry_run=True)
    (decision,) = [d for d in report.decisions if d.action == "give_up_table"]
    assert (decision.outcome, decision.bytes) == ("planned", 200)
    assert "no kept version" in decision.reason
    (kept,) = [d for d in report.decisions if d.action == "keep_table"]
    assert kept.reason == "environment 'prod' shows it"
    assert look(world.url) == before
    assert told(janitor(world), "give_up_table") == [decision.subject]


def test_expired_environment_goes_with_its_views_and_namespaces(
    world: World, clock: FakeClock
) -> None:
    publish(world, "1")
    publish(world, "dev", name="dev")
    world.process().store.environments.invalidate("dev")
    assert told(janitor(world), "drop_environment") == ["dev"]
    seen = look(world.url)
    assert set(seen.environments) == {"prod"}
    assert list(query(world.url, _NAMESPACES)) == [("db",), ("vde_physical",)]


def test_what_production_shares_with_a_dropped_environment_stays_with_its_intervals(
    world: World, clock: FakeClock
) -> None:
    publish(world, "1")
    shown = world.process().store.environments.get("prod")
    assert shown is not None
    (shared,) = shown.tables
    publish(world, "1", "2", name="dev")
    store = world.process().store
    filled = store.tables.get(shared).intervals
    assert filled
    store.environments.invalidate("dev")
    assert told(janitor(world), "drop_environment") == ["dev"]
    clock.advance(days=60)
    (own,) = told(janitor(world), "give_up_table")
    clock.advance(days=2)
    assert told(janitor(world), "drop_table") == [own]
    store = world.process().store
    kept = store.tables.get(shared)
    assert str(kept.ref) != own
    assert kept.intervals == filled
    assert store.fills.log(shared)
    left = "SELECT count(DISTINCT table_id) FROM {}"
    assert list(query(world.url, left.format("vde_intervals"))) == [(1,)]
    assert list(query(world.url, left.format("vde_fills"))) == [(1,)]


def test_dropping_an_environment_leaves_its_siblings_alone(world: World, clock: FakeClock) -> None:
    for name in ("prod", "dev", "test"):
        publish(world, "1", name=name)
    store = world.process().store
    store.environments.expire("test", clock.now() + timedelta(days=1))
    store.environments.invalidate("dev")
    assert store.environments.expired() == ["dev"]
    assert told(janitor(world), "drop_environment") == ["dev"]
    assert set(look(world.url).environments) == {"prod", "test"}


def test_outdated_ranges_of_a_dropped_table_are_forgotten(world: World, clock: FakeClock) -> None:
    publish(world, "1", "2")
    store = world.process().store
    (old,) = {t.id for t in store.ledger.tables()} - (_shown(world))
    store.outdated.remember({old: (days(0), clock.now())})
    clock.advance(days=60)
    janitor(world)
    clock.advance(days=2)
    janitor(world)
    assert list(query(world.url, "SELECT count(*) FROM vde_outdated")) == [(0,)]


def _shown(world: World) -> frozenset[str]:
    shown = world.process().store.environments.get("prod")
    assert shown is not None
    return shown.tables


_NAMESPACES = "SELECT DISTINCT namespace FROM iceberg_namespace_properties ORDER BY 1"


def test_environment_that_is_being_worked_on_is_not_dropped(world: World) -> None:
    publish(world, "dev", name="dev")
    process = world.process()
    process.store.environments.invalidate("dev")
    process.store.leases.acquire("environment/dev", "anna", 600)
    report = janitor(world)
    assert [d.outcome for d in report.decisions if d.action == "drop_environment"] == ["kept"]
    assert "dev" in look(world.url).environments


def test_cap_holds_back_a_mass_extinction(world: World, clock: FakeClock) -> None:
    publish(world, *[str(number) for number in range(6)])
    clock.advance(days=60)
    report = janitor(world, cap=0.34, cap_floor=1)
    assert len(told(report, "give_up_table")) == 2
    waiting = [d for d in report.decisions if "already marked as many tables as it may" in d.reason]
    assert len(waiting) == 3


def test_plan_that_may_still_be_applied_keeps_its_tables(world: World, clock: FakeClock) -> None:
    process = world.process()
    made = process.store.tables.ensure(table())
    clock.advance(days=2)
    from vde_dagster_tests.state.builders import plan

    process.store.plans.save(plan("p1", tables=[made], at=clock.now()))
    assert told(janitor(world), "give_up_table") == []
    clock.advance(days=2)
    report = janitor(world)
    assert told(report, "close_plan") == ["p1"]
    assert len(told(report, "give_up_table")) == 1


def test_failure_is_reported_and_tried_again(
    world: World, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(world, "1", "2")
    clock.advance(days=60)
    janitor(world)
    clock.advance(days=2)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", _refuse)
        report = janitor(world)
    (failure,) = report.failures
    assert failure.action == "drop_table"
    assert "read-only" in str(failure.error)
    assert told(janitor(world), "drop_table") == [failure.subject]
    assert janitor(world).failures == ()


def _refuse(path: object) -> None:
    raise OSError("read-only file system")


def test_strangers_are_reported_and_left_alone(world: World, clock: FakeClock) -> None:
    publish(world, "1")
    process = world.process()
    process.engine.create_table(table("stranger"))
    clock.advance(days=90)
    janitor(world)
    clock.advance(days=90)
    janitor(world)
    findings = [f for f in fsck(process.lakehouse) if f.problem == "stranger"]
    assert len(findings) == 1
    assert findings[0].subject in look(world.url).tables


def test_what_a_killed_write_put_together_goes_with_its_plan(
    world: World, clock: FakeClock
) -> None:
    publish(world, "1")
    process = world.process()
    (made,) = process.store.tables.load([t.id for t in process.store.ledger.tables()]).values()
    scratch = scratch_branch("prod1")
    for branch, plan_id in ((scratch, "prod1"), ("theirs", "prod1")):
        process.engine.fill(made, day(1), plan_id, branch)
    assert told(janitor(world), "drop_branch") == []
    clock.advance(days=2)
    assert told(janitor(world), "drop_branch") == [f"{made.ref} {scratch}"]
    assert look(world.url).branches[str(made.ref)] == ["theirs"]


def test_old_iceberg_snapshots_go_and_filled_intervals_stay(world: World, clock: FakeClock) -> None:
    publish(world, "1")
    clock.advance(days=30)
    world.process().apply(Job("more", "prod", 1, (("orders", "1"),), days(0, 1, 2)))
    clock.advance(days=30)
    seen = look(world.url)
    assert len(told(janitor(world), "expire_snapshots")) == 1
    assert look(world.url) == seen
    assert told(janitor(world), "expire_snapshots") == []
    again = world.process().apply(Job("again", "prod", 2, (("orders", "1"),), days(0, 1, 2, 3)))
    assert again.version == 3


def test_what_a_kept_version_pins_is_not_expired_and_goes_with_the_version(
    world: World, clock: FakeClock
) -> None:
    publish(world, "1")
    for number in (1, 2):
        clock.advance(days=9)
        job = Job(f"p{number}", "prod", number, (("orders", "1"),), days(*range(number + 2)))
        world.process().apply(job)
    clock.advance(days=9)
    store = world.process().store
    (ref,) = {table.ref for table in store.ledger.tables()}
    kept = store.pins.kept(ref)
    assert sorted(kept.values()) == [[("prod", number, number)] for number in (1, 2, 3)]
    report = janitor(world, dry_run=True)
    (held,) = [d for d in report.decisions if d.action == "keep_snapshots"]
    assert held.reason.endswith("pinned by versions 1 to 2 of 'prod'")
    # The first of the two days that version 1 was filled with is in no version.
    assert told(janitor(world), "expire_snapshots") == [str(ref)]
    metadata = world.process().lakehouse.table_metadata(ref)
    assert {item["snapshot-id"] for item in metadata["snapshots"]} == kept.keys()
    assert told(janitor(world), "expire_snapshots") == []
    clock.advance(days=15)
    assert told(janitor(world), "forget_version") == ["prod version 1"]
    metadata = world.process().lakehouse.table_metadata(ref)
    assert {item["snapshot-id"] for item in metadata["snapshots"]} == store.pins.kept(ref).keys()
    assert len(store.pins.kept(ref)) == 2


def test_a_dropped_environment_pins_nothing(world: World, clock: FakeClock) -> None:
    publish(world, "1")
    publish(world, "1", name="dev")
    clock.advance(days=1)
    world.process().apply(Job("p1", "prod", 1, (("orders", "1"),), days(0, 1, 2)))
    clock.advance(days=10)
    store = world.process().store
    (ref,) = {table.ref for table in store.ledger.tables()}
    assert sorted(len(by) for by in store.pins.kept(ref).values()) == [1, 2]
    store.environments.invalidate("dev")
    janitor(world)
    assert [name for by in store.pins.kept(ref).values() for name, _, _ in by] == [
        "prod",
        "prod",
    ]


def test_a_lost_race_leaves_no_metadata_file(
    world: World, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(world, "1")
    clock.advance(days=30)
    world.process().apply(Job("more", "prod", 1, (("orders", "1"),), days(0, 1, 2)))
    clock.advance(days=30)
    swap = SqlCatalog.swap

    def late(self: SqlCatalog, swaps: Sequence[Swap], within: Connection) -> None:
        """Somebody else commits between the janitor's reading and its swap."""
        moved = [replace(each, before=f"{each.before}.other") for each in swaps]
        swap(self, moved, within)

    before = metadata_files(world)
    with monkeypatch.context() as patch:
        patch.setattr(SqlCatalog, "swap", late)
        (failure,) = janitor(world).failures
    assert failure.action == "expire_snapshots"
    assert "was changed by another writer" in str(failure.error)
    assert metadata_files(world) == before
    assert told(janitor(world), "expire_snapshots") == [failure.subject]
    assert len(metadata_files(world)) == len(before) + 1


def test_an_expiry_whose_answer_is_lost_is_done_once(world: World, clock: FakeClock) -> None:
    publish(world, "1")
    clock.advance(days=30)
    world.process().apply(Job("more", "prod", 1, (("orders", "1"),), days(0, 1, 2)))
    clock.advance(days=30)
    before = metadata_files(world)
    fault = Fault("janitor.expire_snapshots.commit", "lose_answer")
    process = world.process(FaultInjector(fault, clock=clock, in_process=True))
    report = clean(process.lakehouse, RETENTION, timedelta(days=7))
    assert report.failures == ()
    assert len(metadata_files(world)) == len(before) + 1
    look(world.url)


def metadata_files(world: World) -> set[Path]:
    """Name the metadata files of tables."""
    return set(world.warehouse.glob("vde_physical/*/metadata/*.metadata.json"))


def test_fsck_names_what_is_damaged(world: World) -> None:
    publish(world, "1")
    process = world.process()
    assert fsck(process.lakehouse) == ()
    for (location,) in query(world.url, "SELECT metadata_location FROM iceberg_tables"):
        Path(location.removeprefix("file://")).unlink()
    found = fsck(process.lakehouse)
    assert {(f.problem, f.subject.split("_")[0]) for f in found} == {
        ("missing_metadata_file", "db.orders"),
        ("missing_metadata_file", "vde"),
    }
    with process.store.database.transaction() as conn:
        conn.exec_driver_sql("DELETE FROM iceberg_tables")
    assert {f.problem for f in fsck(process.lakehouse)} == {"view_gone", "table_gone"}
    with process.store.database.transaction() as conn:
        conn.exec_driver_sql("UPDATE vde_tables SET status = 'tombstoned'")
    assert "shown_table_not_live" in {f.problem for f in fsck(process.lakehouse)}
    assert all(f.advice for f in found)


def test_records_that_nobody_needs_any_more_are_forgotten_with_their_history(
    world: World, clock: FakeClock
) -> None:
    publish(world, "1", "2")
    before = rows_of(world)
    assert (before["plans"], before["publications"]) == (2, 2)
    clock.advance(days=2)
    assert told(janitor(world), "forget_records") == []
    assert rows_of(world) == before
    for _ in range(3):
        clock.advance(days=40)
        janitor(world)
    left = rows_of(world)
    assert left["plans"] == 1, "the plan of the version that is shown"
    assert left["publications"] == 0
    assert told(janitor(world), "forget_records") == []
    assert world.process().rollback("prod", 2).version == 2
    assert look(world.url).environments["prod"]


def test_events_are_forgotten_even_if_nothing_else_is_old(world: World, clock: FakeClock) -> None:
    outbox = world.process().store.outbox
    outbox.add("told", [{"receiver": "team", "subject": "old"}])
    clock.advance(days=60)
    outbox.add("told", [{"receiver": "team", "subject": "new"}])
    janitor(world, dry_run=True)
    assert len(outbox.with_kind("told")) == 2
    assert told(janitor(world), "forget_records") == []
    assert [one.subject["subject"] for one in outbox.with_kind("told")] == ["new"]


def test_a_dry_run_forgets_no_records(world: World, clock: FakeClock) -> None:
    publish(world, "1", "2")
    clock.advance(days=2)
    janitor(world)
    clock.advance(days=60)
    before = rows_of(world)
    assert told(janitor(world, dry_run=True), "forget_records") == ["2 publications"]
    assert rows_of(world) == before


def test_a_snapshot_of_a_stored_plan_is_kept(world: World, clock: FakeClock) -> None:
    process = world.process()
    made = snapshot("db.orders", "1")
    process.store.snapshots.save([made])
    clock.advance(days=60)
    process.store.plans.save(
        replace(plan("p1", "prod", 0, at=clock.now()), snapshots={made.id: made})
    )
    janitor(world)
    assert rows_of(world)["snapshots"] == 1
    clock.advance(days=2)
    janitor(world)  # closes the plan
    clock.advance(days=60)
    janitor(world)
    assert rows_of(world) == {"plans": 0, "publications": 0, "snapshots": 0}


def rows_of(world: World) -> dict[str, int]:
    """Count the rows that may be forgotten."""
    kinds = ("plans", "publications", "snapshots")
    return {k: next(iter(query(world.url, f"SELECT count(*) FROM vde_{k}")))[0] for k in kinds}


def test_two_janitors_do_not_compact_one_table_at_once(store: StateStore) -> None:
    run: Any = SimpleNamespace(store=store)
    ref, others = TableRef("db", "orders"), list[bool]()

    def compact_again(_: TableRef) -> None:
        others.append(compaction._compact(run, "t1", ref, lambda _: None))

    assert compaction._compact(run, "t1", ref, compact_again)
    assert others == [False]
