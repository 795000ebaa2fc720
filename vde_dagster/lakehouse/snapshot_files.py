"""Which files only forgotten Iceberg snapshots have: manifest lists, manifests, data files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vde_dagster.lakehouse.files import MetadataFiles

if TYPE_CHECKING:
    from pyiceberg.io import FileIO


def bytes_of_no_other(
    files: MetadataFiles, kept: dict[str, Any], others: dict[str, Any]
) -> int | None:
    """Return how many bytes of data files only those snapshots have that others lack.

    Args:
        files: Reads manifests.
        kept: A table's metadata.
        others: The same with fewer snapshots.

    Returns:
        Bytes of data and delete files; None when a manifest cannot be read.
    """
    from pyiceberg.manifest import read_manifest_list

    io = files.file_io(kept["location"])
    known: dict[str, dict[str, int]] = {}

    def sizes(metadata: dict[str, Any]) -> dict[str, int]:
        found: dict[str, int] = {}
        for item in metadata["snapshots"]:
            for manifest in read_manifest_list(io.new_input(item["manifest-list"])):
                if manifest.manifest_path not in known:
                    entries = manifest.fetch_manifest_entry(io, discard_deleted=True)
                    known[manifest.manifest_path] = {
                        entry.data_file.file_path: entry.data_file.file_size_in_bytes
                        for entry in entries
                    }
                found |= known[manifest.manifest_path]
        return found

    try:
        own, shared = sizes(kept), sizes(others)
    except (OSError, KeyError):
        return None
    return sum(size for path, size in own.items() if path not in shared)


def unused_files(files: MetadataFiles, before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the files that are reachable from a table's metadata before, and not after.

    Args:
        files: Reads them.
        before: The table's metadata as it was.
        after: The same with fewer snapshots.

    Returns:
        Locations; none when a manifest of what is kept cannot be read: unsure means no deletion.
    """
    kept_ids = {item["snapshot-id"] for item in after["snapshots"]}
    forgotten = [item for item in before["snapshots"] if item["snapshot-id"] not in kept_ids]
    if not forgotten:
        return []
    lists = [item["manifest-list"] for item in after["snapshots"] if "manifest-list" in item]
    if not all(files.exists(location) for location in lists):
        return []
    io = files.file_io(before["location"])
    kept: set[str] = set()
    manifests: dict[str, set[str]] = {}
    for location in lists:
        kept |= _reachable(io, location, manifests)
    gone: set[str] = set()
    for item in forgotten:
        location = item.get("manifest-list")
        if location is not None and files.exists(location):
            gone |= _reachable(io, location, manifests)
    return sorted(gone - kept)


def _reachable(io: FileIO, manifest_list: str, known: dict[str, set[str]]) -> set[str]:
    return _files(io, manifest_list, known, discard_deleted=True)


def named_by_snapshot(io: FileIO, manifest_list: str, known: dict[str, set[str]]) -> set[str]:
    """Return a manifest list, its manifests and every data and delete file that they name.

    Files that the snapshot itself deleted are among them: an older one has them.

    Args:
        io: Reads them.
        manifest_list: The snapshot's.
        known: Files by manifest, added to: each manifest is read once.

    Raises:
        FileNotFoundError: One of them is missing.
    """
    return _files(io, manifest_list, known, discard_deleted=False)


def _files(
    io: FileIO, manifest_list: str, known: dict[str, set[str]], *, discard_deleted: bool
) -> set[str]:
    """Return a manifest list, its manifests and their files; each manifest is read once."""
    from pyiceberg.manifest import read_manifest_list

    found = {manifest_list}
    for manifest in read_manifest_list(io.new_input(manifest_list)):
        if manifest.manifest_path not in known:
            entries = manifest.fetch_manifest_entry(io, discard_deleted=discard_deleted)
            known[manifest.manifest_path] = {
                manifest.manifest_path,
                *(entry.data_file.file_path for entry in entries),
            }
        found |= known[manifest.manifest_path]
    return found
