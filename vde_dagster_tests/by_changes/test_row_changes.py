"""Changed rows of linear queries, and merged aggregates, beside the whole query in DuckDB."""

from __future__ import annotations

import re
from unittest.mock import MagicMock

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException

from vde_dagster.planning.engine_tasks import ChangedGroups, ChangedKeys, ChangedRows
from vde_dagster.semantics.refresh.keys import KeySteps
from vde_dagster.semantics.refresh.linear import RowSteps, find_row_steps
from vde_dagster.semantics.refresh.merged import GroupSteps, find_group_steps
from vde_dagster.semantics.refresh.methods import find_refresh
from vde_dagster.semantics.refresh.qualified import NotRefreshableError, qualify
from vde_dagster.spark.strategies.changed_keys import changed_keys
from vde_dagster.spark.strategies.changed_rows import NotWrittenError, write_changes
from vde_dagster_tests.by_changes.histories import History
from vde_dagster_tests.by_changes.random_queries import SCHEMA
from vde_dagster_tests.by_changes.searches import (
    compare_groups,
    compare_rows,
    groups_history,
    rows_history,
)


@pytest.mark.proof
@pytest.mark.turns(8)
@pytest.mark.parametrize("turn", range(40))
def test_rows_of_random_linear_queries_change_by_the_derived_rows(turn: int) -> None:
    print("seeds from", turn * 50)
    assert max(rows_history(seed) for seed in range(turn * 50, turn * 50 + 50)) > 0


@pytest.mark.proof
@pytest.mark.turns(8)
@pytest.mark.parametrize("turn", range(40))
def test_groups_of_random_queries_merge_to_the_whole_result(turn: int) -> None:
    print("seeds from", turn * 50)
    assert max(groups_history(seed) for seed in range(turn * 50, turn * 50 + 50)) > 0


ROW, OTHER = (1, 2, 3, 1), (2, 2, None, 1)


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("SELECT id FROM o", "o"),
        ("SELECT 1 AS one FROM o CROSS JOIN c", "o c"),
        ("SELECT o.id, c.name FROM o LEFT JOIN c ON o.c = c.id", "o"),
        ("SELECT o.id, c.name FROM o RIGHT JOIN c ON o.c = c.id", "c"),
        ("SELECT o.id FROM o LEFT SEMI JOIN c AS k ON o.c = k.id", "o"),
        ("SELECT o.id FROM o LEFT ANTI JOIN c AS k ON o.c = k.id", "o"),
        ("SELECT o.id, c FROM o LEFT SEMI JOIN c ON o.c = C.id", "o"),
        ("SELECT id FROM o LEFT ANTI JOIN c AS n ON o.n = n.id LEFT ANTI JOIN c USING (id)", "o"),
        (
            "SELECT id FROM o WHERE n IN (SELECT region FROM c)",
            "o",
        ),
        ("SELECT id, (SELECT max(day) FROM e WHERE e.c = o.c) AS d FROM o", "o"),
        ("SELECT id, v FROM o LATERAL VIEW explode(array(n, d)) t AS v WHERE v > 1", "o"),
        ("SELECT id, explode(array(n, d)) AS v FROM o", "o"),
        ("SELECT id FROM o UNION ALL SELECT c FROM e UNION ALL (SELECT n FROM o)", "o e"),
        ("WITH t AS (SELECT id, c FROM o) SELECT a.id, b.c FROM t AS a, t AS b", "o"),
        ("SELECT o.id FROM o JOIN (SELECT c, sum(day) AS d FROM e GROUP BY c) AS s USING (c)", "o"),
        ("SELECT x.b FROM (SELECT id FROM o) AS x(b)", "o"),
    ],
)
def test_a_change_of_linear_tables_changes_the_rows_that_they_are_in(
    query: str, tables: str
) -> None:
    linear = []
    for table in SCHEMA:
        try:
            find_row_steps(qualify(query, SCHEMA), [table])
        except NotRefreshableError:
            continue
        linear.append(table)
    assert sorted(linear) == sorted(tables.split())
    before = {"o": [ROW, ROW, OTHER], "c": [(2, "a", 3), (None, "b", 2)], "e": [(2, 1)]}
    after = {"o": [ROW, (3, 3, 3, None)], "c": [(2, "a", 3)] * 2, "e": [(2, 1), (3, 2)]}
    history = History(before, {**before, **{table: after[table] for table in linear}})
    steps = find_row_steps(qualify(query, SCHEMA), history.moved)
    assert compare_rows(query, history, steps.write(history.relation)) > 0


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT DISTINCT id FROM o", "DISTINCT compares all rows"),
        ("SELECT id FROM o UNION SELECT id FROM c", "a set operation compares all rows"),
        ("SELECT id FROM o ORDER BY n LIMIT 3", "the query takes the first rows: LIMIT 3"),
        (
            "SELECT c.id FROM c LEFT JOIN o USING (id)",
            "the changed table is on the right side of a LEFT JOIN",
        ),
        (
            "SELECT o.id FROM o FULL JOIN c USING (id)",
            "the changed table is on the left side of a FULL JOIN",
        ),
        (
            "SELECT id FROM c WHERE id IN (SELECT c FROM o)",
            "a subquery of an expression reads the changed table",
        ),
        ("SELECT id, rank() OVER (ORDER BY n) AS r FROM o", "a window compares rows"),
        (
            "SELECT o.id FROM o JOIN (SELECT c, first(day) AS d FROM e GROUP BY c) AS s USING (c)",
            "the result of first may depend on the order of rows",
        ),
        (
            "SELECT o.id FROM o JOIN (SELECT c, row_number() OVER (ORDER BY day) AS d FROM e) AS s "
            "USING (c)",
            "the result of row_number may depend",
        ),
        (
            "SELECT o.id FROM o JOIN (SELECT c, sum(day) OVER (ORDER BY day ROWS "
            "CURRENT ROW) AS d FROM e) AS s USING (c)",
            "a window of ROWS may depend on the order of rows",
        ),
    ],
)
def test_a_table_is_not_linear_where_its_rows_act_together(query: str, why: str) -> None:
    with pytest.raises(NotRefreshableError, match=why):
        find_row_steps(qualify(query, SCHEMA), ["o"])


