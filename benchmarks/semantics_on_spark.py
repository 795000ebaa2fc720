"""Equal versions against Spark's own answers, at a nightly size.

    python -m benchmarks.semantics_on_spark [--queries 2000] [--expressions 20000] [--seed 1]

Random queries over small tables are edited, and where both have one version Spark answers both:
values and types must be equal. So must those of random expressions of one version, over values at
the edges of their types, with errors (ANSI) and without. Then every documented example of Spark's
functions is run as it was written and through the package. CI runs a sample of the first two and
all of the third.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.conftest import small_spark
from vde_dagster_tests.semantics.optimizer_pairs import SCHEMA
from vde_dagster_tests.spark.random_pairs import (
    compare_dense_pairs,
    compare_random_pairs,
    quick_session,
)
from vde_dagster_tests.spark.random_values import compare_random_expressions, make_tables
from vde_dagster_tests.spark.registry import EVERYTHING, settings
from vde_dagster_tests.spark.spark_examples import documented_examples, run_examples

AT_ONCE = 2000


def main() -> int:
    """Run both and print what they found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--expressions", type=int, default=20_000)
    parser.add_argument("--types", action="store_true", help="numbers of all types, not INT alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        engine = SparkEngine(small_spark(root))
        began = time.monotonic()
        tally = compare_random_pairs(
            quick_session(engine.session),
            options.seed,
            options.queries,
            other_types=options.types,
        )
        print(
            f"seed {options.seed}: {tally.queries} queries, {tally.compared} pairs of equal "
            f"versions compared, {len(tally.wrong)} differ, {time.monotonic() - began:.0f} s"
        )
        dense = compare_dense_pairs(
            quick_session(engine.session),
            options.seed,
            options.queries,
            other_types=options.types,
        )
        print(
            f"queries of few words: {dense.queries}, {dense.compared} pairs of equal versions "
            f"compared, {len(dense.wrong)} differ"
        )
        expressions = _expressions(engine.session, options.seed, options.expressions)
        for pair in tally.wrong + dense.wrong + expressions:
            print(pair)
        (root / "examples").mkdir()
        with settings(engine.session, EVERYTHING):
            report = run_examples(
                engine.session, root / "examples", documented_examples(engine.session)
            )
        print(report.figures())
        engine.close()
    return 1 if tally.wrong or dense.wrong or expressions or report.differences else 0


def _expressions(session: Any, seed: int, number: int) -> tuple[str, ...]:
    """Compare random expressions in both modes of Spark; returns those that differ."""
    wrong: tuple[str, ...] = ()
    for ansi in (True, False):
        mine = quick_session(session)
        mine.conf.set("spark.sql.ansi.enabled", str(ansi).lower())
        for part in range(0, number // 2, AT_ONCE):
            make_tables(mine, SCHEMA, seed + part, overflow=not ansi)
            found = compare_random_expressions(mine, SCHEMA["t"], seed + part, AT_ONCE)
            wrong += found.wrong
            print(
                f"expressions, ANSI {ansi}, seed {seed + part}: {found.expressions}, "
                f"{found.compared} of shared versions compared, {len(found.wrong)} differ"
            )
    return wrong


if __name__ == "__main__":
    raise SystemExit(main())
