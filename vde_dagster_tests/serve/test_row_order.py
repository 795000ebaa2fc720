"""Rows in order, page by page, are those that Python sorts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vde_dagster.errors import UsageError
from vde_dagster.lakehouse.rows.row_order import (
    Behind,
    Cursor,
    SortKey,
    first_rows,
    from_keys,
    to_key,
)

SCHEMA = pa.schema([("a", pa.float64()), ("b", pa.string()), ("n", pa.int64())])
VALUES = st.lists(
    st.tuples(
        st.sampled_from([None, math.nan, -1.0, 0.5, 2.0, math.inf]),
        st.sampled_from([None, "", "ä", "b"]),
    ),
    max_size=25,
)
KEYS = st.lists(
    st.tuples(st.sampled_from("ab"), st.booleans()), max_size=2, unique_by=lambda key: key[0]
)


def batches(rows: Sequence[tuple[Any, ...]], size: int) -> list[pa.Table]:
    listed = [(*row, number) for number, row in enumerate(rows)]
    columns = [list(column) for column in zip(*listed, strict=True)] or [[], [], []]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    found = pa.table(arrays, schema=SCHEMA).to_batches(size)
    return [pa.Table.from_batches([batch]) for batch in found]


def in_order(rows: Sequence[tuple[Any, ...]], keys: Sequence[SortKey]) -> list[int]:
    """Sort as Python does, one key after the other from the last."""
    order = list(range(len(rows)))
    for key in reversed(keys):
        values = [row["ab".index(key.column)] for row in rows]
        plain = [n for n in order if values[n] is not None and values[n] == values[n]]
        plain.sort(key=values.__getitem__, reverse=key.descending)
        nan = [n for n in order if values[n] != values[n]]
        order = [*plain, *nan, *(n for n in order if values[n] is None)]
    return order


@given(VALUES, KEYS, st.integers(1, 7), st.integers(1, 6))
def test_pages_together_are_all_rows_in_order_and_none_twice(
    rows: list[tuple[Any, ...]], keys: list[tuple[str, bool]], limit: int, size: int
) -> None:
    sort = [SortKey(*key) for key in keys]
    found: list[int] = []
    behind: Behind | None = None
    before: list[Any] = []
    while True:
        page = first_rows(batches(rows, size), SCHEMA, sort, limit, behind)
        if not page.num_rows:
            break
        found += page["n"].to_pylist()
        assert len(found) <= len(rows)
        last = tuple(page[key.column][-1] for key in sort)
        text = [to_key(one) for one in last]
        own = [[to_key(page[key.column][n]) for key in sort] for n in range(page.num_rows)]
        equal = page.num_rows - next((n for n in range(len(own), 0, -1) if own[n - 1] != text), 0)
        if not sort or (equal == page.num_rows and behind and text == before):
            equal += behind.given if behind else 0
        before = text
        values = from_keys(text, [SCHEMA.field(key.column).type for key in sort])
        behind = Behind(tuple(values), equal)
    assert found == in_order(rows, sort)


def test_a_cursor_is_read_as_it_was_written() -> None:
    made = Cursor(41, "abc", (1, None, "ü", "nan"), 3)
    assert Cursor.read(made.text()) == made


@pytest.mark.parametrize("text", ["", "x", "bm8", "WzFd", "////", "é", "WzEsMiwzLDRd"])
def test_what_is_no_cursor_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="cursor"):
        Cursor.read(text)
