"""Several branches of one table that readers see: who moves which, and what a rollback does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from vde_dagster.errors import ConflictError, UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.plan import assign_tables
from vde_dagster_tests.execution.environment_histories import BEGIN, Kept
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.execution.valued import content_of
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.builders import FakeClock

MODEL = """
    MODEL (name db.{name}, start '2024-01-01',
      kind INCREMENTAL_BY_TIME_RANGE (time_column (day, '%Y-%m-%d'), batch_size 1));
    SELECT CAST('2024-01-01' AS STRING) AS day, CAST('{value}' AS STRING) AS n{more}
"""
WITH = ", CAST('{0}' AS STRING) AS {0}"


class Shop:
    """A project of one or two models, in production for three days."""

    def __init__(self, root: Path) -> None:
        self.clock, self.engine = FakeClock(BEGIN), Kept()
        self.folder = ProjectFolder(root / "project", {})
        self.write("a")
        self.workspace: Workspace = open_fake(self.folder.root, self.engine, clock=self.clock)
        self.workspace.apply(self.workspace.plan("prod"))

    def write(self, name: str, value: str = "1", more: str = "") -> None:
        text = MODEL.format(name=name, value=value, more=WITH.format(more) if more else "")
        self.folder.write(f"models/{name}.sql", text)

    def apply(self, environment: str, **said: object) -> None:
        self.workspace.reload()
        assert self.workspace.apply(self.workspace.plan(environment, **said)).published

    def run(self, environment: str) -> None:
        self.clock.advance(days=1)
        self.engine.sources += 1
        assert self.workspace.apply(self.workspace.plans.due(environment)).published

    def rows(self, environment: str, model: str = "a") -> dict[str, object]:
        """What an environment shows of a model."""
        store, lakehouse = self.workspace.store, self.workspace.lakehouse
        shown = store.environments.get(environment)
        assert shown is not None
        (entry,) = [one for one in shown.entries.values() if one.name.name == model]
        table = store.tables.get(entry.table_id or "")
        head = lakehouse.main_snapshot(table.ref, table.branch)
        if entry.held is not None:
            head = entry.held.snapshot_id
        return content_of(lakehouse.table_metadata(table.ref), head)

    def filled(self, environment: str, model: str) -> int:
        shown = self.workspace.store.environments.get(environment)
        assert shown is not None
        (entry,) = [one for one in shown.entries.values() if one.name.name == model]
        table = self.workspace.store.tables.get(entry.table_id or "")
        return sum((one.end - one.start).days for one in table.available)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    yield made
    made.workspace.close()


def test_production_and_two_previews_of_its_table_go_back_each_alone(shop: Shop) -> None:
    for name in ("dev", "test"):
        shop.write("a", more=name)
        shop.apply(name, forward_only=True)
        shop.run(name)
    before = {name: shop.rows(name) for name in ("dev", "test")}
    first = shop.rows("prod")
    shop.run("prod")
    second = shop.rows("prod")
    assert second != first
    shop.workspace.environments.rollback("prod", 1)
    assert shop.rows("prod") == first
    assert {name: shop.rows(name) for name in before} == before
    result = shop.workspace.environments.rollback("dev", 1)
    assert [str(name) for name in result.moved] == ["db.a"]
    assert len(shop.rows("dev")) == len(before["dev"]) - 1
    assert shop.rows("test") == before["test"]
    assert shop.rows("prod") == first
    shop.workspace.environments.rollback("prod", 2)
    assert shop.rows("prod") == second
    assert shop.rows("test") == before["test"]


def test_an_environment_shows_no_table_beside_a_preview_of_it(shop: Shop) -> None:
    shop.write("a", more="p")
    shop.apply("dev", forward_only=True)
    shop.write("b")
    shop.workspace.reload()
    with pytest.raises(UsageError, match=r"db\.a and db\.b would show two branches of"):
        shop.workspace.plan("dev")
    shop.write("b", value="2")
    shop.apply("dev")


def test_two_branches_of_one_table_never_move_at_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment of before plans were refused for it loses nothing unseen."""
    shop.write("a", more="p")
    shop.apply("dev", forward_only=True)
    shop.write("b")
    with monkeypatch.context() as patch:
        patch.setattr(assign_tables, "_require_one_branch_per_table", lambda *_: None)
        shop.apply("dev")
    shop.run("dev")
    assert shop.filled("dev", "a") == len(shop.rows("dev", "a")) == 4
    shop.folder.remove("models/b.sql")
    shop.write("a", value="7")
    shop.apply("prod")
    shop.clock.advance(days=1)
    with pytest.raises(ConflictError, match="would move at once"):
        shop.workspace.apply(shop.workspace.plans.due("dev"))
    for model, days in (("a", 4), ("b", 3)):
        assert shop.filled("dev", model) == len(shop.rows("dev", model)) == days
