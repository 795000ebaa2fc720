"""Months of random projects on Spark and Iceberg: what skipping saves, and that it changes nothing.

    python -m benchmarks.skipped_runs_on_spark [--seeds 1] [--days 30] [--first 0] [--models 9]

Each project is run twice, once as it is and once with `--full`, by the real `Workspace`: external
tables are written, compacted, rolled back; models are edited, restated, fail. All that production
shows is compared after every day. Beside the share of slots that was not computed stands what
timestamps alone would save: there every write counts as new. Last comes how good estimates were,
as `vde cost --accuracy` says it of both runs, and the machine's load by then.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import traceback
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

from vde_dagster.execution.plans.estimate import QUANTITIES
from vde_dagster.execution.workspace import Workspace
from vde_dagster.plugins.cost.accuracy import Accuracy, ComparedFill, measure_accuracy
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.conftest import small_spark
from vde_dagster_tests.execution.month_on_spark import Month, Tally, UnequalError


def main() -> int:
    """Live through the months; returns how many of them went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--models", type=int, default=9)
    args = parser.parse_args()
    tally, wrong = Tally(), 0
    looked: dict[str, list[ComparedFill]] = {name: [] for name in QUANTITIES}
    with tempfile.TemporaryDirectory() as folder:
        engine = SparkEngine(small_spark(Path(folder)))
        for seed in range(args.first, args.first + args.seeds):
            began = time.monotonic()
            try:
                Month(seed, Path(folder) / str(seed), tally, args.models).run(args.days)
            except UnequalError as error:
                wrong += 1
                print(error, flush=True)
            except Exception:
                wrong += 1
                print(f"seed {seed}:", traceback.format_exc(), flush=True)
            print(f"seed {seed}: {time.monotonic() - began:.0f} s", flush=True)
            for name, found in _estimates(Path(folder) / str(seed), time.monotonic() - began):
                looked[name] += found.fills
        engine.close()
    due = max(1, tally.due)
    print(f"{args.seeds} projects, {args.days} days, {tally.due} slots of whole tables were due")
    print(f"computed      {tally.computed:6}  {1 - tally.computed / due:.0%} saved")
    print(f"by timestamps {tally.by_time:6}  {1 - tally.by_time / due:.0%} saved")
    print(
        f"applying took {tally.seconds:.0f} s instead of {tally.full_seconds:.0f} s; "
        f"runs told of {tally.told_seconds:.0f} s saved"
    )
    print(f"{tally.compared} views compared; {dict(tally.deeds)}")
    for name, all_of in looked.items():
        found = Accuracy(tuple(all_of))
        if found.median_factor is not None and found.share_within is not None:
            print(
                f"estimated {name:12} of {len(all_of)} fills: half within a factor of "
                f"{found.median_factor:.2f}, {found.share_within:.0%} in their range"
            )
    print(f"load {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores")
    print(f"went wrong    {wrong:6}")
    return wrong


def _estimates(root: Path, seconds: float) -> Iterator[tuple[str, Accuracy]]:
    """Yield how good estimates were of what was filled in the last seconds, in both runs."""
    now = datetime.now(timezone.utc)
    for place in sorted(root.iterdir()):
        with Workspace.open(place) as workspace:
            yield from measure_accuracy(workspace, now - timedelta(seconds=seconds), now).items()


if __name__ == "__main__":
    raise SystemExit(main())
