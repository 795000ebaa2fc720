"""A process that plans and applies on real Spark: `python -m … ROOT [kill_jvm]`.

`VDE_TEST_EFFECTS` says where it is killed. With `kill_jvm` it kills Spark's JVM instead when the
second model begins, and ends with 3 if that model's fill failed. Its clock is five minutes slow, so
that its leases have ended for whoever comes next with the right time; Iceberg refuses metadata from
the future, so the successor's clock must not be the fast one.
"""

from __future__ import annotations

import os
import signal
import sys
from datetime import timedelta
from pathlib import Path

from vde_dagster.errors import VdeError
from vde_dagster.execution.events import Event, ModelStarted
from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.execution.workers import ShiftedClock
from vde_dagster_tests.faults import effects_from_environment


def main(root: str, mode: str = "") -> int:
    """Plan and apply to production; return the process's exit code."""
    clock = ShiftedClock(timedelta(minutes=-5))
    workspace = Workspace.open(Path(root), clock=clock, effects=effects_from_environment())
    started: list[Event] = []

    def on_event(event: Event) -> None:
        if isinstance(event, ModelStarted):
            started.append(event)
        if mode == "kill_jvm" and len(started) == 2:
            session = workspace.engine().session  # type: ignore[attr-defined]
            os.kill(session.sparkContext._gateway.proc.pid, signal.SIGKILL)
            started.append(event)

    try:
        workspace.apply(workspace.plan("prod"), on_event=on_event, concurrency=1)
    except VdeError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # what is left of a session whose JVM is gone waits for it
