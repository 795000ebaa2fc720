"""CHANGES as DuckDB runs its SQL: any order of loads, any repetition, ends in one table."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from itertools import groupby
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vde_dagster.errors import ExecutionError, ProjectError
from vde_dagster.plugins.vault.changes import _check_deletions, make_states
from vde_dagster.plugins.vault.kinds import Changes
from vde_dagster.project.kinds import Kind
from vde_dagster.project.serialise import from_plain, to_plain
from vde_dagster_tests.duck import empty_duckdb
from vde_dagster_tests.vault.tables import Case, Table, kind_of, read_tables, run

TABLES = read_tables("changes.yaml")
CASES = [(table, case) for table in TABLES for case in table.cases if case.refused is None]
DAYS = ("2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04")
ROWS = st.tuples(
    st.sampled_from("ab"),
    st.integers(1, 2),
    st.one_of(st.none(), st.integers(0, 1)),
    st.sampled_from(DAYS),
    st.sampled_from(("crm", "erp")),
)
LOADS = st.lists(st.lists(ROWS, max_size=4), max_size=5)
COLUMNS = {"hk": "string", "number": "int", "v": "int", "ldts": "date", "rsrc": "string"}


def loaded(table: Table, loads: list[Any]) -> list[Any]:
    """The rows of a table after some loads, sorted."""
    kind = kind_of(table.kind)
    assert isinstance(kind, Changes)
    added = {column.name: column.type for column in kind.added_columns}
    states = make_states(kind, {**table.columns, **added})
    shown = ", ".join(table.all_shown.columns)
    with empty_duckdb() as database:
        empty = " ,".join(f"CAST(NULL AS {type_}) AS {name}" for name, type_ in added.items())
        run(database, f"CREATE TABLE t AS SELECT *, {empty} FROM ({table.values([])}) nothing")
        for rows in loads:
            run(database, f"CREATE OR REPLACE TABLE came AS {table.values(rows)}")
            run(database, f"CREATE OR REPLACE TABLE one AS {states.unique_rows('came', 't')}")
            gaps = "gaps" if kind.deletes else None
            if gaps is not None:
                run(database, f"CREATE OR REPLACE TABLE gaps AS {states.gaps('one')}")
            run(database, f"CREATE OR REPLACE TABLE made AS {states.states('one', gaps)}")
            run(database, states.merge("t", "came", "made"))
        return sorted(run(database, f"SELECT {shown} FROM t"), key=repr)


@pytest.mark.proof
@pytest.mark.parametrize(("table", "case"), CASES, ids=lambda one: one.name.replace(" ", "_"))
def test_any_order_of_loads_gives_what_is_expected(table: Table, case: Case) -> None:
    with empty_duckdb() as database:
        expected = sorted(run(database, table.all_shown.values(case.expected)), key=repr)
    for loads in case.orders:
        assert loaded(table, [*loads, loads[0]]) == expected


@pytest.mark.parametrize(
    ("more", "rows", "number"),
    [
        ("", [("a", 1, 1, "crm"), ("a", 1, 1, "erp"), ("b", 1, 1, "crm")], 0),
        ("", [("a", 1, 1, "crm"), ("a", 1, 2, "crm"), ("a", 2, 1, "erp"), ("b", 1, 1, "crm")], 1),
        ("", [("a", 1, None, "crm"), ("a", 1, 2, "crm"), ("b", 1, 1, "x"), ("b", 2, 1, "x")], 2),
        (", compare v", [("a", 1, 1, "crm"), ("a", 2, 1, "crm")], 0),
        (", set_key number", [("a", 1, 1, "crm"), ("a", 2, 1, "crm")], 0),
        (", set_key number", [("a", 1, 1, "crm"), ("a", 1, 2, "crm")], 1),
        (", sequence number", [("a", 1, 1, "crm"), ("a", 2, 2, "crm")], 0),
        (", sequence number", [("a", 1, 1, "crm"), ("a", 1, 2, "crm")], 1),
        (", absent DELETE", [("a", 1, 1, "crm"), ("a", 1, 2, "crm")], 1),
    ],
)
def test_states_that_are_left_out_are_counted(more: str, rows: list[Any], number: int) -> None:
    kind = kind_of(f"CHANGES (key hk, time ldts, source rsrc{more})")
    assert isinstance(kind, Changes)
    added = {column.name: column.type for column in kind.added_columns}
    states = make_states(kind, {**COLUMNS, **added})
    given = [(key, one, v, "2024-01-01", source) for key, one, v, source in rows]
    with empty_duckdb() as database:
        run(database, f"CREATE TABLE came AS {Table('t', '', COLUMNS, ()).values(given)}")
        run(database, f"CREATE TABLE one AS {states.unique_rows('came', None)}")
        assert run(database, states.count_discarded("one")) == [(number,)]


@pytest.mark.parametrize(("gone", "refused"), [(28, False), (29, False), (30, True)])
def test_a_delivery_may_delete_exactly_the_share_that_is_allowed(gone: int, refused: bool) -> None:
    write = MagicMock()
    write.session.sql.return_value.collect.return_value = [("2024-01-02", gone, 100)]
    kind = kind_of("CHANGES (key hk, time ldts, absent DELETE, most_deleted 0.29)")
    assert isinstance(kind, Changes)
    with pytest.raises(ExecutionError, match="lacks 30 of") if refused else nullcontext():
        _check_deletions(write, kind, "")


def test_the_time_of_a_delivery_that_lacks_keys_is_written_by_spark_in_utc() -> None:
    kind = kind_of("CHANGES (key hk, time ldts, source rsrc, absent DELETE)")
    assert isinstance(kind, Changes)
    added = {column.name: column.type for column in kind.added_columns}
    states = make_states(kind, {**COLUMNS, "ldts": "timestamp", **added})
    given = [("a", 1, 1, day, "crm") for day in DAYS[:1]]
    given += [("b", 1, 1, day, "crm") for day in DAYS[:2]]
    with empty_duckdb() as database:
        run(database, f"CREATE TABLE came AS {Table('t', '', COLUMNS, ()).values(given)}")
        run(database, f"CREATE TABLE one AS {states.unique_rows('came', None)}")
        run(database, f"CREATE TABLE gaps AS {states.gaps('one')}")
        (found,) = run(database, states.deletions("came", "one", "gaps"))
    assert found == ("2024-01-02", 1, 2)


def test_the_order_of_compared_columns_decides_nothing() -> None:
    """Their order is not in a model's version, so a table must not depend on it."""
    rows = [("a", 1, 2, DAYS[0], "crm"), ("a", 2, 1, DAYS[0], "crm")]
    kinds = [f"CHANGES (key hk, time ldts, compare ({one}))" for one in ("number, v", "v, number")]
    one, other = (loaded(Table("t", kind, COLUMNS, ()), [rows]) for kind in kinds)
    assert one == other


