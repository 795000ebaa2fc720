"""Projects on a catalog that takes no part in the state's transaction, and processes that die."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.catalogs.catalog import Catalog
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.publishing import finish_publication
from vde_dagster.state.db.effects import Effects
from vde_dagster_tests.execution.crash_world import (
    FILES,
    NOW,
    TYPED,
    WITH_A_COLUMN,
    deploy,
    preview,
)
from vde_dagster_tests.execution.fake_workspace import FakeSpark
from vde_dagster_tests.execution.look import Warehouse, look
from vde_dagster_tests.fixtures.toy_distribution.vde_toy.folder_catalog import FolderCatalog
from vde_dagster_tests.lakehouse.oracle import Elsewhere
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.builders import FakeClock

SAMPLES = 5
Command = Callable[[Workspace], object]


class Death(BaseException):
    """Stands for the end of a process: nothing is done after it."""


class Dies:
    """A port for the side effects of a process that dies at a change of the catalog.

    Args:
        number: At which change, from 1; 0 for none.
        after: Whether the change has happened by then.
    """

    def __init__(self, number: int = 0, after: bool = False) -> None:
        self.changes = 0
        self._number, self._after, self._dead = number, after, False

    @contextmanager
    def at(self, point: str, detail: str = "") -> Iterator[None]:
        """Let the side effect happen, unless the process is dead."""
        if self._dead:
            raise Death
        self.changes += point == "catalog.swap"
        self._dead = point == "catalog.swap" and self.changes == self._number
        if self._dead and not self._after:
            raise Death
        yield
        if self._dead:
            raise Death


class Warehouses:
    """A project whose catalog is a folder.

    Args:
        root: Where it lies.
        empty_database: A database to copy.
    """

    def __init__(self, root: Path, empty_database: Path) -> None:
        self.project = ProjectFolder(root / "shop", FILES)
        self.clock = FakeClock(NOW)
        self.folder = root / "catalog"
        self.url = f"sqlite:///{self.project.root / '.vde' / 'vde.db'}"
        (self.project.root / ".vde").mkdir()
        shutil.copy(empty_database, self.project.root / ".vde" / "vde.db")

    def process(self, effects: Effects) -> Workspace:
        """Start a process."""
        engine = FakeSpark()
        opened = Workspace.open(self.project.root, engine=engine, clock=self.clock, effects=effects)
        warehouse = opened.settings.resolved_warehouse
        catalog = self.catalog(warehouse, effects)
        lakehouse = Lakehouse(opened.store, "lakehouse", warehouse, catalog=catalog)
        opened.__dict__["lakehouse"] = lakehouse
        engine.attach(lakehouse)
        return opened

    def catalog(self, warehouse: str, effects: Effects) -> Catalog:
        """Open the catalog."""
        return FolderCatalog("lakehouse", self.folder, effects)

    @property
    def pointers(self) -> Elsewhere:
        """How the catalog is read without it."""
        return self.folder

    def run(self, work: Callable[[Workspace], object], effects: Dies | None = None) -> Dies:
        """Run a command in a process of its own."""
        effects = effects or Dies()
        workspace = self.process(effects)
        try:
            work(workspace)
        finally:
            workspace.close()
        return effects

    def look(self) -> Warehouse:
        """Read everything, and check it."""
        return look(self.url, self.pointers)


def apply(workspace: Workspace) -> object:
    return workspace.apply(workspace.plan("prod"), concurrency=1, who="me")


def run_what_is_due(workspace: Workspace) -> object:
    return workspace.apply(workspace.plans.due("prod"), concurrency=1, who="me")


def first(made: Warehouses) -> Callable[[Workspace], object]:
    return apply


def edited(made: Warehouses) -> Callable[[Workspace], object]:
    made.run(apply)
    made.project.edit("models/marts/week.sql", "sum(revenue)", "max(revenue)")
    return apply


def next_day(made: Warehouses) -> Callable[[Workspace], object]:
    made.run(apply)
    made.clock.advance(days=1)
    return run_what_is_due


def rolled_back(made: Warehouses) -> Callable[[Workspace], object]:
    made.run(edited(made))
    return lambda workspace: workspace.environments.rollback("prod", 1)


def data_rolled_back(made: Warehouses) -> Callable[[Workspace], object]:
    """Fill what production and `dev` share, and take it back from production."""
    run = next_day(made)
    made.project.edit("models/marts/week.sql", "sum(revenue)", "max(revenue)")
    made.run(lambda workspace: workspace.apply(workspace.plan("dev"), concurrency=1, who="me"))
    made.project.edit("models/marts/week.sql", "max(revenue)", "sum(revenue)")
    made.run(run)
    return lambda workspace: workspace.environments.rollback("prod", 1)


def previewed(made: Warehouses) -> Callable[[Workspace], object]:
    made.project.edit("models/marts/daily.sql", *TYPED)
    made.run(apply)
    made.project.edit("models/marts/daily.sql", *WITH_A_COLUMN)
    return preview


def deployed(made: Warehouses) -> Callable[[Workspace], object]:
    previewed(made)
    return deploy


def deployed_after_a_preview(made: Warehouses) -> Callable[[Workspace], object]:
    made.run(previewed(made))
    return deploy


def rolled_back_over_a_deployment(made: Warehouses) -> Callable[[Workspace], object]:
    made.run(deployed(made))
    return lambda workspace: workspace.environments.rollback("prod", 1)


@pytest.mark.parametrize(
    "before",
    [first, edited, next_day, rolled_back, rolled_back_over_a_deployment, data_rolled_back],
)
def test_commands_do_what_they_do_elsewhere(
    before: Callable[[Warehouses], Callable[[Workspace], object]],
    tmp_path: Path,
    empty_database: Path,
) -> None:
    made = Warehouses(tmp_path, empty_database)
    made.run(before(made))
    assert made.look().environments["prod"][2]


def data_rolled_back_and_filled_again(made: Warehouses) -> tuple[Command, Command]:
    made.run(next_day(made))

    def meanwhile(workspace: Workspace) -> None:
        made.project.edit("models/marts/week.sql", "sum(revenue)", "max(revenue)")
        made.run(apply)
        made.clock.advance(days=1)
        made.run(run_what_is_due)

    return lambda workspace: workspace.environments.rollback("prod", 1), meanwhile


def model_added_and_removed(made: Warehouses) -> tuple[Command, Command]:
    made.run(apply)
    path = made.project.root / "models/marts/more.sql"
    path.write_text("MODEL (name marts.more, kind FULL); SELECT revenue FROM marts.week")

    def meanwhile(workspace: Workspace) -> None:
        path.unlink()
        made.run(apply)

    return apply, meanwhile


@pytest.mark.parametrize(
    ("stalls", "before"),
    [
        ("table", data_rolled_back_and_filled_again),
        ("view", model_added_and_removed),
    ],
)
def test_who_stalls_after_the_decision_moves_nothing_that_others_moved_since(
    stalls: str,
    before: Callable[[Warehouses], tuple[Command, Command]],
    tmp_path: Path,
    empty_database: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Warehouses(tmp_path, empty_database)
    command, meanwhile = before(made)
    original = finish_publication._settle
    seen: list[Warehouse] = []

    def stalled(*said: Any) -> None:
        if said[2][0].kind != stalls:
            return original(*said)
        monkeypatch.setattr(finish_publication, "_settle", original)
        made.clock.advance(minutes=10)
        made.run(lambda workspace: workspace.lakehouse.recover())
        made.run(meanwhile)
        seen.append(made.look())
        return original(*said)

    monkeypatch.setattr(finish_publication, "_settle", stalled)
    made.run(command)
    now, then = made.look(), seen[0]
    assert (now.visible(), now.filled) == (then.visible(), then.filled)


def finishes_what_a_dead_process_began(
    make: Callable[[str], Warehouses],
    before: Callable[[Warehouses], Callable[[Workspace], object]],
    after: bool,
    samples: int,
) -> None:
    """Let a command die at changes of the catalog, and compare what comes next with a whole one."""
    whole = make("whole")
    count = whole.run(before(whole)).changes
    for number in range(count, 0, -max(1, count // samples)):
        made = make(str(number))
        command = before(made)
        with pytest.raises(Death):
            made.run(command, Dies(number, after))
        made.clock.advance(minutes=5)
        made.run(command)
        seen, wanted = made.look(), whole.look()
        assert seen.views.keys() == wanted.views.keys()
        assert sorted(seen.filled.values()) == sorted(wanted.filled.values())
        assert seen.environments["prod"][2].keys() == wanted.environments["prod"][2].keys()
        for _ in range(3):
            made.clock.advance(days=2)
            made.run(lambda workspace: workspace.maintenance.janitor())
        assert made.look().branches() == {}


@pytest.mark.turns(4)
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    "before", [first, edited, next_day, deployed_after_a_preview, data_rolled_back]
)
def test_who_comes_next_finishes_what_a_dead_process_began(
    before: Callable[[Warehouses], Callable[[Workspace], object]],
    after: bool,
    tmp_path: Path,
    empty_database: Path,
) -> None:
    finishes_what_a_dead_process_began(
        lambda name: Warehouses(tmp_path / name, empty_database), before, after, SAMPLES
    )
