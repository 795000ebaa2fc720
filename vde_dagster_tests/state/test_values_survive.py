"""What is stored is read back as it was."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
from sqlalchemy import Table

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ConflictError, StoreError, UsageError
from vde_dagster.planning.changes.backlog import Backlog, TableBacklog
from vde_dagster.planning.engine_tasks import AuditResult, AuditTask
from vde_dagster.planning.environments.contracts import ContractBreak, Reader
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.planning.plan.plan import Batches, Category, Change, Plan, PlannedModel
from vde_dagster.planning.reasons import Reason, ReasonCode
from vde_dagster.planning.snapshots.identity import with_content_id
from vde_dagster.planning.table_contents import Skipped
from vde_dagster.planning.tables.table import ColumnChange, PhysicalColumn, Preview, TableChange
from vde_dagster.project.kinds import External, Full, IncrementalByUniqueKey, Seed, View
from vde_dagster.project.model import PythonSource
from vde_dagster.state.db import schema
from vde_dagster.state.db.codec import dump_plan, load_stored_plan
from vde_dagster.state.fills.fills import FillRecord
from vde_dagster.state.store import StateStore
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import SHOP, ProjectFolder
from vde_dagster_tests.state.builders import (
    T0,
    FakeClock,
    day,
    days,
    plan,
    snapshot,
    table,
)


@pytest.mark.parametrize(
    "kind",
    [
        Full(),
        View(),
        External(),
        IncrementalByUniqueKey(("a", "b"), batch_size=3),
        Seed("seeds/a.csv", "hash", 3, "rows", (("a", "x"),), null_values=("NA",)),
    ],
)
def test_snapshot_of_every_kind_is_read_back_equal(store: StateStore, kind) -> None:
    made = snapshot("db.orders", kind=kind)
    store.snapshots.save([made])
    store.snapshots.save([made])
    read = store.snapshots.load([made.id, "unknown"])
    assert read == {made.id: made}
    assert read[made.id].version.unique_keys == made.version.unique_keys


def test_numbers_that_messagepack_has_not_are_read_back(store: StateStore) -> None:
    made = snapshot("db.orders")
    code = PythonSource("a.py:f", {}, variables={"wide": 2**70, "many": [-(2**64), 1.5]})
    made = with_content_id(replace(made, model=replace(made.model, python=code)))
    store.snapshots.save([made])
    assert store.snapshots.load([made.id]) == {made.id: made}


def test_a_damaged_snapshot_is_told_with_its_model(store: StateStore) -> None:
    made = snapshot("db.orders")
    store.snapshots.save([made, snapshot("db.other")])
    with store.database.engine.begin() as connection:
        connection.execute(
            schema.snapshots.update()
            .where(schema.snapshots.c.snapshot_id == made.id)
            .values(payload=b"no zlib")
        )
    with pytest.raises(StoreError, match=r"of db\.orders: a stored value is damaged") as caught:
        store.snapshots.load([made.id])
    assert "backup" in str(caught.value.hint)


@pytest.mark.parametrize("text", ["hello", "[null]", "{", '"x"'])
def test_damaged_texts_are_one_clear_error_or_computed_again(store: StateStore, text: str) -> None:
    made = store.tables.ensure(table())
    store.fills.record(FillRecord(made.id, day(0), "p1", 5, 7))
    store.snapshots.save([snapshot("db.orders")])
    store.snapshots.save_view_types({"view": [("a", "INT")]})

    def damage(table: Table, **values: str) -> None:
        with store.database.engine.begin() as connection:
            connection.execute(table.update().values(**values))

    damage(schema.view_types, columns=text)
    assert store.snapshots.view_types(["view"]) == {}
    damage(schema.fills, lacks=text)
    with pytest.raises(StoreError, match="the record of a fill in vde_fills is damaged"):
        store.tables.get(made.id)
    damage(schema.fills, lacks="[]")
    damage(schema.tables, columns=text)
    with pytest.raises(StoreError, match="the columns of a table in vde_tables are damaged"):
        store.tables.get(made.id)


def test_a_snapshot_under_an_id_that_is_not_its_content_is_refused_with_its_model(
    store: StateStore,
) -> None:
    forged = replace(snapshot("db.orders"), id="forged")
    message = r"of db\.orders: its content does not match its id"
    with pytest.raises(StoreError, match=message), store.database.transaction() as connection:
        store.snapshots.save([forged], connection)
    assert store.snapshots.load(["forged"]) == {}


def test_thousands_of_snapshots_are_read_at_once(store: StateStore) -> None:
    made = [snapshot(f"db.m{i}") for i in range(1_200)]
    store.snapshots.save(made)
    assert len(store.snapshots.load([item.id for item in made])) == 1_200


def test_view_types_are_replaced(store: StateStore) -> None:
    assert store.snapshots.view_types(["s"]) == {}
    store.snapshots.save_view_types({"s": (("a", "INT"),)})
    store.snapshots.save_view_types({"s": (("a", "STRUCT<x: INT>"), ("b", "STRING"))})
    assert store.snapshots.view_types(["s"]) == {"s": (("a", "STRUCT<x: INT>"), ("b", "STRING"))}


def test_plan_is_read_back_equal(store: StateStore) -> None:
    made = plan()
    store.plans.save(made)
    store.plans.save(made)
    assert store.plans.load("p1") == made
    with pytest.raises(UsageError, match="plan 'p2' does not exist"):
        store.plans.load("p2")


def test_only_a_plan_that_is_gone_or_damaged_is_not_found(
    store: StateStore, backend: str, tmp_path: Path
) -> None:
    made = plan()
    store.plans.save(made)
    assert store.plans.find("p1") == made
    assert store.plans.find("p2") is None
    with store.database.engine.begin() as connection:
        connection.execute(schema.plans.update().values(payload=b"no zlib"))
    assert store.plans.find("p1") is None
    if backend == "sqlite":
        store.database.engine.dispose()
        (tmp_path / "vde.db").write_text("hello " * 1000)
        with pytest.raises(StoreError, match="file is not a database"):
            store.plans.find("p1")


def test_plan_goes_through_its_statuses_and_never_back(store: StateStore, clock: FakeClock) -> None:
    store.plans.save(plan())
    store.plans.set_status("p1", "applying")
    clock.advance(minutes=1)
    store.plans.set_status("p1", "failed", "Spark was away")
    record = store.plans.record("p1")
    assert record is not None
    assert (record.status, record.message) == ("failed", "Spark was away")
    assert record.started_at == T0
    store.plans.set_status("p1", "applying")
    store.plans.set_status("p1", "applied")
    with pytest.raises(ConflictError, match="is applied and cannot become applying"):
        store.plans.set_status("p1", "applying")
    assert [known.id for known in store.plans.recent("prod")] == ["p1"]
    assert store.plans.recent("dev") == []


def test_two_makers_of_the_same_content_share_one_table(
    store: StateStore, clock: FakeClock
) -> None:
    first = store.tables.ensure(table())
    clock.advance(seconds=1)
    second = store.tables.ensure(table())
    other = store.tables.ensure(table(columns=("va", "vx")))
    assert second == first
    assert other.id != first.id
    assert store.tables.with_fill_versions([first.fill_version, "other"]) == [first, other]


def test_created_table_has_the_types_it_really_got(store: StateStore) -> None:
    made = store.tables.ensure(table())
    store.tables.mark_created(made, [("c0", "BIGINT"), ("c1", "DATE"), ("other", "INT")])
    read = store.tables.load([made.id])[made.id]
    assert read.created
    assert [column.type for column in read.columns] == ["BIGINT", "DATE"]
    with pytest.raises(StoreError, match="no live table"):
        store.tables.mark_created(replace(made, id="unknown"), [])


def test_a_year_of_daily_fills_is_one_stored_range(store: StateStore) -> None:
    made = store.tables.ensure(table())
    for number in [*range(1, 365, 2), *range(0, 365, 2)]:
        store.fills.record(FillRecord(made.id, day(number), "p1", 7, 10))
    store.fills.record(FillRecord(made.id, day(3), "p1", 8, 10))
    assert store.tables.load([made.id])[made.id].intervals.ranges == (day(0, 365),)
    assert len(store.fills.log(made.id)) == 365
    with store.database.reading() as conn:
        assert conn.exec_driver_sql("SELECT count(*) FROM vde_intervals").scalar() == 1


def test_removed_range_is_missing_again(store: StateStore) -> None:
    made = store.tables.ensure(table())
    store.fills.record(FillRecord(made.id, day(0, 10), "p1"))
    store.fills.remove(made.id, day(4, 2))
    assert store.tables.load([made.id])[made.id].intervals.ranges == (day(0, 4), day(6, 4))


def test_pending_ranges_become_filled_together(store: StateStore) -> None:
    made = store.tables.ensure(table())
    other = store.tables.ensure(table("names"))
    for item, number in ((made, 0), (made, 1), (made, 1), (other, 0)):
        store.pending.record(FillRecord(item.id, day(number), "p1", 5, 3, branch="vde_p1"))
    assert len(store.pending.for_plan("p1")) == 3
    assert not store.tables.load([made.id])[made.id].intervals
    store.database.run_transaction(lambda conn: store.pending.settle(conn, "p1", [made.id]))
    assert store.tables.load([made.id])[made.id].intervals == days(0, 1)
    assert [item.table_id for item in store.pending.for_plan("p1")] == [other.id]


def test_audit_results_keep_failing_rows(store: StateStore) -> None:
    task = AuditTask("p1", ModelName("db", "orders"), "not_null(a)", "SELECT 1", True, day(0))
    store.audits.save(task, "t1", AuditResult(1, ({"a": None},), 0.5))
    store.audits.save(task, "t1", AuditResult(2, ({"a": None}, {"a": "x'y"}), 0.5))
    (kept,) = store.audits.results(plan_id="p1")
    assert kept.result == AuditResult(2, ({"a": None}, {"a": "x'y"}), 0.5)
    assert kept.interval == day(0)
    assert store.audits.results(table_id="t1") == [kept]
    assert store.audits.results(table_id="t2") == []


def test_stored_plan_leaves_out_no_field_of_a_plan() -> None:
    made = replace(several_plans(), start=None, end=T0, expires_at=T0.replace(microsecond=7))
    made = replace(made, warnings=("no filter",))
    read = load_stored_plan(dump_plan(made))
    assert replace(read.plan, snapshots=made.snapshots) == made
    assert read.snapshot_ids == tuple(made.snapshots)
    for lost in fields(PlannedModel):
        assert any(getattr(model, lost.name) != _EMPTY[lost.name] for model in made.models)


def test_plan_whose_entries_are_not_those_of_its_models_keeps_them() -> None:
    made = several_plans()
    entries = dict(list(made.entries.items())[1:])
    other = replace(made, entries=entries, snapshots=dict(reversed(made.snapshots.items())))
    read = load_stored_plan(dump_plan(other))
    assert replace(read.plan, snapshots=other.snapshots) == other
    assert read.snapshot_ids == tuple(other.snapshots)


_EMPTY = {
    "name": None, "change": Change.UNCHANGED, "category": None, "reasons": (), "snapshot_id": None,
    "previous_snapshot_id": None, "table": None, "builds": False, "intervals": IntervalSet(),
    "audits": False, "restate": False, "catches_up": False, "layout": False,
    "breaks": (), "records_only": False, "skippable": False, "skips": None, "always": "",
    "in_place": None, "batches": None, "backlog": None, "moves": (),
}  # fmt: skip


def several_plans() -> Plan:
    """A plan with a model of every sort: idle, built, audited, restated, laid out, removed."""
    made = plan(tables=[replace(table(), created=True, intervals=days(0, 3))])
    (first, *rest) = made.models
    busy = replace(
        first,
        name=ModelName("db", "busy"),
        change=Change.MODIFIED,
        category=Category.BREAKING,
        reasons=(
            "filter changed",
            Reason(ReasonCode.ROWS, ("where",), upstream=ModelName("db", "up")),
            Reason(ReasonCode.PARENT_COLUMN, ("x", "", "db.busy.y"), ModelName("db", "up")),
        ),
        previous_snapshot_id="before",
        builds=True,
        intervals=days(1, 2),
        audits=True,
        restate=True,
        catches_up=True,
        records_only=True,
        layout=True,
        skippable=True,
        skips=Skipped(T0, 1.5, 7, 8),
        always=Reason(ReasonCode.READS_CLOCK, detail="now()"),
        backlog=Backlog(T0, (TableBacklog("raw.orders", 2, 5, 1),), "a table was made again"),
        batches=Batches(12, 3_500_000),
        moves=("revenue", "orders"),
        breaks=(
            ContractBreak(ModelName("db", "busy"), "n", "INT", "BIGINT", True),
            ContractBreak(
                ModelName("db", "busy"),
                "day",
                "DATE",
                readers=(
                    Reader(ModelName("db", "one"), ("a", "b")),
                    Reader(ModelName("db", "two")),
                ),
            ),
        ),
        in_place=TableChange(
            table().ref,
            deploys=True,
            columns=(ColumnChange("n", "widened", "INT", "BIGINT"), ColumnChange("x", "added")),
            effective_from=T0,
        ),
    )
    assert first.table is not None
    preview = replace(
        first.table,
        preview=Preview("of", "vde_preview_1p", days(0, 1)),
        computed_from=("other",),
        mixed=True,
        columns=(*first.table.columns, PhysicalColumn("x", "vx", "INT", ("old",), in_place=True)),
    )
    tried = replace(busy, name=ModelName("db", "tried"), table=preview, breaks=())
    idle = replace(
        first,
        change=Change.UNCHANGED,
        category=None,
        reasons=(),
        previous_snapshot_id=first.snapshot_id,
        builds=False,
        intervals=IntervalSet(),
    )
    gone = PlannedModel(
        ModelName("db", "gone"), Change.REMOVED, None, ("removed",), None, "b", None, False
    )
    return replace(made, models=(idle, *rest, busy, tried, gone))


def test_plan_stores_no_snapshot_that_was_hashed_again_under_an_earlier_id(
    store: StateStore,
) -> None:
    made = plan()
    (earlier, snapshot), (other, _) = made.snapshots.items()
    again = replace(snapshot, id="hashed again")
    store.plans.save(replace(made, snapshots={**made.snapshots, earlier: again}))
    assert store.snapshots.load([earlier, again.id, other]).keys() == {other}
    with pytest.raises(StoreError, match=earlier):
        store.plans.load(made.id)


AT_ONCE = """
import sys, threading
from pathlib import Path
from vde_dagster.state.db.codec import load_stored_plan

data = Path(sys.argv[1]).read_bytes()
begin, read = threading.Barrier(8), []
sys.setswitchinterval(1e-6)

def work():
    begin.wait()
    read.append(len(load_stored_plan(data).plan.models))

threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(read)
"""


@pytest.mark.proof
def test_threads_that_read_the_first_plan_of_a_process_at_once_all_get_it(tmp_path: Path) -> None:
    with open_fake(ProjectFolder(tmp_path / "shop", SHOP).root) as workspace:
        made = workspace.plan("prod")
    (tmp_path / "plan").write_bytes(dump_plan(made))
    command = [sys.executable, "-c", AT_ONCE, str(tmp_path / "plan")]
    for _ in range(4):
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stdout) == (0, f"{[len(made.models)] * 8}\n"), done.stderr
