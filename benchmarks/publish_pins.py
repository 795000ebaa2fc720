"""What pins cost: 50 publications of 1,000 tables, 20 tables moved by each; then a freeze.

    python -m benchmarks.publish_pins [--tables 1000] [--versions 50] [--moved 20]

Two warehouses are published in turns, one of them with pins taken out of the code. Of both: the
median of a publication, wall-clock and this process' CPU; how the state grew, in rows and bytes.
Then the last version and the first one are frozen: seconds, bytes of state and of views, and that
no table's pointer has moved. Tables are real Iceberg metadata without data files; SQLite.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.large_state import make_project
from vde_dagster.base.names import ModelName
from vde_dagster.execution.apply.publish import define_views
from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.publishing import prepare, publish
from vde_dagster.lakehouse.publishing.pins import PreparedPins
from vde_dagster.lakehouse.publishing.publication import FastForward, Publication
from vde_dagster.planning.environments.resolver import Resolver
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.lakehouse.fake_engine import FakeEngine
from vde_dagster_tests.state.builders import day, environment, snapshot, table

MOST = 1.1
"""How much longer a publication may take with pins than without, by the median of the CPU."""


@dataclass
class Shop:
    """A warehouse of many tables, published again and again.

    Args:
        folder: Where it lies.
        pins: Whether its publications pin.
        tables: The tables.
        snapshots: Their definitions.
        walls: Seconds of each publication.
        cpus: CPU seconds of each.
    """

    folder: Path
    pins: bool
    tables: list[PhysicalTable] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    walls: list[float] = field(default_factory=list)
    cpus: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        make_project(self.folder)
        self.workspace: Workspace = open_fake(self.folder)
        self.engine = FakeEngine(self.workspace.lakehouse)

    def build(self, count: int) -> None:
        """Make tables that hold a day each."""
        store = self.workspace.store
        self.workspace.lakehouse.catalog.create_namespaces({"vde_physical": {}})
        for number in range(count):
            one = snapshot(f"bench.t{number}")
            made = replace(table(f"t{number}"), snapshot_id=one.id, fill_version=one.fill_version)
            made = store.tables.ensure(made)
            self.engine.create_table(made)
            store.tables.mark_created(made, [(column.name, "INT") for column in made.columns])
            self.engine.fill(made, day(0), "first")
            self.snapshots.append(one)
            self.tables.append(store.tables.get(made.id))
        store.snapshots.save(self.snapshots)

    def publish(self, version: int, moved: list[PhysicalTable]) -> None:
        """Publish all tables, some of which move from a branch, and note how long it took."""
        store, lakehouse = self.workspace.store, self.workspace.lakehouse
        for one in moved:
            self.engine.fill(one, day(version), f"p{version}", "vde_next")
        entries = [
            (str(shown.name), shown.id, one.id)
            for shown, one in zip(self.snapshots, self.tables, strict=True)
        ]
        value = environment("prod", entries, by="benchmark", at=store.database.clock.now())
        known = {one.id: one for one in self.snapshots}
        resolver = Resolver("prod", value.entries, known, {one.id: one for one in self.tables})
        forwards = tuple(FastForward(one.ref, one.id, "vde_next") for one in moved)
        views = define_views(resolver, self.workspace)
        made = Publication(value, version, views, fast_forwards=forwards)
        with pins_taken_out(not self.pins):
            wall, cpu = time.perf_counter(), time.process_time()
            lakehouse.publish(made)
            self.walls.append(time.perf_counter() - wall)
            self.cpus.append(time.process_time() - cpu)

    def state(self) -> tuple[int, int]:
        """Return the rows of pins, and the bytes of the database that are in use."""
        return state_of(self.workspace)

    def files(self) -> int:
        """Return the bytes of all files of the warehouse."""
        found = Path(self.workspace.settings.resolved_warehouse.removeprefix("file://"))
        return sum(path.stat().st_size for path in found.rglob("*") if path.is_file())


def state_of(workspace: Workspace) -> tuple[int, int]:
    """Return the rows of pins, and the bytes of a SQLite database that are in use."""
    with workspace.store.database.engine.connect() as conn:
        rows: int = conn.exec_driver_sql("SELECT count(*) FROM vde_pins").scalar_one()
        names = ("page_count", "freelist_count", "page_size")
        found = [int(conn.exec_driver_sql(f"PRAGMA {one}").scalar_one()) for one in names]
    return int(rows), (found[0] - found[1]) * found[2]


@contextmanager
def pins_taken_out(out: bool) -> Iterator[None]:
    """Publish without looking up and writing pins."""
    if not out:
        yield
        return
    nothing = PreparedPins({}, {}, frozenset(), ())
    with (
        patch.object(prepare, "prepare_pins", lambda *arguments: nothing),
        patch.object(publish, "write_pins", lambda *arguments: None),
        patch.object(publish, "pin_filled", lambda *arguments: None),
    ):
        yield


def report_freeze(shop: Shop, source: str, name: str) -> None:
    """Freeze a version, and say what it took."""
    catalog = shop.workspace.lakehouse.catalog
    before = {ref: one for ref, one in catalog.all_pointers().items() if one.kind == "TABLE"}
    rows, state = shop.state()
    files = shop.files()
    wall, cpu = time.perf_counter(), time.process_time()
    result = shop.workspace.environments.freeze(source, name, who="benchmark")
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    after = {ref: one for ref, one in catalog.all_pointers().items() if one.kind == "TABLE"}
    assert before == after, "a freeze moved a table"
    assert result.tables == len(shop.tables)
    found, grown = shop.state()
    print(
        f"freeze {source:<8} {result.tables:>5} tables  {wall:.3f} s  cpu {cpu:.3f} s  "
        f"{found - rows:,} rows of pins, {(grown - state) / 1024:,.0f} KiB of state, "
        f"{(shop.files() - files) / 1024:,.0f} KiB of views, no table moved",
        flush=True,
    )


def report(shop: Shop, what: str, before: tuple[int, int]) -> float:
    """Print what the publications after the first took; return the median CPU."""
    walls, cpus = shop.walls[1:], shop.cpus[1:]
    rows, size = shop.state()
    versions = len(walls)
    print(
        f"{what:<13} first {shop.walls[0]:.3f} s (cpu {shop.cpus[0]:.3f}), then median "
        f"{statistics.median(walls) * 1000:.1f} ms (cpu {statistics.median(cpus) * 1000:.1f}) of "
        f"{versions}; {rows - before[0]:,} rows of pins, "
        f"{(size - before[1]) / versions / 1024:.1f} KiB of state a version",
        flush=True,
    )
    return statistics.median(cpus)


def run(folder: Path, tables: int, versions: int, moved: int) -> None:
    """Publish both warehouses in turns, then freeze the one with pins."""
    print(f"{tables:,} tables, {versions} versions, {moved} tables moved by each")
    shops = [Shop(folder / "with", True), Shop(folder / "without", False)]
    states: list[Any] = []
    for shop in shops:
        shop.build(tables)
        shop.publish(0, [])
        states.append(shop.state())
    for version in range(1, versions):
        # By turns, the other one first each time: whoever comes second finds warmer caches.
        for shop in shops if version % 2 else reversed(shops):
            start = (version * moved) % tables
            shop.publish(version, (shop.tables * 2)[start : start + min(moved, tables)])
    taken, without = (
        report(shop, what, state)
        for shop, what, state in zip(shops, ("with pins", "without pins"), states, strict=True)
    )
    met = "met" if taken <= without * MOST else "MISSED"
    print(f"cpu {taken / without:.2f} times that without; goal at most {MOST} {met}", flush=True)
    report_freeze(shops[0], f"prod@{versions}", "newest")
    report_freeze(shops[0], "prod@1", "oldest")
    shown = shops[0].workspace.store.pins.at("oldest", 1)
    first = shops[0].workspace.store.pins.at("prod", 1)
    assert {key: pin.snapshot_id for key, pin in shown.items()} == {
        key: pin.snapshot_id for key, pin in first.items()
    }
    entry = shops[0].workspace.store.environments.entry("oldest", ModelName("bench", "t0"))
    assert entry is not None
    assert entry.held is not None
    for shop in shops:
        shop.workspace.close()


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=1_000)
    parser.add_argument("--versions", type=int, default=50)
    parser.add_argument("--moved", type=int, default=20)
    chosen = parser.parse_args()
    folder = Path(tempfile.gettempdir()) / f"vde-publish-pins-{os.getpid()}"
    try:
        run(folder, chosen.tables, chosen.versions, chosen.moved)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
