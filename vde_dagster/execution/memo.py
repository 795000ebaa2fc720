"""Snapshots remembered between processes, by the hash of everything that decides them."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from vde_dagster.planning.build_snapshots import Memo
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.snapshot_codec import snapshot_from_json, snapshot_to_json
from vde_dagster.project.model import Model

_FORMAT = b"vde-memo-2\n"


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

    def get(self, key: str, model: Model) -> Snapshot | None:
        """Return the remembered snapshot of a model, or None."""
        line = self._load().get(key)
        if line is None:
            return None
        try:
            snapshot = snapshot_from_json(model, json.loads(line))
        except (ValueError, TypeError):
            self._changed = True
            return None
        self._used[key] = line
        return snapshot

    def put(self, key: str, snapshot: Snapshot) -> None:
        """Remember a snapshot; `save` writes it."""
        self._used[key] = json.dumps(snapshot_to_json(snapshot), separators=(",", ":")).encode()
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
