"""Creates an unpartitioned table without Spark, optionally with a first branch.

Spark would need two commits and a load of the table, which takes longer than the first fill of a
small table. A branch must point to a commit, so the table begins with an empty commit, as with
Iceberg's own `createBranch`. Source:
https://iceberg.apache.org/spec/#table-metadata-fields and #manifest-lists.
"""

from __future__ import annotations

import io
import itertools
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vde_dagster.lakehouse.catalogs.catalog import TABLE, PointerMovedError, Swap
from vde_dagster.lakehouse.io.files import encode_metadata
from vde_dagster.lakehouse.io.locations import next_file
from vde_dagster.lakehouse.metadata.changes import Updates, apply_updates, set_branch
from vde_dagster.lakehouse.metadata.table_metadata import head_of
from vde_dagster.lakehouse.metadata.types import build_schema
from vde_dagster.lakehouse.publishing.commit import change_at_last, commit_swap
from vde_dagster.planning.tables.table import TableRef

if TYPE_CHECKING:
    from vde_dagster.lakehouse.handles import LakeHandles


_DEFAULTS = {"write.parquet.compression-codec": "zstd"}
"""Properties that Iceberg's library writes into every new table since version 1.4."""

_TOTALS = (
    "total-records",
    "total-files-size",
    "total-data-files",
    "total-delete-files",
    "total-position-deletes",
    "total-equality-deletes",
)


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table to create; its first rows go to `branch` if given."""

    ref: TableRef
    columns: tuple[tuple[str, str, str | None], ...]
    location: str
    properties: Mapping[str, str]
    branch: str | None = None


def create_table(lakehouse: LakeHandles, new: NewTable) -> bool:
    """Create a table in a transaction of its catalog; see `Lakehouse.create_table`."""
    now_ms = lakehouse.now_ms()
    first = EmptyCommit.new(new.location) if new.branch is not None else None
    location, metadata = next_file(new.location, None), first_metadata(new, now_ms)
    files = []
    if first is not None and new.branch is not None:
        metadata = apply_updates(
            metadata, None, first.updates(metadata, new.branch, now_ms), now_ms
        )
        files.append((first.manifest_list, first.content()))
    files.insert(0, (location, encode_metadata(metadata)))
    try:
        commit_swap(lakehouse, Swap(new.ref, TABLE, None, location), files, "table.create")
    except PointerMovedError:
        return False
    return True


def make_branch(
    lakehouse: LakeHandles, ref: TableRef, name: str, of: str | None = None
) -> dict[str, Any]:
    """Create a missing branch at the head of the branch `of` (by default `main`).

    If `of` has no commit, the new branch begins at an empty commit.
    """
    first: EmptyCommit | None = None

    def change(now: dict[str, Any]) -> Updates:
        nonlocal first
        if name in now.get("refs", {}):
            return ()
        head = head_of(now, of)
        if head is not None:
            return set_branch(now, name, head)
        if first is None:
            first = EmptyCommit.new(now["location"])
            lakehouse.files.write_all([(first.manifest_list, first.content())], "branch.make.file")
        now_ms = lakehouse.now_ms()
        return first.updates(now, name, now_ms)

    metadata = change_at_last(lakehouse, ref, change, "branch.make")
    if first is not None and head_of(metadata, name) != first.snapshot_id:
        written = [first.manifest_list]
        lakehouse.files.delete_all(written, "branch.make.delete", is_written=True)
    return metadata


def first_metadata(new: NewTable, now_ms: int) -> dict[str, Any]:
    ids = itertools.count(1)
    schema = build_schema(new.columns, ids)
    properties = {**_DEFAULTS, **new.properties}
    properties.pop("format-version", None)
    return {
        "format-version": 2,
        "table-uuid": str(uuid.uuid4()),
        "location": new.location,
        "last-sequence-number": 0,
        "last-updated-ms": now_ms,
        "last-column-id": next(ids) - 1,
        "current-schema-id": 0,
        "schemas": [schema],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": properties,
        "current-snapshot-id": -1,
        "refs": {},
        "snapshots": [],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [],
        "metadata-log": [],
    }


@dataclass(frozen=True, slots=True)
class EmptyCommit:
    """A commit without rows, so that the first branch of a new table has a commit."""

    snapshot_id: int
    manifest_list: str

    @classmethod
    def new(cls, location: str) -> EmptyCommit:
        snapshot_id = uuid.uuid4().int >> 65  # 63 bits: a positive long, as Iceberg requires
        return cls(snapshot_id, f"{location}/metadata/snap-{snapshot_id}-0-{uuid.uuid4()}.avro")

    def updates(self, metadata: dict[str, Any], branch: str, now_ms: int) -> Updates:
        """Build the updates that add this commit to a table, and create a branch at the commit."""
        snapshot = {
            "sequence-number": int(metadata["last-sequence-number"]) + 1,
            "snapshot-id": self.snapshot_id,
            "timestamp-ms": now_ms,
            "summary": {
                "operation": "append",
                "changed-partition-count": "0",
                **dict.fromkeys(_TOTALS, "0"),
            },
            "manifest-list": self.manifest_list,
            "schema-id": metadata["current-schema-id"],
        }
        if "next-row-id" in metadata:  # format version 3
            snapshot |= {"first-row-id": metadata["next-row-id"], "added-rows": 0}
        made = set_branch(metadata, branch, self.snapshot_id)
        return ({"action": "add-snapshot", "snapshot": snapshot}, *made)

    def content(self) -> bytes:
        from pyiceberg.manifest import write_manifest_list

        stream = _Kept()
        with write_manifest_list(2, stream, self.snapshot_id, None, 1, "gzip"):  # type: ignore[arg-type]
            pass
        return stream.content


class _Kept(io.BytesIO):
    content = b""

    def create(self, overwrite: bool = False) -> _Kept:
        return self

    def close(self) -> None:
        self.content = self.getvalue()
        super().close()
