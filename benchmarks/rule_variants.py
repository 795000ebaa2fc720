"""Variants near every rule of versions on Spark: those of one version must have one answer.

    python -m benchmarks.rule_variants [--pairs 10000] [--seed 1] [--seconds 7200]

Three fixtures have example pairs near each rule. Their variants have columns of other types,
literals at the edges of types, other operators, functions and joins, and other text around them.
Spark answers those of one version in ANSI mode and without it, in three time zones, and with the
other type of timestamps, over literal rows (NULL, NaN, -0.0 and others). Types, rows and whether
an error is raised must be equal. CI runs a sample.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from vde_dagster.spark.engine import SparkEngine
from vde_dagster.spark.session.settings import MEMORY
from vde_dagster_tests.conftest import small_spark
from vde_dagster_tests.semantics.variants import EXAMPLES
from vde_dagster_tests.spark.variant_search import MODES, search

AT_ONCE = 500
ENGINE = {MEMORY: "3g", "spark.driver.extraJavaOptions": "-XX:-ExitOnOutOfMemoryError"}
"""A query that makes enormous texts then fails alone, and the JVM answers the next one."""


def main() -> int:
    """Search until enough pairs were compared; returns the number of pairs that differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4 * 3600.0)
    options = parser.parse_args()
    compared: Counter[str] = Counter()
    wrong: list[str] = []
    tried = raised = by_order = turn = 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        settings = small_spark(Path(folder))
        engine = SparkEngine(replace(settings, config={**settings.config, **ENGINE}))
        while compared.total() < options.pairs and time.monotonic() - began < options.seconds:
            mode, seed = MODES[turn % len(MODES)], options.seed + turn
            number = min(AT_ONCE, 4 * (options.pairs - compared.total()))
            found = search(engine.session, seed, number, mode)
            compared += found.compared
            wrong += found.wrong
            tried, raised, turn = tried + found.tried, raised + found.raised, turn + 1
            by_order += found.by_order
            print(
                f"{mode.name}, seed {seed}: {found.compared.total()} of {found.tried} variants "
                f"have one version, {len(found.wrong)} of them two answers",
                flush=True,
            )
            for pair in found.wrong:
                print(pair, flush=True)
        engine.close()
    print(
        f"{tried} variants of {len(EXAMPLES)} examples, {compared.total()} pairs of one version "
        f"compared near {len(compared)} examples ({raised} raise an error on both sides, "
        f"{by_order} on one side, by the order of conditions), {len(wrong)} differ, "
        f"{time.monotonic() - began:.0f} s"
    )
    return len(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
