"""Random histories of FULL models on Spark, refreshed from changes: each equals its query.

    python -m benchmarks.refresh_histories [--histories 500] [--first SEED] [--models 20]
        [--ticks 3] [--threads 2] [--seconds 0]

A world has random models over tables of all kinds: raw tables of both formats, written by Spark,
PyIceberg and Flink's delete files, and models of all kinds. Most random models are FULL, and some
are INCREMENTAL_BY_CHANGES, by unique key, or SCD type 2. Between two ticks raw tables are written,
compacted, rolled back, expired and get other columns; models are restated, published with another
definition, deployed in place, rolled back and cleaned up; a second environment previews. After each
tick all models of both environments are compared with their queries over the same tables, or with
twins that compute all rows: as multisets, with types. Each random model of a world is a history.

The table at the end counts fills by method for each part of a query, kind of parent and of model,
and act since the fill before: a search that never refreshes proves nothing.
"""

from __future__ import annotations

import argparse
import random
import shutil
import time
import traceback
from dataclasses import replace
from pathlib import Path

from vde_dagster.spark.engine import SparkEngine
from vde_dagster.spark.jvm.local_files import use_plain_files
from vde_dagster_tests.by_changes.worlds.world import Tally, World, WorldEnded, random_choices
from vde_dagster_tests.conftest import analysis_may_raise, small_spark
from vde_dagster_tests.lakehouse.protocol import fast_folder

_FAST = {
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""Settings for tables of a few rows."""


def main() -> int:
    """Live through worlds until enough histories are compared; return the number of failures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--histories", type=int, default=500)
    parser.add_argument("--first", type=int, help="the first world's seed; by default a random one")
    parser.add_argument("--models", type=int, default=20, help="random models of a world")
    parser.add_argument("--ticks", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2, help="models filled at the same time")
    parser.add_argument("--seconds", type=float, default=0, help="starts no world after this time")
    args = parser.parse_args()
    seed = random.randrange(10**6) if args.first is None else args.first
    print(f"seeds from {seed}", flush=True)
    began, wrong, total = time.monotonic(), 0, Tally()
    folder = Path(fast_folder())
    settings = small_spark(folder)
    settings = replace(settings, config={**settings.config, **_FAST})
    engine = SparkEngine(settings)
    use_plain_files(engine.session.sparkContext)
    try:
        while total.counts["histories"] < args.histories:
            if args.seconds and time.monotonic() - began > args.seconds:
                break
            with random_choices(seed), analysis_may_raise():
                wrong += _live(folder / f"world{seed}", seed, args, total)
            seed += 1
    finally:
        print("\n".join(total.lines()))
        for feature in total.never_refreshed():
            print(f"never refreshed from changes: {feature}")
        took = time.monotonic() - began
        print(f"{'differences or failures':52}{wrong:7}, {took:.0f} s", flush=True)
        engine.close()
        shutil.rmtree(folder)
    return wrong


def _live(root: Path, seed: int, args: argparse.Namespace, total: Tally) -> int:
    """Live through a world; return the number of differences and failures."""
    began, wrong = time.monotonic(), 0
    world = World(root, seed, args.models, args.threads)
    try:
        world.open()
        for _ in range(args.ticks):
            world.step()
    except WorldEnded:
        pass
    except Exception:
        wrong += 1
        print(f"seed {seed}, {world.did}:", traceback.format_exc(), flush=True)
    finally:
        total.add(world.tally)  # Also of a world that is interrupted.
    wrong += len(world.differences)
    took = time.monotonic() - began
    done = total.counts["histories"]
    print(f"seed {seed}: {', '.join(world.did)}; {took:.0f} s, {done} histories", flush=True)
    world.close()
    shutil.rmtree(root, ignore_errors=True)
    return wrong


if __name__ == "__main__":
    raise SystemExit(min(main(), 1))
