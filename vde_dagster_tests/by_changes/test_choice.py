"""`refresh auto` chooses by bytes: cases as data, laws for random sizes, texts, and figures."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vde_dagster.execution.changes.refresh_choice import RefreshChoice
from vde_dagster.lakehouse.metadata.commit_summaries import bytes_at, bytes_between
from vde_dagster.planning.changes.refresh import (
    CHANGES_FIXED,
    NEWEST,
    RULE_OF_THUMB,
    Estimate,
    MeasuredFill,
    Method,
    Refresh,
    RefreshCode,
    RefreshCosts,
    RefreshSizes,
    choose_refresh,
)
from vde_dagster.planning.environments.resolver import TableRead
from vde_dagster.planning.table_contents import FillFacts, InputState, dump_facts, load_facts
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.reports.reasons import describe_refresh, describe_why_all

MB, GB = 10**6, 10**9
_BYTES = st.integers(0, 10**13)
_METHODS = st.sampled_from(list(CHANGES_FIXED))
_ROWS = st.none() | st.integers(0, 10**9)
_SIZES = st.builds(RefreshSizes, _BYTES, _BYTES, _BYTES, _BYTES, _METHODS, _ROWS)
_SECONDS = st.floats(0.01, 10_000)
_FILLS = st.lists(st.builds(MeasuredFill, st.booleans(), _SIZES, _SECONDS), max_size=20)


@pytest.mark.parametrize(
    ("inputs", "table", "changed", "method", "code"),
    [
        (0, 0, 0, "keys", "small"),
        (1 * MB, 0, 0, "keys", "small"),
        (1 * MB, 0, 0, "groups", "small"),
        (1 * GB, 1 * MB, 0, "keys", "cheaper"),
        (1 * GB, 1 * MB, 1 * MB, "keys", "cheaper"),
        (1 * GB, 1 * MB, 1 * MB, "rows", "cheaper"),
        (1 * GB, 1 * MB, 900 * MB, "keys", "much_changed"),
        (1 * GB, 1 * MB, 2 * GB, "keys", "much_changed"),
        (1000 * GB, 1 * GB, 1 * GB, "keys", "cheaper"),
        (1000 * GB, 1 * GB, 2000 * GB, "groups", "much_changed"),
    ],
)
def test_few_changes_of_large_inputs_are_refreshed_from(
    inputs: int, table: int, changed: int, method: Method, code: str
) -> None:
    scanned = inputs + table if method == "keys" else 0
    sizes = RefreshSizes(inputs, table, changed, scanned, method)
    assert choose_refresh(sizes) is RefreshCode(code)


@given(sizes=_SIZES, more=_BYTES, fills=_FILLS)
def test_more_changed_bytes_never_turn_whole_into_changes(
    sizes: RefreshSizes, more: int, fills: list[MeasuredFill]
) -> None:
    costs = RULE_OF_THUMB.fit(fills)
    if not _is_by_changes(choose_refresh(sizes, costs, fills)):
        larger = replace(sizes, changed=sizes.changed + more)
        assert not _is_by_changes(choose_refresh(larger, costs, fills))


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


@dataclass
class Replay:
    """A table that is filled day by day, with costs that only its fills show.

    Args:
        seconds: Returns the seconds of a fill, by its sizes and way, in a replay of the way.
    """

    seconds: Callable[[RefreshSizes, bool], float]
    fills: list[MeasuredFill]
    spent: float = 0.0
    best: float = 0.0

    def fill(self, sizes: RefreshSizes, costs: RefreshCosts, noise: float = 1.0) -> RefreshCode:
        """Choose and record a fill that takes `noise` times its seconds."""
        code = choose_refresh(sizes, costs.fit(self.fills, NEWEST), self.fills)
        way = _is_by_changes(code)
        self.spent += self.seconds(sizes, way)
        self.best += min(self.seconds(sizes, True), self.seconds(sizes, False))
        self.fills.insert(0, MeasuredFill(way, sizes, self.seconds(sizes, way) * noise))
        return code


def _costs(whole: list[float], changes: list[float]) -> Callable[[RefreshSizes, bool], float]:
    costs = RefreshCosts(tuple(whole), tuple(changes))
    return lambda sizes, way: getattr(costs, f"{'changes' if way else 'whole'}_seconds")(sizes)


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(4))
def test_a_learned_choice_takes_at_most_a_tenth_more_than_the_better_way(seed: int) -> None:
    draws = random.Random(seed)
    speed = draws.lognormvariate(0, 0.5)
    tables = []
    for method in CHANGES_FIXED:
        whole, changes = (
            [speed * draws.lognormvariate(0, 0.5) for _ in range(4)] for _ in range(2)
        )
        replay = Replay(_costs(whole, changes), [])
        inputs = int(10 ** draws.uniform(6, 9.5))
        sizes = RefreshSizes(inputs, inputs // 9, 0, inputs if method == "keys" else 0, method)
        replay.fills.append(MeasuredFill(False, sizes, replay.seconds(sizes, False)))
        tables.append((replay, sizes))
    for day in range(60):
        if day == 30:
            for replay, _ in tables:
                replay.spent = replay.best = 0.0
        for replay, sizes in tables:
            share = min(1.5, 10 ** draws.gauss(-2, 1))
            project = RULE_OF_THUMB.fit(fill for one, _ in tables for fill in one.fills)
            outlier = 5 if draws.random() < 0.03 else 1
            sizes = replace(sizes, changed=int(sizes.inputs * share))
            replay.fill(sizes, project, draws.lognormvariate(0, 0.15) * outlier)
    spent, best = (sum(getattr(one, name) for one, _ in tables) for name in ("spent", "best"))
    assert spent <= 1.1 * best, seed


@given(
    speed=st.floats(0.1, 10),
    size=st.integers(0, 100_000),
    noise=st.lists(st.floats(0.7, 1.4), min_size=40, max_size=40),
    method=st.sampled_from([one for one in CHANGES_FIXED if not one.startswith("added")]),
)
@settings(max_examples=20)
def test_inputs_for_which_fixed_costs_dominate_are_always_computed_as_a_whole(
    speed: float, size: int, noise: list[float], method: Method
) -> None:
    replay = Replay(_costs([speed] * 4, [speed] * 4), [])
    sizes = RefreshSizes(size, size // 2, size // 10, size, method)
    codes = {replay.fill(sizes, RULE_OF_THUMB, one) for one in noise}
    assert not any(map(_is_by_changes, codes)), codes


@given(
    slow=st.floats(3, 100),
    changes=st.floats(0.3, 0.7) | st.floats(1.5, 3),
    way=st.booleans(),
    each=st.integers(3, 8),
)
@settings(max_examples=40)
def test_one_slow_fill_does_not_turn_the_choice(
    slow: float, changes: float, way: bool, each: int
) -> None:
    sizes = RefreshSizes(GB, MB, MB, GB)
    usual = {False: 100.0, True: 100.0 * changes}
    fills = [MeasuredFill(one, sizes, usual[one]) for one in (True, False)] * each
    fills.insert(0, MeasuredFill(way, sizes, usual[way] * slow))
    found = RULE_OF_THUMB.fit(fills).fit(fills, NEWEST).estimate(sizes)
    assert (found.changes < found.whole) is (changes < 1), found


def test_a_way_without_fills_gets_the_speed_of_the_other_way() -> None:
    sizes = RefreshSizes(10 * GB, GB, MB, 11 * GB)
    rule = RULE_OF_THUMB.estimate(sizes)
    for way, seconds in ((True, rule.changes), (False, rule.whole)):
        found = RULE_OF_THUMB.fit([MeasuredFill(way, sizes, 3 * seconds)] * 30).estimate(sizes)
        assert found.whole == pytest.approx(3 * rule.whole, rel=0.2)
        assert found.changes == pytest.approx(3 * rule.changes, rel=0.2)


def test_the_slower_way_is_tried_once_its_extra_seconds_are_few() -> None:
    sizes = RefreshSizes(GB, MB, 0, GB)
    nearly = RefreshCosts((1.0,) * 4, (1.0, 3.1, 1.0, 1.0))
    fill = MeasuredFill(False, sizes, nearly.whole_seconds(sizes))
    measured = MeasuredFill(True, sizes, nearly.changes_seconds(sizes))
    assert choose_refresh(sizes, nearly, [fill]) is RefreshCode.TRIED
    assert choose_refresh(sizes, nearly, [fill, measured]) is RefreshCode.MUCH_READ
    assert choose_refresh(sizes, nearly, [fill] * 30 + [measured]) is RefreshCode.TRIED
    faster = RefreshCosts((1.2,) * 4, (1.0, 2.0, 1.0, 1.0))
    assert choose_refresh(sizes, faster, [measured, fill]) is RefreshCode.CHEAPER
    assert choose_refresh(sizes, faster, [measured] * 60 + [fill]) is RefreshCode.TRIED_WHOLE


def _is_by_changes(code: RefreshCode) -> bool:
    return Refresh(code).from_changes


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
            Refresh(
                *(RefreshCode.CHEAPER, "", ("m.a",), ("x",)),
                sizes=RefreshSizes(4 * GB, 1, 3, 1),
                estimate=Estimate(240.0, 5.04),
            ),
            "refreshes from changes of m.a by x; about 5.0 s, all rows 4 min",
            "refreshed from changes of m.a by x; about 5.0 s, all rows 4 min",
        ),
        (
            Refresh(
                *(RefreshCode.TRIED, "", ("m.a",)), changes="rows", estimate=Estimate(9.0, 12.0)
            ),
            "refreshes from changed rows of m.a, a trial to measure this method; about 12 s, all "
            "rows 9.0 s",
            "refreshed from changed rows of m.a, a trial to measure this method; about 12 s, all "
            "rows 9.0 s",
        ),
        (
            Refresh(RefreshCode.MUCH_READ, sizes=RefreshSizes(2 * GB, 1, GB, 2 * GB)),
            "computes all rows: a refresh reads 3.0 GB to find the rows to replace",
            "computed all rows: a refresh reads 3.0 GB to find the rows to replace",
        ),
        (
            Refresh(RefreshCode.TRIED_WHOLE, estimate=Estimate(9.0, 7.0)),
            "computes all rows: a trial to measure this method; about 9.0 s, from changes 7.0 s",
            "computed all rows: a trial to measure this method; about 9.0 s, from changes 7.0 s",
        ),
        (
            Refresh(
                RefreshCode.SMALL,
                sizes=RefreshSizes(1_200_000, 1, 1, 1),
                estimate=Estimate(0.94, 7.0),
            ),
            "computes all rows: its inputs are small (1.2 MB); about 0.9 s, from changes 7.0 s",
            "computed all rows: its inputs are small (1.2 MB); about 0.9 s, from changes 7.0 s",
        ),
        (
            Refresh(RefreshCode.IMPOSSIBLE, "the query takes the first rows: LIMIT 5"),
            "computes all rows: the query takes the first rows: LIMIT 5",
            "computed all rows: the query takes the first rows: LIMIT 5",
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
    assert Refresh(RefreshCode.ASKED, sizes=sizes).unread_bytes(300) == 700
    assert Refresh(RefreshCode.CHEAPER, sizes=sizes).unread_bytes(1300) == 0
    assert Refresh(RefreshCode.CHEAPER, sizes=sizes).unread_bytes(None) == 0
    assert Refresh(RefreshCode.SMALL, sizes=sizes).unread_bytes(300) == 0


def test_a_table_whose_refreshes_fail_is_computed_as_a_whole() -> None:
    sizes = RefreshSizes(10 * GB, GB, MB, 11 * GB)
    rule = RULE_OF_THUMB.estimate(sizes)
    assert choose_refresh(sizes) is RefreshCode.CHEAPER
    failed = Refresh(RefreshCode.FAILED, sizes=sizes)
    assert not failed.from_changes
    seconds = 1.5 * rule.whole
    fills = [MeasuredFill(failed.begins_with_changes, sizes, seconds)] * 3
    fills.append(MeasuredFill(False, sizes, rule.whole))
    costs = RULE_OF_THUMB.fit(fills).fit(fills, NEWEST)
    assert not _is_by_changes(choose_refresh(sizes, costs, fills))


def test_a_refresh_saved_the_seconds_that_all_rows_would_have_taken_longer() -> None:
    estimate = Estimate(9.0, 4.0)
    assert Refresh(RefreshCode.CHEAPER, estimate=estimate).saved_seconds(5.0) == 4.0
    assert Refresh(RefreshCode.TRIED, estimate=estimate).saved_seconds(12.0) == -3.0
    assert Refresh(RefreshCode.ASKED, estimate=estimate).saved_seconds(None) == 0.0
    assert Refresh(RefreshCode.ASKED).saved_seconds(5.0) == 0.0
    assert Refresh(RefreshCode.SMALL, estimate=estimate).saved_seconds(5.0) == 0.0


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


def test_the_sizes_of_all_inputs_take_one_lookup_in_the_catalog() -> None:
    commit = {"snapshot-id": 7, "summary": {"total-files-size": "5", "total-records": "1"}}
    refs = {"main": {"snapshot-id": 7, "type": "branch"}}
    metadata = {"current-snapshot-id": 7, "snapshots": [commit], "refs": refs}
    lookups: list[list[TableRef]] = []

    def read(asked: Iterable[TableRef]) -> dict[TableRef, Any]:
        lookups.append(list(asked))
        return dict.fromkeys(lookups[-1], metadata)

    lakehouse = SimpleNamespace(tables_metadata=read)
    tasks: Any = SimpleNamespace(handles=SimpleNamespace(lakehouse=lakehouse))
    own: Any = SimpleNamespace(ref=TableRef("db", "own"), created=True, branch=None)
    reads = [TableRead(name, TableRef("db", name), None) for name in ("a", "b")]
    filler: Any = None
    choice = RefreshChoice(tasks, filler, own, reads, dict.fromkeys("ab", InputState(7, 7)))
    sizes = choice.whole("why").sizes
    assert sizes is not None
    assert (sizes.inputs, sizes.table, sizes.changed) == (10, 5, 20)
    assert lookups == [[*(one.ref for one in reads), own.ref]]
