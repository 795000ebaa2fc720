"""Hashes of the contents of a project's files.

A file's hash is remembered with its size, times and inode, so that an unchanged project is
recognised by `stat` alone. A file that changed within the last two seconds is never remembered:
another change could leave the same size and time (the trouble that git calls racy).
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any

from vde_dagster.base.hashing import content_digest

_RACY_NS = 2_000_000_000


@dataclass(slots=True)
class Hasher:
    """Hashes of contents, remembered by `stat`.

    The content of a folder is the names in it.

    Args:
        root: The project's folder.
        instead: Contents that count in place of those of files.
        known: What an earlier process left: `[size, mtime_ns, ctime_ns, inode, hash]` by path.
    """

    root: Path
    instead: Mapping[str, bytes] = field(default_factory=dict)
    known: dict[str, list[Any]] = field(default_factory=dict)
    stats: dict[str, list[Any]] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    _contents: dict[str, bytes] = field(default_factory=dict)

    def hash(self, path: str) -> str:
        """Return the hash of a file's content; of a missing file it is `missing`.

        Raises:
            OSError: It cannot be read.
        """
        found = self.hashes.get(path)
        if found is None:
            found = self.hashes[path] = self._hash(path)
        return found

    def content(self, path: str) -> bytes:
        """Return a file's bytes, kept until `forget`; from then on its hash is that of these bytes.

        Raises:
            OSError: It cannot be read.
        """
        found = self.instead.get(path, self._contents.get(path))
        if found is None:
            full = os.path.join(self.root, path)
            identity = _identity(os.stat(full))
            now = time.time_ns()
            with open(full, "rb", buffering=0) as file:
                found = self._contents[path] = file.read()
            self.hashes[path] = content_digest(found)
            self._remember(path, identity, self.hashes[path], now)
        return found

    def forget(self, path: str) -> None:
        """Let go of a file's bytes."""
        self._contents.pop(path, None)

    def combined(self, paths: Iterable[str]) -> str:
        """Return one hash over several files, their paths included."""
        state = hashlib.blake2b(digest_size=16)
        for path in sorted(set(paths)):
            state.update(f"{len(path)}:{path}{self.hash(path)};".encode())
        return state.hexdigest()

    @property
    def changed(self) -> bool:
        """Whether there is something new to remember."""
        return self.stats != self.known

    def _hash(self, path: str) -> str:
        if path in self.instead:
            return content_digest(self.instead[path])
        full = os.path.join(self.root, path)
        try:
            stat = os.stat(full)
        except (FileNotFoundError, NotADirectoryError):
            return "missing"
        if S_ISDIR(stat.st_mode):
            names = "\0".join(sorted(os.listdir(full)))
            return content_digest(os.fsencode(names))
        if not S_ISREG(stat.st_mode):
            return "neither a file nor a folder"
        identity = _identity(stat)
        known = self.known.get(path)
        if known is not None and known[:4] == identity:
            self.stats[path] = known
            return str(known[4])
        now = time.time_ns()
        with open(full, "rb") as file:
            content = hashlib.file_digest(file, _blake).hexdigest() if _HAS_DIGEST else _read(file)
        self._remember(path, identity, content, now)
        return content

    def _remember(self, path: str, identity: list[int], content: str, now: int) -> None:
        _, modified, changed, _ = identity
        if max(modified, changed) < now - _RACY_NS:
            self.stats[path] = [*identity, content]
        else:
            self.stats.pop(path, None)


def _identity(stat: os.stat_result) -> list[int]:
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]


def _blake() -> Any:
    return hashlib.blake2b(digest_size=16)


_HAS_DIGEST = hasattr(hashlib, "file_digest")


def _read(file: Any) -> str:
    """Hash a file where Python is older than 3.11."""
    state = _blake()
    while block := file.read(1 << 20):
        state.update(block)
    return str(state.hexdigest())
