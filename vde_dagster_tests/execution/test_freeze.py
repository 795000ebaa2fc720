"""Frozen environments: they show a version for ever, and nothing moves for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.cli.app import call
from vde_dagster.errors import ConflictError, UsageError
from vde_dagster.execution.environments.compare import compare_data, compare_environments
from vde_dagster.execution.published_version import named_environment
from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.publishing.pins import pinned_tables
from vde_dagster.planning.engine_tasks import AuditResult, AuditTask
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state.db.transfer import import_state
from vde_dagster.state.store import StateStore
from vde_dagster_tests.execution.crash_world import (
    FILES,
    NOW,
    TYPED,
    WITH_A_COLUMN,
    deploy,
    preview,
)
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.execution.test_versions import Asked, Shop
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.builders import FakeClock, days


class Audited(Asked):
    """An engine that notes the audits that it runs."""

    audits: list[str]

    def audit(self, task: AuditTask) -> AuditResult:
        self.audits = [*getattr(self, "audits", ()), task.query]
        return super().audit(task)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    made = Shop(tmp_path_factory.mktemp("frozen"))
    yield made
    made.workspace.close()


def pointers(shop: Shop) -> dict[TableRef, Any]:
    """Return where physical tables are."""
    found = shop.workspace.lakehouse.catalog.all_pointers()
    return {ref: one for ref, one in found.items() if one.kind == "TABLE"}


def view_sql(shop: Shop, name: str, dialect: str = "spark") -> str:
    lakehouse: Lakehouse = shop.workspace.lakehouse
    ref = TableRef(*name.split("."))
    (pointer,) = lakehouse.catalog.pointers([ref]).values()
    metadata = lakehouse.files.read_json(pointer.location)
    current = metadata["current-version-id"]
    (version,) = [one for one in metadata["versions"] if one["version-id"] == current]
    (sql,) = [one["sql"] for one in version["representations"] if one["dialect"] == dialect]
    return str(sql)


def test_a_frozen_environment_shows_what_the_version_pinned(shop: Shop) -> None:
    before, asked = pointers(shop), shop.engine.statements
    result = shop.workspace.environments.freeze("prod@1", "first", who="ann")
    store = shop.workspace.store
    assert (result.environment.frozen, result.environment.version) == ("prod@1", 1)
    assert result.environment.expires_at is None
    assert pointers(shop) == before
    assert shop.engine.statements == asked, "no query was analysed, and nothing was written"
    old = store.versions.at("prod", 1)
    assert old is not None
    pins = store.pins.at("prod", 1)
    shown = {key: pin.snapshot_id for key, pin in store.pins.at("first", 1).items()}
    assert shown == {key: pins[key].snapshot_id for key in old.tables}
    assert result.tables == len(old.tables)
    for dialect in ("spark", "trino"):
        sql = view_sql(shop, "marts__first.daily", dialect)
        assert sql.endswith(f"VERSION AS OF {shop.pin(1, 'marts.daily')}")
    query = view_sql(shop, "staging__first.orders")
    assert "status <> 'cancelled'" in query
    assert f"VERSION AS OF {shop.pin(1, 'raw.orders')}" in query


def test_nothing_is_planned_run_or_rolled_back_there(shop: Shop) -> None:
    workspace = shop.workspace
    workspace.environments.freeze("prod@2", "still")
    attempts: list[Callable[[], object]] = [
        lambda: workspace.plan("still"),
        lambda: workspace.plan("still", restate=("marts.daily",)),
        lambda: workspace.plans.due("still"),
        lambda: workspace.environments.rollback("still"),
        lambda: workspace.environments.rollback("still", 1),
    ]
    for attempt in attempts:
        with pytest.raises(UsageError, match=r"'still' is frozen: it always shows prod@2"):
            attempt()
    shown = workspace.store.environments.get("still")
    assert shown is not None
    with pytest.raises(UsageError, match="'still' is frozen"):
        workspace.store.database.run_transaction(
            lambda conn: workspace.store.environments.write_version(conn, shown, 1)
        )
    assert shown.version == 1


def test_a_version_that_only_it_shows_is_not_filled(shop: Shop) -> None:
    shop.workspace.environments.freeze("prod@1", "alone")
    old = shop.workspace.store.versions.at("prod", 1)
    assert old is not None
    (past,) = [e.snapshot_id for e in old.entries.values() if str(e.name) == "staging.orders"]
    assert "alone" in shop.workspace.store.shown.environments_with_snapshot(past)
    with pytest.raises(UsageError, match="no environment that can be changed contains"):
        shop.workspace.apply(shop.workspace.plans.backfill(past, days(1)))


def test_a_plan_that_was_made_before_is_not_applied(shop: Shop) -> None:
    plan = shop.workspace.plan("early")
    shop.workspace.environments.freeze("prod", "early")
    with pytest.raises(ConflictError):
        shop.workspace.apply(plan, concurrency=1)


def test_what_is_read_live_is_said(shop: Shop) -> None:
    assert [str(one) for one in shop.workspace.environments.freeze("prod", "live").live] == [
        "lake.rates"
    ]


def test_it_is_kept_as_long_as_was_said(shop: Shop) -> None:
    result = shop.workspace.environments.freeze(
        "prod@2024-01-04T12:00", "kept", timedelta(days=400)
    )
    assert result.environment.frozen == "prod@1"
    assert result.environment.expires_at == shop.clock.now() + timedelta(days=400)


def test_what_is_frozen_can_be_frozen_again(shop: Shop) -> None:
    shop.workspace.environments.freeze("prod@1", "one")
    result = shop.workspace.environments.freeze("one", "two")
    assert result.environment.frozen == "one@1"
    one, two = (shop.workspace.store.pins.at(name, 1) for name in ("one", "two"))
    assert one == two


@pytest.mark.parametrize(
    ("source", "name", "said"),
    [
        ("prod@1", "prod", "a frozen environment cannot be named 'prod'"),
        ("prod@1", "taken", "environment 'taken' already exists"),
        ("prod@9", "new", "has no version 9"),
        ("nobody", "new", "environment 'nobody' does not exist"),
        ("prod@1", "no name", "is not a valid environment name"),
    ],
)
def test_what_cannot_be_frozen_is_said(shop: Shop, source: str, name: str, said: str) -> None:
    if name == "taken" and not shop.workspace.store.environments.exists(name):
        shop.workspace.environments.freeze("prod", "taken")
    with pytest.raises(UsageError, match=said):
        shop.workspace.environments.freeze(source, name)
    assert not shop.workspace.store.environments.exists("new")


def test_versions_from_before_there_were_pins_are_refused(shop: Shop) -> None:
    with shop.workspace.store.database.engine.begin() as conn:
        conn.exec_driver_sql("CREATE TABLE kept AS SELECT * FROM vde_pins")
        conn.exec_driver_sql("DELETE FROM vde_pins WHERE environment = 'prod'")
    try:
        with pytest.raises(UsageError, match="published before versions pinned their data"):
            shop.workspace.environments.freeze("prod@1", "old")
    finally:
        with shop.workspace.store.database.engine.begin() as conn:
            conn.exec_driver_sql("DELETE FROM vde_pins")
            conn.exec_driver_sql("INSERT INTO vde_pins SELECT * FROM kept")
            conn.exec_driver_sql("DROP TABLE kept")


def test_pins_that_are_gone_are_refused(shop: Shop) -> None:
    with shop.workspace.store.database.engine.begin() as conn:
        conn.exec_driver_sql("CREATE TABLE kept AS SELECT * FROM vde_pins")
        conn.exec_driver_sql("UPDATE vde_pins SET iceberg_snapshot_id = 7 WHERE valid_to = 2")
    try:
        with pytest.raises(
            UsageError, match=r"prod@1 cannot be frozen: the data of .*marts\.daily.* is gone"
        ):
            shop.workspace.environments.freeze("prod@1", "lost")
    finally:
        with shop.workspace.store.database.engine.begin() as conn:
            conn.exec_driver_sql("DELETE FROM vde_pins")
            conn.exec_driver_sql("INSERT INTO vde_pins SELECT * FROM kept")
            conn.exec_driver_sql("DROP TABLE kept")


def test_a_version_that_is_forgotten_meanwhile_is_refused(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = shop.workspace.store
    write_all = shop.workspace.lakehouse.files.write_all
    rows: list[Any] = []

    def forget(files: object, point: str) -> None:
        write_all(files, point)  # type: ignore[arg-type]
        if point == "publish.file.write":
            with store.database.engine.begin() as conn:
                where = "FROM vde_environment_versions WHERE environment='prod' AND version=1"
                rows.extend(conn.exec_driver_sql(f"SELECT * {where}").all())
                conn.exec_driver_sql(f"DELETE {where}")

    monkeypatch.setattr(shop.workspace.lakehouse.files, "write_all", forget)
    try:
        with pytest.raises(ConflictError, match="version 1 of 'prod' is no longer kept"):
            shop.workspace.environments.freeze("prod@1", "late")
        assert not store.environments.exists("late")
    finally:
        with store.database.engine.begin() as conn:
            marks = ", ".join("?" for _ in rows[0])
            conn.exec_driver_sql(
                f"INSERT INTO vde_environment_versions VALUES ({marks})", tuple(rows[0])
            )


def test_its_history_and_its_differences_are_told(shop: Shop) -> None:
    warehouse = shop.workspace
    shop.workspace.environments.freeze("prod@2", "told")
    (change,) = warehouse.environments.history("told")
    assert change.version.note == "frozen prod@2"
    frozen, second, third = (
        named_environment(warehouse, name) for name in ("told", "prod@2", "prod@3")
    )
    assert compare_environments(warehouse, frozen, second) == ()
    assert compare_data(warehouse, frozen, second) == ()
    assert compare_environments(warehouse, frozen, third)
    found = {one.name: one.frozen for one in warehouse.store.environments.summaries()}
    assert (found["told"], found["prod"]) == ("prod@2", None)


def test_it_is_read_at_its_pins(shop: Shop) -> None:
    shop.workspace.environments.freeze("prod@1", "read")
    assert "`marts__read`.`daily`" in shop.asked("read", "SELECT day FROM marts.daily")
    pinned = shop.asked("read@1", "SELECT day FROM marts.daily")
    assert f"VERSION AS OF {shop.pin(1, 'marts.daily')}" in pinned


def test_it_is_audited_at_its_pins(shop: Shop) -> None:
    shop.workspace.environments.freeze("prod@1", "audited")
    engine = Audited()
    with open_fake(shop.folder.root, engine, clock=shop.clock) as workspace:
        report = workspace.environments.audit("audited", select=["marts.daily"])
    assert report.results
    assert all(f"VERSION AS OF {shop.pin(1, 'marts.daily')}" in sql for sql in engine.audits)


def test_a_restatement_names_it_in_no_warning(shop: Shop) -> None:
    before = shop.workspace.plan("prod", restate=("marts.customers",), save=False)
    shop.workspace.environments.freeze("prod", "unwarned")
    plan = shop.workspace.plan("prod", restate=("marts.customers",), save=False)
    assert plan.restates
    assert plan.outdates == before.outdates
    assert all("unwarned" not in outdated.environments for outdated in plan.outdates)


def test_a_frozen_preview_outlives_what_it_was_tried_on(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path / "shop", FILES)
    clock = FakeClock(NOW)
    with open_fake(folder.root, FakeSpark(), clock=clock) as workspace:
        folder.edit("models/marts/daily.sql", *TYPED)
        workspace.apply(workspace.plan("prod"), concurrency=1)
    folder.edit("models/marts/daily.sql", *WITH_A_COLUMN)
    with open_fake(folder.root, FakeSpark(), clock=clock) as workspace:
        clock.advance(hours=1)
        preview(workspace)
        pinned = workspace.store.pins.at("dev", 1)
        workspace.environments.freeze("dev", "tried")
        deploy(workspace)
        workspace.environments.drop("dev")
        for _ in range(3):
            clock.advance(days=40)
            assert not workspace.maintenance.janitor().failures
        shown = workspace.store.environments.get("tried")
        assert shown is not None
        assert {one: held.snapshot_id for one, held in shown.pinned_states.items()} == {
            one: pin.snapshot_id for one, pin in pinned.items()
        }
        tables = workspace.store.tables.load(shown.pinned_states)
        states = {one: (tables[one].ref, held) for one, held in shown.pinned_states.items()}
        assert pinned_tables(workspace.lakehouse, states).keys() == shown.pinned_states.keys()
        assert "pin_gone" not in {one.problem for one in workspace.maintenance.fsck()}


def test_it_stays_as_it_is_when_production_goes_back_and_forth(tmp_path: Path) -> None:
    moving = Shop(tmp_path)
    workspace, store = moving.workspace, moving.workspace.store
    workspace.environments.freeze("prod@2", "second")
    workspace.environments.freeze("prod", "newest")
    pins = {name: store.pins.at(name, 1) for name in ("second", "newest")}
    views = {name: view_sql(moving, f"marts__{name}.daily") for name in pins}
    for version in (1, 3, 2):
        workspace.environments.rollback("prod", version)
        moving.clock.advance(hours=1)
    for _ in range(3):
        moving.clock.advance(days=40)
        moving.apply(workspace.plans.due("prod"))
        assert not workspace.maintenance.janitor().failures
    assert {1, 2, 3}.isdisjoint(one.version for one in store.versions.history("prod"))
    for name, pinned in pins.items():
        found = store.environments.get(name)
        assert found is not None
        assert found.version == 1
        assert store.pins.at(name, 1) == pinned
        assert view_sql(moving, f"marts__{name}.daily") == views[name]
        tables = store.tables.load(found.pinned_states)
        states = {one: (tables[one].ref, held) for one, held in found.pinned_states.items()}
        assert pinned_tables(workspace.lakehouse, states).keys() == found.pinned_states.keys()
    assert "pin_gone" not in {one.problem for one in workspace.maintenance.fsck()}
    workspace.close()


def test_dropping_it_takes_its_views_and_nothing_else(shop: Shop) -> None:
    workspace = shop.workspace
    workspace.environments.freeze("prod@1", "ended")
    before = pointers(shop)
    workspace.environments.drop("ended")
    workspace.maintenance.janitor()
    assert not workspace.store.environments.exists("ended")
    left = workspace.lakehouse.catalog.all_pointers()
    assert not [ref for ref in left if ref.namespace.endswith("__ended")]
    assert pointers(shop) == before
    assert workspace.environments.freeze("prod@2", "ended").environment.version == 3


def test_it_is_part_of_an_export(shop: Shop, tmp_path: Path) -> None:
    shop.workspace.environments.freeze("prod@1", "moved")
    shop.workspace.maintenance.export_state(tmp_path / "state.gz")
    with closing(StateStore.open(f"sqlite:///{tmp_path / 'other.db'}")) as other:
        import_state(other.database, tmp_path / "state.gz")
        found = other.environments.get("moved")
    assert found == shop.workspace.store.environments.get("moved")
    assert found is not None
    assert found.frozen == "prod@1"
    assert all(entry.held for entry in found.entries.values() if entry.table_id)


@pytest.fixture
def vde(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Call `vde` on the shop; returns the exit code, and what was written to stdout and stderr."""

    @contextmanager
    def again(_: Path) -> Iterator[Workspace]:
        yield shop.workspace

    monkeypatch.setattr("vde_dagster.execution.workspace.Workspace.open", again)

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = call(list(arguments))
        return code, *capsys.readouterr()

    return run


