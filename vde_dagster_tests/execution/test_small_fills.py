"""Which fills certainly read few rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from vde_dagster.execution.apply.skipping import FillInputs
from vde_dagster.execution.apply.small_fills import MOST_ROWS, is_small
from vde_dagster.planning.environments.resolver import TableRead
from vde_dagster.planning.table_contents import InputState
from vde_dagster.planning.tables.table import TableRef

OWN = TableRef("db", "own")


def metadata(summary: Mapping[str, object]) -> dict[str, Any]:
    commit = {"snapshot-id": 7, "summary": {name: str(value) for name, value in summary.items()}}
    refs = {"main": {"snapshot-id": 7, "type": "branch"}}
    return {"current-snapshot-id": 7, "snapshots": [commit], "refs": refs}


def judged(
    rows: Mapping[str, Mapping[str, object]],
    query: str | None = "SELECT 1",
    *,
    known: bool = True,
    created: bool = True,
) -> bool:
    """Return the answer for a fill of `own` that reads the other tables."""
    tables = {TableRef("db", name): metadata(summary) for name, summary in rows.items()}
    reads = tuple(TableRead(ref.name, ref, None) for ref in tables if ref != OWN)
    inputs = {read.key: InputState(7, 7) for read in reads} if known else {}
    asked: list[set[TableRef]] = []

    def read(refs: Iterable[TableRef]) -> dict[TableRef, dict[str, Any]]:
        asked.append(set(refs))
        return {ref: tables[ref] for ref in asked[-1] if ref in tables}

    lakehouse: Any = SimpleNamespace(tables_metadata=read)
    table = SimpleNamespace(ref=OWN, created=created, branch=None)
    task: Any = SimpleNamespace(query=query, table=table)
    small = is_small(lakehouse, task, FillInputs(reads, inputs))
    assert len(asked) <= 1, "the catalog is asked once for all tables"
    return small


FEW = {"total-records": 9}


@pytest.mark.parametrize(
    ("rows", "small"),
    [
        ({"own": FEW}, True),
        ({"own": FEW, "a": FEW, "b": {"total-records": MOST_ROWS - 18}}, True),
        ({"own": FEW, "a": FEW, "b": {"total-records": MOST_ROWS - 17}}, False),
        ({"own": {"total-records": MOST_ROWS + 1}, "a": FEW}, False),
        ({"own": FEW, "a": {}}, False),
        ({"own": {}, "a": FEW}, False),
        ({"own": FEW, "a": {**FEW, "total-equality-deletes": 1}}, False),
    ],
)
def test_a_fill_is_small_by_the_rows_of_its_inputs_and_its_table(
    rows: Mapping[str, Mapping[str, object]], small: bool
) -> None:
    assert judged(rows) is small


def test_a_table_that_does_not_exist_has_no_rows() -> None:
    assert judged({"a": FEW}, created=False)


def test_a_table_that_is_lost_is_not_small() -> None:
    assert not judged({"a": FEW})


def test_an_input_whose_state_is_unknown_is_not_small() -> None:
    assert not judged({"own": FEW, "a": FEW}, known=False)


@pytest.mark.parametrize(
    ("query", "small"),
    [
        ("SELECT explode(xs) FROM a", True),
        ("SELECT ranges FROM a", True),
        ("SELECT id FROM Range(1000000000)", False),
        ("SELECT explode(sequence(1, 1000000000))", False),
        ("WITH RECURSIVE n AS (SELECT 1) SELECT * FROM n", False),
        ("SELECT array_repeat(x, 1000000000) FROM a", False),
        (None, False),
    ],
)
def test_a_query_that_may_make_rows_of_its_own_is_not_small(query: str | None, small: bool) -> None:
    assert judged({"own": FEW, "a": FEW}, query) is small
