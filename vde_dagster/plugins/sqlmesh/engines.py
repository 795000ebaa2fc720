"""SQLMesh's engine adapters as names: configurations import, subclass and patch them.

No adapter works here, as there is one engine: `context.engine_adapter` runs SQL on Spark.
"""

from __future__ import annotations

from typing import Any, NoReturn

from vde_dagster.errors import UsageError
from vde_dagster.project.python.annotations import EngineAdapter

_ENDINGS = ("EngineAdapter", "Mixin")


class _Patchable(type):
    """The type of the classes: code may read a method of theirs to wrap it, and set another."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def method(*_: Any, **__: Any) -> NoReturn:
            raise UsageError(
                f"SQLMesh's {cls.__name__}.{name} does nothing here",
                hint="context.engine_adapter runs SQL on Spark",
            )

        return method


def __getattr__(name: str) -> Any:
    """Make a class when it is asked for, the same one each time."""
    if name.startswith("_") or not name.endswith(_ENDINGS):
        raise AttributeError(name)
    return globals().setdefault(name, _Patchable(name, (EngineAdapter,), {}))