def test_the_command_says_what_is_frozen_and_what_is_not(
    shop: Shop, vde: Callable[..., tuple[int, str, str]]
) -> None:
    code, out, err = vde("freeze", "prod@2", "close", "--keep", "4w")
    assert code == 0
    assert "close is frozen at prod@2: 7 models, 4 pinned tables" in out
    assert "kept until 2024-" in out
    assert "not frozen: lake.rates" in err
    code, out, _ = vde("freeze", "prod@2", "close_too", "--json")
    said = json.loads(out)
    assert (code, said["tables"], said["read_live"]) == (0, 4, ["lake.rates"])
    assert said["environment"]["frozen"] == "prod@2"
    _, out, _ = vde("environments")
    assert "frozen prod@2" in out
    found = json.loads(vde("environments", "--json")[1])["environments"]
    listed = {one["name"]: one for one in found}
    assert (listed["close"]["frozen"], listed["close"]["held"]) == ("prod@2", 0)
    assert (listed["prod"]["frozen"], listed["prod"]["held"]) == (None, 0)


@pytest.mark.parametrize("keep", ["0d", "soon", "-1d", "1.5d", "999999999w", "٣d"])
def test_a_length_of_time_that_is_none_is_refused(
    shop: Shop, vde: Callable[..., tuple[int, str, str]], keep: str
) -> None:
    code, _, err = vde("freeze", "prod", "never", f"--keep={keep}")
    assert code == 2
    assert "is not a length of time" in err
    assert not shop.workspace.store.environments.exists("never")
