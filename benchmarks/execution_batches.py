"""Twelve batches of one model, one at a time and four at a time, on Spark and Iceberg.

    python -m benchmarks.execution_batches [--rows 10000000] [--seconds 2] [--rounds 2] [--cores 4]

Batches of one task each: some compute all the time, others wait for a source most of the time.
What is gained depends on what one batch leaves of the cluster to others.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.conftest import SMALL_SPARK
from vde_dagster_tests.projects import ProjectFolder

NOW = datetime(2024, 1, 13, 12, tzinfo=timezone.utc)
HEADER = """
MODEL (name m.{name}, start '2024-01-01',
  kind INCREMENTAL_BY_TIME_RANGE (time_column day, batch_size 1{more}));
"""
QUERIES = {
    "that compute": """
        SELECT CAST(@start_ds AS DATE) AS day, id % 100 AS k, sum(xxhash64(id, {salt}) % 1000) AS v
        FROM range(0, {rows}, 1, 1) GROUP BY 1, 2
    """,
    "that wait": """
        SELECT CAST(@start_ds AS DATE) AS day, id + {salt} AS k,
          java_method('java.lang.Thread', 'sleep', {milliseconds}L) AS v
        FROM range(0, 1, 1, 1)
    """,
}
AT_ONCE = {"one at a time": "", "four at a time": ", batch_concurrency 4"}


def main() -> int:
    """Print the seconds of each apply; the first one warms Spark up and is not printed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--cores", type=int, default=4)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        folder = ProjectFolder(Path(root) / "project", {})
        config = "\n".join(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in SMALL_SPARK.items())
        master = f'[tool.vde.spark]\nmaster = "local[{args.cores}]"\nwarm = false\n'
        folder.write("pyproject.toml", f"{master}[tool.vde.spark.config]\n{config}\n")
        with Workspace.open(folder.root) as workspace:
            number = 0
            for turn in range(args.rounds + 1):
                for what, query in QUERIES.items():
                    for how, more in AT_ONCE.items():
                        number += 1
                        text = query.format(
                            salt=number, rows=args.rows, milliseconds=int(args.seconds * 1000)
                        )
                        header = HEADER.format(name=f"m{number}", more=more)
                        folder.write(f"models/m{number}.sql", header + text)
                        workspace.reload()
                        plan = workspace.plan("prod", now=NOW)
                        began = time.monotonic()
                        workspace.apply(plan, concurrency=4)
                        if turn:
                            took = time.monotonic() - began
                            print(f"12 batches {what}, {how}: {took:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
