"""Which Spark is installed, told without importing any of it."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path


@lru_cache(maxsize=1)
def spark_jar() -> Path | None:
    """The archive with the parser of the Spark that is installed; None for one without a JVM."""
    home = os.environ.get("SPARK_HOME")
    spec = None if home else find_spec("pyspark")
    places = [home] if home else list((spec and spec.submodule_search_locations) or ())
    jars = [jar for place in places for jar in Path(place).glob("jars/spark-sql-api_*.jar")]
    return jars[0] if len(jars) == 1 else None
