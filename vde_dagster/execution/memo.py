"""Snapshots remembered between processes, by the hash of everything that decides them."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from vde_dagster.planning.build_snapshots import Memo
from vde_dagster.planning.snapshot import OutputColumn, Read, Snapshot
from vde_dagster.project.model import Model
from vde_dagster.project.names import ModelName
from vde_dagster.semantics import SemanticVersion

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
            snapshot = _from_json(model, json.loads(line))
        except (ValueError, TypeError):
            self._changed = True
            return None
        self._used[key] = line
        return snapshot

    def put(self, key: str, snapshot: Snapshot) -> None:
        """Remember a snapshot; `save` writes it."""
        self._used[key] = json.dumps(_to_json(snapshot), separators=(",", ":")).encode()
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


def _to_json(snapshot: Snapshot) -> list[Any]:
    """Write everything but the model, which whoever reads it has; as lists, which parse fast."""
    version = snapshot.version
    return [
        snapshot.id,
        [version.rows, version.columns, version.opaque, [sorted(k) for k in version.unique_keys]],
        snapshot.fill_version,
        snapshot.metadata_hash,
        snapshot.layout_hash,
        snapshot.columns,
        [[parent.namespace, parent.name] for parent in snapshot.parents],
        snapshot.canonicaliser,
        snapshot.definition_hash,
        snapshot.reads,
    ]


def _from_json(model: Model, data: list[Any]) -> Snapshot:
    """Read what `_to_json` wrote.

    Raises:
        ValueError: It has another form.
        TypeError: It has another form.
    """
    id_, version, fill, metadata, layout, columns, parents, canonicaliser, definition, reads = data
    rows, versions, opaque, keys = version
    return Snapshot(
        id_,
        model,
        SemanticVersion(rows, versions, opaque, tuple(frozenset(key) for key in keys)),
        fill,
        metadata,
        layout,
        tuple(map(OutputColumn._make, columns)),
        tuple(ModelName(*parent) for parent in parents),
        canonicaliser,
        definition,
        tuple(map(Read._make, reads)),
    )
