"""Commands on a large state: 200 environments of 500 versions over 1,000 models.

    python -m benchmarks.large_state [--environments 200] [--versions 500] [--models 1000]
        [--moved 20] [--only fsck history]

Goals, in seconds of CPU: 1 for a rollback, the list of environments and the history, 6 for the
janitor, 10 for fsck. Those of history and fsck are for 200 versions of 2,500 models and for 5,000
environments of 20 versions of 100 models.

Each environment was planned once, edited once (a tenth of its models) and run every hour since,
so that a rollback has to look past all the runs; each run moves `--moved` tables, which it pins
anew. The models, their tables and the views of the environments that are rolled back are made by
the package, the other rows are those that it writes. The tables have two commits without data
files. Whole processes on SQLite, CPU seconds and peak MB; the best of three.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from sqlalchemy import insert

from vde_dagster.base.hashing import digest
from vde_dagster.base.names import ModelName
from vde_dagster.errors import SourceLocation
from vde_dagster.execution.apply.publish import define_views
from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.catalogs.catalog import TABLE, Swap
from vde_dagster.lakehouse.io.files import encode_metadata, read_metadata
from vde_dagster.lakehouse.io.locations import next_file
from vde_dagster.lakehouse.metadata.changes import apply_updates
from vde_dagster.lakehouse.publishing.new_table import EmptyCommit, NewTable
from vde_dagster.lakehouse.publishing.publication import Publication
from vde_dagster.planning.environments.environment import Entry, Environment
from vde_dagster.planning.environments.resolver import Resolver
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.snapshots.identity import with_content_id
from vde_dagster.planning.snapshots.snapshot import CANONICALISER, OutputColumn, Snapshot
from vde_dagster.planning.tables.table import PhysicalColumn, PhysicalTable, TableRef
from vde_dagster.project.kinds import IncrementalByTimeRange
from vde_dagster.project.model import Model
from vde_dagster.semantics.versions.version import SemanticVersion
from vde_dagster.state.db import schema
from vde_dagster.state.fills.fills import FillRecord

RUNS = 3
COLUMNS = 10
GOALS = {
    "rollback": 1.0, "environments": 1.0, "janitor --dry-run": 6.0, "fsck": 10.0, "history": 1.0,
}  # fmt: skip
NOW = datetime.now(timezone.utc).replace(minute=0, second=0, microsecond=0)
DAY = NOW.replace(hour=0)


@dataclass(frozen=True)
class Built:
    """One version of a model, the table that serves it, and the two commits of that."""

    snapshot: Snapshot
    table: PhysicalTable
    commits: tuple[int, ...] = ()

    @property
    def entry(self) -> Entry:
        """What an environment has of it."""
        return Entry(self.snapshot.name, self.snapshot.id, self.table.id)


def build(workspace: Workspace, number: int, version: int) -> Built:
    """Make a version of a model with its snapshot and its filled table, as an apply does."""
    name = ModelName(f"layer_{number % 10}", f"model_{number:05d}")
    names = ("event_date", *(f"column_{n}" for n in range(COLUMNS - 1)))
    rows = digest("rows", str(name), str(version))
    hashes = {column: digest(rows, column) for column in names}
    parts = ", ".join(f"COALESCE(x.{column}, {number}) AS {column}" for column in names)
    query = f"SELECT {parts} FROM raw.source_{number % 50} AS x WHERE x.column_1 > {version}"
    model = Model(
        name=name,
        kind=IncrementalByTimeRange("event_date"),
        location=SourceLocation(Path(f"models/{name}.sql"), 1, 1),
        query=query,
        source=query,
        start=DAY - timedelta(days=1),
    )
    snapshot = with_content_id(
        Snapshot(
            id="",
            model=model,
            version=SemanticVersion(rows, hashes),
            fill_version=digest("fill", rows),
            metadata_hash=digest("metadata", rows),
            layout_hash=digest("layout"),
            columns=tuple(OutputColumn(column, "DATE", hashes[column]) for column in names),
            parents=(),
            canonicaliser=CANONICALISER,
            definition_hash=digest("definition", rows),
        )
    )
    table_id = uuid.uuid4().hex
    columns = tuple(PhysicalColumn(column, hashes[column], "DATE") for column in names)
    ref = TableRef("vde_physical", f"{name.namespace}__{name.name}_{table_id[:8]}")
    table = PhysicalTable(table_id, ref, snapshot.fill_version, columns, snapshot.id)
    lakehouse, store = workspace.lakehouse, workspace.store
    types = tuple((column, "DATE", None) for column in names)
    lakehouse.create_table(NewTable(ref, types, lakehouse.table_location(ref, table_id), {}))
    with store.database.transaction() as connection:
        store.snapshots.save([snapshot], connection)
        store.tables.ensure(table, connection)
    made = store.tables.mark_created(table, [(column, "DATE") for column in names])
    filled = Interval(DAY - timedelta(days=1), DAY)
    store.fills.record(FillRecord(table_id, filled, "plan", 1, 1000))
    return Built(snapshot, made, commit_twice(workspace, ref))


def commit_twice(workspace: Workspace, ref: TableRef) -> tuple[int, ...]:
    """Give a table two commits, and return their ids."""
    lakehouse = workspace.lakehouse
    pointer = lakehouse.metadata_location(ref)
    assert pointer is not None
    metadata = read_metadata(lakehouse.files, pointer, str(ref))
    now = metadata["last-updated-ms"]
    first, last = (EmptyCommit.new(metadata["location"]) for _ in range(2))
    ids = (first.snapshot_id, last.snapshot_id)
    changed = apply_updates(metadata, None, first.updates(metadata, "main", now), now)
    updates = last.updates(changed, "main", now)
    updates[0]["snapshot"]["parent-snapshot-id"] = ids[0]
    changed = apply_updates(changed, None, updates, now)
    location = next_file(metadata["location"], pointer)
    lists = [(one.manifest_list, one.content()) for one in (first, last)]
    lakehouse.files.write_all([*lists, (location, encode_metadata(changed))], "benchmark")
    swap = Swap(ref, TABLE, pointer, location)
    workspace.store.database.run_transaction(
        lambda conn: lakehouse.catalog.swap([swap], conn), name="benchmark", idempotent=False
    )
    return ids


def publish_really(workspace: Workspace, name: str, entries: dict[ModelName, Built]) -> None:
    """Write the views of an environment into the catalog; its versions are written after."""
    resolver = Resolver(
        name,
        {model: built.entry for model, built in entries.items()},
        {built.snapshot.id: built.snapshot for built in entries.values()},
        {built.table.id: built.table for built in entries.values()},
    )
    environment = Environment(name, 0, dict(resolver.entries), uuid.uuid4().hex, NOW, "benchmark")
    views = define_views(resolver, workspace)
    workspace.lakehouse.publish(Publication(environment, 0, views))


def bulk_versions(
    workspace: Workspace,
    name: str,
    first: Sequence[Built],
    edited: Sequence[Built],
    versions: int,
    moved: int,
) -> None:
    """Write the rows of an environment's versions: planned, edited, then run."""
    replaced = {built.snapshot.name for built in edited}
    began = NOW - timedelta(hours=versions)
    with workspace.store.database.transaction() as connection:
        for table in (
            schema.environments, schema.environment_versions, schema.entries, schema.pins
        ):  # fmt: skip
            connection.execute(table.delete().where(table.c.environment == name))
        connection.execute(
            insert(schema.environments),
            {
                "environment": name,
                "version": versions,
                "live": True,
                "expires_at": NOW + timedelta(days=7),
            },
        )
        connection.execute(
            insert(schema.environment_versions),
            [
                {
                    "environment": name,
                    "version": version,
                    "publication_id": uuid.uuid4().hex,
                    "plan_id": uuid.uuid4().hex,
                    "published_at": began + timedelta(hours=version),
                    "published_by": "benchmark",
                    "expires_at": NOW + timedelta(days=7),
                    "note": "plan" if version < 3 else "run",
                    "added": len(first) if version == 1 else 0,
                    "changed": len(edited) if version == 2 else 0,
                    "removed": 0,
                    "dropped": False,
                }
                for version in range(1, versions + 1)
            ],
        )
        rows = [(built, 1, 2 if built.snapshot.name in replaced else None) for built in first]
        rows += [(built, 2, None) for built in edited]
        connection.execute(
            insert(schema.entries),
            [
                {
                    "environment": name,
                    "model_namespace": built.snapshot.name.namespace,
                    "model_name": built.snapshot.name.name,
                    "valid_from": since,
                    "valid_to": until,
                    "snapshot_id": built.snapshot.id,
                    "table_id": built.table.id,
                }
                for built, since, until in rows
            ],
        )
        pins = list(_pins(name, rows, versions, moved))
        connection.execute(insert(schema.pins), pins)


