"""Every format of a time column that is accepted finds exactly an interval's rows on Spark."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vde_dagster.base.names import string_literal
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.intervals.time_column import MOST_VALUES, TimeColumn
from vde_dagster.project.kinds import IncrementalByTimeRange
from vde_dagster.project.kinds.time_format import (
    SECONDS,
    finest_directive,
    spark_format,
    strftime_format,
)
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.spark.tasks import Warehouse, days

pytestmark = [pytest.mark.spark, pytest.mark.turns(32, "what Spark does")]

DEEP = ["%Y", "%m", "%d", "%H", "%M", "%S"]
SPELLED = {"%Y": ["%Y", "%y"], "%m": ["%m", "%b", "%B"]}


@st.composite
def formats(draw: st.DrawFn) -> str:
    """The directives down to some unit, in any order, with texts between them."""
    parts = [draw(st.sampled_from(SPELLED.get(p, [p]))) for p in DEEP[: draw(st.integers(1, 6))]]
    parts = parts if draw(st.booleans()) else draw(st.permutations(parts))
    texts = st.sampled_from(["-", "/", " ", "T", "'", ".", ":", "%%", "\u00e9", "\\"])
    return draw(texts).join([*parts]) + draw(st.sampled_from(["", "Z", "''"]))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(formats(), st.integers(0, 3), st.integers(1, 3))
def test_conditions_hold_for_exactly_the_rows_of_a_range(
    spark_engine: SparkEngine, pattern: str, skip: int, count: int
) -> None:
    assert strftime_format(pattern, "spark") == pattern
    column = TimeColumn("t", "string", pattern)
    shortest = finest_directive(pattern)
    assert shortest is not None
    seconds = {"%m": 31 * 86400, "%Y": 366 * 86400}.get(shortest, int(SECONDS[shortest]))

    def boundary(steps: int) -> datetime:
        if shortest == "%Y":
            return datetime(2019 + steps, 1, 1, tzinfo=timezone.utc)
        if shortest == "%m":
            return datetime(
                2019 + (10 + steps) // 12, (10 + steps) % 12 + 1, 1, tzinfo=timezone.utc
            )
        start = datetime(2019, 12, 30, 22, 58, 57, tzinfo=timezone.utc)
        whole = timedelta(seconds=seconds)
        return start - (start - datetime.min.replace(tzinfo=timezone.utc)) % whole + whole * steps

    interval = Interval(boundary(skip), boundary(skip + count))
    begin = boundary(0).strftime("%Y-%m-%d %H:%M:%S")
    instants = (
        f"SELECT TIMESTAMP '{begin}' + make_dt_interval(0, 0, 0, id * {seconds / 3}) AS at "
        "FROM range(24)"
    )
    inside = TimeColumn("at", "timestamp").condition(interval)
    text = f"date_format(at, {string_literal(spark_format(pattern))})"
    _, rows = spark_engine.query(
        f"SELECT count_if(({column.condition(interval)}) <> ({inside})), count_if({inside}) "
        f"FROM (SELECT at, {text} AS t FROM ({instants}))"
    )
    assert rows[0][0] == 0
    assert rows[0][1] > 0


def test_many_values_that_do_not_sort_are_read_by_parsing(spark_engine: SparkEngine) -> None:
    column = TimeColumn("t", "string", "%d/%m/%Y %H:%M")
    interval = days(2, 15)
    assert (interval.end - interval.start).total_seconds() / 60 > MOST_VALUES
    condition = column.reading_condition(interval)
    assert "to_timestamp_ntz" in condition
    _, rows = spark_engine.query(
        "SELECT t FROM VALUES ('01/01/2013 23:59'), ('02/01/2013 00:00'), ('14/01/2013 23:59'), "
        f"('15/01/2013 00:00'), ('03/02/2013 00:00') v(t) WHERE {condition} ORDER BY t"
    )
    assert rows == (("02/01/2013 00:00",), ("14/01/2013 23:59",))


def test_intervals_in_sparks_own_format_are_replaced_exactly(spark_engine: SparkEngine) -> None:
    kind = IncrementalByTimeRange("t", strftime_format("dd/MM/yyyy", "spark"))
    table = Warehouse(spark_engine, kind, {"t": "string", "v": "string"}, {"t": "t_2"})
    query = (
        "SELECT date_format(DATE '2013-01-01' + CAST(id AS INT), 'dd/MM/yyyy') AS t, '{}' AS v "
        "FROM range(60)"
    )
    table.fill(query.format("a"), days(1, 46))
    for _ in range(2):
        table.fill(query.format("b"), days(31, 34))
    assert table.rows("v, count(*), min(t_2), max(t_2)", " GROUP BY v") == [
        ("a", 42, "01/01/2013", "30/01/2013"),
        ("b", 3, "01/02/2013", "31/01/2013"),
    ]
