"""Random histories of environments until the time is over, each of which says its seed.

    python -m benchmarks.environment_histories [--seconds 600] [--first 1] [--steps 25]

What happens and what has to hold is in `vde_dagster_tests.execution.environment_histories`. Every
other history lets production change between views and tables; every third one changes nothing
forward-only.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections import Counter
from itertools import count
from pathlib import Path

from vde_dagster_tests.execution.environment_histories import play


def main() -> int:
    """Play histories, and print how many held; return how many did not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--steps", type=int, default=25, help="how much happens in a history")
    chosen = parser.parse_args()
    began, counts = time.monotonic(), Counter[str]()
    for seed in count(chosen.first):
        if time.monotonic() - began > chosen.seconds:
            break
        modes = ("full", "dev_only") if seed % 2 else ("full",)
        counts["histories"] += 1
        with tempfile.TemporaryDirectory() as folder:
            try:
                found = play(Path(folder), seed, chosen.steps, in_place=seed % 3 != 0, modes=modes)
                counts.update(found)
            except Exception:
                counts["failed"] += 1
                print(f"FAILED seed {seed}\n{traceback.format_exc(limit=-3)}", flush=True)
    print(
        f"seeds {chosen.first} to {chosen.first + counts['histories'] - 1}: "
        f"{counts['steps']:,} steps, {counts['versions']:,} versions read again, "
        f"{counts['rollbacks']} rollbacks, {counts['failed']} failed "
        f"in {time.monotonic() - began:.0f} s"
    )
    return counts["failed"]


if __name__ == "__main__":
    sys.exit(min(1, main()))
