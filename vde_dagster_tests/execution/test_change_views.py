"""Views of changes in the catalog: which there are, what they read, and that they follow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ConflictError, VdeError
from vde_dagster.execution.changes.views import refresh_change_views
from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.catalogs.catalog import VIEW
from vde_dagster.lakehouse.publishing.publish import replace_views
from vde_dagster.planning.tables.table import TableRef
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.execution.test_other_catalog import Death, Dies, Warehouses
from vde_dagster_tests.execution.test_versions import Shop
from vde_dagster_tests.faults import MODES, Fault, FaultInjector, ProcessKilled
from vde_dagster_tests.projects import Prepared

SETTINGS = "[tool.vde]\nchange_views = ['marts.*', 'staging.*']\nchange_view_versions = {most}\n"
DAILY = TableRef("marts", "daily__changes")
POINTS = (
    "change_views.file.write",
    "change_views.update vde_publications",
    "change_views.update iceberg_tables",
    "change_views.insert vde_views",
    "change_views.insert vde_log",
    "change_views.commit",
)
ALL = {DAILY, TableRef("marts", "customers__changes"), TableRef("marts", "top__changes")}


class Watched(Shop):
    """The shop, whose models in marts show their changes."""

    def __init__(self, root: Path, most: int = 10) -> None:
        super().__init__(root)
        self.say(most)

    def say(self, most: int) -> None:
        self.folder.write("pyproject.toml", SETTINGS.format(most=most))
        self.again()

    def again(self) -> Workspace:
        self.workspace.close()
        self.workspace = self.open()
        self.apply(self.workspace.plan("prod"))
        return self.workspace

    def next_day(self) -> None:
        self.clock.advance(days=1)
        self.apply(self.workspace.plans.due("prod"))

    def views(self) -> dict[TableRef, str]:
        return views(self.workspace)


def views(workspace: Workspace) -> dict[TableRef, str]:
    """The query of every view of changes that the catalog has."""
    found = {}
    lakehouse = workspace.lakehouse
    for ref, pointer in lakehouse.catalog.all_pointers().items():
        if not ref.name.endswith("__changes") or pointer.kind != VIEW:
            continue
        metadata = lakehouse.files.read_json(pointer.location)
        at = metadata["current-version-id"]
        (version,) = [one for one in metadata["versions"] if one["version-id"] == at]
        (found[ref],) = [
            one["sql"] for one in version["representations"] if one["dialect"] == "spark"
        ]
    return found


def read(sql: str) -> set[int]:
    return {int(number) for number in re.findall(r"(?: OF |-id` = ')(\d+)", sql)}


def damage(shop: Shop) -> list[str]:
    """What is damaged."""
    return [one.problem for one in shop.workspace.maintenance.fsck() if one.is_damage]


def publish(root: Path) -> None:
    """Make the shop."""
    Watched(root.parent).workspace.close()


@pytest.fixture
def shop(prepared: Prepared) -> Iterator[Watched]:
    made = Watched.published(prepared(publish))
    yield made
    made.workspace.close()


def test_models_with_tables_have_views_of_what_their_last_versions_pinned(shop: Watched) -> None:
    found = shop.views()
    assert found.keys() == ALL
    assert read(found[DAILY]) == {shop.pin(version, "marts.daily") for version in (1, 2, 3)}
    assert found[DAILY].count("'resync'") == 1
    again = dict(found)
    shop.again()
    assert shop.views() == again


def test_a_view_follows_each_publication_and_goes_back_so_far(shop: Watched) -> None:
    shop.say(1)
    pins = [shop.pin(version, "marts.daily") for version in (2, 3)]
    assert read(shop.views()[DAILY]) == {*pins}
    shop.next_day()
    assert read(shop.views()[DAILY]) == {pins[1], shop.pin(4, "marts.daily")}
    shop.workspace.environments.rollback("prod", 3)
    assert read(shop.views()[DAILY]) == {shop.pin(4, "marts.daily"), pins[1]}


def test_no_file_is_written_for_what_did_not_change(shop: Watched) -> None:
    before = shop.workspace.lakehouse.catalog.all_pointers()[DAILY]
    shop.folder.write("models/more.sql", "MODEL (name raw.more, kind FULL); SELECT 1 AS one")
    shop.again()
    assert shop.workspace.lakehouse.catalog.all_pointers()[DAILY] == before


def test_views_go_with_the_setting_and_with_their_models(shop: Watched) -> None:
    shop.folder.remove("models/marts/top.sql")
    shop.again()
    assert shop.views().keys() == ALL - {TableRef("marts", "top__changes")}
    shop.folder.write("pyproject.toml", "[tool.vde]\n")
    shop.again()
    assert shop.views() == {}


def test_other_environments_have_none(shop: Watched) -> None:
    shop.apply(shop.workspace.plan("dev"))
    shop.workspace.environments.freeze("prod@2", "closed")
    assert shop.views().keys() == ALL


def test_a_model_of_that_name_keeps_it(shop: Watched, caplog: pytest.LogCaptureFixture) -> None:
    shop.folder.write(
        "models/own.sql", "MODEL (name marts.daily__changes, kind FULL); SELECT 1 AS one"
    )
    shop.again()
    assert "resync" not in shop.views()[DAILY]
    assert "marts.daily__changes is a model" in caplog.text
    shop.folder.remove("models/own.sql")
    shop.again()
    assert "resync" in shop.views()[DAILY]


def test_what_others_have_under_that_name_stays_theirs(
    shop: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    shop.folder.write("pyproject.toml", "[tool.vde]\n")
    theirs = shop.again().lakehouse.catalog.all_pointers()[TableRef("marts", "top")]
    with shop.workspace.store.database.engine.begin() as conn:
        conn.exec_driver_sql(
            "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, "
            "metadata_location, iceberg_type) SELECT catalog_name, table_namespace, "
            "'daily__changes', metadata_location, iceberg_type FROM iceberg_tables "
            "WHERE table_namespace = 'marts' AND table_name = 'top'"
        )
    shop.say(10)
    assert shop.workspace.lakehouse.catalog.all_pointers()[DAILY].location == theirs.location
    assert "that vde did not publish" in caplog.text
    assert shop.views().keys() == ALL


def test_the_clean_up_first_takes_what_it_forgets_out_of_the_views(shop: Watched) -> None:
    current = shop.pin(3, "marts.daily")
    shop.clock.advance(days=400)
    shop.workspace.maintenance.janitor(dry_run=True)
    assert len(read(shop.views()[DAILY])) > 1
    shop.workspace.maintenance.janitor()
    assert read(shop.views()[DAILY]) == {current}
    assert damage(shop) == []


def test_views_of_a_version_that_is_past_are_not_written(shop: Watched) -> None:
    store = shop.workspace.store
    past = store.versions.at("prod", 2)
    assert past is not None
    before = shop.views()
    with pytest.raises(ConflictError, match="was published while"):
        replace_views(shop.workspace.lakehouse, past, (), tuple(before), "me")
    assert shop.views() == before


def test_what_somebody_dropped_comes_back(shop: Watched) -> None:
    before = shop.views()
    with shop.workspace.store.database.engine.begin() as conn:
        conn.exec_driver_sql("DELETE FROM iceberg_tables WHERE table_name = 'daily__changes'")
    assert damage(shop) == ["view_gone"]
    shop.again()
    assert shop.views() == before


def test_a_model_with_a_column_of_theirs_has_none(
    shop: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    shop.folder.write(
        "models/odd.sql", "MODEL (name marts.odd, kind FULL); SELECT 1 AS _change_type"
    )
    shop.again()
    assert shop.views().keys() == ALL
    assert "the column '_change_type' of marts.odd" in caplog.text


@pytest.mark.proof
def test_a_catalog_that_takes_no_part_in_the_transaction_follows_whoever_dies(
    tmp_path: Path, empty_database: Path
) -> None:
    warehouses = Warehouses(tmp_path, empty_database)
    warehouses.project.write("pyproject.toml", SETTINGS.format(most=3))

    def next_day(workspace: Workspace) -> None:
        workspace.apply(workspace.plans.due("prod"), concurrency=1, who="me")

    warehouses.run(lambda w: w.apply(w.plan("prod"), concurrency=1))
    warehouses.clock.advance(days=1)
    swaps = warehouses.run(next_day).changes
    assert swaps > 2
    for number in range(1, swaps + 1):
        warehouses.clock.advance(days=1)
        with suppress(Death):
            warehouses.run(next_day, Dies(number, after=number % 2 == 0))
        warehouses.clock.advance(minutes=5)
        warehouses.run(next_day)
        workspace = warehouses.process(Dies())
        current = workspace.store.environments.get("prod")
        assert current is not None
        pins = workspace.store.pins.at("prod", current.version)
        shown = [current.entries[ModelName("marts", one)].table_id for one in ("daily", "week")]
        found = views(workspace)
        for table_id, name in zip(shown, ("daily", "week"), strict=True):
            sql = found[TableRef("marts", f"{name}__changes")]
            assert pins[table_id or ""].snapshot_id in read(sql), (number, name)
        workspace.close()


def test_these_are_all_points_of_failure(shop: Watched) -> None:
    shop.clock.advance(days=1)
    listed = FaultInjector(clock=shop.clock, in_process=True)
    workspace = open_fake(shop.folder.root, shop.engine, clock=shop.clock, effects=listed)
    workspace.apply(workspace.plans.due("prod"), concurrency=1, who="me")
    workspace.close()
    assert tuple(dict.fromkeys(p for p in listed.passed if "change_views" in p)) == POINTS


@pytest.mark.proof
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "stall"])
def test_after_a_failure_at_any_point_views_are_those_of_before_or_after(
    mode: str, shop: Watched
) -> None:
    for point in POINTS:
        before = shop.views()
        shop.clock.advance(days=1)
        listed = FaultInjector(Fault(point, mode), clock=shop.clock, in_process=True)  # type: ignore[arg-type]
        struck = open_fake(shop.folder.root, shop.engine, clock=shop.clock, effects=listed)
        try:
            struck.apply(struck.plans.due("prod"), concurrency=1, who="me")
        except (ProcessKilled, VdeError):
            pass
        finally:
            struck.close()
        assert listed.fired, point
        left = shop.views()
        shop.workspace.close()
        shop.workspace = shop.open()
        shop.clock.advance(minutes=5)
        shop.apply(shop.workspace.plans.due("prod"))
        refresh_change_views(shop.workspace, "me")
        after = shop.views()
        current = shop.workspace.store.environments.get("prod")
        assert current is not None
        assert shop.pin(current.version, "marts.daily") in read(after[DAILY])
        assert left in (before, after), (mode, point)
    for _ in range(2):
        assert shop.workspace.maintenance.janitor().failures == ()
        shop.clock.advance(days=3)
    assert damage(shop) == []