def _pins(
    name: str, rows: Sequence[tuple[Built, int, int | None]], versions: int, moved: int
) -> Iterator[dict[str, object]]:
    """Pin every table that is shown, and those anew that a run moves: one after another."""
    shown = [built for built, _, until in rows if until is None]
    begun: dict[str, list[int]] = {built.table.id: [since] for built, since, _ in rows}
    for version in range(3, versions + 1):
        for number in range(min(moved, len(shown))):
            table = shown[(version * moved + number) % len(shown)].table
            begun[table.id].append(version)
    for built, _, until in rows:
        since = begun[built.table.id]
        for number, (at, end) in enumerate(zip(since, [*since[1:], until], strict=True)):
            yield {
                "environment": name,
                "table_id": built.table.id,
                "valid_from": at,
                "valid_to": end,
                # The last pin is of the last commit.
                "iceberg_snapshot_id": built.commits[(len(since) - number) % 2],
                "schema_id": 0,
                "row_count": 0,
                "rows_added": 0 if number else None,
                "rows_removed": 0 if number else None,
            }


def make_project(root: Path) -> None:
    """Make a project of one model: a folder without any is refused."""
    (root / "models").mkdir(parents=True)
    (root / "models" / "one.sql").write_text("MODEL (name raw.one, kind VIEW); SELECT 1 AS one")


