"""Running work on Spark: sessions, one write strategy per model kind, and audits.

Importing this package does not import PySpark, which happens with the first session. A session may
use Spark Connect, without access to a JVM: `tables` reads metadata and makes branches through the
lakehouse, and `session.jobs` tags running jobs.
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
    # The process of a warm engine starts a JVM at once, and needs none of these imports.
    if name not in _MODULES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(_MODULES[name]), name)
