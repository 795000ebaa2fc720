"""A project's own settings over those that its SQLMesh configuration gives, key by key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vde_dagster.errors import SourceLocation
from vde_dagster.project.configuration.config_files import read_config
from vde_dagster.project.configuration.meaning import meaning_of
from vde_dagster.project.python.watching import Seen
from vde_dagster.project.reading.setting_places import PYPROJECT


@dataclass(frozen=True, slots=True)
class MergedConfig:
    """Settings of both files.

    Args:
        path: The configuration file, relative to the project's folder.
        table: Keys and values of `[tool.vde]`.
        places: Places of those that the configuration gives, by dotted name.
        warnings: What is to be said of the configuration.
        seen: Files and environment variables that decided what it says.
    """

    path: Path
    table: dict[str, Any]
    places: Mapping[str, SourceLocation]
    warnings: tuple[str, ...]
    seen: Seen


def merged_config(root: Path, own: Mapping[str, Any]) -> MergedConfig:
    """Read a folder's configuration file, and put the project's own settings over it.

    Args:
        root: The folder; it has such a file.
        own: `[tool.vde]`.

    Raises:
        ProjectError: The configuration has mistakes.
    """
    written = read_config(root)
    assert written is not None, "a folder with a configuration file"
    meant = meaning_of(written)
    clashes: list[str] = []
    table = _over(own, meant.table, "", clashes)
    warnings = []
    if meant.unused:
        warnings.append(
            f"{len(meant.unused)} keys do nothing here: {', '.join(meant.unused)}"
            if len(meant.unused) > 1
            else f"the key {meant.unused[0]} does nothing here"
        )
    if clashes:
        warnings.append(f"{PYPROJECT} says something else, and wins: {', '.join(clashes)}")
    given = set(_names(own, ""))
    places = {name: place for name, place in meant.places.items() if name not in given}
    return MergedConfig(written.path, table, places, tuple(warnings), written.seen)


def _over(
    own: Mapping[str, Any], given: Mapping[str, Any], prefix: str, clashes: list[str]
) -> dict[str, Any]:
    made = dict(given)
    for key, value in own.items():
        other = made.get(key)
        if isinstance(value, dict) and isinstance(other, dict):
            made[key] = _over(value, other, f"{prefix}{key}.", clashes)
        else:
            if key in made and str(other) != str(value):
                clashes.append(f"{prefix}{key}")
            made[key] = value
    return made


def _names(table: Mapping[str, Any], prefix: str) -> list[str]:
    names = []
    for key, value in table.items():
        names.append(f"{prefix}{key}")
        if isinstance(value, dict):
            names += _names(value, f"{prefix}{key}.")
    return names
