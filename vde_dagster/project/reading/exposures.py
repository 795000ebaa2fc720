"""Exposures: dashboards and other readers of models, declared in `exposures.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vde_dagster.base.names import ModelName, quote
from vde_dagster.base.texts import suggest
from vde_dagster.errors import UsageError, placed
from vde_dagster.project.model import Exposure, LoadedFile
from vde_dagster.project.table_names import TableNames
from vde_dagster.project.yaml_text import KeyPath, YamlDocument, load_yaml

KEYS = ("name", "owner", "url", "description", "reads")


def load_exposures(path: Path, text: str, names: TableNames) -> LoadedFile:
    """Read a file `exposures.yaml`; raise ProjectError if it has an invalid form."""
    document = load_yaml(path, text)
    if document.value is None:
        return LoadedFile(path)
    if not isinstance(document.value, list):
        raise document.error((), "exposures must be a list", "write - name: Sales")
    found = [
        _read_exposure(document, number, one, names) for number, one in enumerate(document.value)
    ]
    known: set[str] = set()
    for number, one in enumerate(found):
        if one.name in known:
            message = f"the exposure '{one.name}' is declared twice"
            raise document.error((number,), message, "use another name")
        known.add(one.name)
    return LoadedFile(path, exposures=tuple(found))


def _read_exposure(document: YamlDocument, number: int, entry: Any, names: TableNames) -> Exposure:
    keys: KeyPath = (number,)
    if not isinstance(entry, dict) or not entry.get("name"):
        raise document.error(keys, "an exposure has no name", "write - name: Sales")
    for key in entry:
        if key not in KEYS:
            hint = suggest(str(key), KEYS)
            raise document.error((*keys, key), f"unknown key '{key}' of an exposure", hint)
    reads = entry.get("reads")
    if not isinstance(reads, list) or not reads:
        message = f"the exposure '{entry['name']}' has no 'reads'"
        raise document.error(keys, message, "write reads: [schema.model, schema.model.column]")
    found = []
    for index, text in enumerate(reads):
        place = document.location((*keys, "reads", index))
        parts = ModelName.split(str(text))
        with placed(place):
            if len(parts) not in (2, 3):
                raise UsageError(
                    f"'{text}' is neither a model nor a column of a model",
                    hint="write schema.model, or schema.model.column",
                )
            column = parts[2].lower() if parts[2:] else None
            found.append((names.read(quote(*parts[:2])), column, place))
    owner, url, description = (
        str(entry[key]) if entry.get(key) else None for key in ("owner", "url", "description")
    )
    place = document.location(keys)
    return Exposure(str(entry["name"]), owner, url, tuple(found), place, description=description)
