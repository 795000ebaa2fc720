"""What tables held is compared by their commits and by digests, and by nothing less."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from vde_dagster.lakehouse.metadata.commit_summaries import is_quiet
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.kinds.repeatable import DATES_OF_TEXTS, reads_clock
from vde_dagster.planning.table_contents import (
    FillFacts,
    InputState,
    Output,
    Skipped,
    Tile,
    changed_inputs,
    dump_facts,
    find_unchanged_sets,
    load_facts,
    read_input_state,
)
from vde_dagster.planning.tables.pinned_reads import KeptCommit

DAY = timedelta(days=1)
T0 = datetime(2024, 1, 1, tzinfo=timezone.utc)
AB, A = ("a", "b"), ("a",)


def line(*commits: str) -> tuple[KeptCommit, ...]:
    """Commits from the oldest: `q1` is quiet, `f2` a fill, `x3` somebody else's."""
    out: list[KeptCommit] = []
    for text in commits:
        number = int(text[1:])
        parent = out[-1].snapshot_id if out else None
        out.append(KeptCommit(number, parent, text[0] == "q", text[0] == "f"))
    return tuple(reversed(out))


def whole(*digests: str) -> Output:
    return Output((None, A), (Tile(Interval(T0, T0 + DAY), 1, digests),), True)


def day(number: int, *digests: str) -> Output:
    start = T0 + number * DAY
    return Output((None, A), (Tile(Interval(start, start + DAY), 1, digests),), False)


def test_commits_that_change_no_row_are_passed_over() -> None:
    assert read_input_state(line("x1", "q2", "q3"), A, {}.get).snapshot_id == 1
    assert read_input_state(line("q1", "q2"), A, {}.get).snapshot_id is None
    assert read_input_state((), A, {}.get).snapshot_id is None
    assert read_input_state(line("x1", "q2", "q3"), A, {}.get).read_id == 3


def test_oldest_commit_that_is_kept_stands_for_those_before_it() -> None:
    kept = (KeptCommit(3, 2, True, False), KeptCommit(2, 1, True, False))
    assert read_input_state(kept, A, {}.get).snapshot_id == 2


def test_table_that_holds_the_same_rows_again_is_what_it_was() -> None:
    wrote = {1: whole("r", "s"), 2: whole("t", "u"), 3: whole("r", "s"), 4: whole("v", "s")}
    first, second, third, fourth = (
        read_input_state(line("f1", "f2", "f3", "f4")[4 - n :], A, wrote.get) for n in (1, 2, 3, 4)
    )
    assert first.has_same_rows(third)
    assert not first.has_same_rows(second)
    assert first.has_same_rows(fourth), "only what A reads has to be the same"
    everything = [
        read_input_state(line("f1", "f2", "f3", "f4")[4 - n :], None, wrote.get) for n in (1, 4)
    ]
    assert not everything[0].has_same_rows(everything[1])


def test_fill_that_changed_nothing_says_what_the_table_holds_since_the_fill_before_it() -> None:
    """A plan merges two ranges, and reads the table when it is done; then files are compacted."""
    kept = (
        KeptCommit(4, 3, True, False),
        KeptCommit(3, 2, True, True),
        KeptCommit(2, 1, False, True),
        KeptCommit(1, None, False, True),
    )
    found = read_input_state(kept, A, {1: whole("r", "s"), 3: whole("t", "s")}.get)
    assert (found.snapshot_id, found.read_id, found.digests) == (2, 4, ((None, "t"), (A, "s")))
    assert read_input_state(kept[-1:], A, {1: whole("r", "s")}.get).has_same_rows(found)
    assert not read_input_state(kept[-1:], None, {1: whole("r", "s")}.get).has_same_rows(
        read_input_state(kept, None, {3: whole("t", "s")}.get)
    )
    others = (KeptCommit(5, 3, False, False), *kept[1:])
    assert read_input_state(others, A, {3: whole("t", "s")}.get).digests == ()


def test_digests_of_fewer_columns_than_are_read_say_nothing() -> None:
    wrote = {1: whole("r", "s"), 2: whole("t", "s")}
    before, after = (read_input_state(line("f1", "f2")[2 - n :], AB, wrote.get) for n in (1, 2))
    assert not before.has_same_rows(after)


def test_range_that_is_filled_again_with_the_same_rows_is_passed_over() -> None:
    earlier = day(1, "r", "s")
    again = find_unchanged_sets(day(1, "z", "s"), [(earlier.tiles[0].interval, 7, earlier)])
    assert (again.same, again.against) == ((1,), (7,))
    outputs = {7: earlier, 8: day(2, "o", "o"), 9: again}
    assert read_input_state(line("x1", "f7", "f8", "f9"), A, outputs.get).snapshot_id == 8
    assert read_input_state(line("x1", "f7", "f8", "f9"), None, outputs.get).snapshot_id == 9


def test_rows_that_somebody_else_changed_in_between_are_not_passed_over() -> None:
    earlier = day(1, "r", "s")
    again = find_unchanged_sets(day(1, "r", "s"), [(earlier.tiles[0].interval, 7, earlier)])
    outputs = {7: earlier, 9: again}
    assert read_input_state(line("f7", "x8", "f9"), A, outputs.get).snapshot_id == 9
    assert read_input_state(line("f7", "q8", "f9"), A, outputs.get).snapshot_id == 7


def test_range_that_had_no_rows_and_has_none_is_as_it_was() -> None:
    refilled = day(1, "r", "s")
    empty = replace(day(2, "0", "0").tiles[0], rows=0)
    both = replace(refilled, tiles=(*refilled.tiles, empty))
    earlier = [(refilled.tiles[0].interval, 7, refilled)]
    assert find_unchanged_sets(both, earlier).same == (0, 1)
    assert find_unchanged_sets(replace(both, tiles=(empty,)), []).same == (0, 1)
    with_rows = replace(both, tiles=(*refilled.tiles, replace(empty, rows=1)))
    assert find_unchanged_sets(with_rows, earlier).same == ()


