"""Memos: dictionaries in files, for results that can be recomputed."""

from __future__ import annotations

from functools import cache, cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from vde_dagster.base.failures import Problem
from vde_dagster.planning.build_snapshots import Built, Memo
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.files import replacing
from vde_dagster.project.model import Model
from vde_dagster.project.serialise import field_types, from_bytes, to_bytes

T = TypeVar("T")


class FileMemo(Generic[T]):
    """Dictionary in a file with a header; an unreadable file is an empty dictionary."""

    def __init__(self, path: Path, form: type[T], head: bytes = b"") -> None:
        self._path, self._form, self._head = path, form, head
        self.used: dict[str, T] = {}
        self.changed = False

    @cached_property
    def stored(self) -> dict[str, T]:
        """Entries of the file."""
        try:
            data = self._path.read_bytes()
            if data.startswith(self._head):
                form = cast("type[dict[str, T]]", dict[str, self._form])  # type: ignore[name-defined]
                return from_bytes(form, data[len(self._head) :])
        except (OSError, ValueError):
            pass
        return {}

    def save(self, *, keep: bool = False) -> None:
        """Write the entries used in this process, if any is new; with `keep` also all others."""
        if self.changed:
            entries = {**self.stored, **self.used} if keep else self.used
            with replacing(self._path) as file:
                file.write(self._head + to_bytes(entries))
            self.changed = False


class SnapshotMemo(FileMemo[bytes], Memo):
    """Cached results by key: snapshot, hash for children (`as_seen`) and problems; parsed on
    access.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, bytes, b"vde-memo-5\n")

    def get(self, key: str, model: Model) -> Built | None:
        """Return the cached result for a model, or None."""
        data = self.stored.get(key)
        if data is None:
            return None
        names, form = _remembered()
        try:
            seen, problems, *values = from_bytes(form, data)
        except ValueError:
            self.changed = True
            return None
        self.used[key] = data
        snapshot = Snapshot(model=model, **dict(zip(names, values, strict=True)))
        return Built(snapshot, seen, problems)

    def put(self, key: str, built: Built) -> None:
        """Cache the result for a model; `save` writes it."""
        snapshot, seen, problems = built
        values = (getattr(snapshot, name) for name in _remembered()[0])
        self.used[key] = to_bytes((seen, problems, *values))
        self.changed = True


@cache
def _remembered() -> tuple[tuple[str, ...], Any]:
    """Return the fields of a snapshot except its model, and their stored form."""
    types = field_types(Snapshot, without="model")
    return tuple(types), tuple[(str, tuple[Problem, ...], *types.values())]  # type: ignore[misc]
