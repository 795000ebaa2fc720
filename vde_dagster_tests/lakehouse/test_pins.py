"""What a publication pins: the Iceberg snapshot of every table that it shows, by difference."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import func, select

from vde_dagster.errors import ExecutionError
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.maintenance.fsck import fsck
from vde_dagster.lakehouse.metadata.changes import remove_snapshots
from vde_dagster.lakehouse.metadata.commit_summaries import growth_between
from vde_dagster.lakehouse.publishing.commit import change_table, read_table
from vde_dagster.lakehouse.publishing.publication import FastForward, Publication
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.state.db import schema
from vde_dagster.state.environments.pins import Growth
from vde_dagster.state.store import StateStore
from vde_dagster_tests.lakehouse.fake_engine import FakeEngine
from vde_dagster_tests.state.builders import day, environment, table, view


class Warehouse:
    """Publishes tables whose rows come in days."""

    def __init__(self, lakehouse: Lakehouse, engine: FakeEngine) -> None:
        self.lakehouse, self.store, self.engine = lakehouse, lakehouse.store, engine

    def make(self, name: str) -> PhysicalTable:
        made = self.store.tables.ensure(table(name))
        self.engine.create_table(made)
        return made

    def publish(
        self, *tables: PhysicalTable, name: str = "prod", moves: tuple[PhysicalTable, ...] = ()
    ) -> int:
        """Publish tables; those that move take a day from a branch."""
        current = self.store.environments.get(name)
        base = current.version if current else 0
        for moving in moves:
            self.engine.fill(moving, day(base), f"p{base}", f"vde_{name}")
        entries = [(f"db.{one.ref.name}", "s", one.id) for one in tables]
        published = self.lakehouse.publish(
            Publication(
                environment(name, entries),
                base,
                tuple(view(one.ref.name, namespace=f"db_{name}") for one in tables),
                fast_forwards=tuple(FastForward(one.ref, one.id, f"vde_{name}") for one in moves),
            )
        )
        return published.version

    def shown(self, version: int, name: str = "prod") -> dict[str, int | None]:
        return {key: pin.snapshot_id for key, pin in self.store.pins.at(name, version).items()}

    def rows(self) -> int:
        with self.store.database.reading() as conn:
            return conn.execute(select(func.count()).select_from(schema.pins)).scalar_one()

    def head(self, one: PhysicalTable) -> int | None:
        return self.lakehouse.main_snapshot(one.ref)


@pytest.fixture
def warehouse(lakehouse: Lakehouse, engine: FakeEngine) -> Warehouse:
    return Warehouse(lakehouse, engine)


def test_each_version_pins_what_its_tables_held(warehouse: Warehouse) -> None:
    one, two = warehouse.make("one"), warehouse.make("two")
    first = warehouse.engine.fill(one, day(0), "p")
    warehouse.publish(one, two)
    warehouse.publish(one, two, moves=(two,))
    warehouse.publish(one, two, moves=(one,))
    assert warehouse.shown(1) == {one.id: first, two.id: None}
    assert warehouse.shown(2)[one.id] == first
    assert warehouse.shown(3) == {one.id: warehouse.head(one), two.id: warehouse.head(two)}
    assert warehouse.shown(2)[two.id] == warehouse.head(two)


def test_a_publication_writes_only_the_pins_that_change(warehouse: Warehouse) -> None:
    tables = [warehouse.make(f"t{number}") for number in range(5)]
    warehouse.publish(*tables)
    warehouse.publish(*tables, moves=(tables[0],))
    warehouse.publish(*tables)
    assert warehouse.rows() == 6


def test_what_moves_with_another_environment_is_pinned_by_the_next_publication(
    warehouse: Warehouse,
) -> None:
    shared, own = warehouse.make("shared"), warehouse.make("own")
    before = warehouse.engine.fill(shared, day(0), "p")
    warehouse.publish(shared)
    warehouse.publish(shared, name="dev")
    warehouse.publish(shared, moves=(shared,))
    assert warehouse.shown(1, "dev") == {shared.id: before}
    warehouse.publish(shared, own, name="dev")
    assert warehouse.shown(1, "dev") == {shared.id: before}
    assert warehouse.shown(2, "dev") == {shared.id: warehouse.head(shared), own.id: None}


def test_a_table_that_is_written_while_it_is_published_first_is_pinned_as_it_is(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = warehouse.make("late")
    warehouse.engine.fill(made, day(0), "p")
    write_all = warehouse.lakehouse.files.write_all
    meddled: list[int] = []

    def meddle(files: object, point: str) -> None:
        write_all(files, point)  # type: ignore[arg-type]
        if point == "publish.file.write" and not meddled:
            meddled.append(warehouse.engine.fill(made, day(1), "p"))

    monkeypatch.setattr(warehouse.lakehouse.files, "write_all", meddle)
    warehouse.publish(made)
    assert warehouse.shown(1) == {made.id: meddled[0]}


def test_what_is_shown_no_more_is_pinned_no_more_and_again_when_it_is(
    warehouse: Warehouse,
) -> None:
    one, two = warehouse.make("one"), warehouse.make("two")
    warehouse.publish(one, two)
    warehouse.publish(one)
    warehouse.engine.fill(two, day(4), "p")
    warehouse.publish(one, two)
    assert warehouse.shown(2) == {one.id: None}
    assert warehouse.shown(3) == {one.id: None, two.id: warehouse.head(two)}


def test_an_environment_that_ends_pins_nothing(warehouse: Warehouse) -> None:
    made = warehouse.make("one")
    warehouse.publish(made, name="dev")
    current = warehouse.store.environments.get("dev")
    assert current is not None
    end = replace(environment("dev"), entries=current.entries)
    warehouse.lakehouse.publish(Publication(end, 1, ends_environment=True))
    assert warehouse.shown(1, "dev") == {made.id: None}
    assert warehouse.shown(2, "dev") == {}


def test_a_table_that_the_catalog_lost_stays_shown_and_is_not_shown_anew(
    warehouse: Warehouse, store: StateStore
) -> None:
    made = warehouse.make("lost")
    warehouse.publish(made)
    with store.database.transaction() as conn:
        conn.exec_driver_sql("DELETE FROM iceberg_tables WHERE table_namespace = 'vde_physical'")
    assert warehouse.publish(made) == 2
    assert warehouse.publish() == 3
    with pytest.raises(ExecutionError, match=f"'prod' cannot show {made.ref}: the cat") as raised:
        warehouse.publish(made)
    assert raised.value.hint == "find what is lost, and how to repair it: vde fsck"
    assert warehouse.shown(3) == {}


def test_a_pin_that_another_program_expired_is_named(warehouse: Warehouse) -> None:
    made = warehouse.make("one")
    warehouse.engine.fill(made, day(0), "p")
    warehouse.publish(made)
    warehouse.publish(made, moves=(made,))
    warehouse.publish(made, moves=(made,))
    assert [one for one in fsck(warehouse.lakehouse) if one.problem == "pin_gone"] == []
    table = read_table(warehouse.lakehouse, made.ref)
    gone = [one["snapshot-id"] for one in table.metadata["snapshots"][:1]]
    fewer = remove_snapshots(table.metadata, gone)
    change_table(warehouse.lakehouse, table, made.ref, fewer, "test")
    (finding,) = [one for one in fsck(warehouse.lakehouse) if one.problem == "pin_gone"]
    assert finding.detail.endswith("that versions pin were expired: prod@1")
    assert finding.is_damage


def commit(number: int, parent: int | None, **summary: object) -> dict[str, object]:
    named = {name.replace("_", "-"): str(value) for name, value in summary.items()}
    return {"snapshot-id": number, "parent-snapshot-id": parent, "summary": named}


LINE = [
    commit(1, None, operation="append", added_records=5, total_records=5),
    commit(2, 1, operation="overwrite", added_records=4, deleted_records=3, total_records=6),
    commit(3, 2, operation="replace", added_records=6, deleted_records=6, total_records=6),
    commit(4, 3, operation="overwrite", added_records=1, added_position_deletes=2, total_records=7),
    commit(5, 4, operation="delete", added_equality_deletes=1, total_records=7),
    commit(6, 1, operation="append", added_records=1),
    commit(7, 1, operation="append", added_records=2, total_records=7),
]


@pytest.mark.parametrize(
    ("before", "after", "added", "removed"),
    [
        (None, 1, 5, 0),
        (1, 1, 0, 0),
        (1, 2, 4, 3),
        (2, 3, 0, 0),
        (1, 4, 5, 5),
        (None, 4, 10, 5),
        (4, 5, None, None),
        (1, 6, None, None),
        (9, 2, None, None),
        (2, 1, 3, 4),
        (4, None, 5, 10),
        (5, 4, None, None),
        (2, 7, 5, 4),
        (7, 4, 5, 7),
    ],
)
def test_rows_that_came_and_went_are_those_of_the_commits_between(
    before: int | None, after: int | None, added: int | None, removed: int | None
) -> None:
    assert growth_between({"snapshots": LINE}, before, after) == Growth(before, added, removed)
