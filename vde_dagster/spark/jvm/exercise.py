"""Work that makes a new JVM know Spark: what builds and reads small tables, on tables of its own.

A JVM interprets what it runs for the first times, after loading and checking its classes; that is
most of the time of the first models. An engine that nobody asks for anything does it beforehand.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CATALOG = "vde_exercise"
_PARTS = 3
"""Tables a round."""


def exercise(session: SparkSession, folder: Path, rounds: int, go_on: Callable[[], bool]) -> None:
    """Build, change, compare and read small Iceberg tables, which are gone afterwards.

    Args:
        session: A session that nobody else uses.
        folder: Where the tables lie; it is made, and removed.
        rounds: How often; a JVM is twice as fast after the first, and little faster after three.
        go_on: Asked between two statements; it ends when that says no.
    """
    catalog = f"{_CATALOG}_{uuid.uuid4().hex[:8]}"
    prefix = f"spark.sql.catalog.{catalog}"
    session.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
    session.conf.set(f"{prefix}.type", "hadoop")
    session.conf.set(f"{prefix}.warehouse", str(folder))
    session.conf.set("spark.sql.defaultCatalog", catalog)  # The project's may not be there yet.
    try:
        for number in range(rounds):
            for step in _steps(session, f"{catalog}.round_{number}"):
                if not go_on():
                    return
                step()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _steps(session: SparkSession, schema: str) -> Iterator[Callable[[], Any]]:
    def run(sql: str) -> Callable[[], Any]:
        return lambda: session.sql(sql).toArrow()

    yield run(f"CREATE NAMESPACE IF NOT EXISTS {schema}")
    for part in range(_PARTS):
        made, branch = f"{schema}.made_{part}", f"{schema}.made_{part}.branch_next"
        yield run(
            f"CREATE TABLE {made} (id BIGINT, day TIMESTAMP, name STRING, price DECIMAL(18, 2), "
            "tags ARRAY<STRING>) USING iceberg PARTITIONED BY (days(day)) "
            "TBLPROPERTIES ('format-version' = '2')"
        )
        yield run(f"ALTER TABLE {made} CREATE BRANCH next")
        rows = (
            "SELECT id, TIMESTAMP '2024-01-01' + make_interval(0, 0, 0, CAST(id % 3 AS INT)) AS "
            "day, concat('n', id % 7) AS name, CAST(id * 1.5 AS DECIMAL(18, 2)) AS price, "
            "array('a', CAST(id AS STRING)) AS tags FROM range(200)"
        )
        yield partial(_write, session, rows, branch, None)
        yield partial(_write, session, rows, branch, "day >= '2024-01-02'")
        yield run(
            f"MERGE INTO {branch} AS t USING (SELECT * FROM ({rows}) WHERE id < 20) AS s "
            "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        yield run(f"DELETE FROM {branch} WHERE id = 3")
        yield run(
            f"SELECT count(*), count_if(name IS NULL), count(DISTINCT id), max(day), "
            f"bit_xor(xxhash64(id, name)) FROM {branch}"
        )
    yield run(
        f"WITH a AS (SELECT * FROM {schema}.made_0.branch_next), totals AS (SELECT name, "
        "sum(price) AS total, avg(price) AS mean, max(upper(name)) AS top FROM a GROUP BY name) "
        "SELECT a.id, a.name, CASE WHEN t.total > 100 THEN 'much' ELSE 'little' END AS size, "
        "coalesce(t.mean, 0) AS mean, date_trunc('month', a.day) AS month, "
        "row_number() OVER (PARTITION BY a.name ORDER BY a.id DESC) AS place "
        f"FROM a LEFT JOIN totals AS t USING (name) JOIN {schema}.made_1.branch_next AS b "
        "ON a.id = b.id WHERE a.name LIKE 'n%' AND exists(a.tags, tag -> tag = 'a') "
        "ORDER BY a.id LIMIT 50"
    )
    yield run(
        f"SELECT id, name FROM {schema}.made_0.branch_next EXCEPT ALL "
        f"SELECT id, name FROM {schema}.made_1.branch_next"
    )
    for part in range(_PARTS):
        yield run(f"DROP TABLE {schema}.made_{part} PURGE")
    yield run(f"DROP NAMESPACE {schema}")


def _write(session: SparkSession, rows: str, branch: str, instead_of: str | None) -> None:
    from pyspark.sql import functions

    writer = session.sql(rows).writeTo(branch)
    if instead_of is None:
        writer.append()
    else:
        writer.overwrite(functions.expr(instead_of))
