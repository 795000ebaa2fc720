"""Virtual data environments for the lakehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vde_dagster.project.macro_registry import macro, model

__all__ = ["macro", "model"]


def __getattr__(name: str) -> Any:
    """Import the decorators for project files when they are asked for."""
    if name in __all__:
        from vde_dagster.project import macro_registry

        return getattr(macro_registry, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
