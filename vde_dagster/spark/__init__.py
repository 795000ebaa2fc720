"""Running work on Spark: one session, one write strategy per model kind, and audits.

Nothing here imports PySpark until a session is asked for. A session may be one of Spark
Connect, without a JVM to ask: `tables` reads metadata and makes branches by the lakehouse, and
`session.jobs` tags what runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vde_dagster.spark.engine import SparkEngine
    from vde_dagster.spark.session.settings import SessionSettings

__all__ = ["SessionSettings", "SparkEngine"]


def __getattr__(name: str) -> Any:
    # The process of a warm engine starts a JVM at once, and needs none of what these import.
    if name == "SparkEngine":
        from vde_dagster.spark.engine import SparkEngine

        return SparkEngine
    if name == "SessionSettings":
        from vde_dagster.spark.session.settings import SessionSettings

        return SessionSettings
    raise AttributeError(name)
