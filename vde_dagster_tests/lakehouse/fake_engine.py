"""An engine that commits to real Iceberg metadata in milliseconds, without Spark and data files.

It does to the catalog what Spark does: writes a metadata file of its own and swaps the pointer by
compare-and-swap. Snapshots carry the summary properties that a fill carries.
"""

from __future__ import annotations

import functools
import json
import random
import uuid
from pathlib import Path
from typing import Any

from vde_dagster.lakehouse.catalogs.catalog import TABLE, Swap
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.metadata.commit_summaries import TABLE_KEY
from vde_dagster.lakehouse.publishing.new_table import EmptyCommit, NewTable
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.tables.table import PhysicalTable, TableRef
from vde_dagster_tests.lakehouse.oracle import load


@functools.cache
def _no_manifests() -> bytes:
    return EmptyCommit(1, "").content()


def list_of_nothing(location: str) -> str:
    """Return a manifest list without manifests, which all commits of a table have.

    Args:
        location: The table's base location.
    """
    place = f"{location}/metadata/no-files.avro"
    path = Path(place.removeprefix("file://"))
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_no_manifests())
    return place


def head(metadata: dict[str, Any], branch: str = "main") -> int | None:
    """Return the snapshot that a branch points to."""
    ref = metadata["refs"].get(branch)
    return ref["snapshot-id"] if ref is not None else None


def next_file(metadata: dict[str, Any], before: str) -> tuple[str, bytes]:
    """Name the file that follows another one as Iceberg does, and say what is in it."""
    number = int(before.rpartition("/")[2].partition("-")[0]) + 1
    name = f"{number:05}-{uuid.uuid4()}.metadata.json"
    return f"{metadata['location']}/metadata/{name}", json.dumps(metadata).encode()


def with_commit(
    metadata: dict[str, Any], branch: str, snapshot: dict[str, Any]
) -> tuple[dict[str, Any], tuple[dict[str, Any], ...]]:
    """Return a table's metadata with a commit on a branch, and what a REST catalog is sent."""
    ref = {"type": "branch", "snapshot-id": snapshot["snapshot-id"]}
    now = snapshot["timestamp-ms"]
    changed = {
        **metadata,
        "last-sequence-number": snapshot["sequence-number"],
        "last-updated-ms": now,
        "snapshots": [*metadata["snapshots"], snapshot],
        "refs": {**metadata["refs"], branch: ref},
    }
    if branch == "main":
        entry = {"timestamp-ms": now, "snapshot-id": snapshot["snapshot-id"]}
        changed["current-snapshot-id"] = snapshot["snapshot-id"]
        changed["snapshot-log"] = [*metadata["snapshot-log"], entry]
    moved = {"action": "set-snapshot-ref", "ref-name": branch, **ref}
    return changed, ({"action": "add-snapshot", "snapshot": snapshot}, moved)


class FakeEngine:
    """Creates tables and commits fills as Iceberg metadata."""

    def __init__(self, lakehouse: Lakehouse) -> None:
        self.lakehouse = lakehouse
        self._store = lakehouse.store

    def create_table(self, table: PhysicalTable) -> None:
        """Create a table with INT columns, unless it exists."""
        columns = tuple((column.name, "INT", None) for column in table.columns)
        location = self.lakehouse.table_location(table.ref, table.id)
        self.lakehouse.create_table(NewTable(table.ref, columns, location, {TABLE_KEY: table.id}))

    def fill(
        self,
        table: PhysicalTable,
        interval: Interval,
        plan_id: str,
        branch: str | None = None,
        rows: int = 10,
    ) -> int:
        """Commit a fill to `main` or a branch, which is made from `main` where it is missing."""
        pointer = self.lakehouse.metadata_location(table.ref)
        assert pointer is not None
        metadata = load(pointer)
        parent = head(metadata, branch or "main") or head(metadata)
        snapshot_id = random.getrandbits(62)
        now = max(self._now(), metadata["last-updated-ms"])
        sequence = metadata["last-sequence-number"] + 1
        snapshot: dict[str, Any] = {
            "snapshot-id": snapshot_id,
            "sequence-number": sequence,
            "timestamp-ms": now,
            "manifest-list": list_of_nothing(metadata["location"]),
            "schema-id": 0,
            "summary": {
                "operation": "overwrite",
                "added-records": str(rows),
                "added-files-size": "100",
                "vde.plan": plan_id,
                "vde.table": table.id,
                "vde.interval": str(interval),
            },
        }
        content: list[str] = []
        if parent is not None:
            snapshot["parent-snapshot-id"] = parent
            parents = {item["snapshot-id"]: item for item in metadata["snapshots"]}
            content = json.loads(parents[parent]["summary"]["fake.content"])
        # In place of data files: what the table holds, as every write adds to it.
        snapshot["summary"]["fake.content"] = json.dumps([*content, str(interval)])
        name = branch or "main"
        changed, updates = with_commit(metadata, name, snapshot)
        self._commit(table.ref, pointer, changed, "engine.fill", updates)
        return snapshot_id

    def _commit(
        self,
        ref: TableRef,
        before: str,
        metadata: dict[str, Any],
        point: str,
        updates: tuple[dict[str, Any], ...],
    ) -> None:
        location, data = next_file(metadata, before)
        self.lakehouse.files.write_all([(location, data)], f"{point}.file")
        swap = Swap(ref, TABLE, before, location, updates=updates)
        if self.lakehouse.catalog.form.follows:
            return self.lakehouse.catalog.swap([swap])
        self._store.database.run_transaction(
            lambda conn: self.lakehouse.catalog.swap([swap], conn), name=point, idempotent=False
        )

    def _now(self) -> int:
        return int(self._store.database.clock.now().timestamp() * 1000)
