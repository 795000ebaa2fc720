"""Code location whose engine needs no JVM and takes a while for each fill, in every process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import vde_dagster.spark
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.orchestration import vde_definitions
from vde_dagster_tests.execution.fake_workspace import FakeSpark

SECONDS = "VDE_TEST_FILL_SECONDS"


class SlowEngine(FakeSpark):
    """Engine that the package starts in place of Spark."""

    def __init__(self, _: object, __: object, lakehouse: Lakehouse, **___: Any) -> None:
        super().__init__(seconds=float(os.environ.get(SECONDS, "0.2")))
        self.attach(lakehouse)


setattr(vde_dagster.spark, "SparkEngine", SlowEngine)  # noqa: B010 - a class is not assignable
defs = vde_definitions(Path(os.environ["VDE_PROJECT"]))
