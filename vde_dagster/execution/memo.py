"""Snapshots remembered between processes, by the hash of everything that decides them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from vde_dagster.planning.build_snapshots import Memo
from vde_dagster.planning.snapshot import Snapshot

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_FORMAT = b"vde-memo-1\n"


class FileMemo(Memo):
    """A memo in one file: a line per snapshot, `key<space>json`.

    Reading it costs one read and no parsing of what is not asked for. It holds nothing that
    cannot be computed again, so a file that cannot be read is an empty one.

    Args:
        path: The file; its folder is made when something is saved.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: dict[str, bytes] | None = None
        self._used: dict[str, bytes] = {}
        self._changed = False

    def get(self, key: str) -> Snapshot | None:
        """Return the remembered snapshot, or None."""
        line = self._load().get(key)
        if line is None:
            return None
        from pydantic import ValidationError

        try:
            snapshot = _adapter().validate_json(line)
        except ValidationError:
            self._changed = True
            return None
        self._used[key] = line
        return snapshot

    def put(self, key: str, snapshot: Snapshot) -> None:
        """Remember a snapshot; `save` writes it."""
        self._used[key] = _adapter().dump_json(snapshot)
        self._changed = True

    def save(self) -> None:
        """Write what was used in this process, atomically, when anything is new."""
        if not self._changed:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=self._path.name)
        with os.fdopen(handle, "wb") as file:
            file.write(_FORMAT)
            for key, line in self._used.items():
                file.write(key.encode() + b" " + line + b"\n")
        os.replace(name, self._path)
        self._changed = False

    def _load(self) -> dict[str, bytes]:
        if self._lines is None:
            self._lines = {}
            if self._path.exists():
                data = self._path.read_bytes()
                if data.startswith(_FORMAT):
                    for line in data[len(_FORMAT) :].splitlines():
                        key, _, value = line.partition(b" ")
                        self._lines[key.decode("ascii", "replace")] = value
        return self._lines


_ADAPTER: TypeAdapter[Snapshot] | None = None


def _adapter() -> TypeAdapter[Snapshot]:
    global _ADAPTER
    if _ADAPTER is None:
        from pydantic import TypeAdapter

        _ADAPTER = TypeAdapter(Snapshot)
    return _ADAPTER
