"""Projects whose tables are in an Iceberg REST catalog, and processes that die."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.catalog import Catalog
from vde_dagster.lakehouse.catalogs.rest import RestCatalog
from vde_dagster.state.effects import Effects
from vde_dagster_tests.execution import test_other_catalog as other
from vde_dagster_tests.execution.look import Warehouse, look
from vde_dagster_tests.lakehouse.oracle import Elsewhere, Pointers
from vde_dagster_tests.lakehouse.rest_process import new_part, pointers_in

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
    whole = OnRest(tmp_path / "whole", empty_database, rest_server)
    count = whole.run(before(whole)).changes
    for number in range(count, 0, -max(1, count // SAMPLES)):
        made = OnRest(tmp_path / str(number), empty_database, rest_server)
        command = before(made)
        with pytest.raises(other.Death):
            made.run(command, other.Dies(number, after))
        made.clock.advance(minutes=5)
        made.run(command)
        seen, wanted = made.look(), whole.look()
        assert sorted(seen.filled.values()) == sorted(wanted.filled.values())
        assert seen.environments["prod"][2].keys() == wanted.environments["prod"][2].keys()
        for _ in range(3):
            made.clock.advance(days=2)
            made.run(lambda workspace: workspace.janitor())
        assert made.look().branches() == {}
