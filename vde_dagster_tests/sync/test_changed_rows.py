"""What is sent of rows that came and went, however many there are."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vde_dagster.errors import UsageError
from vde_dagster.plugins.sync.changed_rows import ChangedRows

pytestmark = pytest.mark.long

SCHEMA = pa.schema([("id", pa.int64()), ("word", pa.string()), ("n", pa.float64())])


def changed(came: Sequence[Sequence[Any]], went: Sequence[Sequence[Any]]) -> ChangedRows:
    """Changes of rows that are given."""

    def reading(rows: Sequence[Sequence[Any]]) -> Any:
        made = pa.Table.from_pylist([dict(zip(SCHEMA.names, r, strict=True)) for r in rows], SCHEMA)
        return lambda columns: iter(made.select(list(columns)).to_pylist())

    return ChangedRows(SCHEMA, "", 1, None, reading(came), reading(went))


ROW = st.tuples(st.integers(0, 4), st.sampled_from(["a", "b", None]), st.sampled_from([0.5, 1.5]))
KEYED = st.lists(ROW, max_size=8, unique_by=lambda row: row[:2])


@given(came=KEYED, went=KEYED)
def test_by_key_what_differs_is_sent_and_what_is_there_no_more_goes(
    came: list[Any], went: list[Any]
) -> None:
    before = {row[:2]: row for row in went}
    rows = [("same" if before.pop(row[:2], None) == row else "row", row) for row in came]
    found = list(changed(came, went).net_changes(("id", "word")))
    assert [(kind, tuple(row.values())) for kind, row in found[: len(came)]] == rows
    gone = [tuple(row.values()) for _, row in found[len(came) :]]
    assert sorted(gone, key=repr) == sorted(before, key=repr)
    assert found == list(changed(came, went).net_changes(("id", "word"))), (
        "batches are the same again"
    )


@given(came=st.lists(ROW, max_size=8), went=st.lists(ROW, max_size=8))
def test_without_a_key_rows_that_are_there_more_often_are_sent(
    came: list[Any], went: list[Any]
) -> None:
    found = changed(came, went).net_changes(())
    sent = Counter(tuple(row.values()) for kind, row in found if kind == "row")
    assert sent == Counter(came) - Counter(went)


@pytest.mark.parametrize("second", [1, None])
def test_a_key_that_tells_no_rows_apart_is_found_before(second: int | None) -> None:
    rows = [(1, "a", 0.5), (2, "a", 0.5), (second, "b", 0.5)]
    with pytest.raises(UsageError, match="is not unique" if second else "is NULL"):
        changed(rows, []).require_key(("id",))
    changed(rows[:2], []).require_key(("id",))


@pytest.mark.proof
def test_keys_of_many_rows_are_not_held_in_memory() -> None:
    """As Python objects they would be some 7 MB."""

    def rows_of_columns(columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        for first in range(0, 20_000, 1_000):
            ids = pa.array(range(first, first + 1_000), pa.int64())
            words = pa.array([f"key of a row {one}" for one in range(first, first + 1_000)])
            made = pa.table([ids, words, pa.nulls(1_000, pa.float64())], schema=SCHEMA)
            yield from made.select(list(columns)).to_pylist()

    rows = ChangedRows(SCHEMA, "", 1, None, rows_of_columns, rows_of_columns)
    tracemalloc.start()
    try:
        rows.require_key(("word",))
        assert sum(kind == "same" for kind, _ in rows.net_changes(("word",))) == 20_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000
