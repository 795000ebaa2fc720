"""What pins cost a whole apply: `python -m benchmarks.apply_pins [--models 200] [--days 6]`.

Two equal projects of `FULL` models that read one another are applied, and then run day after day,
on an engine without Spark; one of them with pins taken out of the code. They take turns. Of both:
the CPU of the first apply, the median CPU and wall-clock time of a run with its plan, and what the
runs added to the state.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from benchmarks.execution_overhead import project
from benchmarks.publish_pins import pins_taken_out, state_of
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.state.builders import FakeClock

MOST = 1.1
"""How much longer a run may take with pins than without, by the median of the CPU."""


@dataclass
class Side:
    """One of the two projects.

    Args:
        folder: Where it lies.
        models: How many it has.
        pins: Whether its publications pin.
        walls: Seconds of each apply with its plan.
        cpus: CPU seconds of each.
    """

    folder: Path
    models: int
    pins: bool
    walls: list[float] = field(default_factory=list)
    cpus: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = FakeClock(datetime(2024, 1, 4, 12, tzinfo=timezone.utc))
        self.workspace = open_fake(project(self.folder, self.models).root, clock=self.clock)

    def apply(self) -> None:
        """Apply the project for the first time, or run a day later."""
        wall, cpu = time.perf_counter(), time.process_time()
        with pins_taken_out(not self.pins):
            if self.walls:
                made = self.workspace.plans.due("prod", full=True)
            else:
                made = self.workspace.plan("prod")
            done = self.workspace.apply(made, concurrency=1)
        assert done.published
        assert len(made.builds) == self.models
        self.walls.append(time.perf_counter() - wall)
        self.cpus.append(time.process_time() - cpu)
        self.clock.advance(days=1)

    def report(self, before: tuple[int, int]) -> float:
        """Print what was measured; return the median CPU of a run."""
        rows, size = state_of(self.workspace)
        days = len(self.cpus) - 1
        cpu = statistics.median(self.cpus[1:])
        print(
            f"{'with' if self.pins else 'without':<8} pins: first cpu {self.cpus[0]:.2f} s, then a "
            f"run median cpu {cpu:.3f} s (wall {statistics.median(self.walls[1:]):.3f} s) of "
            f"{days}; {(rows - before[0]) / days:.0f} rows of pins and "
            f"{(size - before[1]) / days / 1024:.0f} KiB of state a run",
            flush=True,
        )
        return cpu


def run(folder: Path, models: int, days: int) -> float:
    """Apply and run both in turns; return how many times the CPU pins take."""
    print(f"{models:,} models, all computed by each of {days} runs")
    sides = [Side(folder / "with", models, True), Side(folder / "without", models, False)]
    states = []
    for side in sides:
        side.apply()
        states.append(state_of(side.workspace))
    for day in range(days):
        for side in sides if day % 2 else reversed(sides):
            side.apply()
    taken, without = (side.report(at) for side, at in zip(sides, states, strict=True))
    met = "met" if taken <= without * MOST else "MISSED"
    print(f"cpu {taken / without:.3f} times that without; goal at most {MOST} {met}", flush=True)
    for side in sides:
        side.workspace.close()
    return taken / without


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--days", type=int, default=6)
    chosen = parser.parse_args()
    folder = Path(tempfile.gettempdir()) / f"vde-apply-pins-{os.getpid()}"
    try:
        run(folder, chosen.models, chosen.days)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
