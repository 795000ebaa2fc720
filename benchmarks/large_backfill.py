"""Millions of rows in 1,000 intervals, by default: `python -m benchmarks.large_backfill`.

Rows spread over 1,000 days are aggregated into an incremental model from its start: by day and
customer (`days`), and as TPC-DS does, joined with four dimensions (`star`). Each apply is a process
of its own and uses the defaults of this machine (not the suite's small Spark); beside it, the same
statements in a bare Spark of the same memory. Goal: no failure, and an apply takes 1.15 times the
bare statements or less. Seconds of CPU tell it on a machine that does other things, too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from vde_dagster_tests.projects import ProjectFolder

GOAL = 1.15
DAYS = 1000
START, END = "timestamp'2022-01-01'", f"timestamp'2022-01-01' + INTERVAL {DAYS} DAYS"


@dataclass(frozen=True)
class Work:
    """Tables that are made whole, and the query that an incremental model makes of them.

    Args:
        tables: Queries by name; `{rows}` is how many rows there are.
        query: What is filled day by day; `{db}` is where the tables are.
        rows: With how many rows it is run by default.
    """

    tables: dict[str, str]
    query: str
    rows: tuple[int, ...]


WORK = {
    "days": Work(
        {
            "events": f"""
            SELECT
              {START} + make_dt_interval(CAST(id % {DAYS} AS INT), 0, 0, id % 86400) AS ts,
              id % 200000 AS customer,
              id * 7 % 1000 AS amount,
              sha2(CAST(id AS STRING), 256) AS note
            FROM range({{rows}})
            """
        },
        """
        SELECT CAST(ts AS DATE) AS day, customer, count(*) AS n, sum(amount) AS amount,
          max(note) AS note
        FROM {db}.events
        WHERE ts >= {start} AND ts < {end}
        GROUP BY CAST(ts AS DATE), customer
        """,
        (5_000_000, 20_000_000, 100_000_000),
    ),
    "star": Work(
        {
            "sales": f"""
            SELECT
              {START} + make_dt_interval(CAST(id % {DAYS} AS INT), 0, 0, id % 86400) AS ts,
              hash(id) & 16383 AS item, hash(id, 1) % 200 AS store,
              hash(id, 2) & 262143 AS customer, hash(id, 3) & 511 AS promotion,
              1 + id % 100 AS quantity, CAST(id * 7 % 10000 AS DECIMAL(7, 2)) / 100 AS price
            FROM range({{rows}})
            """,
            "items": "SELECT CAST(id AS INT) AS item, concat('category ', id % 10) AS category,"
            " concat('brand ', id % 500) AS brand FROM range(16384)",
            "stores": "SELECT CAST(id - 200 AS INT) AS store, concat('state ', id % 25) AS state"
            " FROM range(400)",
            "customers": "SELECT CAST(id AS INT) AS customer, concat('segment ', id % 5) AS"
            " segment, sha2(CAST(id AS STRING), 256) AS name FROM range(262144)",
            "promotions": "SELECT CAST(id AS INT) AS promotion, id % 3 = 0 AS mailed"
            " FROM range(400)",
        },
        """
        SELECT CAST(s.ts AS DATE) AS day, i.category, st.state, c.segment, count(*) AS n,
          sum(s.quantity * s.price) AS revenue, count(DISTINCT s.customer) AS customers,
          sum(IF(p.mailed, s.quantity, 0)) AS mailed, max(c.name) AS last_name
        FROM {db}.sales AS s
        JOIN {db}.items AS i ON s.item = i.item
        JOIN {db}.stores AS st ON s.store = st.store
        JOIN {db}.customers AS c ON s.customer = c.customer
        LEFT JOIN {db}.promotions AS p ON s.promotion = p.promotion
        WHERE s.ts >= {start} AND s.ts < {end} AND i.brand <> 'brand 7'
        GROUP BY CAST(s.ts AS DATE), i.category, st.state, c.segment
        """,
        (5_000_000, 20_000_000),
    ),
}

BEGIN = """
import json, subprocess, sys, time
from pathlib import Path
from vde_dagster.execution.workspace import Workspace

def cpu():
    command = ["ps", "-o", "cputimes=", "-p", str(session.sparkContext._gateway.proc.pid)]
    return time.process_time() + float(subprocess.check_output(command))

