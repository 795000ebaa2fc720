"""Versions of an environment: which one is meant, and what a query of it reads."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from typing_extensions import Self

from vde_dagster.errors import UsageError
from vde_dagster.execution.environments.compare import compare_data, compare_environments
from vde_dagster.execution.published_version import named_environment
from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.execution.crash_world import NOW
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.projects import SHOP, ProjectFolder
from vde_dagster_tests.state.builders import FakeClock, days


class Asked(FakeSpark):
    """An engine that notes what it is asked."""

    def query(self, sql, limit=None):  # type: ignore[no-untyped-def]
        self.asked = sql
        return (), ()


class Shop:
    """The shop, published three times: first, with a day more, with another view."""

    def __init__(self, root: Path) -> None:
        self.folder = ProjectFolder(root / "shop", SHOP)
        self.folder.edit("models/marts/daily.sql", "end '2024-01-05', ", "")
        self.folder.write(
            "models/external.sql",
            "MODEL (name marts.rates, kind VIEW); SELECT rate FROM lake.rates",
        )
        self.folder.write("external_models.yaml", "- name: lake.rates\n  columns: {rate: int}\n")
        self._open_at(NOW)
        self.apply(self.workspace.plan("prod"))
        self.clock.advance(days=1)
        self.apply(self.workspace.plans.due("prod"))
        self.clock.advance(days=1)
        self.folder.edit("models/staging/orders.sql", "status <> 'cancelled'", "status = 'paid'")
        self.workspace = self.open()
        self.apply(self.workspace.plan("prod"))

    @classmethod
    def published(cls, folder: ProjectFolder) -> Self:
        """Open one that has been made, as it was then."""
        made = cls.__new__(cls)
        made.folder = folder
        made._open_at(NOW + timedelta(days=2))
        return made

    def _open_at(self, now: datetime) -> None:
        self.clock, self.engine = FakeClock(now), Asked()
        self.workspace = self.open()

    def open(self) -> Workspace:
        return open_fake(self.folder.root, self.engine, clock=self.clock)

    def apply(self, plan) -> None:  # type: ignore[no-untyped-def]
        self.workspace.apply(plan, concurrency=1, who="me")

    def asked(self, environment: str, sql: str, **more: str) -> str:
        self.workspace.query(environment, sql, **more)
        return self.engine.asked

    def pin(self, version: int, model: str) -> int | None:
        store = self.workspace.store
        shown = store.versions.at("prod", version)
        assert shown is not None
        (table_id,) = [e.table_id for e in shown.entries.values() if str(e.name) == model]
        assert table_id is not None
        return store.pins.at("prod", version)[table_id].snapshot_id


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    made = Shop(tmp_path_factory.mktemp("versions"))
    yield made
    made.workspace.close()


def test_a_version_is_read_at_its_pins(shop: Shop) -> None:
    pins = [shop.pin(version, "marts.daily") for version in (1, 2)]
    assert pins[0] != pins[1]
    for version, pin in enumerate(pins, 1):
        sql = shop.asked(f"prod@{version}", "SELECT day FROM marts.daily")
        assert f"VERSION AS OF {pin}" in sql


def test_a_view_is_the_query_of_its_version_over_pins(shop: Shop) -> None:
    before, after = (
        shop.asked(f"prod@{version}", "SELECT id FROM staging.orders") for version in (2, 3)
    )
    assert "status <> 'cancelled'" in before
    assert "status = 'paid'" in after
    assert f"VERSION AS OF {shop.pin(2, 'raw.orders')}" in before


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("prod@1", 1),
        ("prod@2024-01-04T12:00", 1),
        ("PROD@2024-01-05T11:59:59+00:00", 1),
        ("prod@2024-01-05T12:00:00", 2),
        ("prod@now", 3),
    ],
)
def test_a_version_is_named_by_its_number_or_a_time(shop: Shop, text: str, version: int) -> None:
    assert shop.workspace.query(text, "SELECT 1 AS a").version == version
    name, _, at = text.partition("@")
    if not at.isdigit():
        assert shop.workspace.query(name, "SELECT 1 AS a", at=at).version == version


@pytest.mark.parametrize(
    ("text", "at", "said"),
    [
        ("prod@9", None, "has no version 9"),
        (f"prod@{2**31}", None, "has no version 2147483648"),
        (f"prod@{'9' * 5000}", None, "has no version 9{40}. Hint"),
        ("prod@²", None, "is not a time"),
        ("prod@2001-01-01", None, "no version from 2001-01-01 00:00 UTC or before"),
        ("prod@2030-01-01", None, "2030-01-01 00:00 UTC is in the future"),
        ("prod", "tomorrow", "is in the future"),
        ("prod@soon", None, "is not a time"),
        ("prod@", None, "is not a time"),
        ("prod@1", "2024-01-04", "names a version and cannot be combined with --at"),
        ("dev@1", None, "environment 'dev' does not exist"),
        ("pr od@1", None, "is not a valid environment name"),
    ],
)
def test_what_is_no_version_is_said(shop: Shop, text: str, at: str | None, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        shop.workspace.query(text, "SELECT 1 AS a", at=at)


def test_history_says_what_each_version_changed(shop: Shop) -> None:
    changes = shop.workspace.environments.history("prod")
    assert [(one.version.version, one.what) for one in changes] == [
        (3, "both"),
        (2, "data"),
        (1, "both"),
    ]
    (daily,) = [one for one in changes[1].data if str(one.models[0]) == "marts.daily"]
    assert (daily.is_new, daily.intervals) == (False, days(3))
    assert all(one.is_new for one in changes[2].data)
    assert shop.workspace.environments.history("prod", 1) == changes[:1]


def test_versions_are_compared_by_definitions_and_data(shop: Shop) -> None:
    warehouse = shop.workspace
    first, second, third = (named_environment(warehouse, f"prod@{one}") for one in (1, 2, 3))
    assert compare_environments(warehouse, second, first) == ()
    changed = {str(one.name) for one in compare_environments(warehouse, third, second)}
    assert "staging.orders" in changed
    data = {str(one.name): one.same_table for one in compare_data(warehouse, second, first)}
    assert data["marts.daily"]
    assert "raw.orders" not in data
    assert not any(one.same_table for one in compare_data(warehouse, third, second))
    assert compare_data(warehouse, first, first) == ()


def test_external_tables_are_read_as_they_are_and_named(shop: Shop) -> None:
    found = shop.workspace.query("prod@1", "SELECT rate FROM marts.rates")
    assert found.read_live == ("lake.rates",)
    assert shop.workspace.query("prod@1", "SELECT day FROM marts.daily").read_live == ()


def test_versions_from_before_there_were_pins_cannot_be_read(shop: Shop) -> None:
    store = shop.workspace.store
    with store.database.engine.begin() as conn:
        conn.exec_driver_sql("CREATE TABLE kept AS SELECT * FROM vde_pins")
        conn.exec_driver_sql("DELETE FROM vde_pins")
    try:
        with pytest.raises(UsageError, match="published before versions pinned their data"):
            shop.workspace.query("prod@1", "SELECT day FROM marts.daily")
    finally:
        with store.database.engine.begin() as conn:
            conn.exec_driver_sql("INSERT INTO vde_pins SELECT * FROM kept")
            conn.exec_driver_sql("DROP TABLE kept")
