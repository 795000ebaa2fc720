"""Reading, writing and deleting metadata files; a file is written only once, under a new name."""

from __future__ import annotations

import errno
import gzip
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from vde_dagster.base.failures import NO_SPACE_HINT, is_no_space
from vde_dagster.errors import MISSING, DamagedFileError, ExecutionError, UsageError
from vde_dagster.lakehouse.io.inside import flaw_inside
from vde_dagster.lakehouse.io.locations import (
    for_spark,
    is_tables_own,
    local_path,
    require_inside,
    warehouse_uri,
)
from vde_dagster.state.db.effects import Effects

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.io import FileIO


T = TypeVar("T")
R = TypeVar("R")
_THREADS = 16


@dataclass(frozen=True, slots=True)
class StoredFile:
    location: str
    bytes: int
    written_at: datetime


class MetadataFiles:
    """Reads, writes and deletes metadata files, on local disks or in an object store."""

    def __init__(
        self, effects: Effects, warehouse: str, properties: dict[str, str] | None = None
    ) -> None:
        self._effects = effects
        self._warehouse = warehouse
        self._local = local_path(warehouse) is not None
        self._properties = properties or {}

    def for_spark(self) -> dict[str, str]:
        """Return a Spark catalog's properties for the warehouse and its object store."""
        location = warehouse_uri(self._warehouse)
        return {"warehouse": location, **for_spark(self._properties, self._warehouse)}

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Run `work` on every item, in parallel if the files are in an object store."""
        return [work(item) for item in items] if self._local else each(work, items, _THREADS)

    def read_json(self, location: str) -> dict[str, Any]:
        """Read a metadata file, which may be gzipped.

        Raises:
            FileNotFoundError: The file does not exist.
            DamagedFileError: The file is not valid Iceberg metadata.
        """
        from pydantic_core import from_json  # several times as fast as the standard library's

        data = self._read(location, "the metadata file")
        try:
            parsed = from_json(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        except (ValueError, EOFError, OSError, zlib.error) as error:
            damage = f"is damaged ({error})" if data else "is empty"
            raise DamagedFileError("the metadata file", location, damage) from error
        try:
            flaw = _flaw(parsed)
        except (KeyError, TypeError, AttributeError):
            flaw = "is not Iceberg metadata"
        if flaw:
            raise DamagedFileError("the metadata file", location, flaw)
        return parsed  # type: ignore[no-any-return]

    def read_whole(self, location: str, what: str) -> bytes:
        """Read a file, and raise DamagedFileError if the file is missing."""
        try:
            return self._read(location, what)
        except FileNotFoundError as error:
            raise DamagedFileError(what, location, MISSING) from error

    def exists(self, location: str) -> bool:
        path = local_path(location)
        if path is not None:
            return os.path.exists(path)
        return self.file_io(location).new_input(location).exists()

    def size(self, location: str) -> int | None:
        """Return a file's size in bytes, or None if it does not exist."""
        if not self.exists(location):
            return None
        path = local_path(location)
        if path is not None:
            return os.path.getsize(path) if os.path.isfile(path) else None
        return len(self.file_io(location).new_input(location))

    def list_files(self, folder: str) -> Iterator[StoredFile]:
        """Yield every file below a folder, or nothing if the folder does not exist."""
        path = local_path(folder)
        if path is not None:
            yield from _list_local(path, folder)
            return
        from pyarrow.fs import FileSelector, FileType

        filesystem, root = self._filesystem(folder)
        selector = FileSelector(root, allow_not_found=True, recursive=True)
        for info in filesystem.get_file_info(selector):
            if info.type == FileType.File and info.mtime is not None:
                location = f"{folder}/{info.path.removeprefix(root).lstrip('/')}"
                yield StoredFile(location, info.size, info.mtime.astimezone(timezone.utc))

    def folders(self, folder: str) -> list[str]:
        """Return the sorted names of a folder's subfolders. A missing folder has no subfolders."""
        path = local_path(folder)
        if path is not None:
            if not os.path.isdir(path):
                return []
            return sorted(entry.name for entry in os.scandir(path) if entry.is_dir())
        from pyarrow.fs import FileSelector, FileType

        filesystem, root = self._filesystem(folder)
        found = filesystem.get_file_info(FileSelector(root, allow_not_found=True))
        return sorted(info.base_name for info in found if info.type == FileType.Directory)

    def write_all(self, files: Iterable[tuple[str, bytes]], point: str) -> None:
        """Write new files (location, content). Local files are flushed to the disk."""
        listed = [(require_inside(location), data) for location, data in files]
        local = [(path, data) for location, data in listed if (path := local_path(location))]
        try:
            if len(local) == len(listed):
                with _flushed({os.path.dirname(path) for path, _ in local}):
                    for path, data in local:
                        self._write_local(path, data, point)
            else:
                self.each(lambda file: self._write_remote(file[0], file[1], point), listed)
        except OSError as error:
            if is_no_space(error):
                raise ExecutionError(
                    f"no space left for the metadata files of the warehouse: {error}",
                    hint=NO_SPACE_HINT,
                ) from error
            raise ExecutionError(
                f"a metadata file could not be written: {error}",
                hint="check that the warehouse is reachable and writable, then try again",
            ) from error

    def delete_all(
        self,
        locations: Iterable[str],
        point: str,
        *,
        keep_folders: bool = False,
        is_written: bool = False,
    ) -> None:
        """Delete files, and local folders that become empty. Missing files are ignored.

        Args:
            keep_folders: Whether to keep empty folders.
            is_written: Whether this process has just written the files under new names. If not, the
                files must be in the warehouse.

        Raises:
            ExecutionError: A file is not in the warehouse.
        """
        folders: set[str] = set()
        for location in locations:
            if not is_written:
                self._require_deletable(location)
            with self._effects.at(point, location):
                path = local_path(location)
                if path is None:
                    with suppress(FileNotFoundError):
                        self.file_io(location).delete(location)
                else:
                    file = Path(path)
                    file.unlink(missing_ok=True)
                    # Hadoop's local file system leaves a checksum next to each file it wrote.
                    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
                    folders.add(str(file.parent))
        for folder in () if keep_folders else folders:
            if os.path.isdir(folder) and not os.listdir(folder):
                os.rmdir(folder)

    def delete_tree(self, location: str, point: str) -> None:
        """Delete a table's folder. Its name ends with the table's id, so no other table uses it.

        Raises:
            ExecutionError: The location is not in the warehouse.
        """
        self._require_deletable(location)
        with self._effects.at(point, location):
            path = local_path(location)
            if path is not None:
                if os.path.exists(path):
                    shutil.rmtree(path)
                return
            filesystem, root = self._filesystem(location)
            from pyarrow.fs import FileType

            if filesystem.get_file_info(root).type != FileType.NotFound:
                filesystem.delete_dir(root)

    def _require_deletable(self, location: str) -> None:
        flaw = flaw_inside(location, self._warehouse)
        if flaw is not None:
            raise ExecutionError(
                f"{location!r} was not deleted: it {flaw}",
                hint=f"only files in {self._warehouse} are deleted; delete other files yourself",
            )

    def _filesystem(self, location: str) -> Any:
        from pyiceberg.io.pyarrow import PyArrowFileIO

        scheme, netloc, path = PyArrowFileIO.parse_location(location)
        io = PyArrowFileIO(dict(self._properties))
        return io.fs_by_scheme(scheme, netloc), path

    def _read(self, location: str, what: str) -> bytes:
        path = local_path(location)
        try:
            if path is not None:
                with open(path, "rb", buffering=0) as file:
                    return file.read()
            with self.file_io(location).new_input(location).open() as stream:
                data: bytes = stream.read()
            return data
        except (IsADirectoryError, PermissionError) as error:
            damage = f"cannot be read ({error.strerror or error})"
            raise DamagedFileError(what, location, damage) from error

    def _write_local(self, path: str, data: bytes, point: str) -> None:
        with self._effects.at(point, path):
            try:
                file = open(path, "xb", buffering=0)  # noqa: SIM115
            except FileNotFoundError:  # Another process removed an empty folder.
                os.makedirs(os.path.dirname(path), exist_ok=True)
                file = open(path, "xb", buffering=0)  # noqa: SIM115
            with file:
                written = file.write(data)
                while written < len(data):  # A disk that fills up accepts a part, then refuses.
                    written += file.write(memoryview(data)[written:])

    def _write_remote(self, location: str, data: bytes, point: str) -> None:
        with (
            self._effects.at(point, location),
            self.file_io(location).new_output(location).create() as stream,
        ):
            stream.write(data)

    def file_io(self, location: str) -> FileIO:
        """Return PyIceberg's reader for the storage of a location."""
        from pyiceberg.io import load_file_io

        return load_file_io(properties=dict(self._properties), location=location)