workspace = Workspace.open(Path(sys.argv[1]))
session = workspace.engine().session
session.sql("SELECT 1").collect()
wall, used = time.perf_counter(), cpu()
"""
END_OF = """
print(json.dumps([wall, used, rows]))
workspace.close()
"""
TAKEN = "wall, used = time.perf_counter() - wall, cpu() - used\n"
APPLY = f"""
{BEGIN}
workspace.apply(workspace.plan("prod"))
{TAKEN}
rows = workspace.queries.read("prod", "db.daily", ("day",)).num_rows
{END_OF}
"""
BARE = f"""
{BEGIN}
session.sql("CREATE NAMESPACE bare")
tables, query = json.loads(sys.argv[2])
for name, text in tables.items():
    session.sql(f"CREATE TABLE bare.{{name}} USING iceberg AS {{text}}")
columns = ", ".join(f"{{name}} {{kind}}" for name, kind in session.sql(query).dtypes)
session.sql(f"CREATE TABLE bare.daily ({{columns}}) USING iceberg PARTITIONED BY (day)")
session.sql(f"INSERT INTO bare.daily {{query}}")
{TAKEN}
rows = session.table("bare.daily").count()
{END_OF}
"""


def project(root: Path, work: Work, rows: int, config: str) -> ProjectFolder:
    """Write the project."""
    whole = {
        f"models/{name}.sql": f"MODEL (name db.{name}, kind FULL);{text.format(rows=rows)}"
        for name, text in work.tables.items()
    }
    return ProjectFolder(
        root,
        {
            "pyproject.toml": f"[tool.vde.spark.config]\n{config}\n",
            **whole,
            "models/daily.sql": "MODEL (name db.daily, start '2022-01-01', end '2024-09-26', "
            "kind INCREMENTAL_BY_TIME_RANGE (time_column day), partitioned_by day);"
            + work.query.format(db="db", start="@start_ts", end="@end_ts"),
        },
    )


def measured(code: str, *arguments: str) -> tuple[float, float, int] | str:
    """Run code in a process of its own; return seconds, of CPU too, and rows, or its error."""
    ended = subprocess.run(
        [sys.executable, "-c", dedent(code), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        words = [line for line in ended.stderr.splitlines() if "Error" in line and "\t" not in line]
        return (words or ended.stderr.split("\n"))[-1][:300]
    seconds, used, rows = json.loads(ended.stdout.splitlines()[-1])
    return seconds, used, rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", help="by default 5 million and more")
    parser.add_argument("--work", choices=WORK, nargs="*", default=list(WORK))
    parser.add_argument("--memory", help="Spark's memory, as 2g; by default the package's")
    options = parser.parse_args()
    config = f'"spark.driver.memory" = "{options.memory}"' if options.memory else ""
    for name in options.work:
        for rows in options.rows or WORK[name].rows:
            compare(name, rows, config)


def compare(name: str, rows: int, config: str) -> None:
    """Print a line of the table."""
    work = WORK[name]
    with tempfile.TemporaryDirectory() as folder:
        tables = {table: text.format(rows=rows) for table, text in work.tables.items()}
        query = work.query.format(db="bare", start=START, end=END)
        root = project(Path(folder) / "bare", work, rows, config).root
        bare = measured(BARE, str(root), json.dumps([tables, query]))
    with tempfile.TemporaryDirectory() as folder:
        applied = measured(APPLY, str(project(Path(folder) / "own", work, rows, config).root))
    ratio, met = "-", False
    if not isinstance(bare, str) and not isinstance(applied, str):
        assert bare[2] == applied[2], (bare, applied)
        ratio = f"{applied[0] / bare[0]:.2f}, of CPU {applied[1] / bare[1]:.2f}"
        met = applied[0] / bare[0] <= GOAL
    print(
        f"{name} {rows:>11,} rows: bare Spark {said(bare)}, apply {said(applied)}, ratio {ratio} "
        f"(goal {GOAL} {'met' if met else 'MISSED'})",
        flush=True,
    )


def said(result: tuple[float, float, int] | str) -> str:
    """Say a result for people."""
    if isinstance(result, str):
        return f"failed ({result})"
    return f"{result[0]:.1f} s (CPU {result[1]:.1f})"


if __name__ == "__main__":
    main()
