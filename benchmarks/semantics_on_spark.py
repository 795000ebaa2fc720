"""Equal versions against Spark's own answers, at a nightly size.

    python -m benchmarks.semantics_on_spark [--queries 2000] [--seed 1]

Random queries over small tables are edited, and where both have one version Spark answers both:
values and types must be equal. Then every documented example of Spark's functions is run as it
was written and through the package. CI runs a sample of the first and all of the second.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from vde_dagster.spark import SparkEngine
from vde_dagster_tests.conftest import small_spark
from vde_dagster_tests.spark.random_pairs import (
    compare_dense_pairs,
    compare_random_pairs,
    quick_session,
)
from vde_dagster_tests.spark.registry import EVERYTHING, settings
from vde_dagster_tests.spark.spark_examples import documented_examples, run_examples


def main() -> int:
    """Run both and print what they found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        engine = SparkEngine(small_spark(root))
        began = time.monotonic()
        tally = compare_random_pairs(quick_session(engine.session), options.seed, options.queries)
        print(
            f"seed {options.seed}: {tally.queries} queries, {tally.compared} pairs of equal "
            f"versions compared, {len(tally.wrong)} differ, {time.monotonic() - began:.0f} s"
        )
        dense = compare_dense_pairs(quick_session(engine.session), options.seed, options.queries)
        print(
            f"queries of few words: {dense.queries}, {dense.compared} pairs of equal versions "
            f"compared, {len(dense.wrong)} differ"
        )
        for pair in tally.wrong + dense.wrong:
            print(pair)
        (root / "examples").mkdir()
        with settings(engine.session, EVERYTHING):
            report = run_examples(
                engine.session, root / "examples", documented_examples(engine.session)
            )
        print(report.figures())
        engine.close()
    return 1 if tally.wrong or dense.wrong or report.differences else 0


if __name__ == "__main__":
    raise SystemExit(main())
