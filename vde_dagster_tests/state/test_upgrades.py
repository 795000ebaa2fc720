"""Stores of every released schema are upgraded, and keep what is in them.

`released/<revision>.sql` is what a store of that schema looked like, with rows in it. Add a file
with every release that has a new revision; never change an old one.
"""

from __future__ import annotations

import sqlite3
import zlib
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import select

import vde_dagster.state as state
from vde_dagster.base.names import ModelName
from vde_dagster.errors import SourceLocation, StoreError
from vde_dagster.planning.changes.refresh import Refresh, RefreshCode, RefreshSizes
from vde_dagster.planning.intervals.cadence import IntervalUnit
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.plan.plan import (
    EnvironmentStatements,
    Outdated,
    Plan,
    PlanKind,
    PlannedModel,
    Proposal,
)
from vde_dagster.planning.snapshots.snapshot import Forward, Snapshot
from vde_dagster.planning.table_contents import (
    FillFacts,
    InputState,
    Output,
    Skipped,
    Tile,
    load_facts,
)
from vde_dagster.planning.tables.table import Part, TableRef
from vde_dagster.project.model import Audit, Column, PythonSource, Signal
from vde_dagster.project.serialise import from_bytes
from vde_dagster.state.db import schema
from vde_dagster.state.db.codec import load_stored_plan
from vde_dagster.state.db.schema import SCHEMA_VERSION, VERSION_TABLE
from vde_dagster.state.store import StateStore
from vde_dagster_tests.state.builders import T0, day, days, environment, snapshot
from vde_dagster_tests.state.postgres_server import PostgresServer
from vde_dagster_tests.state.released_states import (
    RELEASED,
    restore_in_postgres,
    restore_in_sqlite,
)
from vde_dagster_tests.state.test_values_survive import several_plans


def test_there_is_a_store_of_every_revision() -> None:
    script = ScriptDirectory(str(Path(state.__file__).parent / "migrations"))
    revisions = sorted(revision.revision for revision in script.walk_revisions())
    assert revisions[-1] == SCHEMA_VERSION
    assert [path.stem for path in RELEASED] == revisions


@pytest.mark.parametrize("released", RELEASED, ids=lambda path: path.stem)
def test_released_store_is_upgraded_and_keeps_everything(released: Path, tmp_path: Path) -> None:
    assert_upgraded(released, restore_in_sqlite(released, tmp_path / "vde.db"))


