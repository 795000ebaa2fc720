"""A kind that dies in an operation on a warm engine: `python -m … KIND OPERATION [all]`.

Which engine it is, the variable `VDE_SPARK__MASTER` says.

The statement of a process that dies goes on, in an engine that knows nothing of its end.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from vde_dagster_tests.kinds.engine_calls import watch_channels
from vde_dagster_tests.kinds.kills import OPERATIONS, Trial, World
from vde_dagster_tests.kinds.lives import LIVES
from vde_dagster_tests.kinds.own_kinds import know_kinds
from vde_dagster_tests.lakehouse.protocol import fast_folder


def main(kind: str, operation: str, which: str = "sample") -> None:
    """Kill behind each step that no earlier one is like, or behind all, and look how it ends."""
    know_kinds()
    (life,) = [life for life in LIVES if life.name == kind]
    (what,) = [one for one in OPERATIONS if one.name == operation]
    folder = Path(fast_folder())
    try:
        trial = Trial(World(folder, life), what)
        trial.check_from_scratch()
        numbers = trial.unmet(set()) if which == "sample" else range(1, len(trial.steps) + 1)
        for number in numbers:
            trial.kill(number, again=number % 2 == 0)
        print(f"{kind}, {operation}: {len(numbers)} kills of {len(trial.steps)} steps")
        in_spark = [step for step in trial.steps if step.startswith("spark.")]
        assert in_spark or operation == "rollback", trial.steps
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    watch_channels()
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)
