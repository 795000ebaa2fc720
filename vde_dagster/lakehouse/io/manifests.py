"""Reading of manifest lists and manifests, with checks that find damaged files.

If an Avro file is truncated inside a block, PyIceberg reports no error and reads fewer entries. A
cleanup would then delete the files that the lost part names. Therefore three checks come
first: the structure of the whole file, its length and entry counts (as recorded in the manifest
list), and the commit that wrote it.
Source: https://avro.apache.org/docs/1.12.0/specification/#object-container-files.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from vde_dagster.base.texts import count
from vde_dagster.errors import MISSING, DamagedFileError
from vde_dagster.lakehouse.io.files import MetadataFiles

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
    from pyiceberg.table.metadata import TableMetadata


_SYNC = 16
_MOST_NAMES = 200
"""Maximum number of names that are searched for in the bytes of a manifest."""
_LIST = re.compile(r"/snap-([0-9]+)-[^/]*$")
"""File name of a manifest list, which contains the id of its Iceberg snapshot."""


class _InMemory:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def new_input(self, location: str) -> Any:
        return self

    def open(self, seekable: bool = True) -> io.BytesIO:
        return io.BytesIO(self._data)


def parse_table(metadata: dict[str, Any], location: str, what: str) -> TableMetadata:
    """Convert a table's metadata to PyIceberg's class, or raise DamagedFileError."""
    from pyiceberg.table.metadata import TableMetadataUtil

    try:
        return TableMetadataUtil.parse_obj(metadata)
    except Exception as error:  # a damaged file breaks PyIceberg's reader in many ways
        damage = _unreadable(error)
        raise DamagedFileError(f"the metadata file of {what}", location, damage) from error


def read_manifests(files: MetadataFiles, snapshot: dict[str, Any], what: str) -> list[ManifestFile]:
    """Read the manifest list of an Iceberg snapshot, and return its manifests.

    Raises:
        DamagedFileError: The list is missing, damaged or belongs to another snapshot.
    """
    from pyiceberg.manifest import read_manifest_list

    location, said = snapshot["manifest-list"], f"the manifest list of {what}"
    data = files.read_whole(location, said)
    own = _snapshot_id(data, said, location)
    # An empty list does not identify its snapshot: several may share it.
    try:
        found = list(read_manifest_list(_InMemory(data)))  # type: ignore[arg-type]
    except Exception as error:  # a damaged file breaks PyIceberg's reader in many ways
        raise DamagedFileError(said, location, _unreadable(error)) from error
    if found and own not in (None, int(snapshot["snapshot-id"])):
        raise DamagedFileError(said, location, "belongs to another commit")
    if not found and int(snapshot.get("summary", {}).get("total-data-files") or 0):
        raise DamagedFileError(said, location, "lists no manifest")
    return found


def read_entries(files: MetadataFiles, manifest: ManifestFile, what: str) -> list[ManifestEntry]:
    """Read all entries of a manifest, including entries of deleted files.

    Raises:
        DamagedFileError: The manifest is missing, damaged or does not match the manifest list.
    """
    from pyiceberg.manifest import ManifestEntryStatus

    location, said = manifest.manifest_path, f"a manifest of {what}"
    data = files.read_whole(location, said)
    _snapshot_id(data, said, location)
    if manifest.manifest_length not in (len(data), 0, None):
        told = f"has {len(data)} bytes, but the manifest list records {manifest.manifest_length}"
        raise DamagedFileError(said, location, told)
    try:
        found = manifest.fetch_manifest_entry(_InMemory(data), discard_deleted=False)  # type: ignore[arg-type]
    except Exception as error:  # a damaged file breaks PyIceberg's reader in many ways
        raise DamagedFileError(said, location, _unreadable(error)) from error
    counts = (
        manifest.added_files_count,
        manifest.existing_files_count,
        manifest.deleted_files_count,
    )
    wanted = [count for count in counts if count is not None and count >= 0]
    if len(wanted) == len(counts) and sum(wanted) != len(found):
        told = f"names {count(len(found), 'file')}, but the manifest list records {sum(wanted)}"
        raise DamagedFileError(said, location, told)
    added = manifest.added_snapshot_id
    if added is not None and any(
        entry.status == ManifestEntryStatus.ADDED and entry.snapshot_id not in (None, added)
        for entry in found
    ):
        raise DamagedFileError(said, location, "belongs to another commit")
    return found


def check_data_file(
    files: MetadataFiles, data_file: DataFile, what: str, *, whole: bool = False
) -> None:
    """Check that a data file has as many rows as its manifest records.

    Args:
        whole: Whether to read every row and not only the footer.

    Raises:
        DamagedFileError: The file is invalid, or has a different row count.
    """
    from pyiceberg.manifest import FileFormat

    location = data_file.file_path
    try:
        with files.file_io(location).new_input(location).open() as stream:
            if data_file.file_format == FileFormat.PARQUET:
                from pyarrow.parquet import ParquetFile

                parquet = ParquetFile(stream)
                rows = parquet.metadata.num_rows
                for _ in parquet.iter_batches() if whole else ():
                    pass
            elif data_file.file_format == FileFormat.ORC:
                from pyarrow.orc import ORCFile

                orc = ORCFile(stream)
                rows = orc.nrows
                for stripe in range(orc.nstripes if whole else 0):
                    orc.read_stripe(stripe)
            else:
                return
    except FileNotFoundError as error:
        raise DamagedFileError(what, location, MISSING) from error
    except Exception as error:  # Arrow raises whatever its readers encounter
        raise DamagedFileError(what, location, _unreadable(error)) from error
    if rows != data_file.record_count:
        told = f"has {count(rows, 'row')}, but its manifest records {data_file.record_count}"
        raise DamagedFileError(what, location, told)


def whole_avro(io: FileIO) -> FileIO:
    """Change a PyIceberg reader so that it rejects truncated manifests, and return it."""
    open_file = io.new_input

    def new_input(location: str) -> Any:
        file = open_file(location)
        if not location.endswith(".avro"):
            return file
        what = "a manifest, or a list of manifests,"
        try:
            with file.open() as stream:
                data = stream.read()
        except FileNotFoundError as error:
            raise DamagedFileError(what, location, MISSING) from error
        own, named = _snapshot_id(data, what, location), _LIST.search(location)
        if named is not None and own not in (None, int(named[1])):
            raise DamagedFileError(what, location, "belongs to another commit")
        return _InMemory(data)

    io.new_input = new_input  # type: ignore[method-assign]
    return io


def _unreadable(error: Exception) -> str:
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return f"is damaged ({first[:120]})"


def may_name(files: MetadataFiles, location: str, names: Collection[str]) -> bool:
    """Check whether a manifest may list one of the given files.

    False is certain; True may be wrong.

    Args:
        names: File names without folders, in any case.

    Raises:
        DamagedFileError: The manifest is missing or damaged.
    """
    if len(names) > _MOST_NAMES or not all(name and name.isascii() for name in names):
        return True
    # Searching the file's bytes for the names is ten times faster than reading its entries.
    wanted = [name.lower().encode() for name in names]
    what = "a manifest"
    header, blocks = _read_avro(files.read_whole(location, what), what, location)
    codec = header.get("avro.codec", b"null")
    if codec not in (b"null", b"deflate"):
        return True
    try:
        for block in blocks:
            plain = (zlib.decompress(block, -15) if codec == b"deflate" else block).lower()
            if any(name in plain for name in wanted):
                return True
    except zlib.error as error:
        raise DamagedFileError(what, location, _unreadable(error)) from error
    return False


def _snapshot_id(data: bytes, what: str, location: str) -> int | None:
    own = _read_avro(data, what, location)[0].get("snapshot-id", b"").decode(errors="replace")
    return int(own) if own.isdigit() else None


def _read_avro(data: bytes, what: str, location: str) -> tuple[dict[str, bytes], list[bytes]]:
    from pyiceberg.avro.decoder import StreamingBinaryDecoder

    if not data:
        raise DamagedFileError(what, location, "is empty")
    if data[:4] != b"Obj\x01":
        raise DamagedFileError(what, location, "is not an Avro file")
    # Not the compiled decoder, which reads past the end.
    decoder = StreamingBinaryDecoder(data[4:])
    header: dict[str, bytes] = {}
    blocks: list[bytes] = []
    try:
        while count := decoder.read_int():
            if count < 0:  # The size of the block follows.
                count, _ = -count, decoder.read_int()
            for _ in range(count):
                key = decoder.read(decoder.read_int()).decode()
                header[key] = decoder.read(decoder.read_int())
        sync = decoder.read(_SYNC)
        while decoder.tell() + 4 < len(data):
            decoder.read_int()
            blocks.append(decoder.read(decoder.read_int()))
            if decoder.read(_SYNC) != sync:
                raise ValueError(decoder.tell())
    except (EOFError, OverflowError, ValueError) as error:
        raise DamagedFileError(what, location, "is cut short or damaged") from error
    return header, blocks


def bytes_of_no_other(
    files: MetadataFiles, some: Iterable[dict[str, Any]], others: Iterable[dict[str, Any]]
) -> int | None:
    """Add up the sizes of files that snapshots in `some` use and no snapshot in `others` uses.

    Return None if a manifest cannot be read.
    """
    known: dict[str, dict[str, int]] = {}

    def sizes(snapshots: Iterable[dict[str, Any]]) -> dict[str, int]:
        found: dict[str, int] = {}
        for snapshot in snapshots:
            found |= named_by_snapshot(files, snapshot, known, "the table", deleted=False)
        return found

    try:
        own, shared = sizes(some), sizes(others)
    except (DamagedFileError, OSError, KeyError):
        return None
    return sum(size for path, size in own.items() if path not in shared)


def unused_files(
    files: MetadataFiles, before: dict[str, Any], after: dict[str, Any], what: str
) -> list[str]:
    """Return the files that a table's old metadata uses but the new metadata does not use.

    If an expired snapshot's manifests are damaged, its files are left out.

    Raises:
        DamagedFileError: A kept snapshot's manifest cannot be read, so any file may be needed.
    """
    kept_ids = {item["snapshot-id"] for item in after["snapshots"]}
    forgotten = [item for item in before["snapshots"] if item["snapshot-id"] not in kept_ids]
    if not forgotten:
        return []
    kept: set[str] = set()
    manifests: dict[str, dict[str, int]] = {}
    for item in after["snapshots"]:
        if "manifest-list" in item:
            kept |= named_by_snapshot(files, item, manifests, what, deleted=False).keys()
    gone: set[str] = set()
    for item in forgotten:
        if "manifest-list" in item:
            with suppress(DamagedFileError):
                gone |= named_by_snapshot(files, item, manifests, what, deleted=False).keys()
    return sorted(gone - kept)


def named_by_snapshot(
    files: MetadataFiles,
    snapshot: dict[str, Any],
    known: dict[str, dict[str, int]],
    what: str,
    *,
    deleted: bool = True,
) -> dict[str, int]:
    """Return the files that an Iceberg snapshot uses, with the sizes of data and delete files.

    Manifests and manifest lists have size zero.

    Args:
        deleted: Whether to include files that the snapshot deleted and older snapshots still use.

    Raises:
        DamagedFileError: A file is missing or damaged.
    """
    from pyiceberg.manifest import ManifestEntryStatus

    found = {snapshot["manifest-list"]: 0}
    for manifest in read_manifests(files, snapshot, what):
        if manifest.manifest_path not in known:
            known[manifest.manifest_path] = {
                entry.data_file.file_path: entry.data_file.file_size_in_bytes
                for entry in read_entries(files, manifest, what)
                if deleted or entry.status != ManifestEntryStatus.DELETED
            }
            known[manifest.manifest_path][manifest.manifest_path] = 0
        found |= known[manifest.manifest_path]
    return found
