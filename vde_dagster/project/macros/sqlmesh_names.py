"""The names that Python files written for SQLMesh import from it.

Where SQLMesh is not installed, a project's `from sqlmesh import macro, model` gets ours, so that an
existing project loads unchanged. What has no counterpart here is missing from these modules, and
importing it is an ordinary ImportError at its line.
"""

from __future__ import annotations

import enum
import importlib.util
from types import ModuleType
from typing import Any

from vde_dagster.project.kinds import kind_names
from vde_dagster.project.macros.evaluator import MacroEvaluator
from vde_dagster.project.macros.registry import macro, model, signal

ModelKindName = enum.Enum("ModelKindName", {name: name for name in kind_names()})  # type: ignore[misc]


class ExecutionContext:
    """Stands in annotations for the context that a Python model gets."""


_MODULES: dict[str, dict[str, Any]] = {
    "sqlmesh": {
        "macro": macro,
        "model": model,
        "signal": signal,
        "DatetimeRanges": list,
        "ExecutionContext": ExecutionContext,
    },
    "sqlmesh.core": {},
    "sqlmesh.core.macros": {"macro": macro, "MacroEvaluator": MacroEvaluator},
    "sqlmesh.core.model": {"model": model, "ModelKindName": ModelKindName},
    "sqlmesh.core.model.kind": {"ModelKindName": ModelKindName},
    "sqlmesh.core.context": {"ExecutionContext": ExecutionContext},
}


def sqlmesh_module(name: str) -> ModuleType | None:
    """Return a stand-in for a module of SQLMesh, or None where there is none, or the real one."""
    if name not in _MODULES or importlib.util.find_spec("sqlmesh") is not None:
        return None
    modules: dict[str, ModuleType] = {}
    for path, names in _MODULES.items():
        module = modules[path] = ModuleType(path)
        module.__path__ = []
        vars(module).update(names)
        parent, _, last = path.rpartition(".")
        if parent:
            setattr(modules[parent], last, module)
    return modules[name]