@pytest.mark.parametrize("earlier", [None, day(1, "r", "s")], ids=["unknown", "another range"])
def test_range_that_cannot_be_compared_counts_as_changed(earlier: Output | None) -> None:
    wide = Interval(T0, T0 + 5 * DAY)
    made = find_unchanged_sets(
        day(1, "r", "s"), [(wide, 7, replace(earlier, tiles=()) if earlier else None)]
    )
    assert made.same == ()


def test_what_is_read_newly_or_has_another_schema_is_changed() -> None:
    one = InputState(1, columns=A, schema_id=0)
    assert list(changed_inputs({"t": one}, {"t": one})) == []
    assert list(changed_inputs({}, {"t": one})) == ["t"]
    assert list(changed_inputs({"t": one}, {"t": replace(one, schema_id=1)})) == ["t"]
    assert list(changed_inputs({"t": one}, {"t": replace(one, columns=AB)})) == ["t"]
    assert list(changed_inputs({"t": one, "gone": one}, {"t": one})) == []


def test_facts_are_what_they_were_after_writing_and_reading() -> None:
    facts = FillFacts(
        {"t": InputState(1, 2, ((None, "x"), (A, "y")), AB, 3, "f.json"), "u": InputState(None)},
        find_unchanged_sets(
            day(1, "r", "s"), [(day(1, "", "").tiles[0].interval, 7, day(1, "r", "t"))]
        ),
        Skipped(T0, 1.5, 7, 8),
    )
    text = dump_facts(facts)
    assert load_facts(text["inputs"], text["output"], text["skipped"]) == facts
    assert set(dump_facts(None).values()) == {None}
    assert load_facts(None, None, None) == FillFacts()


@pytest.mark.parametrize(
    ("summary", "quiet"),
    [
        ({"operation": "replace", "added-records": "5", "total-records": "5"}, True),
        ({"operation": "append", "total-records": "5"}, True),
        ({"operation": "delete", "total-records": "5", "deleted-records": "0"}, True),
        ({"operation": "append", "added-records": "1", "total-records": "5"}, False),
        ({"operation": "overwrite", "added-delete-files": "1", "total-records": "5"}, False),
        ({"operation": "delete", "deleted-data-files": "1", "total-records": "5"}, False),
        ({"operation": "append"}, False),
        ({}, False),
    ],
)
def test_commit_is_quiet_only_where_its_summary_says_so(
    summary: dict[str, str], quiet: bool
) -> None:
    assert is_quiet(summary) is quiet


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT CURRENT_DATE AS d FROM t", "current_date"),
        ("SELECT Now ( ) FROM t", "now()"),
        ("SELECT `now`() FROM t", "now()"),
        ("SELECT a FROM t WHERE ts < ${end_ts}", "@end_ts"),
        ("SELECT a FROM t WHERE d > date_sub(@execution_date, 3)", "@execution_date"),
        ("SELECT unix_timestamp() FROM t", "unix_timestamp()"),
        ("SELECT CAST(' Today ' AS DATE)", "' Today '"),
        ("SELECT CAST('to' || 'day' AS DATE)", DATES_OF_TEXTS),
        ("SELECT ('n' || 'ow')::timestamp FROM t", DATES_OF_TEXTS),
        ("SELECT to_date(reverse('yadot')) FROM t", DATES_OF_TEXTS),
        ("SELECT try_cast(concat('yester', s) AS DATE) FROM t", DATES_OF_TEXTS),
        ("SELECT CAST(month || '-01' AS DATE), CAST(d AS DATE) FROM t", None),
        ("SELECT CAST('2024-01-01' AS DATE), CAST('to' || 'day' AS STRING) FROM t", None),
        ("SELECT unix_timestamp(ts) FROM t", None),
        ("SELECT t.user, t.current_date, `current_user` FROM t", None),
        ("SELECT 'now or never', now FROM t -- current_date", None),
        ("SELECT CAST('to' 'day' AS DATE)", "'to' 'day'"),
        ("SELECT DATE 'yester' \"day\"", "'yester' \"day\""),
        (r"SELECT CAST('\u0074oday' AS DATE)", r"'\u0074oday'"),
        (r"SELECT dt > '\U0000006eow' FROM t", r"'\U0000006eow'"),
        (r"SELECT dt > '\164oday' FROM t", r"'\164oday'"),
        (r"SELECT CAST(r'to' 'day\t' AS DATE)", r"r'to' 'day\t'"),
        ("SELECT a FROM t WHERE dt = 'to' || 'day'", DATES_OF_TEXTS),
        ("SELECT date_add(concat('to', 'day'), 1) FROM t", DATES_OF_TEXTS),
        (r"SELECT CAST('\u0074o' || s AS DATE) FROM t", DATES_OF_TEXTS),
        (
            "SELECT a FROM t JOIN (SELECT 'to' || 'day' AS d) USING (d)",
            DATES_OF_TEXTS,
        ),
        ("SELECT a FROM t WHERE dt > concat('n', 'o', 'w')", DATES_OF_TEXTS),
        ("SELECT DATE 'to' /* a comment */ 'day'", "'to' 'day'"),
        ("SELECT 'to' || 'day' AS s, 'to''day', r'\\u0074oday' FROM t", None),
        ("SELECT start_date, version FROM t", None),
    ],
)
def test_query_that_reads_the_clock_is_known_by_its_words(query: str, why: str | None) -> None:
    assert reads_clock(query) == why