@contextmanager
def _flushed(folders: set[str]) -> Iterator[None]:
    syncfs = _syncfs()
    with ExitStack() as stack:
        # The folders are opened before anything is written, because a file system reports a write
        # error only to descriptors that were open when the error occurred.
        opened: dict[int, int] = {}
        for folder in sorted(folders):
            os.makedirs(folder, exist_ok=True)
            device = os.stat(folder).st_dev
            if device not in opened:
                opened[device] = os.open(folder, os.O_RDONLY)
                stack.callback(os.close, opened[device])
        yield
        import ctypes

        for descriptor in opened.values():
            ctypes.set_errno(0)
            if syncfs is not None and syncfs(descriptor) == 0:
                continue
            code = ctypes.get_errno() if syncfs is not None else errno.ENOSYS
            if code != errno.ENOSYS:
                raise OSError(code, os.strerror(code))
            os.sync()


def _syncfs() -> Callable[[int], int] | None:
    if os.name != "posix":
        return None
    import ctypes

    return getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)


def _list_local(path: str, location: str) -> Iterator[StoredFile]:
    try:
        entries = list(os.scandir(path))
    except FileNotFoundError:
        return
    for entry in entries:
        place = f"{location}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            yield from _list_local(entry.path, place)
        elif entry.is_file(follow_symlinks=False):
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # another process removed it
            written = datetime.fromtimestamp(found.st_mtime, timezone.utc)
            yield StoredFile(place, found.st_size, written)


