"""Cache in `.vde/cache/`: contents of files, keyed by hashes of everything that they depend on.

It consists of two files, replaced atomically, so that concurrent processes see either the old or
the new file. Unreadable files, and files written by another version of the code,
count as missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from vde_dagster.base.hashing import content_digest
from vde_dagster.project.files import replacing
from vde_dagster.project.model import LoadedFile
from vde_dagster.project.serialise import dump_tests, from_bytes, load_tests, to_bytes

_PLUGINS = ("dbt", "metrics", "sqlmesh", "vault")
_CODE = ("base", "sql", "project", *(f"plugins/{name}" for name in _PLUGINS))
"""Packages whose code affects how files are read."""
_LOG = logging.getLogger(__name__)


class FileRecord(NamedTuple):
    """A cache entry: the content of one project file.

    Args:
        key: Hash of everything that the content depends on.
        file: The content without unit tests.
        tests: The unit tests, serialized by `dump_tests`.
    """

    key: str
    file: LoadedFile
    tests: bytes

    @classmethod
    def create(cls, key: str, file: LoadedFile) -> FileRecord:
        if not file.tests:
            return cls(key, file, b"")
        return cls(key, replace(file, tests=()), dump_tests(file.tests))

    def file_with_tests(self) -> LoadedFile:
        return replace(self.file, tests=load_tests(self.tests)) if self.tests else self.file


@dataclass(slots=True)
class ProjectCache:
    """The cache of one project, in `.vde/cache`.

    Args:
        stats: Sizes, times and hashes of files, see `files.Hasher`.
        settings: The settings, and a hash of the files and variables that they were read from.
        memories: Data that sources keep between loads, by the sources' names.
        records: Contents of files, by path.
    """

    folder: Path
    stats: dict[str, list[Any]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    memories: dict[str, dict[str, Any]] = field(default_factory=dict)
    records: dict[str, FileRecord] = field(default_factory=dict)

    @classmethod
    def open(cls, root: Path, *, use: bool = True) -> ProjectCache:
        """Read a cache without `records`; it is empty with `use=False`, or if it is unreadable."""
        folder = root / ".vde" / "cache"
        cache = cls(folder)
        if not use:
            return cache
        body = _read_checked(folder / "index.json")
        if body is not None:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                index = json.loads(body)
                cache.stats = dict(index["stats"])
                cache.settings = dict(index["settings"])
                cache.memories = dict(index["memories"])
        return cache

    def load_records(self) -> None:
        body = _read_checked(self.folder / "files.bin")
        if body is not None:
            with contextlib.suppress(ValueError):
                self.records = from_bytes(dict[str, FileRecord], body)

    def save_index(self) -> None:
        """Write hashes, settings and the sources' data to the cache."""
        content = {"stats": self.stats, "settings": self.settings, "memories": self.memories}
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        _write_checked(self.folder / "index.json", text.encode("utf-8", "surrogatepass"))

    def save_records(self) -> None:
        _write_checked(self.folder / "files.bin", to_bytes(self.records))


def _read_checked(path: Path) -> bytes | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    head, _, body = content.partition(b"\n")
    return body if head == _checksum_line(body) else None


def _write_checked(path: Path, body: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        ignore = path.parent.parent / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
        with replacing(path) as file:
            file.write(_checksum_line(body) + b"\n" + body)
    except OSError as error:
        # A read-only checkout still loads, but slower the next time.
        _LOG.debug("the project's cache was not written: %s", error)


def _checksum_line(body: bytes) -> bytes:
    checksum = content_digest(body)
    return f"{code_stamp()} {checksum}".encode()


@cache
def code_stamp() -> str:
    """Return a hash of the code that reads files; a new hash makes the cache invalid."""
    state = hashlib.blake2b(sys.version.encode(), digest_size=12)
    package = Path(__file__).parents[2]
    for folder in _CODE:
        for inside, _, names in sorted(os.walk(package / folder)):
            for name in sorted(names):
                if name.endswith(".py"):
                    stat = os.stat(os.path.join(inside, name))
                    state.update(f"{name}:{stat.st_size}:{stat.st_mtime_ns};".encode())
    spec = find_spec("sqlglot")
    if spec is not None and spec.origin is not None:
        version = Path(spec.origin).parent / "_version.py"
        state.update(version.read_bytes() if version.is_file() else b"")
    return state.hexdigest()


def clean_caches(root: Path) -> dict[str, int]:
    """Delete `.vde/cache`; return the size (bytes) of each deleted file, by path from the root."""
    folder = root / ".vde" / "cache"
    deleted: dict[str, int] = {}
    for path in sorted(folder.rglob("*")):
        # Another process may be replacing it.
        with suppress(FileNotFoundError):
            if path.is_file():
                deleted[path.relative_to(root).as_posix()] = path.stat().st_size
    shutil.rmtree(folder, ignore_errors=True)
    return deleted
