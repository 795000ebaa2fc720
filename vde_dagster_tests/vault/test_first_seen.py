"""FIRST_SEEN as DuckDB runs its SQL: any order of loads, any repetition, ends in one table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.nested_fields import Field, select_fields
from vde_dagster.plugins.vault.first_seen import Earliest
from vde_dagster.plugins.vault.kinds import FirstSeen
from vde_dagster.project.kinds import Kind
from vde_dagster.project.loading.loader import load_project
from vde_dagster.project.serialise import from_plain, to_plain
from vde_dagster_tests.duck import empty_duckdb
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.vault.tables import Case, Table, kind_of, read_tables, run

TABLES = read_tables("first_seen.yaml")
CASES = [(table, case) for table in TABLES for case in table.cases if case.refused is None]
ROWS = st.tuples(
    st.sampled_from("ab"),
    st.sampled_from(("2024-01-01", "2024-01-02", "2024-01-03")),
    st.sampled_from(("crm", "erp")),
    st.one_of(st.none(), st.integers(0, 2)),
)
HEADER = "MODEL (name m.hub, start '2024-01-01', kind FIRST_SEEN (key hk, time ldts));\n"
FILES = {
    "external_models.yaml": "- {name: s.rows, columns: {hk: string, ldts: date, v: int, w: int}}",
    "models/hub.sql": HEADER + "SELECT hk, ldts, v FROM s.rows",
}


def loaded(table: Table, loads: list[Any]) -> list[Any]:
    """The rows of a table after some loads, sorted."""
    kind = kind_of(table.kind)
    assert isinstance(kind, FirstSeen)
    earliest = Earliest(table.columns, kind.key, kind.order)
    with empty_duckdb() as database:
        run(database, f"CREATE TABLE t AS {table.values([])}")
        for rows in loads:
            run(database, earliest.merge("t", earliest.rows(f"({table.values(rows)})")))
        return sorted(run(database, "SELECT * FROM t"), key=repr)


@pytest.mark.proof
@pytest.mark.parametrize(("table", "case"), CASES, ids=lambda one: one.name.replace(" ", "_"))
def test_any_order_of_loads_gives_what_is_expected(table: Table, case: Case) -> None:
    with empty_duckdb() as database:
        expected = sorted(run(database, table.values(case.expected)), key=repr)
    for loads in case.orders:
        assert loaded(table, [*loads, loads[0]]) == expected


@pytest.mark.proof
@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(ROWS, max_size=4), max_size=4), st.randoms())
def test_it_is_the_earliest_of_all_rows_that_ever_came(loads: list[Any], random: Any) -> None:
    columns = {"hk": "string", "ldts": "date", "rsrc": "string", "v": "int"}
    table = Table("t", "FIRST_SEEN (key hk, time ldts, source rsrc)", columns, ())
    every = {row for rows in loads for row in rows}
    # DuckDB's NULL within a struct is the greatest; Spark's is the least.
    best = {
        key: min((r for r in every if r[0] == key), key=lambda r: (*r[1:3], r[3] is None, r[3]))
        for key in {row[0] for row in every}
    }
    twice = [*loads, *loads]
    random.shuffle(twice)
    found = [(key, str(day), source, v) for key, day, source, v in loaded(table, twice)]
    assert found == sorted(best.values())


def test_a_field_that_was_removed_in_place_ranks_no_row() -> None:
    types = {"hk": "string", "ldts": "date", "p": "struct<x:int,y:int>"}
    shown = select_fields(types["p"], (), (Field(("x",)),))
    earliest = Earliest(types, ["hk"], ["ldts"], {"p": shown})
    row = "SELECT 'a' AS hk, DATE '2024-01-01' AS ldts, NAMED_STRUCT('x', {}, 'y', {}) AS p"
    with empty_duckdb() as database:
        run(database, f"CREATE TABLE t AS {row.format(1, 5)}")
        for values in ((1, 3), (2, 3)):
            run(database, earliest.merge("t", earliest.rows(f"({row.format(*values)})")))
        assert run(database, "SELECT p.x, p.y FROM t") == [(1, 5)]


def _hub(folder: ProjectFolder) -> Snapshot:
    made = build_snapshots(load_project(folder.root).models, lambda name: None, warnings=[])
    return {one.name: one for one in made.values()}[ModelName("m", "hub")]


def test_it_is_read_from_a_header_and_from_json() -> None:
    kind = kind_of("FIRST_SEEN (key (a, b), time t, source s, batch_size 2)")
    assert kind == FirstSeen(("a", "b"), "t", "s", batch_size=2)
    assert from_plain(Kind, to_plain(kind)) == kind


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("key hk, ", "", "requires 'key'", "write kind FIRST_SEEN (key"),
        (", time ldts", "", "requires 'time'", "write kind FIRST_SEEN (time"),
        ("time ldts", "times ldts", "has no property 'times'", "time"),
        ("time ldts", "time loaded", "no output column 'loaded'", "its columns are hk, ldts, v"),
        ("key hk", "key id", "no output column 'id'", "its columns are hk, ldts, v"),
    ],
)
def test_a_wrong_header_gives_file_line_and_hint(
    tmp_path: Path, old: str, new: str, message: str, hint: str
) -> None:
    folder = ProjectFolder(tmp_path, FILES)
    folder.edit("models/hub.sql", old, new)
    with pytest.raises(ProjectError, match=message) as raised:
        _hub(folder)
    assert raised.value.location is not None
    assert (raised.value.location.path.name, raised.value.location.line) == ("hub.sql", 1)
    assert hint in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("key hk", "key (hk, v)", False),
        ("time ldts", "time ldts, source v", False),
        ("ldts, v FROM", "ldts, v, w FROM", False),
        ("time ldts", "time ldts, batch_size 3", True),
        ("hk, ldts, v FROM s.rows", "r.hk, r.ldts, r.v FROM s.rows AS r", True),
    ],
)
def test_what_decides_its_rows_is_in_their_version(
    tmp_path: Path, old: str, new: str, same: bool
) -> None:
    folder = ProjectFolder(tmp_path, FILES)
    before = _hub(folder)
    folder.edit("models/hub.sql", old, new)
    after = _hub(folder)
    assert (before.fill_version == after.fill_version) == same