def read_metadata(
    files: MetadataFiles,
    location: str,
    what: str,
    table_id: str | None = None,
    *,
    is_view: bool = False,
) -> dict[str, Any]:
    """Read the metadata file of a table or view.

    Raises:
        DamagedFileError: The file is missing or invalid, or belongs to another object.
    """
    subject = f"the metadata file of {what}"
    try:
        metadata = files.read_json(location)
    except FileNotFoundError as error:
        raise DamagedFileError(subject, location, MISSING) from error
    except DamagedFileError as error:
        raise error.about(subject) from error
    if is_view is not ("view-uuid" in metadata):
        damage = "belongs to a table" if is_view else "belongs to a view"
        raise DamagedFileError(subject, location, damage)
    if table_id is not None:
        base = str(metadata["location"])
        place = normalized_location(location)
        if not (is_tables_own(base, table_id) or place.startswith(normalized_location(base))):
            raise DamagedFileError(subject, location, "belongs to another table")
    return metadata


def normalized_location(location: str) -> str:
    """Remove the scheme from a location, so that locations can be compared as text."""
    path = local_path(location)
    return os.path.normpath(path) if path is not None else location.split("://", 1)[1]


def _flaw(metadata: Any) -> str | None:
    """Describe a metadata file's defect, or return None if no defect is found.

    Raises:
        KeyError, TypeError, AttributeError: A field is missing, or has an unexpected form.
    """
    schemas = {schema["schema-id"]: schema["fields"] for schema in metadata["schemas"]}
    if "view-uuid" in metadata:
        versions = {one["version-id"]: one["schema-id"] for one in metadata["versions"]}
        current, needed = versions[metadata["current-version-id"]], _VIEWS
    else:
        current, needed = metadata["current-schema-id"], _TABLES
    if current not in schemas or not metadata.keys() >= needed:
        return "is not Iceberg metadata"
    there = {one["snapshot-id"] for one in metadata.get("snapshots", ())}
    head = metadata.get("current-snapshot-id", -1)
    if head not in (None, -1) and head not in there:
        return f"is damaged (its current snapshot {head} is not listed)"
    refs = metadata.get("refs")
    if refs is not None and refs.get("main", {}).get("snapshot-id", -1) != (head or -1):
        return "is damaged (its main branch is not at its current snapshot)"
    kinds = (kind for fields in schemas.values() for kind in _types(fields))
    unknown = next((kind for kind in kinds if not _TYPE.fullmatch(kind)), None)
    return f"is damaged (Iceberg has no type '{unknown}')" if unknown is not None else None


def _types(fields: Iterable[dict[str, Any]]) -> Iterator[str]:
    left = [kind for _, kind in map(itemgetter("name", "type"), fields)]
    while left:
        kind = left.pop()
        if isinstance(kind, str):
            yield kind
        elif kind["type"] == "struct":
            yield from _types(kind["fields"])
        else:
            parts = ("key", "value") if kind["type"] == "map" else ("element",)
            left += [kind[part] for part in parts]


_EVERY = frozenset({"format-version", "location"})
_TABLES = _EVERY | {"table-uuid", "last-updated-ms"}
_VIEWS = _EVERY | {"view-uuid"}
"""Required fields in the metadata of a table, and of a view."""
_TYPE = re.compile(
    r"boolean|int|long|float|double|date|time|timestamp(tz)?(_ns)?|string|uuid|binary|variant"
    r"|unknown|decimal\(\d+, *\d+\)|fixed\[\d+\]|geometry(\(.*\))?|geography(\(.*\))?"
)
"""The primitive types of https://iceberg.apache.org/spec/#primitive-types."""


def encode_rows(rows: pa.Table, form: str, hint: str) -> bytes:
    """Encode rows as CSV or as an Arrow stream.

    Args:
        form: `csv` (RFC 4180, with a header; NULL is an empty field, texts are quoted) or `arrow`
            (an IPC stream).
        hint: Hint for the error if CSV cannot represent a column.

    Raises:
        UsageError: CSV cannot represent a column.
    """
    import pyarrow as pa
    from pyarrow import csv

    sink = pa.BufferOutputStream()
    if form == "arrow":
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_table(rows)
        return bytes(sink.getvalue())
    try:
        csv.write_csv(rows, sink)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UsageError(f"CSV cannot represent a column: {error}", hint=hint) from error
    return bytes(sink.getvalue())


def encode_metadata(metadata: dict[str, Any]) -> bytes:
    from pydantic_core import to_json  # five times as fast as the standard library's

    return to_json(metadata)


def each(work: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """Call a function for every item in several threads, and return the results in order."""
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, items))
