"""Environments that hold tables at what they were, while others move them."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ConflictError
from vde_dagster.execution.environments.compare import changes_until
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.maintenance.fsck import fsck
from vde_dagster.lakehouse.maintenance.janitor import clean
from vde_dagster.lakehouse.publishing.commit import read_table
from vde_dagster.lakehouse.publishing.pins import pinned_tables
from vde_dagster.lakehouse.publishing.publication import Publication
from vde_dagster.planning.environments.environment import Environment, HeldState
from vde_dagster.planning.tables.pinned_reads import PinnedTable
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.state.retention import Retention
from vde_dagster_tests.lakehouse.fake_engine import FakeEngine
from vde_dagster_tests.lakehouse.test_pins import Warehouse
from vde_dagster_tests.state.builders import FakeClock, day, environment, view


class Holding(Warehouse):
    """Publishes environments that hold tables, too."""

    def hold(self, held: dict[PhysicalTable, HeldState | None], name: str = "dev") -> Environment:
        """Publish tables, each held at a state, or as it is."""
        current = self.store.environments.get(name)
        entries = [(f"db.{one.ref.name}", "s", one.id) for one in held]
        made = environment(name, entries, at=self.store.database.clock.now())
        states = {ModelName("db", one.ref.name): state for one, state in held.items()}
        for model, entry in made.entries.items():
            made.entries[model] = replace(entry, held=states[model])
        views = tuple(view(one.ref.name, namespace=f"db_{name}") for one in held)
        base = current.version if current else 0
        return self.lakehouse.publish(Publication(made, base, views))


@pytest.fixture
def warehouse(lakehouse: Lakehouse, engine: FakeEngine) -> Holding:
    return Holding(lakehouse, engine)


def test_a_held_table_is_pinned_at_what_is_held_until_it_is_shown_as_it_is(
    warehouse: Holding,
) -> None:
    shared, own = warehouse.make("shared"), warehouse.make("own")
    first = warehouse.engine.fill(shared, day(0), "p")
    warehouse.publish(shared)
    warehouse.publish(shared, moves=(shared,))
    held = warehouse.store.pins.at("prod", 1)[shared.id].state_to_hold
    assert warehouse.hold({shared: held, own: None}).pinned_states == {shared.id: held}
    found = warehouse.store.environments.get("dev")
    assert found is not None
    assert found.pinned_states == {shared.id: HeldState(first, held.schema_id)}
    assert warehouse.shown(1, "dev") == {shared.id: first, own.id: None}
    warehouse.publish(shared, moves=(shared,))
    rows = warehouse.rows()
    warehouse.hold({shared: held, own: None})
    assert warehouse.shown(2, "dev")[shared.id] == first
    assert warehouse.rows() == rows
    warehouse.publish(shared, own, name="dev")
    assert warehouse.shown(3, "dev")[shared.id] == warehouse.head(shared) != first
    assert warehouse.shown(2, "dev")[shared.id] == first


def test_to_hold_what_is_shown_changes_neither_definitions_nor_data(warehouse: Holding) -> None:
    made = warehouse.make("one")
    warehouse.hold({made: None})
    warehouse.hold({made: warehouse.store.pins.at("dev", 1)[made.id].state_to_hold})
    warehouse.hold({made: None})
    changes = changes_until(warehouse.store, warehouse.lakehouse, "dev", None)
    assert [change.what for change in changes] == ["nothing", "nothing", "both"]


def test_a_table_that_was_held_is_pinned_as_it_is_though_nobody_noted_its_move(
    warehouse: Holding,
) -> None:
    made = warehouse.make("alone")
    first = warehouse.engine.fill(made, day(0), "p")
    warehouse.hold({made: None})
    warehouse.hold({made: warehouse.store.pins.at("dev", 1)[made.id].state_to_hold})
    second = warehouse.engine.fill(made, day(1), "p")
    warehouse.hold({made: None})
    assert [warehouse.shown(n, "dev")[made.id] for n in (1, 2, 3)] == [first, first, second]


def test_a_table_without_rows_is_held_without_rows(warehouse: Holding) -> None:
    made = warehouse.make("empty")
    warehouse.publish(made)
    held = warehouse.store.pins.at("prod", 1)[made.id].state_to_hold
    warehouse.publish(made, moves=(made,))
    assert warehouse.hold({made: held}).pinned_states[made.id].snapshot_id is None
    assert warehouse.shown(1, "dev") == {made.id: None}
    found = pinned_tables(warehouse.lakehouse, {made.id: (made.ref, held)})
    assert found[made.id].snapshot_id is None
    assert found[made.id].columns


def test_what_is_held_is_never_expired(warehouse: Holding, clock: FakeClock) -> None:
    made = warehouse.make("one")
    first = warehouse.engine.fill(made, day(0), "p")
    warehouse.publish(made)
    held = warehouse.store.pins.at("prod", 1)[made.id].state_to_hold
    warehouse.hold({made: held})
    for _ in range(3):
        clock.advance(days=300)
        warehouse.publish(made, moves=(made,))
    clock.advance(days=300)
    told, _ = (
        clean(warehouse.lakehouse, Retention(), timedelta(days=1), dry_run=dry)
        for dry in (True, False)
    )
    (kept,) = [one for one in told.decisions if one.action == "keep_snapshots"]
    assert kept.reason == "1 snapshot is past the retention time, but pinned by version 1 of 'dev'"
    state = read_table(warehouse.lakehouse, made.ref).metadata
    assert len(state["snapshots"]) == 2
    found = pinned_tables(warehouse.lakehouse, {made.id: (made.ref, held)})
    assert found[made.id].snapshot_id == first
    assert "pin_gone" not in {one.problem for one in fsck(warehouse.lakehouse)}


def test_a_state_that_is_gone_is_not_found(warehouse: Holding) -> None:
    one, two = warehouse.make("one"), warehouse.make("two")
    warehouse.engine.fill(one, day(0), "p")
    states = {one.id: (one.ref, HeldState(77, 0)), two.id: (two.ref, HeldState(None, 0))}
    assert pinned_tables(warehouse.lakehouse, states).keys() == {two.id}


def test_one_table_is_not_shown_as_of_two_times(warehouse: Holding) -> None:
    made = warehouse.make("one")
    warehouse.engine.fill(made, day(0), "p")
    warehouse.publish(made)
    held = warehouse.store.pins.at("prod", 1)[made.id].state_to_hold
    for states in ((held, None), (held, HeldState(7, 0))):
        current = environment("dev", [("db.a", "s", made.id), ("db.b", "s", made.id)])
        for entry, state in zip(list(current.entries.values()), states, strict=True):
            current.entries[entry.name] = replace(entry, held=state)
        with pytest.raises(ConflictError, match="two different Iceberg snapshots"):
            warehouse.lakehouse.publish(Publication(current, 0, ()))
    assert warehouse.store.environments.get("dev") is None


def test_production_holds_nothing(warehouse: Holding) -> None:
    made = warehouse.make("one")
    with pytest.raises(ConflictError, match="'prod' cannot show"):
        warehouse.hold({made: HeldState(None, 0)}, "prod")


def test_which_environments_hold_tables_is_listed(warehouse: Holding) -> None:
    one, two = warehouse.make("one"), warehouse.make("two")
    warehouse.publish(one, two)
    warehouse.hold({one: HeldState(None, 0), two: None})
    held = {item.name: item.held for item in warehouse.store.environments.summaries()}
    assert held == {"prod": 0, "dev": 1}


def test_a_version_is_not_forgotten_while_it_is_being_held(
    warehouse: Holding, clock: FakeClock
) -> None:
    made = warehouse.make("one")
    warehouse.publish(made)
    warehouse.publish(made, moves=(made,))
    clock.advance(days=400)
    store, marked = warehouse.store, threading.Event()

    def forget() -> None:
        store.retention.mark(Retention(), write=True)
        marked.set()

    janitor = threading.Thread(target=forget)
    with store.database.transaction() as conn:
        store.versions.require_kept(conn, "prod", 1)
        janitor.start()
        assert not marked.wait(0.5)
    janitor.join(30)
    assert marked.is_set()
    with (
        pytest.raises(ConflictError, match="version 1 of 'prod' is no longer kept"),
        store.database.transaction() as conn,
    ):
        store.versions.require_kept(conn, "prod", 1)


def test_a_column_that_is_younger_than_the_rows_is_read_as_null() -> None:
    state = PinnedTable(7, {"a": "BIGINT", "b": "INT"}, {"a": "INT"})
    assert [state.column_and_cast(name) for name in ("a", "b")] == [
        (True, "BIGINT"),
        (False, "INT"),
    ]
    assert PinnedTable(None, {"a": "INT"}, {}).column_and_cast("a") == (False, "INT")
    assert PinnedTable(7).column_and_cast("a") == (True, None)
