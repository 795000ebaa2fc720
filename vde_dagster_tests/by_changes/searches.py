"""Searches that compare refreshed rows with those of the whole query, in DuckDB."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

from vde_dagster.semantics.refresh.linear import find_row_steps
from vde_dagster.semantics.refresh.merged import find_group_steps, merge_query
from vde_dagster.semantics.refresh.qualified import NotRefreshableError, qualify
from vde_dagster_tests.by_changes.histories import History, at_state, random_history, read
from vde_dagster_tests.by_changes.random_queries import SCHEMA, RandomQuery


def rows_history(seed: int) -> int:
    """Refresh a random query by rows after random changes.

    Returns:
        The number of rows that came or went; -1 if the query does not refresh by rows.
    """
    chance = random.Random(seed)
    query, history = RandomQuery(chance, linear=True).text, random_history(chance)
    try:
        steps = find_row_steps(qualify(query, SCHEMA), history.moved)
    except NotRefreshableError:
        return -1
    return compare_rows(query, history, steps.write(history.relation))


def compare_rows(query: str, history: History, changes: str) -> int:
    """Compare rows with signs with the difference of a query's results."""
    with history.in_duckdb() as connection:
        before, after = (read(connection, at_state(query, one)) for one in ("earlier", "now"))
        net = Counter(before)
        for row, count in read(connection, changes).items():
            assert row[-1][0] == "vde_sign"
            net[row[:-1]] += row[-1][1] * count
    assert {row: n for row, n in net.items() if n} == dict(after), (query, history)
    return (before - after).total() + (after - before).total()


def groups_history(seed: int) -> int:
    """Refresh the groups of a random query after random changes.

    Returns:
        The number of rows that came or went; -1 if the query does not refresh by groups, or the
        table's row does not show the new value of an aggregate.
    """
    chance = random.Random(seed)
    query = RandomQuery(chance, linear=True).totals()
    return compare_groups(query, random_history(chance, only_adds=chance.random() < 0.3))


def compare_groups(query: str, history: History) -> int:
    """Compare merged groups with those of the whole query, see `groups_history`."""
    try:
        known = qualify(query, SCHEMA)
        types = {name.lower(): type_ for name, type_ in known.types(known.tree).items()}
        only_added = history.only_added
        steps = find_group_steps(known, history.moved, only_added=only_added, types=types)
    except NotRefreshableError:
        return -1
    with history.in_duckdb() as connection:
        before, after = (read(connection, at_state(query, one)) for one in ("earlier", "now"))
        old, changes = at_state(query, "earlier"), steps.write(history.relation)
        merged = read(connection, merge_query(steps.key, steps.totals, steps.count, old, changes))
    kept: Counter[frozenset[tuple[str, object]]] = Counter()
    for row, count in merged.items():
        values = dict(row)
        if values["vde_lost"] and any(total.open for total in steps.totals):
            return -1
        assert not values["vde_lost"], (query, history)
        own = frozenset(pair for pair in row if pair[0] not in ("vde_lost", "vde_gone"))
        kept[own] += 0 if values["vde_gone"] else count
    assert +kept == Counter({frozenset(row): n for row, n in after.items()}), (query, history)
    return (before - after).total() + (after - before).total()


def search(seeds: range) -> Iterator[tuple[str, int, int, int]]:
    """Yield for each method its name and the numbers of queries, of refreshes, of rows."""
    for name, history in (("rows", rows_history), ("groups", groups_history)):
        found = [history(seed) for seed in seeds]
        done = [rows for rows in found if rows >= 0]
        yield name, len(found), len(done), sum(done)
