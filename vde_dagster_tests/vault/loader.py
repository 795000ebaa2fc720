"""A process that loads one source of a hub: `python -m … ROOT ENVIRONMENT MODEL READY …`.

It waits until every file READY is there, of which the first is its own. `VDE_TEST_EFFECTS` says
where it is killed. Its clock is five minutes slow: whoever comes next finds its leases ended.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from pathlib import Path

from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.execution.workers import ShiftedClock
from vde_dagster_tests.faults import effects_from_environment


def main(root: str, environment: str, model: str, *ready: str) -> None:
    """Plan, start Spark, and load when all others are as far."""
    clock, effects = ShiftedClock(timedelta(minutes=-5)), effects_from_environment()
    with Workspace.open(Path(root), clock=clock, effects=effects) as workspace:
        plan = workspace.plan(environment, select=(model,))
        assert workspace.engine().session is not None  # type: ignore[attr-defined]
        Path(ready[0]).touch()
        until = time.monotonic() + 120
        while not all(Path(one).exists() for one in ready):
            assert time.monotonic() < until, "another loader did not start"
            time.sleep(0.01)
        workspace.apply(plan)


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stderr.flush()
    os._exit(0)
