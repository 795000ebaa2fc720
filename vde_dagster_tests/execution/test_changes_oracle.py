"""A copy of a view that applies the changes between any two versions is the view."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from vde_dagster_tests.execution.changes_world import World, migrated

pytestmark = pytest.mark.proof

VERSIONS = 7
GONE, COME = ("delete", "update_before"), ("insert", "update_after")


def check(world: World, since: int, until: int) -> str:
    """Apply the changes between two versions to a copy; return how they were found."""
    one, two = world.versions[since], world.versions[until]
    if one is None and two is None:
        return "none"
    changes = world.changes(since, until)
    found = world.read(changes)
    names = [name for name, _ in changes.columns][5:]
    gone: Counter[tuple[Any, ...]] = Counter(row[5:] for row in found if row[0] in GONE)
    come: Counter[tuple[Any, ...]] = Counter(row[5:] for row in found if row[0] in COME)
    assert gone.total() + come.total() == len(found)
    assert not gone & come, "a row was carried over"
    copy = one.rows() if one is not None else Counter()
    if one is not None and two is not None:
        copy = migrated([column[0] for column in one.columns], copy, changes.events, names)
    assert gone <= copy, "a row goes that is not there"
    copy = copy - gone + come
    assert copy == (two.rows() if two is not None else Counter())
    images = [row for row in found if row[0].startswith("update")]
    places = [names.index(name) for name in changes.key]
    pairs: dict[Any, list[str]] = {}
    for row in images:
        pairs.setdefault(tuple(row[5 + i] for i in places), []).append(row[0])
    assert all(sorted(kinds) == ["update_after", "update_before"] for kinds in pairs.values())
    lone: dict[Any, set[str]] = {}
    for row in found:
        if changes.key and row not in images:
            lone.setdefault(tuple(row[5 + i] for i in places), set()).add(row[0])
    again = Counter(tuple(row[5 + i] for i in places) for row in found) if changes.key else {}
    assert all(len(kinds) == 1 or again[key] > 2 for key, kinds in lone.items())
    if since == until:
        assert (found, changes.events) == ([], ())
    return changes.method


def check_steps(world: World, since: int, until: int, *, pinned_only: bool = False) -> None:
    """Apply each version's changes to a copy, one after the other."""
    one = world.versions[since] if since else None
    two = world.versions[until]
    changes = world.steps(since, until, pinned_only=pinned_only)
    found = world.read(changes)
    if pinned_only:
        shown = [version for version in world.versions.values() if version is not None]
        pins = {version.pin.snapshot_id for version in shown}
        read = {int(number) for number in re.findall(r"(?: OF |-id` = ')(\d+)", changes.query)}
        assert read <= pins, "a commit that no version pins"
    names = [name for name, _ in changes.columns][5:]
    copy = one.rows() if one is not None else Counter()
    if one is not None:
        copy = migrated([column[0] for column in one.columns], copy, changes.events, names)
    assert {row[1] for row in found} <= set(range(len(changes.steps)))
    for ordinal, step in enumerate(changes.steps):
        rows = [row for row in found if row[1] == ordinal]
        assert {row[3] for row in rows} <= {step.until}
        gone: Counter[tuple[Any, ...]] = Counter(row[5:] for row in rows if row[0] in GONE)
        come: Counter[tuple[Any, ...]] = Counter(row[5:] for row in rows if row[0] in COME)
        assert gone <= copy, "a row goes that is not there"
        copy = copy - gone + come
    assert copy == (two.rows() if two is not None else Counter())


def search(seeds: range, **options: Any) -> Counter[str]:
    """Check all pairs of versions of many histories; count how changes were found."""
    methods: Counter[str] = Counter()
    for seed in seeds:
        world = World(seed, **options)
        has = 1  # The version that a consumer has, who does not come at each publication.
        for _ in range(VERSIONS):
            world.publish()
            current = len(world.versions)
            methods[told(world, has, current)] += 1
            has = world.dice.choice([has, current])
        for since in world.versions:
            for until in world.versions:
                methods[told(world, since, until)] += 1
        for until in world.versions:
            for since in range(until + 1):
                tell_steps(world, since, until, pinned_only=(since + until) % 2 == 0)
        world.close()
    return methods


def tell_steps(world: World, since: int, until: int, *, pinned_only: bool) -> None:
    """Check the steps between two versions; a failure names the history."""
    try:
        check_steps(world, since, until, pinned_only=pinned_only)
    except Exception as error:
        where = f"seed {world.seed}, {since} to {until}, pinned_only={pinned_only}"
        raise AssertionError(f"{where}: {error!r}") from error


def told(world: World, since: int, until: int) -> str:
    """Check two versions; a failure names the history."""
    try:
        return check(world, since, until)
    except Exception as error:
        raise AssertionError(f"seed {world.seed}, {since} to {until}: {error!r}") from error


def test_copies_that_apply_changes_equal_the_view() -> None:
    methods = search(range(25))
    assert min(methods[one] for one in ("nothing", "commits", "lineage", "versions")) > 5


def test_copies_equal_the_view_where_rows_have_ids_and_deletes_hide_them() -> None:
    methods = search(range(15), hows=("v3mor",))
    assert min(methods[one] for one in ("nothing", "lineage", "versions")) > 20


def test_copies_equal_the_view_where_deletes_hide_rows_without_ids() -> None:
    methods = search(range(15), hows=("v2mor",))
    assert min(methods[one] for one in ("nothing", "commits", "versions")) > 1
