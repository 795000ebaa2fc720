"""Types of Spark's functions: the table that planning reads, made by Spark and compared with it.

    python -m benchmarks.function_types [--calls 20000] [--seed 1]
    python -m benchmarks.function_types --write [--only NAME ...] [--keep FILE]
    python -m benchmarks.function_types --refusals [--only NAME ...]

With --write, Spark's analyzer is asked for the type of every function with every number of
arguments of many types and literal values, with ANSI mode and without, and the package's table is
written; about an hour. --keep names a file that keeps what is done, so that a stopped run
continues. --refusals writes the types that Spark refuses at a place, whatever the other arguments
are. Without both, random calls are typed by the table and by Spark; the exit code is 1
if any type differs.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vde_dagster.base.texts import lines_by_key
from vde_dagster.semantics.function_types import REFUSALS, TABLE
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.conftest import small_spark
from vde_dagster_tests.spark.function_probes import SparkTypes, compare_calls, functions
from vde_dagster_tests.spark.function_table import function_lines, probed_types, refusal_line

HEADER = "# Made by `python -m benchmarks.function_types --write` of Spark {}; do not edit."

REFUSALS_HEADER = HEADER.replace("--write", "--refusals")


def main() -> int:
    """Write or compare; print figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--refusals", action="store_true")
    parser.add_argument("--only", nargs="*", help="write the lines of these functions alone")
    parser.add_argument("--keep", type=Path, help="a file for lines that are done")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        engine = SparkEngine(small_spark(Path(folder)))
        try:
            if options.write:
                _write(engine.session, options.only, options.keep)
                return 0
            if options.refusals:
                _write_refusals(engine.session, options.only)
                return 0
            return _compare(engine.session, options.calls, options.seed)
        finally:
            engine.close()


def _compare(session: Any, calls: int, seed: int) -> int:
    found = compare_calls(SparkTypes(session), session, random.Random(seed), calls)
    print("\n".join(found.wrong))
    print(
        f"seed {seed}: {calls} calls, {found.asked} that Spark takes, {found.known} with a known "
        f"type; {found.refused} that Spark refuses, {found.refused_here} of them here; "
        f"{len(found.wrong)} wrong"
    )
    return int(bool(found.wrong))


def _write(session: Any, only: list[str] | None, keep: Path | None) -> None:
    spark = SparkTypes(session)
    types = probed_types(spark)
    done: dict[str, list[str]] = json.loads(keep.read_text()) if keep and keep.exists() else {}
    done = {**lines_by_key(TABLE), **done} if only else done
    for name in only or sorted(functions(session)):
        if name in done and not only:
            continue
        began = time.monotonic()
        done[name] = function_lines(spark, session, name, types)
        if keep:
            keep.write_text(json.dumps(done))
        print(f"{time.monotonic() - began:6.1f} s {name}: {len(done[name])} lines", flush=True)
    _write_table(TABLE, HEADER.format(session.version), done)


def _write_refusals(session: Any, only: list[str] | None) -> None:
    spark = SparkTypes(session)
    done = {**lines_by_key(REFUSALS)} if only else {}
    for name in only or sorted(lines_by_key(TABLE).keys() & functions(session)):
        began = time.monotonic()
        line = refusal_line(spark, session, name)
        done[name] = [line] if line is not None else []
        print(f"{time.monotonic() - began:6.1f} s {name}", flush=True)
    _write_table(REFUSALS, REFUSALS_HEADER.format(session.version), done)


def _write_table(table: Path, header: str, done: Mapping[str, list[str]]) -> None:
    lines = [line for name in sorted(done) for line in done[name]]
    table.write_text("\n".join([header, *lines]) + "\n", "utf-8")
    print(f"{len(lines)} lines of {len(done)} functions")


if __name__ == "__main__":
    raise SystemExit(main())
