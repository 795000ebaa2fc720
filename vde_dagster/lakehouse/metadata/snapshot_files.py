"""Files of forgotten Iceberg snapshots alone: manifest lists, manifests, data files."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from vde_dagster.errors import DamagedFileError
from vde_dagster.lakehouse.io.damage import read_entries, read_manifests
from vde_dagster.lakehouse.io.files import MetadataFiles


def bytes_of_no_other(
    files: MetadataFiles, some: Iterable[dict[str, Any]], others: Iterable[dict[str, Any]]
) -> int | None:
    """Return the bytes of data files that only some of a table's snapshots have.

    Returns:
        Bytes of data and delete files; None when a manifest cannot be read.
    """
    from pyiceberg.manifest import ManifestEntryStatus

    known: dict[str, dict[str, int]] = {}

    def sizes(snapshots: Iterable[dict[str, Any]]) -> dict[str, int]:
        found: dict[str, int] = {}
        for snapshot in snapshots:
            for manifest in read_manifests(files, snapshot, "the table"):
                if manifest.manifest_path not in known:
                    known[manifest.manifest_path] = {
                        entry.data_file.file_path: entry.data_file.file_size_in_bytes
                        for entry in read_entries(files, manifest, "the table")
                        if entry.status != ManifestEntryStatus.DELETED
                    }
                found |= known[manifest.manifest_path]
        return found

    try:
        own, shared = sizes(some), sizes(others)
    except (DamagedFileError, OSError, KeyError):
        return None
    return sum(size for path, size in own.items() if path not in shared)


def unused_files(
    files: MetadataFiles, before: dict[str, Any], after: dict[str, Any], what: str
) -> list[str]:
    """Return the files that are reachable from a table's metadata before, and not after.

    Args:
        before: The table's metadata as it was.
        after: The same with fewer snapshots.

    Returns:
        Locations; those of forgotten snapshots whose own files are damaged are not among them.

    Raises:
        DamagedFileError: A manifest of what is kept cannot be read, so that it is not known what
            may go, and what is forgotten may be all that is left.
    """
    kept_ids = {item["snapshot-id"] for item in after["snapshots"]}
    forgotten = [item for item in before["snapshots"] if item["snapshot-id"] not in kept_ids]
    if not forgotten:
        return []
    kept: set[str] = set()
    manifests: dict[str, set[str]] = {}
    for item in after["snapshots"]:
        if "manifest-list" in item:
            kept |= named_by_snapshot(files, item, manifests, what, deleted=False)
    gone: set[str] = set()
    for item in forgotten:
        if "manifest-list" in item:
            with suppress(DamagedFileError):
                gone |= named_by_snapshot(files, item, manifests, what, deleted=False)
    return sorted(gone - kept)


def named_by_snapshot(
    files: MetadataFiles,
    snapshot: dict[str, Any],
    known: dict[str, set[str]],
    what: str,
    *,
    deleted: bool = True,
) -> set[str]:
    """Return a manifest list, its manifests and every data and delete file that they name.

    Args:
        snapshot: The snapshot as the table's metadata has it.
        known: Files by manifest, added to: each manifest is read once.
        deleted: Whether files that the snapshot itself deleted are among them: an older one has
            them.

    Raises:
        DamagedFileError: One of them is missing or damaged.
    """
    from pyiceberg.manifest import ManifestEntryStatus

    found = {snapshot["manifest-list"]}
    for manifest in read_manifests(files, snapshot, what):
        if manifest.manifest_path not in known:
            known[manifest.manifest_path] = {
                manifest.manifest_path,
                *(
                    entry.data_file.file_path
                    for entry in read_entries(files, manifest, what)
                    if deleted or entry.status != ManifestEntryStatus.DELETED
                ),
            }
        found |= known[manifest.manifest_path]
    return found
