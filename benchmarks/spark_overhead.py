"""What the engine adds to bare Spark statements: `python -m benchmarks.spark_overhead`.

Each kind fills a small table again and again, once through `SparkEngine.fill` and once with the
statement that a careful engineer would write by hand. The goal is a ratio of 1.2 or less.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

from vde_dagster.planning.engine_tasks import AuditTask
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.project.kinds import Full, IncrementalByTimeRange, IncrementalByUniqueKey
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.conftest import lakehouse_of, small_spark
from vde_dagster_tests.spark.tasks import START, Warehouse, days

REPEATS = 15
COLUMNS = {"id": "bigint", "ts": "timestamp", "v": "string"}
QUERY = (
    "SELECT id, TIMESTAMP '2013-01-01' + make_dt_interval(0, CAST(id % 24 AS INT)) AS ts, "
    "CAST(id AS STRING) AS v FROM range(1000)"
)


def measure(engine: SparkEngine) -> list[tuple[str, float, float]]:
    """Return (what, seconds by hand, seconds through the engine), medians."""
    session = engine.session
    full = Warehouse(engine, Full(), COLUMNS)
    by_time = Warehouse(engine, IncrementalByTimeRange("ts"), COLUMNS)
    by_key = Warehouse(engine, IncrementalByUniqueKey(("id",)), COLUMNS)
    merge = (
        f"MERGE INTO {by_key.name} t USING (SELECT * FROM (SELECT *, ROW_NUMBER() OVER "
        f"(PARTITION BY id ORDER BY ts DESC) AS n FROM ({QUERY})) WHERE n = 1) s ON t.id <=> s.id "
        "WHEN MATCHED THEN UPDATE SET t.ts = s.ts, t.v = s.v "
        "WHEN NOT MATCHED THEN INSERT (id, ts, v) VALUES (s.id, s.ts, s.v)"
    )
    failing = f"SELECT * FROM {full.name} WHERE id IS NULL"
    audit = AuditTask("plan", full.snapshot.name, "not_null", failing, True, days(1, 2))
    cases: list[tuple[str, Callable[[], object], Callable[[], object]]] = [
        (
            "FULL, 1,000 rows",
            lambda: session.sql(f"INSERT OVERWRITE {full.name} {QUERY}"),
            lambda: full.fill(QUERY, days(1, 2)),
        ),
        (
            "INCREMENTAL_BY_TIME_RANGE, one day of 1,000 rows",
            lambda: session.sql(
                f"INSERT INTO {by_time.name} REPLACE WHERE ts >= TIMESTAMP '2013-01-01' "
                f"AND ts < TIMESTAMP '2013-01-02' {QUERY}"
            ),
            lambda: by_time.fill(QUERY, days(1, 2)),
        ),
        (
            "INCREMENTAL_BY_UNIQUE_KEY, 1,000 rows",
            lambda: session.sql(merge),
            lambda: by_key.fill(QUERY, days(1, 2)),
        ),
        (
            "audit that finds nothing",
            lambda: session.sql(f"SELECT count(*) FROM ({failing})").collect(),
            lambda: engine.audit(audit),
        ),
    ]
    return [(name, *_compare(by_hand, through)) for name, by_hand, through in cases]


def _compare(one: Callable[[], object], other: Callable[[], object]) -> tuple[float, float]:
    """Return both medians; the two take turns, so that the machine's moods hit both."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(REPEATS + 3):
        for index, run in enumerate((one, other)):
            began = time.perf_counter()
            run()
            if turn >= 3:
                times[index].append(time.perf_counter() - began)
    return statistics.median(times[0]), statistics.median(times[1])


def fill_year(engine: SparkEngine) -> float:
    """Return the seconds that a year of days takes in one fill, of 365,000 rows."""
    table = Warehouse(engine, IncrementalByTimeRange("ts"), COLUMNS)
    query = (
        "SELECT id, TIMESTAMP '2013-01-01' + make_dt_interval(CAST(id % 365 AS INT)) AS ts, "
        "CAST(id AS STRING) AS v FROM range(365000)"
    )
    year = Interval(START, datetime(2013, 1, 1, tzinfo=timezone.utc) + timedelta(days=365))
    return float(table.fill(query, year).seconds)


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        settings = small_spark(Path(folder))
        engine = SparkEngine(settings, lakehouse=lakehouse_of(settings))
        assert engine.session is not None
        print(f"start of Spark: {time.perf_counter() - began:.1f} s")
        print(f"{'':50} {'by hand':>9} {'engine':>9} {'ratio':>6}")
        for name, by_hand, through in measure(engine):
            ratio = through / by_hand
            print(f"{name:50} {by_hand:8.3f}s {through:8.3f}s {ratio:6.2f}")
        print(f"a year of days at once (365,000 rows): {fill_year(engine):.1f} s")
        engine.close()
    sys.stdout.flush()


if __name__ == "__main__":
    main()