def names(count: int) -> Iterator[str]:
    """Name the environments; the first ones are those that are rolled back."""
    yield "prod"
    yield from (f"dev_{number:03d}" for number in range(count - 1))


def make_state(root: Path, environments: int, versions: int, models: int, moved: int) -> None:
    """Write the project and its state."""
    make_project(root)
    with Workspace.open(root) as workspace:
        workspace.lakehouse.catalog.create_namespaces({"vde_physical": {}})
        first = [build(workspace, number, 1) for number in range(models)]
        edited = [build(workspace, number, 2) for number in range(0, models, 10)]
        current = {built.snapshot.name: built for built in [*first, *edited]}
        for number, name in enumerate(names(environments)):
            if number <= RUNS:
                publish_really(workspace, name, current)
            bulk_versions(workspace, name, first, edited, versions, moved)


def measure(root: Path, arguments: Sequence[str]) -> tuple[float, float]:
    """Run a command; return its seconds of CPU and peak MB."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(root / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "vde_dagster.cli", *arguments, "--project", str(root)]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
    )
    assert process.stderr is not None
    message = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if status:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{message.decode()}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environments", type=int, default=200)
    parser.add_argument("--versions", type=int, default=500)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--moved", type=int, default=20, help="tables that each run moves")
    parser.add_argument("--only", nargs="+", default=list(GOALS), help="commands to measure")
    parser.add_argument("--keep", type=Path, help="an empty folder, to make the project in")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = chosen.keep or Path(temporary)
        make_state(root, chosen.environments, chosen.versions, chosen.models, chosen.moved)
        size = (root / ".vde" / "vde.db").stat().st_size / 1e6
        print(
            f"{chosen.environments} environments of {chosen.versions} versions over "
            f"{chosen.models} models, {chosen.moved} moved by each run, {size:.0f} MB of state; "
            "CPU s of whole processes"
        )
        measure(root, ["history", "prod"])  # compiles what later calls find compiled
        calls: dict[str, list[list[str]]] = {
            "environments": [["environments"]] * RUNS,
            "janitor --dry-run": [["janitor", "--dry-run"]] * RUNS,
            "fsck": [["fsck"]] * RUNS,
            "history": [["history", "prod", "--limit", str(chosen.versions)]] * RUNS,
            # The tables of this state have no rows that could go back.
            "rollback": [
                ["rollback", f"dev_{number:03d}", "--definitions-only"] for number in range(RUNS)
            ],
        }
        for name in chosen.only:
            figures = [measure(root, command) for command in calls[name]]
            cpu, size = min(figures)
            goal = GOALS.get(name)
            told = "" if goal is None else f"  goal {goal} s {'met' if cpu <= goal else 'MISSED'}"
            print(f"vde {name:20} {cpu:6.2f} s {size:5.0f} MB{told}", flush=True)


if __name__ == "__main__":
    main()