@pytest.mark.parametrize(
    ("second", "loads", "expected"),
    [
        ((1, 1, DAYS[1]), [(1, day) for day in DAYS], [(0, DAYS[0], 0), (1, DAYS[1], 2)]),
        ((1, 2, DAYS[2]), [(2, DAYS[1])], [(0, DAYS[0], 0), (None, DAYS[1], 1)]),
    ],
    ids=["equal_states", "a_late_row_of_the_next_state"],
)
def test_stored_states_that_differ_in_a_removed_column_stay_apart(
    second: tuple[int, int, str], loads: list[tuple[int, str]], expected: list[Any]
) -> None:
    kind = kind_of("CHANGES (key hk, time ldts, source rsrc)")
    assert isinstance(kind, Changes)
    (again,) = kind.added_columns
    types = {name: type_ for name, type_ in COLUMNS.items() if name != "number"}
    stored = [("a", 0, 1, DAYS[0], "crm"), ("a", *second, "crm")]
    states = replace(make_states(kind, {**types, again.name: again.type}), hidden={"number": "int"})
    with empty_duckdb() as database:
        rows = Table("t", "", COLUMNS, ()).values(stored)
        run(
            database,
            f"CREATE TABLE t AS SELECT *, CAST(NULL AS {again.type}) seen_again FROM ({rows})",
        )
        for value, day in loads:
            came = Table("t", "", types, ()).values([("a", value, day, "crm")])
            run(database, f"CREATE OR REPLACE TABLE came AS {came}")
            run(database, f"CREATE OR REPLACE TABLE one AS {states.unique_rows('came', 't')}")
            run(database, f"CREATE OR REPLACE TABLE made AS {states.states('one')}")
            run(database, states.merge("t", "came", "made"))
        found = run(
            database,
            "SELECT number, CAST(ldts AS STRING), COALESCE(SIZE(seen_again), 0) FROM t ORDER BY 2",
        )
    assert found == expected


