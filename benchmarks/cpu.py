"""CPU seconds of each fill of a day, of Python and of the JVM; other programs add nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from vde_dagster.execution.events import Event, IntervalFilled
from vde_dagster_tests.daily_runs import DailyRuns


def measured_tick(world: DailyRuns) -> tuple[list[Event], Mapping[str, float]]:
    """Run the next day, model by model; return its events, and CPU seconds by model name."""
    world.now += timedelta(days=1)
    plan = world.workspace.plans.due("prod", now=world.now)
    session = world.workspace.engine().session
    jvm = int(session.sparkContext._gateway.proc.pid)
    events: list[Event] = []
    found: dict[str, float] = {}
    last = _cpu(jvm)

    def add(event: Event) -> None:
        nonlocal last
        events.append(event)
        if isinstance(event, IntervalFilled):
            now = _cpu(jvm)
            found[event.snapshot.name.name], last = now - last, now

    world.workspace.apply(plan, on_event=add, concurrency=1)
    return events, found


def _cpu(process: int) -> float:
    """Return the CPU seconds of this process and of another one."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")
