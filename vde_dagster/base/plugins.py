"""Plug-ins: parts that installed distributions add to this distribution by entry points.

An entry point of the group `vde_dagster.<seam>` names a part and its object. Installed
distributions are searched only for names that the core lacks, or to list all parts; an object is
imported only when it is used. So installed plug-ins do not slow down a start, and a broken
plug-in affects only its users.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from vde_dagster.base.installing import PACKAGE, SLIM
from vde_dagster.base.texts import suggest
from vde_dagster.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "vde_dagster."
"""Prefix of the groups of entry points, followed by a seam's name."""

SEAMS = {
    "kinds": "kind",
    "kind_meanings": "meaning of a kind",
    "kind_writers": "writer of a kind",
    "sources": "source",
    "model_files": "form of model files",
    "macros": "macro",
    "audits": "audit",
    "catalogs": "catalog",
    "attachments": "attachment of plans",
    "commands": "command",
    "settings": "table of settings",
    "view_dialects": "dialect of views",
    "exporters": "exporter",
    "publishers": "publisher",
    "assets": "maker of assets",
    "gates": "gate of plans",
    "keepers": "keeper of files with environments",
    "sensors": "maker of sensors",
    "sinks": "sink",
    "state_tables": "group of tables in the state's database",
    "workflows": "CI system",
}
"""Every seam, with the noun for one of its parts."""

Part = TypeVar("Part")

_imported: list[Plugin] = []


@dataclass(frozen=True, slots=True)
class Plugin:
    """An entry point of an installed distribution that adds a part, such as a kind of models.

    Args:
        seam: The seam's name, one of `SEAMS`.
        metadata: Path of the distribution's file METADATA; empty if it is not in a folder.
    """

    seam: str
    name: str
    distribution: str
    version: str
    entry: EntryPoint
    metadata: str = ""

    def load(self) -> Any:
        """Import the object that the entry point names.

        Raises:
            UsageError: The part cannot be imported, or its seam is unknown.
        """
        what = f"plug-in '{self.name}' ({self.seam}) of {self.distribution} {self.version}"
        if self.seam not in SEAMS:
            raise UsageError(
                f"{what} is for an unknown extension point (seam)",
                hint=f"seams are {', '.join(SEAMS)}; install a version of {self.distribution} for "
                "this vde-dagster",
            )
        try:
            return self.entry.load()
        except Exception as error:
            raise UsageError(
                f"{what} cannot be imported: {type(error).__name__}: {error}",
                hint=f"reinstall {self.distribution}, or a version made for this vde-dagster",
            ) from error

    def problem(self) -> str | None:
        """Try to import the part, and return the error message, or None on success."""
        try:
            self.load()
        except UsageError as error:
            return error.message
        return None


@dataclass(frozen=True, slots=True)
class Seam(Generic[Part]):
    """Extension point: a place where other distributions add parts of one type.

    Args:
        name: One of `SEAMS`.
        core: Names of the core's own parts, for messages.
    """

    name: str
    core: Sequence[str] = ()
    _loaded: dict[str, tuple[Plugin, Part]] = field(default_factory=dict, repr=False)

    def names(self) -> list[str]:
        """Return the names in `core`, followed by the sorted names of installed parts."""
        return [*self.core, *sorted({plugin.name for plugin in self._plugins()})]

    def find(self, name: str) -> Part | None:
        """Return the installed part with a name, or None if it is not installed.

        Raises:
            UsageError: The part cannot be imported, or two distributions define the name.
        """
        found = [plugin for plugin in self._plugins() if plugin.name == name]
        if not found:
            return None
        if len(found) > 1:
            owners = " and ".join(plugin.distribution for plugin in found)
            raise UsageError(
                f"two distributions have the {SEAMS[self.name]} '{name}': {owners}",
                hint="uninstall one of them",
            )
        known = self._loaded.get(name)
        if known is None or known[0] != found[0]:
            known = self._loaded[name] = (found[0], found[0].load())
            _imported.append(found[0])
        return known[1]

    def require(self, name: str) -> Part:
        """Return the installed part with a name.

        Raises:
            UsageError: No part has the name, two distributions define it, or its import fails.
        """
        part = self.find(name)
        if part is None:
            noun, names = SEAMS[self.name], self.names()
            raise UsageError(
                f"no {noun} '{name}' is installed",
                hint=suggest(name, names, "installed")
                if names
                else "install its distribution; list installed ones with `vde info --plugins`",
            )
        return part

    def loaded(self) -> list[Part]:
        """Return the parts that were loaded in this process."""
        return [part for _, part in self._loaded.values()]

    def working(self, prefix: str = "") -> dict[str, Part]:
        """Return the parts that load without an error and whose names begin with `prefix`."""
        parts = {}
        for plugin in self._plugins():
            if not plugin.name.startswith(prefix):
                continue
            try:
                parts[plugin.name] = self.require(plugin.name)
            except UsageError:
                continue
        return parts

    def _plugins(self) -> Sequence[Plugin]:
        return [plugin for plugin in find_installed_plugins() if plugin.seam == self.name]


def loaded_plugin_files() -> frozenset[str]:
    """Return module and metadata files of loaded plug-ins outside this package, for caches."""
    others = [plugin for plugin in _imported if plugin.distribution not in (PACKAGE, SLIM)]
    if not others:
        return frozenset()
    packages = frozenset(plugin.entry.module.partition(".")[0] for plugin in others)
    found = _module_files(packages, len(sys.modules), next(reversed(sys.modules)))
    # The files are the imported modules of a plug-in's package, and the distribution's metadata,
    # which contains its version.
    return found.union(plugin.metadata for plugin in others if plugin.metadata)


@lru_cache(maxsize=1)
def _module_files(packages: frozenset[str], count: int, last: str) -> frozenset[str]:
    # An import changes `count` or `last`, and thereby the key of the cache.
    modules = [sys.modules[name] for name in list(sys.modules) if name.split(".")[0] in packages]
    return frozenset(str(file) for module in modules if (file := getattr(module, "__file__", None)))


def find_installed_plugins() -> tuple[Plugin, ...]:
    """Return all installed plug-ins, sorted by seam and name, without importing any."""
    return _read_installed_plugins(tuple(sys.path))


@cache
def _read_installed_plugins(path: tuple[str, ...]) -> tuple[Plugin, ...]:
    from importlib.metadata import distributions

    found: dict[str, list[Plugin]] = {}
    for distribution in distributions(path=list(path)):
        entries = [one for one in distribution.entry_points if one.group.startswith(GROUP)]
        if entries and (name := distribution.metadata["Name"]) not in found:
            # Only some distributions are in a folder, and the attribute has no public name.
            folder = getattr(distribution, "_path", None)
            metadata = "" if folder is None else str(folder / "METADATA")
            version = distribution.version
            found[name] = [
                Plugin(one.group.removeprefix(GROUP), one.name, name, version, one, metadata)
                for one in entries
            ]
    if PACKAGE in found:
        found.pop(SLIM, None)  # It has the same parts.
    every = chain.from_iterable(found.values())
    return tuple(sorted(every, key=lambda one: (one.seam, one.name, one.distribution)))
