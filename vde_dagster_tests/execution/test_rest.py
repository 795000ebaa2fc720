"""Projects whose tables are in an Iceberg REST catalog, and processes that die."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog

from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.catalogs.catalog import Catalog
from vde_dagster.lakehouse.catalogs.rest import RestCatalog
from vde_dagster.state.db.effects import Effects
from vde_dagster_tests.execution import test_other_catalog as other
from vde_dagster_tests.execution.change_copies import follow_everywhere
from vde_dagster_tests.execution.crash_world import OPERATIONS
from vde_dagster_tests.execution.look import Warehouse, look
from vde_dagster_tests.execution.rest_world import RestStage, check_case
from vde_dagster_tests.execution.test_nessie import MODELS
from vde_dagster_tests.faults import Fault
from vde_dagster_tests.lakehouse.oracle import Elsewhere, Pointers
from vde_dagster_tests.lakehouse.rest_process import names_in, new_part, pointers_in
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.serve.served_process import serving_here
from vde_dagster_tests.state.postgres_server import PostgresServer

SAMPLES = 3


class OnRest(other.Warehouses):
    """A project whose tables lie in a namespace of a server."""

    def __init__(self, root: Path, empty_database: Path, uri: str) -> None:
        super().__init__(root, empty_database)
        self.uri, self.part = uri, new_part(uri)

    def catalog(self, warehouse: str, effects: Effects) -> Catalog:
        """Open the namespace."""
        return RestCatalog(self.part, "lakehouse", warehouse, effects)

    @property
    def pointers(self) -> Elsewhere:
        """Plain HTTP."""
        return self.shown

    def look(self) -> Warehouse:
        """Read everything, and check it."""
        return look(self.url, self.pointers, views=False)

    def shown(self) -> Pointers:
        """Read every pointer."""
        return pointers_in(self.uri, self.part.root)


@pytest.mark.turns(8)
@pytest.mark.server
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    "before",
    [
        other.first,
        other.edited,
        other.next_day,
        other.deployed_after_a_preview,
        other.rolled_back,
        other.data_rolled_back,
    ],
)
def test_who_comes_next_finishes_what_a_dead_process_began(
    before: Callable[[other.Warehouses], Callable[[Workspace], object]],
    after: bool,
    tmp_path: Path,
    empty_database: Path,
    rest_server: str,
) -> None:
    other.finishes_what_a_dead_process_began(
        lambda name: OnRest(tmp_path / name, empty_database, rest_server), before, after, SAMPLES
    )


class Mirrored(OnRest):
    """The same, with views that follow."""

    def catalog(self, warehouse: str, effects: Effects) -> Catalog:
        """Open the namespace."""
        return RestCatalog(self.part, "lakehouse", warehouse, effects, mirrors=True)

    def look(self) -> Warehouse:
        """Read everything, and check it, views too."""
        return look(self.url, self.pointers)


@pytest.mark.turns(8)
@pytest.mark.server
@pytest.mark.parametrize(
    "before", [other.edited, other.rolled_back, other.deployed_after_a_preview]
)
def test_mirrored_views_are_those_of_the_environments(
    before: Callable[[other.Warehouses], Callable[[Workspace], object]],
    tmp_path: Path,
    empty_database: Path,
    rest_server: str,
) -> None:
    made = Mirrored(tmp_path, empty_database, rest_server)
    made.run(before(made))
    assert made.look().views.keys() >= {"marts.daily", "marts.week"}
    made.run(lambda workspace: workspace.environments.freeze("prod", "close"))
    assert "marts__close.week" in made.look().views
    made.run(lambda workspace: workspace.environments.drop("close"))
    made.clock.advance(days=2)
    made.run(lambda workspace: workspace.maintenance.janitor())
    assert "marts__close.week" not in made.look().views


@pytest.mark.server
def test_a_rollback_writes_views_that_were_never_mirrored(
    tmp_path: Path, empty_database: Path, rest_server: str
) -> None:
    made = OnRest(tmp_path, empty_database, rest_server)
    command = other.rolled_back(made)
    later = Mirrored(tmp_path / "other", empty_database, rest_server)
    later.project, later.clock, later.url, later.part = (
        made.project,
        made.clock,
        made.url,
        made.part,
    )
    later.run(command)
    assert later.look().views.keys() >= {"marts.daily", "marts.week"}


LAST = [
    Fault("publish.commit", "kill_after"),
    Fault("catalog.swap", "lose_answer"),
    Fault("mirror.write", "kill_after"),
    Fault("mirror.end.commit", "kill_before"),
]
"""What goes wrong at the last passage of a side effect; the benchmark `rest_sweep` tries all."""


@pytest.mark.turns(2)
@pytest.mark.server
@pytest.mark.parametrize("name", ["apply of a change", "rollback of data"])
def test_with_the_state_in_postgresql_a_repeated_command_finishes_and_views_follow(
    name: str, postgres: PostgresServer, empty_postgres: str, empty_database: Path, rest_server: str
) -> None:
    (operation,) = (one for one in OPERATIONS if one.name == name)
    stage = RestStage(operation, empty_database, rest_server, (postgres, empty_postgres))
    for number, fault in enumerate(LAST):
        last = replace(fault, occurrence=stage.points.count(fault.point))
        check_case(stage, last, clean=number % 2 == 1)
    stage.close()


@pytest.mark.turns(16, "Spark elsewhere")
@pytest.mark.server
@pytest.mark.spark
def test_spark_reads_mirrored_views(
    tmp_path: Path, open_workspace: Callable[[ProjectFolder], Workspace], rest_server: str
) -> None:
    settings = f'[tool.vde.rest]\nuri = "{rest_server}"\nmirror = true\n'
    models = {path: text.replace("sales.", "mirrored.") for path, text in MODELS.items()}
    folder = ProjectFolder(tmp_path / "shop", {**models, "pyproject.toml": settings})
    workspace = open_workspace(folder)
    workspace.apply(workspace.plan("prod"))
    read = "SELECT CAST(d AS STRING), one FROM lakehouse.mirrored.shown"
    assert [tuple(row) for row in workspace.engine().session.sql(read).collect()] == [
        ("2024-01-03", 1)
    ]
    folder.edit("models/newest.sql", "max(day)", "min(day)")
    again = open_workspace(folder)
    again.apply(again.plan("prod"))
    assert [tuple(row) for row in again.engine().session.sql(read).collect()] == [("2024-01-01", 1)]


@pytest.mark.turns(16, "Spark elsewhere")
@pytest.mark.server
@pytest.mark.spark
def test_spark_fills_and_vde_serve_shows_a_project_of_a_rest_catalog(
    tmp_path: Path, open_workspace: Callable[[ProjectFolder], Workspace], rest_server: str
) -> None:
    settings = f'[tool.vde.rest]\nuri = "{rest_server}"\n'
    folder = ProjectFolder(tmp_path / "shop", {**MODELS, "pyproject.toml": settings})
    others = views_in(rest_server)
    workspace = open_workspace(folder)
    workspace.apply(workspace.plan("prod"))
    read = "SELECT CAST(d AS STRING), one FROM sales.shown"
    assert workspace.query("prod", read).rows == (("2024-01-03", 1),)
    folder.edit("models/newest.sql", "max(day)", "min(day)")
    again = open_workspace(folder)
    again.apply(again.plan("dev"))
    assert again.query("dev", read).rows == (("2024-01-01", 1),)
    assert again.query("prod", read).rows == (("2024-01-03", 1),)
    again.apply(again.plan("prod"))
    assert again.query("prod", read).rows == (("2024-01-01", 1),)
    assert again.query("prod@1", read).rows == (("2024-01-03", 1),)
    shown = {name: served_rows(again, name) for name in ("prod", "prod@1", "dev")}
    assert shown == {"prod": ["2024-01-01"], "prod@1": ["2024-01-03"], "dev": ["2024-01-01"]}
    again.environments.rollback("prod", 1)
    assert again.query("prod", read).rows == (("2024-01-03", 1),)
    assert served_rows(again, "prod") == ["2024-01-03"]
    again.environments.freeze("prod@2", "close")
    assert again.query("close", read).rows == (("2024-01-01", 1),)
    assert views_in(rest_server) == others, "those of other tests"
    assert follow_everywhere(again, "sales.newest", "sales.shown").keys() >= {"nothing", "versions"}
    assert [d.outcome for d in again.maintenance.janitor().decisions if d.outcome == "failed"] == []
    assert again.maintenance.fsck() == ()
    assert again.plan("prod").entries


def views_in(uri: str) -> set[tuple[str, str]]:
    """The views of a server, whosesoever they are."""
    return {(".".join(parts), name) for parts, name in names_in(uri, "views")}


def served_rows(workspace: Workspace, warehouse: str) -> list[str]:
    """Read a model through `vde serve`, with PyIceberg."""
    with serving_here(workspace.root) as served:
        catalog = load_catalog("c", type="rest", uri=served.url, warehouse=warehouse)
        rows = catalog.load_table("sales.newest").scan().to_arrow().to_pylist()
    return [str(row["d"]) for row in rows]
