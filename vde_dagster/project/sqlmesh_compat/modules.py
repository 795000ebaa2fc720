"""The modules that stand in for SQLMesh's."""

from __future__ import annotations

import enum
import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

from vde_dagster.project.kinds import kind_names
from vde_dagster.project.linting import Rule, RuleViolation
from vde_dagster.project.macros.evaluator import MacroEvaluator
from vde_dagster.project.macros.registry import macro, model, signal

ModelKindName = enum.Enum("ModelKindName", {name: name for name in kind_names()})  # type: ignore[misc]


class Model:
    """Stands in annotations for the model that a rule of the linter gets."""


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
    "sqlmesh.core.model": {"Model": Model, "model": model, "ModelKindName": ModelKindName},
    "sqlmesh.core.model.kind": {"ModelKindName": ModelKindName},
    "sqlmesh.core.linter": {},
    "sqlmesh.core.linter.rule": {"Rule": Rule, "RuleViolation": RuleViolation},
    "sqlmesh.core.context": {"ExecutionContext": ExecutionContext},
}
_PACKAGE = __name__.rpartition(".")[0]
_LATER = {
    "sqlmesh.core.config": f"{_PACKAGE}.config",
    **{
        f"sqlmesh.core.config.{part}": f"{_PACKAGE}.config"
        for part in (
            *("base", "categorizer", "common", "connection", "format", "gateway", "janitor"),
            *("linter", "migration", "model", "naming", "plan", "root", "run", "scheduler", "ui"),
        )
    },
    "sqlmesh.core.user": f"{_PACKAGE}.people",
    "sqlmesh.core.notification_target": f"{_PACKAGE}.people",
    "sqlmesh.cicd": f"{_PACKAGE}.people",
    "sqlmesh.cicd.config": f"{_PACKAGE}.people",
    "sqlmesh.integrations": f"{_PACKAGE}.people",
    "sqlmesh.integrations.github": f"{_PACKAGE}.people",
    "sqlmesh.integrations.github.cicd": f"{_PACKAGE}.people",
    "sqlmesh.integrations.github.cicd.config": f"{_PACKAGE}.people",
}
"""Modules that are only made when they are asked for: where their names come from."""


def sqlmesh_module(name: str) -> ModuleType | None:
    """Return a stand-in for a module of SQLMesh, or None where there is none."""
    if name not in _MODULES and name not in _LATER:
        return None
    modules: dict[str, ModuleType] = {}
    for path in (*_MODULES, *_LATER):
        module = modules[path] = ModuleType(path)
        module.__path__ = []
        if path in _MODULES:
            vars(module).update(_MODULES[path])
        else:
            vars(module)["__getattr__"] = _names_of(_LATER[path])
        parent, _, last = path.rpartition(".")
        if parent:
            setattr(modules[parent], last, module)
    return modules[name]


def _names_of(path: str) -> Callable[[str], Any]:
    def get(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(importlib.import_module(path), name)

    return get