def oracle(rows: set[Any], *, sets: bool, deletes: bool) -> list[Any]:
    """The rows of a table, from all that ever came: (key, number, value, day, source)."""

    def rank(row: Any) -> Any:
        _, number, value, _, source = row
        return source, *(() if sets else (number,)), value is None, value

    days = sorted({row[3] for row in rows})
    out = []
    for key in {row[0] for row in rows}:
        before: Any = None
        for day in days:
            now = [row for row in rows if (row[0], row[3]) == (key, day)]
            if sets:
                parts = groupby(sorted(now, key=lambda r: r[1]), key=lambda r: r[1])
                now = [min(part, key=rank) for _, part in parts]
            else:
                now = [min(now, key=rank)] if now else []
            if not now and (before is None or not deletes):
                continue
            state = [row[1:3] for row in now]
            if state != before:
                out += now or [(key, None, None, day, None)]
            before = state
    return sorted(out, key=repr)


@pytest.mark.proof
@pytest.mark.parametrize("sets", [False, True])
@pytest.mark.parametrize("deletes", [False, True])
@settings(max_examples=12, deadline=None)
@given(loads=LOADS, random=st.randoms())
def test_it_is_a_function_of_all_rows_that_ever_came(
    sets: bool, deletes: bool, loads: list[Any], random: Any
) -> None:
    kind = "CHANGES (key hk, time ldts, source rsrc"
    kind += ", set_key number" * sets + ", absent DELETE" * deletes + ")"
    twice = [*loads, *loads]
    random.shuffle(twice)
    found = [
        (key, number, v, str(day), source)
        for key, number, v, day, source in loaded(Table("t", kind, COLUMNS, ()), twice)
    ]
    every = {row for rows in loads for row in rows}
    assert found == oracle(every, sets=sets, deletes=deletes)


@pytest.mark.proof
@settings(max_examples=25, deadline=None)
@given(loads=LOADS, random=st.randoms())
def test_a_sequence_orders_the_states_of_one_time(loads: list[Any], random: Any) -> None:
    twice = [*loads, *loads]
    random.shuffle(twice)
    kind = "CHANGES (key hk, time ldts, source rsrc, sequence number)"
    found = [
        (key, number, v, str(day), source)
        for key, number, v, day, source in loaded(Table("t", kind, COLUMNS, ()), twice)
    ]
    every = {row for rows in loads for row in rows}
    expected, before = [], dict[str, Any]()
    for key, day, number in sorted({(row[0], row[3], row[1]) for row in every}):
        now = [row for row in every if (row[0], row[3], row[1]) == (key, day, number)]
        row = min(now, key=lambda one: (one[4], one[2] is None, one[2]))
        if before.get(key, ...) != row[2]:
            expected.append(row)
        before[key] = row[2]
    assert found == sorted(expected, key=repr)


def test_it_is_read_from_a_header_and_from_json() -> None:
    kind = kind_of("CHANGES (key a, time t, compare (b, c), set_key d, absent delete)")
    assert kind == Changes(("a",), "t", compare=("b", "c"), set_key=("d",), absent="DELETE")
    assert from_plain(Kind, to_plain(kind)) == kind


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CHANGES (key a)", "requires 'time'"),
        ("CHANGES (key a, time t, absent GONE)", "'absent' cannot be 'GONE'"),
        ("CHANGES (key a, time t, absent DELETE, most_deleted 20)", "'20' is not a share"),
        ("CHANGES (key a, time t, most_deleted 0.2)", "'most_deleted' needs 'absent DELETE'"),
        ("CHANGES (key a, time t, sequence s, absent DELETE)", "so it cannot have a sequence"),
        ("CHANGES (key a, time t, sets b)", "has no property 'sets'"),
        ("CHANGES (key (a, T), time t)", "'t' occurs twice in key, time, sequence and set_key"),
        ("CHANGES (key a, time t, sequence s, set_key s)", "'s' occurs twice"),
    ],
)
def test_a_wrong_header_is_refused(text: str, message: str) -> None:
    with pytest.raises(ProjectError, match=message) as raised:
        kind_of(text)
    assert raised.value.location is not None
