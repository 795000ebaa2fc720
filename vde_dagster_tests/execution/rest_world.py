"""Commands that die, stall or lose an answer, on a project whose tables are in a REST catalog.

The commands are those of `crash_world`; views mirror the environments. A prepared world is copied
for every case: its folder, its database, and the contents of its namespace of the server, whose
tables are registered again where they were.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vde_dagster.errors import StoreError, VdeError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.catalogs.rest import RestCatalog
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state.db.effects import Effects
from vde_dagster_tests.execution.crash_world import FILES, Operation, World, run
from vde_dagster_tests.execution.look import Warehouse, look
from vde_dagster_tests.faults import Fault, FaultInjector, ProcessKilled
from vde_dagster_tests.lakehouse.oracle import query
from vde_dagster_tests.lakehouse.protocol import fast_folder
from vde_dagster_tests.lakehouse.rest_process import Part, new_part, pointers_in
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.builders import FakeClock
from vde_dagster_tests.state.postgres_server import PostgresServer

_NUMBERED = re.compile(r"`(\w+)_\d+` AS `\1`")


class Requests:
    """The port for side effects of a catalog, which fail as requests do.

    Args:
        effects: The process's own port.
    """

    def __init__(self, effects: Effects) -> None:
        self._effects = effects

    @contextmanager
    def at(self, point: str, detail: str = "") -> Iterator[None]:
        """Let the side effect happen, or fail."""
        try:
            with self._effects.at(point, detail):
                yield
        except OSError as error:
            raise StoreError("the REST catalog cannot be reached", hint="try again") from error


@dataclass
class RestWorld(World):
    """A world whose tables and mirrored views are in a namespace of a server."""

    part: Part = field(kw_only=True)

    def process(self, effects: Effects | None = None) -> Workspace:
        """Start a process."""
        opened = super().process(effects)
        warehouse = opened.settings.resolved_warehouse
        requests = Requests(opened.store.database.effects)
        catalog = RestCatalog(self.part, "lakehouse", warehouse, requests, mirrors=True)
        lakehouse = Lakehouse(opened.store, "lakehouse", warehouse, catalog=catalog)
        opened.__dict__["lakehouse"] = lakehouse
        opened.engine().attach(lakehouse)  # type: ignore[attr-defined]
        return opened

    def look(self) -> Warehouse:
        """Read everything, and check it."""
        return look(self.url, lambda: pointers_in(self.part.access.uri, self.part.root))

    def journal(self) -> dict[str, tuple[str | None, bool, bool]]:
        """Read (wanted hash, is behind, is watched) by mirrored view."""
        rows = query(
            self.url,
            "SELECT namespace, name, wanted_hash, behind_since, watched_until "
            "FROM vde_mirrored_views",
        )
        return {
            f"{at}.{name}": (to, one is not None, two is not None)
            for at, name, to, one, two in rows
        }

    def views(self) -> dict[str, str]:
        """Read the hashes of the views, by plain requests."""
        return {
            f"{'.'.join(parts)}.{name}": metadata["properties"]["vde.mirror"]
            for parts, name, metadata in _views(self.part)
        }


class RestStage:
    """Prepares a command's world once and copies it for every case.

    Args:
        operation: The command.
        empty_database: An up-to-date SQLite file with nothing in it.
        uri: The REST catalog's server.
        server: A PostgreSQL server to use instead, with the name of such a database.
    """

    def __init__(
        self,
        operation: Operation,
        empty_database: Path,
        uri: str,
        server: tuple[PostgresServer, str] | None = None,
    ) -> None:
        self.operation = operation
        self._uri, part = uri, new_part(uri)
        self._server = server[0] if server else None
        self._database = self._template = server[1] if server else ""
        self._shared: dict[str, Any] = {}
        self._folder = Path(fast_folder())
        self._kept = self._folder.with_name(self._folder.name + "-kept")
        ProjectFolder(self._folder / "project", FILES)
        world = RestWorld(self._folder, state_url=self._copied_database(), part=part)
        (self._folder / "project" / ".vde").mkdir()
        shutil.copy(empty_database, self._folder / "project" / ".vde" / "vde.db")
        operation.before(world)
        self._time, self._failing, self._sources = world.clock.time, world.failing, world.sources
        self._shared = world.shared
        self._template = self._database
        self._release()
        shutil.copytree(self._folder, self._kept)
        self._tables = [
            (parts, name, part.load("tables", TableRef(".".join(parts), name)))
            for parts in part.namespaces()
            for name in part.names(parts, "tables")
        ]
        self._views = list(_views(part))
        self._namespaces = list(part.namespaces())
        world = self.world()
        injector = FaultInjector(clock=world.clock, in_process=True)
        run(operation, world.process(injector))
        self.points = injector.passed
        self.new = world.look()

    def world(self) -> RestWorld:
        """A fresh copy, in which nothing has happened yet."""
        self._release()
        shutil.rmtree(self._folder)
        shutil.copytree(self._kept, self._folder)
        clock, url, part = FakeClock(self._time), self._copied_database(), self._copied_part()
        return RestWorld(
            self._folder, clock, self._failing, url, self._shared, self._sources, part=part
        )

    def occurrences(self) -> list[tuple[str, int]]:
        """Every side effect as (point, at which passage)."""
        counts: Counter[str] = Counter()
        found = []
        for point in self.points:
            counts[point] += 1
            found.append((point, counts[point]))
        return found

    def close(self) -> None:
        """Remove everything."""
        self._release()
        shutil.rmtree(self._folder)
        shutil.rmtree(self._kept)

    def _copied_part(self) -> Part:
        """Make another namespace of the server that has what was prepared."""
        part = new_part(self._uri)
        for parts in self._namespaces:
            part.create_namespace(parts, {})
        for parts, name, loaded in self._tables:
            assert loaded is not None
            part.post(
                parts, "register", {"name": name, "metadata-location": loaded["metadata-location"]}
            )
        for parts, name, metadata in self._views:
            number = metadata["current-version-id"]
            (version,) = (one for one in metadata["versions"] if one["version-id"] == number)
            (schema,) = (
                one for one in metadata["schemas"] if one["schema-id"] == version["schema-id"]
            )
            made = {"name": name, "schema": schema, "view-version": version}
            part.post(parts, "views", {**made, "properties": metadata["properties"]})
        return part

    def _release(self) -> None:
        """Close all connections: the database that they are to goes now, or is copied."""
        if "engine" in self._shared:
            self._shared["engine"].dispose()

    def _copied_database(self) -> str | None:
        """Copy the prepared database of a server, and return the copy's URL."""
        if self._server is None:
            return None
        if self._database != self._template:
            self._server.drop_database(self._database)
        self._database = self._server.create_database(self._template)
        self._shared.pop("engine", None)
        return self._server.url(self._database)


