"""Nested columns that Spark wrote, read without Spark and by it: how many values differ.

    python -m benchmarks.nested_reads [--tables 120] [--columns 12] [--seed 1]

Each table is of one seed: Parquet or ORC, format 2 or 3, with lists, maps and structs to a depth of
three, NULL and empty values at every level, rows of two schemas, and merge-on-read deletes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.conftest import lakehouse_of, small_spark
from vde_dagster_tests.lakehouse.nested_reads_on_spark import compare_seed


def main() -> None:
    """Print how many values were compared, and those that differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=120)
    parser.add_argument("--columns", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    values, wrong, began = 0, list[str](), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        settings = small_spark(Path(folder))
        lakehouse = lakehouse_of(settings)
        engine = SparkEngine(settings, lakehouse=lakehouse)
        for seed in range(args.seed, args.seed + args.tables):
            found = compare_seed(engine, lakehouse, seed, args.columns)
            values += found.values
            wrong += found.wrong
        engine.close()
    seconds = time.monotonic() - began
    print(f"{values} values of {args.tables} tables from seed {args.seed}: {len(wrong)} differ")
    print(f"{seconds:.0f} seconds")
    for one in wrong[:20]:
        print(one)


if __name__ == "__main__":
    main()
