from __future__ import annotations

from datetime import date, datetime, timezone
from pathlib import Path

from vde_dagster.base.names import ModelName
from vde_dagster.project.loading.codec import test_from_json as from_json
from vde_dagster.project.loading.codec import test_to_json as to_json
from vde_dagster.project.macros.expansion import MacroScope
from vde_dagster.project.reading.unit_tests import load_unit_tests
from vde_dagster.project.table_names import TableNames
from vde_dagster.project.unit_values import TestTable, UnitTest

TEXT = """
test_delay:
  model: a.m
  description: The delay is in minutes.
  inputs:
    b.flights:
      columns:
        ds: date
        delay: int
      rows:
      - ds: 2013-01-01
        carrier: AA
      - delay: 3
        at: 2013-01-01 10:00:00
    airports:
    - {code: JFK}
    lakehouse.b.c:
      query: SELECT 1 AS x
    b.wide:
      rows:
        x: [1, 2]
        y: [a, null]
  outputs:
    partial: true
    query:
      rows:
      - minutes: 3
    ctes:
      late:
        rows:
        - n: 1
  vars:
    start: 2013-01-01
    end: 2013-01-02
    execution_time: 2013-01-03 12:00:00
    limit: 5
test_small:
  model: a.m
  outputs:
    query: []
  vars:
    end: '2013-01-01 11:59:59.999999'
"""


def read() -> tuple[UnitTest, ...]:
    return load_unit_tests(
        Path("tests/t.yaml"), TEXT, TableNames("lakehouse", "default"), MacroScope({}, {})
    )


def test_the_format_of_sqlmesh_is_read() -> None:
    test, small = read()

    assert (test.name, test.model, test.location.line) == ("test_delay", ModelName("a", "m"), 2)
    assert [str(name) for name, _ in test.inputs] == [
        "b.flights",
        "default.airports",
        "b.c",
        "b.wide",
    ]
    assert test.inputs[0][1] == TestTable(
        columns=("ds", "delay", "carrier", "at"),
        rows=(
            (date(2013, 1, 1), None, "AA", None),
            (None, 3, None, datetime(2013, 1, 1, 10)),
        ),
        types=(("ds", "date"), ("delay", "int")),
    )
    assert test.inputs[2][1].query == "SELECT 1 AS x"
    assert test.inputs[3][1].rows == ((1, "a"), (2, None))
    assert test.expected == TestTable(("minutes",), ((3,),), partial=True)
    assert test.ctes == (("late", TestTable(("n",), ((1,),), partial=True)),)
    assert test.start == datetime(2013, 1, 1, tzinfo=timezone.utc)
    assert test.end == datetime(2013, 1, 3, tzinfo=timezone.utc)
    assert test.execution_time == datetime(2013, 1, 3, 12, tzinfo=timezone.utc)
    assert test.variables == (("limit", 5),)
    assert small.expected == TestTable((), ())
    assert small.end == datetime(2013, 1, 1, 12, tzinfo=timezone.utc)


def test_tests_survive_the_cache() -> None:
    import json

    for test in read():
        assert from_json(json.loads(json.dumps(to_json(test)))) == test
