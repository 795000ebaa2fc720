"""A run that is interrupted stops its Spark jobs, and its plan can be applied again."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time

import dagster as dg
import pytest

from vde_dagster.cli.main_job import QUIET
from vde_dagster.execution.events import Event, ModelStarted
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration import vde_definitions
from vde_dagster.orchestration.events.applying import watch_events
from vde_dagster.orchestration.names import SHORT
from vde_dagster.orchestration.resource import lend
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.projects import ProjectFolder

pytestmark = [pytest.mark.spark]

SLOW = """
    MODEL (name marts.slow, kind FULL);
    SELECT count(*) AS n FROM range(0, 600000000L, 1, 4) AS r
    WHERE hash(sha2(CAST(r.id AS STRING), 512)) = 7
"""


def running_jobs(engine: SparkEngine) -> list[int]:
    tracker = engine.session.sparkContext.statusTracker()
    return list(tracker.getActiveJobsIds())


def test_an_interrupt_stops_the_spark_jobs_of_the_plan(
    built: ProjectFolder, instance: dg.DagsterInstance, spark_engine: SparkEngine
) -> None:
    built.write("models/marts/slow.sql", SLOW)
    with Workspace.open(built.root) as workspace:
        plan = workspace.plan("prod", author="anna")
        instance.add_dynamic_partitions(str(SHORT.plans.name), [plan.id])
        job = vde_definitions(built.root).resolve_job_def("vde_apply_job")

        def interrupt() -> None:
            deadline = time.monotonic() + 120
            while not running_jobs(spark_engine) and time.monotonic() < deadline:
                time.sleep(0.1)
            time.sleep(1.0)
            interrupted.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        def watch(event: Event) -> None:
            if isinstance(event, ModelStarted) and event.snapshot.name.name == "slow":
                threading.Thread(target=interrupt, daemon=True).start()

        interrupted: list[float] = []
        with lend(workspace), watch_events(watch), pytest.raises(BaseException) as raised:
            job.execute_in_process(instance=instance, partition_key=plan.id, run_config=QUIET)
        assert isinstance(raised.value, KeyboardInterrupt | dg.DagsterExecutionInterruptedError)
        assert time.monotonic() - interrupted[0] < 60
        # An interrupt in Dagster's own code stops the apply as soon as the error's frames are
        # released. The query would take minutes.
        del raised
        gc.collect()
        deadline = time.monotonic() + 60
        while running_jobs(spark_engine) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert running_jobs(spark_engine) == []
        assert workspace.store.environments.get("prod") is None

        built.remove("models/marts/slow.sql")
        workspace.reload()
        again = workspace.plan("prod")
        done = workspace.apply(again)
        assert done.published