def check_case(stage: RestStage, fault: Fault, *, clean: bool = True) -> None:
    """Let a fault strike, then repeat the command, and check all that has to hold.

    Args:
        stage: The command's prepared world.
        fault: What goes wrong.
        clean: Whether to look for what is left once the grace time is over.
    """
    world = stage.world()
    injector = FaultInjector(fault, clock=world.clock, in_process=True)
    with suppress(ProcessKilled, VdeError):
        run(stage.operation, world.process(injector))
    check_what_is_not_behind(world)
    world.clock.advance(minutes=5)
    run(stage.operation, world.process())
    check_what_is_not_behind(world)
    world.process().lakehouse.recover()  # a freeze that finds itself done leaves that to others
    seen = world.look()
    assert _shown(seen) == _shown(stage.new)
    assert sorted(seen.filled.values()) == sorted(stage.new.filled.values())
    if clean:
        check_nothing_is_left(world)


def _shown(seen: Warehouse) -> object:
    """What users see: a column that a dead process added stays, and the next has another name."""
    views, *more = seen.visible()  # type: ignore[misc]
    return {name: _NUMBERED.sub(r"`\1`", sql) for name, sql in views.items()}, more


def check_what_is_not_behind(world: RestWorld) -> None:
    """Every view that nobody says is behind is what it is to be, and there is no other."""
    journal, views = world.journal(), world.views()
    assert views.keys() <= journal.keys(), "a view that nobody knows of"
    for name, (wanted, behind, _) in journal.items():
        assert behind or views.get(name) == wanted, f"{name} is of before, and nobody says so"


def check_nothing_is_left(world: RestWorld) -> None:
    """After the grace time, the janitor leaves nothing that nobody owns."""
    for _ in range(3):
        world.clock.advance(days=2)
        report = world.process().maintenance.janitor()
        assert report.failures == ()
    seen = world.look()
    assert seen.branches() == {}
    check_what_is_not_behind(world)
    assert all(wanted and not behind for wanted, behind, _ in world.journal().values())
    live = [
        row[0]
        for row in query(world.url, "SELECT table_id FROM vde_tables WHERE status <> 'dropped'")
    ]
    for path in (world.folder / "project").rglob("*.metadata.json"):
        assert "/vde__" in str(path), "a file of a view in the warehouse"
        assert any(one in str(path) for one in live), "files of a table that was dropped"
    undecided = "SELECT count(*) FROM vde_publications WHERE status IN ('intended', 'decided')"
    assert list(query(world.url, undecided)) == [(0,)]
    leases = "SELECT count(*) FROM vde_leases WHERE owner IS NOT NULL"
    assert list(query(world.url, leases)) == [(0,)]


def _views(part: Part) -> Iterator[tuple[tuple[str, ...], str, dict[str, Any]]]:
    for parts in part.namespaces():
        for name in part.names(parts, "views"):
            loaded = part.load("views", TableRef(".".join(parts), name))
            assert loaded is not None
            yield parts, name, loaded["metadata"]
