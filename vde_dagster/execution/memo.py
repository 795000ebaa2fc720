"""Memos: dictionaries in files, for results that can be recomputed."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar, cast

from vde_dagster.planning.build_snapshots import SnapshotCache
from vde_dagster.planning.snapshots.built import BuiltSnapshot, pack, unpack
from vde_dagster.project.files import replacing
from vde_dagster.project.model import Model
from vde_dagster.project.serialise import from_bytes, to_bytes

T = TypeVar("T")


class FileMemo(Generic[T]):
    """A dictionary that is stored in a cache file. An unreadable file counts as empty."""

    def __init__(self, path: Path, form: type[T], head: bytes = b"") -> None:
        self._path, self._form, self._head = path, form, head
        self.used: dict[str, T] = {}
        self.changed = False

    @cached_property
    def stored(self) -> dict[str, T]:
        try:
            data = self._path.read_bytes()
            if data.startswith(self._head):
                form = cast("type[dict[str, T]]", dict[str, self._form])  # type: ignore[name-defined]
                return from_bytes(form, data[len(self._head) :])
        except (OSError, ValueError):
            pass
        return {}

    def save(self, *, keep: bool = False) -> None:
        """Write the used entries to the file, if an entry changed.

        Args:
            keep: Whether stored entries that were not used stay in the file.
        """
        if self.changed:
            entries = {**self.stored, **self.used} if keep else self.used
            with replacing(self._path) as file:
                file.write(self._head + to_bytes(entries))
            self.changed = False


class SnapshotMemo(FileMemo[bytes], SnapshotCache):
    """A cache file with the result of building each model's snapshot."""

    # The stored values are parsed when they are read.
    def __init__(self, path: Path) -> None:
        super().__init__(path, bytes, b"vde-memo-5\n")

    def get(self, key: str, model: Model) -> BuiltSnapshot | None:
        data = self.stored.get(key)
        if data is None:
            return None
        try:
            built = unpack(data, model)
        except ValueError:
            self.changed = True
            return None
        self.used[key] = data
        return built

    def put(self, key: str, built: BuiltSnapshot) -> None:
        self.used[key] = pack(built)
        self.changed = True
