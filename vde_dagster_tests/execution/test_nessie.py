"""Projects whose catalog is a real Nessie server, and processes that die."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.errors import ProjectError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.catalogs.catalog import Catalog
from vde_dagster.plugins.nessie import NessieCatalog, NessieServer
from vde_dagster.state.db.effects import Effects
from vde_dagster_tests.execution import test_other_catalog as other
from vde_dagster_tests.execution.change_copies import follow_everywhere
from vde_dagster_tests.lakehouse.nessie_process import new_branch, pointers_on
from vde_dagster_tests.lakehouse.oracle import Elsewhere, Pointers
from vde_dagster_tests.projects import ProjectFolder

SAMPLES = 3


class OnNessie(other.Warehouses):
    """A project whose catalog is a branch of its own."""

    def __init__(self, root: Path, empty_database: Path, uri: str) -> None:
        super().__init__(root, empty_database)
        self.uri, self.branch = uri, new_branch(uri)

    def catalog(self, warehouse: str, effects: Effects) -> Catalog:
        """Open the branch."""
        return NessieCatalog(NessieServer(self.uri, self.branch), "lakehouse", warehouse, effects)

    @property
    def pointers(self) -> Elsewhere:
        """Plain HTTP."""
        return self.shown

    def shown(self) -> Pointers:
        """Read every pointer."""
        return pointers_on(self.uri, self.branch)


@pytest.mark.turns(3)
@pytest.mark.server
@pytest.mark.parametrize("before", [other.first, other.edited, other.next_day])
def test_every_publication_is_one_commit_of_all_its_tables_and_views(
    before: Callable[[other.Warehouses], Callable[[Workspace], object]],
    tmp_path: Path,
    empty_database: Path,
    nessie: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fills and new tables are commits of one name each; what readers see moves in another one."""
    made = OnNessie(tmp_path, empty_database, nessie)
    command = before(made)
    was = set(made.shown())
    commits: list[set[tuple[str, ...]]] = []
    commit = NessieServer.commit

    def noted(self: NessieServer, at: str, message: str, changes: list[Any]) -> None:
        commit(self, at, message, changes)
        keys = {tuple(one["key"]["elements"]) for one in changes}
        commits.append({key for key in keys if len(key) > 1})  # the others are namespaces

    monkeypatch.setattr(NessieServer, "commit", noted)
    made.run(command)
    views = {(place, name) for place, name, _, kind in set(made.shown()) ^ was if kind == "VIEW"}
    (published,) = [keys for keys in commits if len(keys) > 1 or keys & views]
    assert views <= published
    assert made.look().environments["prod"][2]


@pytest.mark.turns(4)
@pytest.mark.server
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("before", [other.first, other.edited, other.next_day, other.rolled_back])
def test_who_comes_next_finishes_what_a_dead_process_began(
    before: Callable[[other.Warehouses], Callable[[Workspace], object]],
    after: bool,
    tmp_path: Path,
    empty_database: Path,
    nessie: str,
) -> None:
    other.finishes_what_a_dead_process_began(
        lambda name: OnNessie(tmp_path / name, empty_database, nessie), before, after, SAMPLES
    )


MODELS = {
    "models/orders.sql": """
        MODEL (name sales.orders, kind INCREMENTAL_BY_TIME_RANGE (time_column day),
          start '2024-01-01', end '2024-01-03', columns (id INT, day DATE));
        SELECT id, day FROM VALUES (1, DATE '2024-01-01'), (3, DATE '2024-01-03') AS t (id, day)
        WHERE day BETWEEN @start_date AND @end_date
    """,
    "models/newest.sql": "MODEL (name sales.newest, kind FULL);\n"
    "SELECT max(day) AS d FROM sales.orders",
    "models/shown.sql": "MODEL (name sales.shown, kind VIEW); SELECT d, 1 AS one FROM sales.newest",
}


@pytest.mark.turns(16, "Spark elsewhere")
@pytest.mark.server
@pytest.mark.spark
def test_spark_fills_and_reads_a_project_on_nessie(
    tmp_path: Path, open_workspace: Callable[[ProjectFolder], Workspace], nessie: str
) -> None:
    branch = new_branch(nessie)
    settings = f'[tool.vde]\nchange_views = ["sales.*"]\n[tool.vde.nessie]\nuri = "{nessie}"\n'
    settings += f'ref = "{branch}"\n'
    folder = ProjectFolder(tmp_path / "shop", {**MODELS, "pyproject.toml": settings})
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
    again.environments.rollback("prod", 1)
    assert again.query("prod", read).rows == (("2024-01-03", 1),)
    names = {f"{place}.{name}" for place, name, *_ in pointers_on(nessie, branch)}
    assert {"sales.orders", "sales.newest", "sales.shown", "sales__dev.shown"} <= names
    assert follow_everywhere(again, "sales.newest").keys() >= {"nothing", "versions"}
    assert again.plan("prod").entries


def test_an_address_that_is_none_of_nessies_is_refused(tmp_path: Path) -> None:
    settings = '[tool.vde.nessie]\nuri = "http://localhost:19120/iceberg"\n'
    folder = ProjectFolder(tmp_path / "shop", {**MODELS, "pyproject.toml": settings})
    with pytest.raises(ProjectError, match=r"pyproject.toml:2.*not the base of Nessie's API"):
        _ = Workspace.open(folder.root).settings
