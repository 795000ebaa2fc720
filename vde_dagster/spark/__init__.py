"""Running work on Spark: one session, one write strategy per model kind, and audits.

Nothing here imports PySpark until a session is asked for. A session may be one of Spark
Connect, without a JVM to ask: `tables` reads metadata and makes branches by the lakehouse, and
`session.jobs` tags what runs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vde_dagster.spark.engine import SparkEngine
    from vde_dagster.spark.session.settings import SessionSettings

__all__ = ["SessionSettings", "SparkEngine"]


_MODULES = {
    "SessionSettings": "vde_dagster.spark.session.settings",
    "SparkEngine": "vde_dagster.spark.engine",
}


def __getattr__(name: str) -> Any:
    # The process of a warm engine starts a JVM at once, and needs none of what these import.
    if name not in _MODULES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(_MODULES[name]), name)
