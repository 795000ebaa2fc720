"""Placeholders for SQLMesh's engine adapters, which configurations import, subclass and patch.

Their methods raise errors, because Spark is the only engine. To run SQL on Spark, Python code uses
`context.engine_adapter`.
"""

from __future__ import annotations

from typing import Any, NoReturn

from vde_dagster.errors import UsageError
from vde_dagster.project.python.annotations import EngineAdapter

_ENDINGS = ("EngineAdapter", "Mixin")


class _Patchable(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def method(*_: Any, **__: Any) -> NoReturn:
            raise UsageError(
                f"SQLMesh's {cls.__name__}.{name} is not supported by vde-dagster",
                hint="context.engine_adapter runs SQL on Spark",
            )

        return method


def __getattr__(name: str) -> Any:
    """Create a placeholder class when a project imports it."""
    if name.startswith("_") or not name.endswith(_ENDINGS):
        raise AttributeError(name)
    return globals().setdefault(name, _Patchable(name, (EngineAdapter,), {}))
