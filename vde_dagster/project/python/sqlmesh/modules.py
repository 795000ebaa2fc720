"""Substitutes that Python files of a project import instead of SQLMesh's modules.

For each name in a substitute, `modules.txt` lists the module of `vde_dagster` that defines it. A
substitute is created when a project's file imports it. SQLMesh itself is never imported, because it
changes SQLGlot's parser for the whole process.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from vde_dagster.base.texts import closest, lines_by_key

Names = dict[str, str]
"""The module that defines each name; the key `*` is for all other names."""

_MODULES: dict[str, Names] = {
    module: {
        name: f"vde_dagster.{home}"
        for _, home, names in (line.split("\t") for line in lines)
        for name in names.split()
    }
    for module, lines in lines_by_key(Path(__file__).with_suffix(".txt")).items()
}

_ALTERNATIVES = {
    "sqlmesh.dbt": "projects of dbt are read from their compiled manifest, see `vde help dbt`",
    "sqlmesh.core.console": "use Python's logging, or context.logger",
    "sqlmesh.core.engine_adapter": "context.engine_adapter runs SQL on Spark",
    "sqlmesh.core.loader": "write a source to read other files, see `vde help extending`",
    "sqlmesh.core.metric": "write metrics in the form of MetricFlow, see `vde help metrics`",
    "sqlmesh.schedulers": "Dagster is the scheduler, see `vde help dagster`",
}
_ANYTHING_ELSE = "to use the project from Python: from vde_dagster import Workspace"


class NotThereError(ImportError):
    """A project imports a name of SQLMesh that has no substitute here."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class _Substitute(ModuleType):
    def __init__(self, name: str, names: Names) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self._names = names

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return sorted(_importable_names(self._names))
        home = self._names.get(name, self._names.get("*"))
        if home is None or name.startswith("__"):
            raise AttributeError(f"module '{self.__name__}' has no '{name}' in vde-dagster")
        return getattr(importlib.import_module(home), name)


def _importable_names(names: Names) -> set[str]:
    home = names.get("*")
    others = () if home is None else dir(importlib.import_module(home))
    return {one for one in (*names, *others) if one[0] not in "_*"}


def sqlmesh_module(name: str, wanted: Sequence[str] = ()) -> ModuleType:
    """Return the module that replaces a module of SQLMesh, and check the imported names.

    Raises:
        NotThereError: The module or a name has no substitute; the hint has an alternative.
    """
    if name not in _MODULES:
        raise NotThereError(f"{name} has no counterpart in vde-dagster", _alternative(name))
    modules = {path: _Substitute(path, names) for path, names in _MODULES.items()}
    for path, module in modules.items():
        parent, _, last = path.rpartition(".")
        if parent:
            vars(modules[parent])[last] = module
    found = modules[name]
    for item in wanted:
        if item != "*" and not hasattr(found, item):
            raise NotThereError(
                f"{name}.{item} has no counterpart in vde-dagster", _hint_for_name(name, item)
            )
    return found


def _hint_for_name(module: str, item: str) -> str:
    near = closest(item, sorted(_importable_names(_MODULES[module])))
    return f"did you mean '{near}'?" if near else _alternative(f"{module}.{item}")


def _alternative(path: str) -> str:
    parent, _, last = path.rpartition(".")
    beside = (one.rpartition(".") for one in _MODULES)
    near = closest(last, [name for folder, _, name in beside if folder == parent])
    for begin, hint in _ALTERNATIVES.items():
        if path == begin or path.startswith(f"{begin}."):
            return hint
    return f"did you mean '{parent}.{near}'?" if near else _ANYTHING_ELSE
