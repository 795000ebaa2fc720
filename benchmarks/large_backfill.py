"""Millions of rows in 1,000 intervals, by default: `python -m benchmarks.large_backfill`.

Rows spread over 1,000 days are aggregated by day and customer into an incremental model from its
start. Each apply is a process of its own and uses the defaults of this machine (not the suite's
small Spark); beside it, the same statements in a bare Spark of the same memory. Goal: no failure,
and an apply takes 1.15 times the bare statements or less.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from vde_dagster_tests.projects import ProjectFolder

GOAL = 1.15
DAYS = 1000
EVENTS = """
SELECT
  timestamp'2022-01-01' + make_dt_interval(CAST(id % {days} AS INT), 0, 0, id % 86400) AS ts,
  id % 200000 AS customer,
  id * 7 % 1000 AS amount,
  sha2(CAST(id AS STRING), 256) AS note
FROM range({rows})
"""
DAILY = """
SELECT CAST(ts AS DATE) AS day, customer, count(*) AS n, sum(amount) AS amount,
  max(note) AS note
FROM {events}
WHERE ts >= {start} AND ts < {end}
GROUP BY CAST(ts AS DATE), customer
"""

APPLY = """
import json, sys, time
from pathlib import Path
from vde_dagster.execution.workspace import Workspace

workspace = Workspace.open(Path(sys.argv[1]))
workspace.engine().session.sql("SELECT 1").collect()
began = time.perf_counter()
workspace.apply(workspace.plan("prod"))
seconds = time.perf_counter() - began
rows = workspace.read("prod", "db.daily", ("day",)).num_rows
print(json.dumps([seconds, rows]))
workspace.close()
"""

BARE = """
import json, sys, time
from pathlib import Path
from vde_dagster.execution.workspace import Workspace

workspace = Workspace.open(Path(sys.argv[1]))
session = workspace.engine().session
session.sql("SELECT 1").collect()
events, daily = sys.argv[2:]
began = time.perf_counter()
session.sql("CREATE NAMESPACE bare")
session.sql(f"CREATE TABLE bare.events USING iceberg AS {events}")
session.sql(
    "CREATE TABLE bare.daily (day DATE, customer BIGINT, n BIGINT, amount BIGINT, note STRING)"
    " USING iceberg PARTITIONED BY (day)"
)
session.sql(f"INSERT INTO bare.daily {daily}")
seconds = time.perf_counter() - began
print(json.dumps([seconds, session.table("bare.daily").count()]))
workspace.close()
"""


def project(root: Path, rows: int, config: str) -> ProjectFolder:
    """Write the project."""
    daily = DAILY.format(events="db.events", start="@start_ts", end="@end_ts")
    return ProjectFolder(
        root,
        {
            "pyproject.toml": f"[tool.vde.spark.config]\n{config}\n",
            "models/events.sql": "MODEL (name db.events, kind FULL);"
            + EVENTS.format(rows=rows, days=DAYS),
            "models/daily.sql": "MODEL (name db.daily, start '2022-01-01', end '2024-09-26', "
            "kind INCREMENTAL_BY_TIME_RANGE (time_column day), partitioned_by day);" + daily,
        },
    )


def measured(code: str, *arguments: str) -> tuple[float, int] | str:
    """Run code in a process of its own; return seconds and rows, or its last words."""
    environment = {key: value for key, value in os.environ.items() if key != "JDK_JAVA_OPTIONS"}
    ended = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    if ended.returncode:
        return ended.stderr.strip().splitlines()[-1][:300]
    seconds, rows = json.loads(ended.stdout.splitlines()[-1])
    return seconds, rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[5_000_000, 20_000_000, 100_000_000])
    parser.add_argument("--memory", help="Spark's memory, as 2g; by default the package's")
    options = parser.parse_args()
    config = f'"spark.driver.memory" = "{options.memory}"' if options.memory else ""
    for rows in options.rows:
        with tempfile.TemporaryDirectory() as folder:
            bare_root = project(Path(folder) / "bare", rows, config).root
            end = f"timestamp'2022-01-01' + INTERVAL {DAYS} DAYS"
            bare = measured(
                BARE,
                str(bare_root),
                EVENTS.format(rows=rows, days=DAYS),
                DAILY.format(events="bare.events", start="timestamp'2022-01-01'", end=end),
            )
        with tempfile.TemporaryDirectory() as folder:
            applied = measured(APPLY, str(project(Path(folder) / "own", rows, config).root))
        ratio = "-"
        if not isinstance(bare, str) and not isinstance(applied, str):
            assert bare[1] == applied[1], (bare, applied)
            ratio = f"{applied[0] / bare[0]:.2f}"
        met = ratio != "-" and float(ratio) <= GOAL
        print(
            f"{rows:>11,} rows: bare Spark {said(bare)}, apply {said(applied)}, ratio {ratio} "
            f"(goal {GOAL} {'met' if met else 'MISSED'})",
            flush=True,
        )


def said(result: tuple[float, int] | str) -> str:
    """Say a result for people."""
    return f"failed ({result})" if isinstance(result, str) else f"{result[0]:.1f} s"


if __name__ == "__main__":
    main()
