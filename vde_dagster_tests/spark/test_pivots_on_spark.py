"""PIVOT and UNPIVOT have the columns here, by name and type, that they have on Spark."""

from __future__ import annotations

import pytest

from vde_dagster.semantics.analysis import analyze
from vde_dagster.spark.engine import SparkEngine
from vde_dagster.spark.tables.columns import spark_type

pytestmark = pytest.mark.spark

ROWS = {"a": "INT", "b": "STRING", "c": "INT", "d": "DOUBLE", "e": "DECIMAL(9,2)"}
PIVOTS = """
SELECT * FROM t PIVOT (sum(c) FOR b IN ('x', 'y'))
SELECT * FROM t PIVOT (sum(c) AS s FOR b IN ('x', 'y'))
SELECT * FROM t PIVOT (sum(c) FOR b IN ('x' AS one, 'y' AS two))
SELECT * FROM t PIVOT (sum(c) AS s FOR b IN ('x' AS one, 'y'))
SELECT * FROM t PIVOT (sum(c), max(d) FOR b IN ('x', 'y' AS two))
SELECT * FROM t PIVOT (sum(c) AS s, max(d) FOR b IN ('x' AS one))
SELECT * FROM t PIVOT (count(*) FOR a IN (1, 2 AS two, -3))
SELECT * FROM t PIVOT (count(1) AS n, avg(e) AS m FOR a IN (1, 2))
SELECT * FROM t PIVOT (max(b) FOR (a, c) IN ((1, 2) AS one, (3, 4)))
SELECT * FROM (SELECT a, b, c FROM t) PIVOT (sum(c) FOR b IN ('X y', 'z-1'))
SELECT a, `x` FROM (SELECT a, b, c FROM t WHERE c > 1) PIVOT (sum(c) FOR b IN ('x'))
SELECT * FROM t PIVOT (sum(c * 2) FOR d IN (1.5, 2.0))
SELECT * FROM t PIVOT (first(e) FOR b IN (NULL, 'x'))
SELECT * FROM t UNPIVOT (v FOR k IN (a, c))
SELECT * FROM t UNPIVOT (v FOR k IN (a, c AS see))
SELECT * FROM t UNPIVOT INCLUDE NULLS (v FOR k IN (a, d))
SELECT * FROM t UNPIVOT ((v, w) FOR k IN ((a, d) AS first, (c, d)))
SELECT * FROM t UNPIVOT ((v, w) FOR k IN ((a, b), (c, b) AS second)) AS u
SELECT u.v, u.k FROM t UNPIVOT (v FOR k IN (a, e)) u
"""


def test_pivots_have_sparks_columns_and_types(spark_engine: SparkEngine) -> None:
    from pyspark.errors import PySparkException

    session = spark_engine.session.newSession()
    listed = ", ".join(f"CAST(NULL AS {type_}) AS {name}" for name, type_ in ROWS.items())
    session.sql(f"SELECT {listed}").createOrReplaceTempView("t")
    wrong, told, refused = [], 0, []
    for query in PIVOTS.strip().splitlines():
        try:
            fields = session.sql(query).schema.fields
        except PySparkException as error:
            refused.append(f"{query}: {error!s:.200}")
            continue
        analysed = analyze(query, {"t": ROWS})
        ours = list(analysed.output_types.items())
        theirs = [(field.name, spark_type(field.dataType).upper()) for field in fields]
        if not ours:
            continue  # Columns that are not known are asked of Spark.
        told += 1
        if [name for name, _ in ours] != [name for name, _ in theirs] or any(
            "UNKNOWN" not in mine and mine.upper().replace(" ", "") != other
            for (_, mine), (_, other) in zip(ours, theirs, strict=True)
        ):
            wrong.append((query, ours, theirs))
    assert wrong == []
    assert refused == []
    assert told >= 12