def test_the_deltas_of_a_table_that_is_read_twice_are_added_up() -> None:
    query = "SELECT a.id, b.n FROM o AS a JOIN o AS b ON a.c = b.c"
    history = History(
        {"o": [ROW, OTHER, OTHER], "c": [], "e": []}, {"o": [ROW, ROW], "c": [], "e": []}
    )
    steps = find_row_steps(qualify(query, SCHEMA), ["o"])
    assert len(steps.steps) == 2
    assert compare_rows(query, history, steps.write(history.relation)) == 11


def _groups(query: str, *, only_added: bool) -> str:
    known = qualify(query, SCHEMA)
    types = {name.lower(): type_ for name, type_ in known.types(known.tree).items()}
    try:
        find_group_steps(known, ["o"], only_added=only_added, types=types)
    except NotRefreshableError as why:
        return str(why)
    return ""


@pytest.mark.parametrize(
    ("query", "why_added", "why_removed"),
    [
        ("SELECT count(*) AS n FROM o", "", ""),
        ("SELECT c, count(*) AS n, count(n) AS m, sum(n) AS s FROM o GROUP BY c", "", ""),
        ("SELECT c, sum(n) AS s, count(n) AS m FROM o GROUP BY c", "", r"count\(\*\) is not among"),
        ("SELECT sum(n) AS s FROM o", "", ""),
        (
            "SELECT c, sum(n) AS s, count(*) AS n FROM o GROUP BY c",
            "",
            "no output counts the values summed in s",
        ),
        ("SELECT c, max(n) AS s FROM o GROUP BY c", "", "s may come from a removed row"),
        ("SELECT max(n) AS s FROM o", "", ""),
        ("SELECT count_if(n > 1) AS s, count(n) FILTER (WHERE d > 1) AS f FROM o", "", ""),
        ("SELECT c, count(*) AS n FROM o GROUP BY c, d", *["all columns that it groups by"] * 2),
        ("SELECT avg(n) AS s FROM o", *["an output is neither"] * 2),
        ("SELECT sum(n) + 1 AS s FROM o", *["an output is neither"] * 2),
        ("SELECT sum(n / 2) AS s, count(n / 2) AS m FROM o", *["sums of DOUBLE"] * 2),
        ("SELECT count(DISTINCT n) AS s FROM o", *["an aggregate compares values"] * 2),
        ("SELECT count_if(DISTINCT n > 1) AS s FROM o", *["an aggregate compares values"] * 2),
        ("SELECT count(n, d) AS s FROM o", *["an aggregate compares values"] * 2),
        (
            "SELECT c, count(*) AS n FROM o GROUP BY c HAVING count(*) > 1",
            *["groups cannot be merged"] * 2,
        ),
        ("SELECT c, count(*) AS n FROM o GROUP BY ROLLUP (c)", *["an output is neither"] * 2),
        ("SELECT count(*) AS n FROM (SELECT DISTINCT c FROM o)", *["DISTINCT compares"] * 2),
        (
            "SELECT n / 2 AS h, count(*) AS n FROM o GROUP BY n / 2",
            *["groups cannot be compared"] * 2,
        ),
    ],
)
def test_aggregates_are_merged_if_their_new_value_follows_from_the_old_one(
    query: str, why_added: str, why_removed: str
) -> None:
    for only_added, why in ((True, why_added), (False, why_removed)):
        found = _groups(query, only_added=only_added)
        assert (found == "") == (why == ""), found
        assert re.search(why, found)


