"""Which columns of two versions are one, and how two snapshots of a table are compared."""

from __future__ import annotations

import pytest

from vde_dagster.planning.changes.columns import ViewColumn, column_events, pair_columns
from vde_dagster.planning.changes.comparison import CommitSpan, LineageComparison, choose_comparison
from vde_dagster.planning.tables.pinned_reads import KeptCommit

COLUMNS: dict[str, tuple[str, str, list[str]]] = {
    "nothing": ("a:INT:1 b:STRING:2", "a:INT:1 b:STRING:2", []),
    "another order": ("a:INT:1 b:STRING:2", "b:STRING:2 a:INT:1", []),
    "a rename": ("a:INT:1", "b:INT:1", ["renamed b a INT"]),
    "two change names": (
        "a:INT:1 b:INT:2",
        "b:INT:1 a:INT:2",
        ["renamed b a INT", "renamed a b INT"],
    ),
    "a new one": ("a:INT:1", "a:INT:1 b:INT:2", ["added b None INT"]),
    "one less": ("a:INT:1 b:INT:2", "b:INT:2", ["removed a None None"]),
    "another definition": ("a:INT:1", "a:INT:2", []),
    "a rename, and its old name for another": (
        "a:INT:1",
        "a:INT:2 b:INT:1",
        ["added a None INT", "renamed b a INT"],
    ),
    "a wider type": ("a:INT:1", "a:BIGINT:2", ["retyped a INT BIGINT"]),
    "a narrower type": ("a:BIGINT:1", "a:INT:2", ["removed a None None", "added a None INT"]),
    "another type": ("a:INT:1", "a:STRING:2", ["removed a None None", "added a None STRING"]),
    "a type that Iceberg widens": ("a:TINYINT:1", "a:int:1", ["retyped a TINYINT int"]),
    "a type that Iceberg has not": (
        "a:INT:1",
        "a:TINYINT:1",
        ["removed a None None", "added a None TINYINT"],
    ),
    "other fields": (
        "a:STRUCT<x:INT>:1",
        "a:STRUCT<X:INT>:1",
        ["removed a None None", "added a None STRUCT<X:INT>"],
    ),
    "fields as Iceberg and as Spark write them": (
        "a:ARRAY<STRUCT<x:INT>>:1",
        "a:array<struct<x:int>>:1",
        [],
    ),
    "one meaning twice": ("a:INT:1", "a:INT:1 b:INT:1", ["added b None INT"]),
    "letters": ("Id:INT:1", "id:INT:1", ["renamed id Id INT"]),
}


def columns(text: str) -> list[ViewColumn]:
    return [
        ViewColumn(one.split(":", 1)[0], one.split(":", 1)[1].rsplit(":", 1)[0], one[-1])
        for one in text.split()
    ]


@pytest.mark.parametrize("case", COLUMNS)
def test_columns_go_on_by_meaning_and_then_by_name(case: str) -> None:
    before, after, said = COLUMNS[case]
    events = column_events(columns(before), pair_columns(columns(before), columns(after)))
    assert [f"{e.what} {e.column} {e.was} {e.becomes}" for e in events] == said


def test_in_one_table_places_tell_what_is_the_same() -> None:
    before = [ViewColumn("a", "INT", "1", "p"), ViewColumn("b", "INT", "1", "q")]
    after = [ViewColumn("b", "INT", "9", "p")]
    (pair,) = pair_columns(before, after, same_table=True)
    assert pair.before == before[0]


def line(text: str) -> tuple[KeptCommit, ...]:
    """Commits, newest first, as `id<parent:flags`: q quiet, d deletes, r row ids, h much moved."""
    out = []
    for one in text.split():
        ids, _, flags = one.partition(":")
        number, _, parent = ids.partition("<")
        out.append(
            KeptCommit(
                int(number),
                int(parent) if parent else None,
                "q" in flags,
                sequence=int(number),
                has_deletes="d" in flags,
                rows_moved=100 if "h" in flags else 1,
                rows=10,
                has_lineage="r" in flags,
            )
        )
    return tuple(out)


WAYS: dict[str, tuple[str, str, tuple[CommitSpan, ...] | LineageComparison | None]] = {
    "the same": ("2<1 1", "2<1 1", ()),
    "nothing at all": ("", "", ()),
    "forwards": ("1", "3<2 2<1 1", (CommitSpan(1, 3, True),)),
    "backwards": ("3<2 2<1 1", "1", (CommitSpan(1, 3, False),)),
    "two ways": ("2<1 1", "3<1 1", (CommitSpan(1, 2, False), CommitSpan(1, 3, True))),
    "from nothing": ("", "2<1 1", (CommitSpan(None, 2, True),)),
    "files that were rewritten": ("1", "3<2:q 2<1:q 1", ()),
    "one way is quiet": ("2<1:q 1", "3<1 1", (CommitSpan(1, 3, True),)),
    "a commit is not kept": ("1", "3<2", None),
    "a start that is not kept": ("4<3", "", None),
    "delete files": ("1", "2<1:d 1", None),
    "delete files that were there": ("1:d", "2<1 1:d", None),
    "delete files, and quiet": ("1:d", "2<1:dq 1:d", ()),
    "more than both tables": ("1", "2<1:h 1", None),
    "row ids and deletes": ("1:r", "2<1:dr 1:r", LineageComparison(1, 2, 1, True)),
    "row ids, backwards": ("2<1:dr 1:r", "1:r", LineageComparison(1, 2, 1, False)),
    "row ids, two ways": ("2<1:dr 1:r", "3<1:dr 1:r", None),
    "row ids since then": ("1", "2<1:dr 1", None),
    "row ids, much moved": ("1:r", "2<1:hr 1:r", LineageComparison(1, 2, 1, True)),
}


@pytest.mark.parametrize("case", WAYS)
def test_the_least_that_tells_what_changed_is_read(case: str) -> None:
    before, after, way = WAYS[case]
    assert choose_comparison(line(before), line(after)) == way
