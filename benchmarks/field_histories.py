"""Random histories of struct fields that change in place, until the time is over.

    python -m benchmarks.field_histories [--seconds 600] [--first 1] [--steps 12]

What happens and what has to hold is in `vde_dagster_tests.execution.field_histories`. One Spark
process serves all histories.
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

from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.conftest import lakehouse_of, small_spark
from vde_dagster_tests.execution.field_histories import play


def main() -> int:
    """Play histories, and print how many held; return how many did not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--steps", type=int, default=12, help="how much happens in a history")
    chosen = parser.parse_args()
    began, counts, failed = time.monotonic(), Counter[str](), 0
    with tempfile.TemporaryDirectory() as root:
        settings = small_spark(Path(root))
        engine = SparkEngine(settings, lakehouse=lakehouse_of(settings))
        assert engine.session is not None
        for seed in count(chosen.first):
            if time.monotonic() - began > chosen.seconds:
                break
            with tempfile.TemporaryDirectory() as folder:
                try:
                    counts.update(play(Path(folder), seed, chosen.steps))
                except Exception:
                    failed += 1
                    print(f"FAILED seed {seed}\n{traceback.format_exc(limit=-3)}", flush=True)
        engine.close()
    print(
        f"seeds {chosen.first} to {seed - 1}: {counts['steps']} steps, {counts['published']} "
        f"publications, {counts['rollbacks']} rollbacks, {counts['restated']} restatements, "
        f"{counts['rows']:,} rows and {counts['changes']:,} changes compared, {failed} failed "
        f"in {time.monotonic() - began:.0f} s"
    )
    return failed


if __name__ == "__main__":
    sys.exit(min(1, main()))