@pytest.mark.server
@pytest.mark.parametrize("released", RELEASED, ids=lambda path: path.stem)
def test_released_store_on_a_server_is_upgraded_and_keeps_everything(
    released: Path, postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.url(postgres.create_database())
    assert_upgraded(released, restore_in_postgres(released, tmp_path / "vde.db", url))


def _with_sentences(plan: Plan) -> Plan:
    """Return a plan whose reasons are sentences, as releases up to 0015 stored them."""
    models = [
        replace(model, reasons=("filter changed", "x → y"), always="reads now()")
        if model.always
        else model
        for model in plan.models
    ]
    return replace(plan, models=tuple(models))


def assert_upgraded(released: Path, url: str) -> None:
    """Open a released store, and compare its values with those that were written."""
    store = StateStore.open(url)
    with store.database.reading() as conn:
        found = conn.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").scalar()
    assert found == SCHEMA_VERSION
    current = store.environments.get("prod")
    assert current is not None
    assert current.kept == ({"metrics": "kept"} if released.stem >= "0020" else {})
    (entry,) = current.entries.values()
    assert entry.table_id is not None
    table = store.tables.load([entry.table_id])[entry.table_id]
    assert table.intervals == IntervalSet((day(0, 3),))
    assert [version.version for version in store.versions.history("prod")] == [2, 1]
    assert table.lacks == {ModelName("db", "late"): IntervalSet((day(1),))}
    filled = [store.pins.at("prod", version)[table.id].filled for version in (1, 2)]
    assert filled == [None, "1704067200000000-1704326400000000"]
    expected = "file:///warehouse" if released.stem >= "0023" else None
    assert store.project.recorded_warehouse() == expected
    if released.stem >= "0019":
        of_tasks = [(one.task_seconds, one.bytes_read) for one in store.fills.log(table.id)]
        assert of_tasks == [(None, None), (None, None), (1.5, 9)]
    if released.stem >= "0017":
        start = day(3).start
        assert table.parts == (
            Part(Interval(start, start + timedelta(hours=10)), IntervalUnit.DAY),
        )
    if released.stem == "0015":
        # The ids of these definitions are names: no load of today would prove them.
        with store.database.reading() as conn:
            payloads = dict(conn.execute(select(*snapshot_columns)).tuples().all())
            (payload,) = conn.execute(select(schema.plans.c.payload)).scalars()
        read = {key: from_bytes(Snapshot, zlib.decompress(data)) for key, data in payloads.items()}
        assert read["db.rich@1"] == replace(rich_snapshot(), id="db.rich@1")
        stored = load_stored_plan(payload)
        plan = _with_sentences(rich_plan())
        names = {one.id: f"{one.name}@1" for one in plan.snapshots.values()}
        assert [read[key].name for key in stored.snapshot_ids] == [
            one.name for one in plan.snapshots.values()
        ]
        assert stored.plan == replace(with_ids(plan, names), snapshots={})
        with pytest.raises(StoreError, match="its content does not match its id"):
            store.snapshots.load(["db.rich@1"])
        with store.database.reading() as conn:
            query = (
                "SELECT inputs, output, skipped, lacks, refresh FROM vde_fills ORDER BY start_at"
            )
            first, second, *_ = conn.exec_driver_sql(query).all()
        assert load_facts(*first) == FACTS
        assert load_facts(*second).refresh == (REFRESH if released.stem >= "0024" else None)
    value = environment(entries=[("db.orders", "s3", table.id)])
    store.database.run_transaction(lambda conn: store.environments.write_version(conn, value, 2))
    logged = [(entry.act, entry.version) for entry in store.log.latest()]
    assert logged == [("rollback", 3), ("publish", 2)][: 1 + (released.stem >= "0018")]
    assert store.log.verify().wrong is None
    store.close()


@pytest.mark.parametrize(
    ("folders", "known"),
    [(["s3://b/w"], "s3://b/w"), (["s3://b/w", "s3://b/w"], "s3://b/w"), (["/a", "/b"], None)],
)
def test_an_upgrade_learns_the_warehouse_from_where_the_tables_lie(
    tmp_path: Path, folders: list[str], known: str | None
) -> None:
    path = tmp_path / "vde.db"
    with sqlite3.connect(path) as conn:
        conn.executescript((RELEASED[0].parent / "0022.sql").read_text())
        row = conn.execute("SELECT * FROM vde_tables").fetchone()
        conn.execute("DELETE FROM vde_tables")
        for number, folder in enumerate(folders):
            marks = ", ".join("?" * len(row))
            own = (f"id{number}", "db", f"t{number}", f"fill{number}", *row[4:])
            conn.execute(f"INSERT INTO vde_tables VALUES ({marks})", own)
            place = f"{folder}/db/t-id{number}/metadata/00000-x.metadata.json"
            conn.execute(
                "INSERT INTO iceberg_tables VALUES ('lake', 'db', ?, ?, NULL, 'TABLE')",
                (f"t{number}", place),
            )
    store = StateStore.open(f"sqlite:///{path}")
    assert store.project.recorded_warehouse() == known
    store.close()


def test_a_store_from_before_the_first_release_is_one_message_and_stays(
    store: StateStore, url: str
) -> None:
    with store.database.transaction() as conn:
        conn.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '0014'")
    with pytest.raises(StoreError, match=r"schema 0014.*upgrades from 0015 on") as raised:
        StateStore.open(url)
    assert "open the state store once with an earlier commit" in str(raised.value.hint)


snapshot_columns = (schema.snapshots.c.snapshot_id, schema.snapshots.c.payload)


def with_ids(plan: Plan, names: dict[str, str]) -> Plan:
    """Return a plan with other ids of its definitions."""

    def named(key: str | None) -> str | None:
        return names.get(key or "", key)

    return replace(
        plan,
        models=tuple(
            replace(
                one,
                snapshot_id=named(one.snapshot_id),
                previous_snapshot_id=named(one.previous_snapshot_id),
            )
            for one in plan.models
        ),
        entries={
            name: replace(one, snapshot_id=names.get(one.snapshot_id, one.snapshot_id))
            for name, one in plan.entries.items()
        },
    )


REFRESH = Refresh(
    RefreshCode.CHEAPER,
    tables=("raw.orders",),
    key=("customer_id",),
    sizes=RefreshSizes(9000, 800, 70, 9800),
)
FACTS = FillFacts(
    {"db.raw": InputState(5, 6, ((("a",), "d1"),), ("a", "b"), 1, "f")},
    Output((("a",), None), (Tile(day(0), 7, ("d1", "d2")),), False, (1,), (5,)),
    Skipped(T0, 1.5, 7, 8),
    {ModelName("db", "late"): IntervalSet((day(1),))},
)


def rich_snapshot() -> Snapshot:
    made = snapshot("db.rich")
    code = PythonSource("a.py:f#2", {"a.py": "x"}, {"x": "1"}, {"n": [1]}, {"m": 2}, "duckdb")
    orders = ModelName("db", "orders")
    model = replace(
        made.model,
        python=code,
        columns=(Column("a", "INT", "a number"), Column("b")),
        start=T0,
        audits=(
            Audit("not_null", (("columns", "a"),), "SELECT 1", False, (orders,)),
            Audit("own", (), "SELECT 2"),
        ),
        signals=(Signal("ready", (("hours", (1, 2)),), PythonSource("s.py:ready", {"s.py": "x"})),),
        location=SourceLocation(Path("models/rich.py"), 3, 1),
        grains=(("a", "b"),),
    )
    return replace(made, model=model, forward=Forward("t9", "own", "rows", "fill", (("a", "va"),)))


def _named(model: PlannedModel) -> PlannedModel:
    """Give a model's table the id and the name that the kept ones have, and no later field."""
    ref = TableRef("db", "t1")
    table = None if model.table is None else replace(model.table, id="t1", ref=ref)
    change = None if model.in_place is None else replace(model.in_place, table=ref)
    return replace(model, table=table, in_place=change, backlog=None, moves=())


def rich_plan() -> Plan:
    made = several_plans()
    name = ModelName("db", "busy")
    return replace(
        made,
        models=tuple(map(_named, made.models)),
        entries={key: replace(entry, table_id="t1") for key, entry in made.entries.items()},
        id="rich",
        start=None,
        end=T0,
        expires_at=T0.replace(microsecond=7),
        warnings=("no filter",),
        restates={name: days(0, 2)},
        outdates=(Outdated(name, ("dev",), "t1", IntervalSet(days(1).ranges), True),),
        statements=EnvironmentStatements(("SET a = 1",), ("SET b = 2",)),
        other_statements=True,
        kind=PlanKind.RESTATEMENT,
        proposal=Proposal("files", "anna"),
    )
