"""Snapshots and problems remembered between processes, by the hash of all that decides them."""

from __future__ import annotations

import json
from pathlib import Path

from vde_dagster.base.atomic_files import replacing
from vde_dagster.planning.memo import Built, Memo
from vde_dagster.planning.snapshot_codec import snapshot_from_json, snapshot_to_json
from vde_dagster.project.model import Model
from vde_dagster.project.problem import Problem

_FORMAT = b"vde-memo-4\n"


class FileMemo(Memo):
    """A memo in one file: a line per snapshot, `key<space>as_seen<space>json`.

    The JSON is the snapshot's list, and the model's problems as one more item of it.

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

    def get(self, key: str, model: Model) -> Built | None:
        """Return what was remembered of a model, or None."""
        line = self._load().get(key)
        if line is None:
            return None
        seen, _, text = line.partition(b" ")
        try:
            data = json.loads(text)
            problems = tuple(Problem.from_json(item) for item in data.pop())
            found = Built(snapshot_from_json(model, data), seen.decode("ascii"), problems)
        except (ValueError, TypeError, IndexError):
            self._changed = True
            return None
        self._used[key] = line
        return found

    def put(self, key: str, built: Built) -> None:
        """Remember what was made of a model; `save` writes it."""
        problems = [problem.to_json() for problem in built.problems]
        data = [*snapshot_to_json(built.snapshot), problems]
        text = json.dumps(data, separators=(",", ":"))
        self._used[key] = f"{built.seen} {text}".encode()
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
