"""Snapshots remembered between processes, by the hash of everything that decides them."""

from __future__ import annotations

import json
from pathlib import Path

from vde_dagster.base.atomic_files import replacing
from vde_dagster.planning.build_snapshots import Memo
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.snapshot_codec import snapshot_from_json, snapshot_to_json
from vde_dagster.project.model import Model

_FORMAT = b"vde-memo-3\n"


class FileMemo(Memo):
    """A memo in one file: a line per snapshot, `key<space>as_seen<space>json`.

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

    def get(self, key: str, model: Model) -> tuple[Snapshot, str] | None:
        """Return the remembered snapshot of a model and its `as_seen`, or None."""
        line = self._load().get(key)
        if line is None:
            return None
        seen, _, text = line.partition(b" ")
        try:
            found = snapshot_from_json(model, json.loads(text)), seen.decode("ascii")
        except (ValueError, TypeError):
            self._changed = True
            return None
        self._used[key] = line
        return found

    def put(self, key: str, snapshot: Snapshot, seen: str) -> None:
        """Remember a snapshot and its `as_seen`; `save` writes them."""
        text = json.dumps(snapshot_to_json(snapshot), separators=(",", ":"))
        self._used[key] = f"{seen} {text}".encode()
        self._changed = True

    def save(self) -> None:
        """Write what was used in this process, atomically, when anything is new."""
        if not self._changed:
            return
        with replacing(self._path) as file:
            file.write(_FORMAT)
            for key, line in self._used.items():
                file.write(key.encode() + b" " + line + b"\n")
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
