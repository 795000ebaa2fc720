"""A second catalog: a folder with one pointer file a name, which promises nothing.

A pointer is compared and swapped alone, under a lock of its own; neither several views nor the
state's transaction can be part of it. What it cannot promise is made up for above it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, unquote

from sqlalchemy import Connection

from vde_dagster.errors import StoreError
from vde_dagster.lakehouse.catalogs.catalog import (
    Following,
    Pointer,
    SparkCatalog,
    Swap,
    require_unmoved,
)
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state.db.effects import Effects


class FolderCatalog:
    """Pointers in files: `<folder>/<namespace>/<name>`.

    Args:
        name: The catalog's name.
        folder: The folder.
        effects: The port for side effects.
    """

    form = Following(together=False)
    mirror = None

    def __init__(self, name: str, folder: Path, effects: Effects) -> None:
        self.name = name
        self._folder = folder
        self._effects = effects
        folder.mkdir(parents=True, exist_ok=True)

    def pointers(
        self, refs: Iterable[TableRef], within: Connection | None = None
    ) -> dict[TableRef, Pointer]:
        """Look up the pointers of the given names."""
        found = {ref: _read(self._path(ref)) for ref in dict.fromkeys(refs)}
        return {ref: pointer for ref, pointer in found.items() if pointer is not None}

    def all_pointers(self, within: Connection | None = None) -> dict[TableRef, Pointer]:
        """List every table and view."""
        found = {}
        for path in sorted(self._folder.glob("*/*")):
            pointer = _read(path)
            if pointer is not None:
                found[TableRef(unquote(path.parent.name), unquote(path.name))] = pointer
        return found

    def every_pointer(self) -> list[Pointer]:
        """List the pointers of all tables and views."""
        return list(self.all_pointers().values())

    def swap(self, swaps: Sequence[Swap], within: Connection | None = None) -> None:
        """Compare and swap one pointer."""
        for swap in swaps:
            assert len(swaps) == 1, "several changes together were not promised"
            path = self._path(swap.ref)
            with self._locked():
                require_unmoved(self.pointers([swap.ref]), swaps)
                with _as_store_error(), self._effects.at("catalog.swap", str(swap.ref)):
                    if swap.after is None:
                        path.unlink()
                    else:
                        _write(path, {"location": swap.after, "kind": swap.kind})

    def namespaces(self, names: Iterable[str], within: Connection | None = None) -> set[str]:
        """Return those of the namespaces that the catalog has."""
        return {name for name in names if (self._folder / _file(name)).is_dir()}

    def create_namespaces(
        self, namespaces: Mapping[str, Mapping[str, str]], within: Connection | None = None
    ) -> None:
        """Create namespaces that the catalog has not yet."""
        for name in namespaces:
            if not self.namespaces([name]):
                with _as_store_error(), self._effects.at("catalog.create_namespace", name):
                    (self._folder / _file(name)).mkdir(exist_ok=True)

    def drop_namespace(self, name: str, within: Connection | None = None) -> bool:
        """Remove a namespace that holds nothing, nor a namespace below it."""
        with self._locked():
            below = [n for n in os.listdir(self._folder) if unquote(n).startswith(f"{name}.")]
            path = self._folder / _file(name)
            if below or (path.is_dir() and os.listdir(path)):
                return False
            with _as_store_error(), self._effects.at("catalog.drop_namespace", name):
                if path.is_dir():
                    path.rmdir()
        return True

    def for_spark(self) -> SparkCatalog:
        """Say how Spark reaches it: not at all."""
        return SparkCatalog({"type": "folder", "folder": str(self._folder)})

    def _path(self, ref: TableRef) -> Path:
        return self._folder / _file(ref.namespace) / _file(ref.name)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self._folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _read(path: Path) -> Pointer | None:
    try:
        values = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return Pointer(values["location"], values["kind"])


def _write(path: Path, values: Mapping[str, str]) -> None:
    temporary = path.parent.parent / f".{path.name[:40]}.new"
    temporary.write_text(json.dumps(values))
    os.replace(temporary, path)


def _file(name: str) -> str:
    return quote(name, safe="").replace(".", "%2E")


@contextmanager
def _as_store_error() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise StoreError("the folder of pointers cannot be used", hint="try again") from error
