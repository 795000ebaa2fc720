"""Virtual data environments for the lakehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vde_dagster.base.installing import __version__ as __version__
    from vde_dagster.execution.linting.rules import Rule, RuleViolation
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.orchestration.definitions import vde_definitions
    from vde_dagster.project.macros.registry import macro, materialization, model, signal

__all__ = [
    "Rule",
    "RuleViolation",
    "Workspace",
    "macro",
    "materialization",
    "model",
    "signal",
    "vde_definitions",
]

_HOMES = {
    "Rule": "vde_dagster.execution.linting.rules",
    "RuleViolation": "vde_dagster.execution.linting.rules",
    "Workspace": "vde_dagster.execution.workspace",
    "__version__": "vde_dagster.base.installing",
    "load_ipython_extension": "vde_dagster.programs.notebook.extension",
    "macro": "vde_dagster.project.macros.registry",
    "materialization": "vde_dagster.project.macros.registry",
    "model": "vde_dagster.project.macros.registry",
    "signal": "vde_dagster.project.macros.registry",
    "unload_ipython_extension": "vde_dagster.programs.notebook.extension",
    "vde_definitions": "vde_dagster.orchestration.definitions",
}


def __getattr__(name: str) -> Any:
    """Import a name at its first use, so that project files do not import Dagster."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