@pytest.mark.parametrize(
    ("output", "before", "after", "merged"),
    [
        ("sum(n)", [2, 3, 4], [2, 4], True),
        ("sum(n)", [None], [None, 2], True),
        ("sum(n)", [None, 2], [None, None], False),
        ("sum(n)", [2, 3], [2, -2], False),
        ("sum(n)", [2, 3], [], False),
        ("max(n)", [2, 3, 4], [2, 4], True),
        ("max(n)", [2, 3, 4], [2, 3], False),
        ("max(n)", [2, 3], [2, 4], True),
        ("max(n)", [3, 3, 2], [3, 2], False),
        ("max(n)", [None, 3], [3], True),
        ("min(n)", [2, 3, 4], [2, 4], True),
        ("min(n)", [2, 3, 4], [3, 4, 5], False),
        ("bool_or(n > 2)", [1, 2, 3], [1, 3], True),
        ("bool_or(n > 2)", [1, 2, 3], [1, 2], False),
        ("bool_and(n > 2)", [1, 3], [1], True),
        ("sum(n) AS s, max(n)", [1, 2, 3], [3, 2], True),
    ],
)
def test_a_row_for_all_rows_is_merged_where_it_shows_the_new_value(
    output: str, before: list[int | None], after: list[int | None], merged: bool
) -> None:
    states = [{"o": [(1, 2, n, 1) for n in values], "c": [], "e": []} for values in (before, after)]
    found = compare_groups(f"SELECT {output} AS v FROM o", History(*states))
    assert (found >= 0) == merged


def test_values_that_come_and_go_between_steps_are_not_the_greatest_ones() -> None:
    query = "SELECT max(a.n) AS v FROM o AS a JOIN o AS b ON a.id = b.id AND a.c <> b.c"
    states = [
        {"o": [(1, 2, 3, 1), (1, 3, 2, 1)], "c": [], "e": []},
        {"o": [(1, 2, 9, 1), (1, 2, 3, 1)], "c": [], "e": []},
    ]
    assert compare_groups(query, History(*states)) == -1


@pytest.mark.parametrize(
    ("query", "method", "after_adds"),
    [
        ("SELECT id, n FROM o", RowSteps, RowSteps),
        ("SELECT id, n / 2 AS half FROM o", KeySteps, RowSteps),
        ("SELECT c, count(*) AS n FROM o GROUP BY c", GroupSteps, GroupSteps),
        ("SELECT c, max(n) AS n FROM o GROUP BY c", KeySteps, GroupSteps),
        ("SELECT DISTINCT c FROM o", KeySteps, KeySteps),
    ],
)
def test_the_method_that_reads_least_is_chosen(
    query: str, method: type[object], after_adds: type[object]
) -> None:
    assert type(find_refresh(query, SCHEMA, ["o"])) is method
    assert type(find_refresh(query, SCHEMA, ["o"], only_added=True)) is after_adds


def test_only_keys_are_derived_from_rows_without_their_number() -> None:
    query = "SELECT id, n FROM o"
    assert type(find_refresh(query, SCHEMA, ["o"], only_added=True, exact=False)) is KeySteps


def test_aggregates_are_not_merged_in_a_column_of_another_type() -> None:
    query = "SELECT c, count(*) AS n FROM o GROUP BY c"
    found = find_refresh(query, SCHEMA, ["o"], {"c": "INT", "n": "INT"})
    assert type(found) is KeySteps


class JavaError(Py4JJavaError):
    """An error of Java that PySpark does not convert, such as those of Iceberg's procedures."""

    def __init__(self) -> None:
        thrown = MagicMock(_target_id="o1")
        thrown.getClass().getName.return_value = "org.apache.iceberg.exceptions.NotFoundException"
        thrown.getMessage.return_value, thrown.getCause.return_value = "no file", None
        super().__init__("An error occurred", thrown)

    def __str__(self) -> str:
        return "An error occurred while calling o1.sql"


REFUSALS = [
    (AnalysisException("a column is ambiguous"), "a column is ambiguous"),
    (JavaError(), "NotFoundException: no file"),
]


@pytest.mark.parametrize(("error", "why"), REFUSALS)
@pytest.mark.parametrize(
    "changed",
    [
        ChangedRows("SELECT", only_added=True, since=7),
        ChangedRows("SELECT", only_added=False, since=7),
        ChangedGroups((), (), "", "SELECT", since=7),
    ],
)
def test_all_rows_are_computed_if_spark_refuses_the_query_of_the_changes(
    changed: ChangedRows | ChangedGroups, error: Exception, why: str
) -> None:
    write = MagicMock()
    write.table.head.return_value = 7
    write.session.sql.side_effect = error
    with pytest.raises(NotWrittenError, match=f"the changes cannot be computed: {why}"):
        write_changes(write, changed)


@pytest.mark.parametrize(("error", "why"), REFUSALS)
def test_all_rows_are_computed_if_spark_refuses_the_query_of_the_changed_keys(
    error: Exception, why: str
) -> None:
    write = MagicMock(why_all=[], notes=[])
    write.task.changed = ChangedKeys(("id",), "SELECT")
    write.session.sql.side_effect = error
    with changed_keys(write) as keys:
        assert keys is None
    assert write.why_all == [f"its changed keys cannot be computed: {why}"]
