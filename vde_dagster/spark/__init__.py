"""Running work on Spark: one session, one write strategy per model kind, and audits.

Nothing here imports PySpark until a session is asked for. A session may be one of Spark
Connect, without a JVM to ask: `tables` reads metadata and makes branches by the lakehouse, and
`session.jobs` tags what runs.
"""

from vde_dagster.spark.engine import SparkEngine
from vde_dagster.spark.session.settings import SessionSettings

__all__ = ["SessionSettings", "SparkEngine"]
