"""`refresh auto` chooses by bytes: cases as data, laws for random sizes, texts, and figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vde_dagster.lakehouse.metadata.commit_summaries import bytes_at, bytes_between
from vde_dagster.planning.changes.refresh import (
    FEWEST,
    RULE_OF_THUMB,
    Line,
    MeasuredFill,
    Refresh,
    RefreshCode,
    RefreshCosts,
    RefreshSizes,
    choose_refresh,
)
from vde_dagster.planning.table_contents import FillFacts, dump_facts, load_facts
from vde_dagster.reports.reasons import describe_refresh, describe_why_all

MB, GB = 10**6, 10**9
_BYTES = st.integers(0, 10**13)
_SIZES = st.builds(RefreshSizes, _BYTES, _BYTES, _BYTES, _BYTES, st.booleans())
_SECONDS = st.floats(0.01, 10_000)
_FILLS = st.lists(st.builds(MeasuredFill, st.booleans(), _SIZES, _SECONDS), max_size=20)


@pytest.mark.parametrize(
    ("inputs", "table", "changed", "by_keys", "code"),
    [
        (0, 0, 0, True, "small"),
        (1 * MB, 0, 0, True, "small"),
        (1 * MB, 0, 0, False, "small"),
        (1 * GB, 1 * MB, 0, True, "cheaper"),
        (1 * GB, 1 * MB, 1 * MB, True, "cheaper"),
        (1 * GB, 1 * MB, 1 * MB, False, "cheaper"),
        (1 * GB, 1 * MB, 900 * MB, True, "much_changed"),
        (1 * GB, 1 * MB, 2 * GB, True, "much_changed"),
        (1000 * GB, 1 * GB, 1 * GB, True, "cheaper"),
        (1000 * GB, 1 * GB, 2000 * GB, False, "much_changed"),
    ],
)
def test_few_changes_of_large_inputs_are_refreshed_from(
    inputs: int, table: int, changed: int, by_keys: bool, code: str
) -> None:
    sizes = RefreshSizes(inputs, table, changed, inputs + table if by_keys else 0, by_keys)
    assert choose_refresh(sizes) is RefreshCode(code)


@given(sizes=_SIZES, more=_BYTES, fills=_FILLS)
def test_more_changed_bytes_never_turn_whole_into_changes(
    sizes: RefreshSizes, more: int, fills: list[MeasuredFill]
) -> None:
    costs = RULE_OF_THUMB.fit(fills)
    if choose_refresh(sizes, costs) is not RefreshCode.CHEAPER:
        larger = replace(sizes, changed=sizes.changed + more)
        assert choose_refresh(larger, costs) is not RefreshCode.CHEAPER


@given(sizes=_SIZES, more=_BYTES)
def test_more_unchanged_bytes_never_turn_changes_into_whole(sizes: RefreshSizes, more: int) -> None:
    sizes = replace(sizes, scanned=0)
    if choose_refresh(sizes) is RefreshCode.CHEAPER:
        larger = replace(sizes, inputs=sizes.inputs + more)
        assert choose_refresh(larger) is RefreshCode.CHEAPER


@given(sizes=_SIZES, fills=_FILLS)
def test_fitted_costs_are_never_negative(sizes: RefreshSizes, fills: list[MeasuredFill]) -> None:
    costs = RULE_OF_THUMB.fit(fills)
    assert costs.whole_seconds(sizes) >= 0
    assert costs.changes_seconds(sizes) >= 0


@given(
    whole=st.tuples(st.floats(0, 30), st.floats(0.1, 10)),
    changes=st.tuples(st.floats(0, 30), st.floats(0.1, 10)),
)
def test_costs_that_made_the_fills_are_found_again(
    whole: tuple[float, float], changes: tuple[float, float]
) -> None:
    made = RefreshCosts(Line(*whole), Line(*changes))
    fills = []
    for number in range(1, FEWEST + 1):
        sizes = RefreshSizes(number * GB, number * MB, number**2 * MB, number * GB)
        fills.append(MeasuredFill(False, sizes, made.whole_seconds(sizes)))
        fills.append(MeasuredFill(True, sizes, made.changes_seconds(sizes)))
    found, sizes = RULE_OF_THUMB.fit(fills), RefreshSizes(50 * GB, GB, GB, 51 * GB)
    assert found.whole_seconds(sizes) == pytest.approx(made.whole_seconds(sizes), rel=1e-6)
    assert found.changes_seconds(sizes) == pytest.approx(made.changes_seconds(sizes), rel=1e-6)


def test_few_fills_keep_the_rule_and_one_way_tells_the_speed_of_the_other() -> None:
    sizes = RefreshSizes(10 * GB, GB, MB, 11 * GB)
    slow = MeasuredFill(False, sizes, 3 * RULE_OF_THUMB.whole_seconds(sizes))
    assert RULE_OF_THUMB.fit([slow] * (FEWEST - 1)) == RULE_OF_THUMB
    found = RULE_OF_THUMB.fit([slow] * FEWEST)
    for seconds in (RefreshCosts.whole_seconds, RefreshCosts.changes_seconds):
        assert seconds(found, sizes) == pytest.approx(3 * seconds(RULE_OF_THUMB, sizes))


@pytest.mark.parametrize(
    ("refresh", "planned", "done"),
    [
        (
            Refresh(RefreshCode.ASKED, tables=("raw.orders",), key=("customer_id",)),
            "refreshes from changes of raw.orders by customer_id",
            "refreshed from changes of raw.orders by customer_id",
        ),
        (
            Refresh(RefreshCode.CHEAPER, tables=("m.a", "raw.b"), key=("x", "y")),
            "refreshes from changes of m.a, raw.b by x, y",
            "refreshed from changes of m.a, raw.b by x, y",
        ),
        (
            Refresh(RefreshCode.CHEAPER, tables=("m.a",), changes="rows"),
            "refreshes from changed rows of m.a",
            "refreshed from changed rows of m.a",
        ),
        (
            Refresh(RefreshCode.CHEAPER, tables=("m.a",), key=("x",), changes="groups"),
            "merges changes of m.a by x",
            "merged changes of m.a by x",
        ),
        (
            Refresh(RefreshCode.ASKED, tables=("m.a",), changes="groups"),
            "merges changes of m.a",
            "merged changes of m.a",
        ),
        (
            Refresh(RefreshCode.SMALL, sizes=RefreshSizes(1_200_000, 1, 1, 1)),
            "computes all rows: its inputs are small (1.2 MB)",
            "computed all rows: its inputs are small (1.2 MB)",
        ),
        (
            Refresh(RefreshCode.MUCH_CHANGED, sizes=RefreshSizes(4 * GB, 1, 3 * GB, 1)),
            "computes all rows: 3.0 GB of 4.0 GB changed (75%)",
            "computed all rows: 3.0 GB of 4.0 GB changed (75%)",
        ),
        (
            Refresh(RefreshCode.IMPOSSIBLE, "it takes the first rows: LIMIT 5"),
            "computes all rows: it takes the first rows: LIMIT 5",
            "computed all rows: it takes the first rows: LIMIT 5",
        ),
    ],
)
def test_people_read_how_rows_are_computed(refresh: Refresh, planned: str, done: str) -> None:
    assert (describe_refresh(refresh), describe_refresh(refresh, done=True)) == (planned, done)
    assert refresh.from_changes or planned.endswith(describe_why_all(refresh))
    text = dump_facts(FillFacts(refresh=refresh))["refresh"]
    assert load_facts(None, None, None, None, text).refresh == refresh


def test_only_a_refresh_from_changes_leaves_inputs_unread() -> None:
    sizes = RefreshSizes(1000, 10, 5, 0)
    assert Refresh(RefreshCode.ASKED, sizes=sizes).unread(300) == 700
    assert Refresh(RefreshCode.CHEAPER, sizes=sizes).unread(1300) == 0
    assert Refresh(RefreshCode.CHEAPER, sizes=sizes).unread(None) == 0
    assert Refresh(RefreshCode.SMALL, sizes=sizes).unread(300) == 0


def _commit(number: int, parent: int | None, operation: str, **sizes: int) -> dict[str, Any]:
    named = {name.replace("_", "-"): str(size) for name, size in sizes.items()}
    summary = {"operation": operation, **named}
    return {"snapshot-id": number, "parent-snapshot-id": parent, "summary": summary}


def test_bytes_of_commits_are_added_up_from_their_summaries() -> None:
    commits = [
        _commit(1, None, "append", added_files_size=100, total_files_size=100),
        _commit(2, 1, "append", added_files_size=20, total_files_size=120),
        _commit(3, 2, "replace", added_files_size=90, removed_files_size=120, total_files_size=90),
        _commit(4, 3, "overwrite", added_files_size=7, removed_files_size=5, total_files_size=92),
        _commit(5, 2, "append", added_files_size=1, total_files_size=121),
        _commit(6, 4, "append"),
    ]
    metadata = {"snapshots": commits}
    assert [bytes_at(metadata, one) for one in (None, 1, 4, 6, 99)] == [0, 100, 92, None, None]
    assert bytes_between(metadata, 2, 4) == 12
    assert bytes_between(metadata, 4, 4) == 0
    assert bytes_between(metadata, None, 2) == 120
    assert bytes_between(metadata, 4, 5) == 13  # back to commit 2, then forwards
    assert bytes_between(metadata, 4, 6) is None
    expired = {"snapshots": commits[2:]}
    assert bytes_between(expired, None, 4) is None
