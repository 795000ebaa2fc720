"""A consumer's cursor moves over what it has, once, and by its own word only."""

from __future__ import annotations

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ConflictError
from vde_dagster.state.store import StateStore

ORDERS = ModelName("shop", "orders")


def test_a_cursor_begins_before_everything_and_moves(store: StateStore) -> None:
    cursors = store.change_cursors
    assert cursors.version("prod", ORDERS, "billing") == 0
    cursors.move("prod", ORDERS, "billing", 0, 3, "me")
    cursors.move("prod", ORDERS, "billing", 3, 5, "you")
    cursors.move("prod", ORDERS, "audit", 0, 1, "me")
    assert cursors.version("prod", ORDERS, "billing") == 5
    assert cursors.version("dev", ORDERS, "billing") == 0
    cursors.move("prod", ModelName("shop", "days"), "billing", 0, 2, "me")
    cursors.move("dev", ORDERS, "billing", 0, 2, "me")
    listed = [(one.name, one.version, one.moved_by) for one in cursors.for_model("prod", ORDERS)]
    assert listed == [("audit", 1, "me"), ("billing", 5, "you")]


def test_an_answer_that_was_lost_can_be_given_again(store: StateStore) -> None:
    for _ in range(2):
        store.change_cursors.move("prod", ORDERS, "billing", 0, 3, "me")
    assert store.change_cursors.version("prod", ORDERS, "billing") == 3


@pytest.mark.parametrize(("since", "until"), [(0, 4), (2, 4), (4, 2)])
def test_who_is_not_where_the_cursor_is_does_not_move_it(
    store: StateStore, since: int, until: int
) -> None:
    store.change_cursors.move("prod", ORDERS, "billing", 0, 3, "me")
    with pytest.raises(ConflictError, match=f"is at version 3, not at {since}"):
        store.change_cursors.move("prod", ORDERS, "billing", since, until, "you")
    assert store.change_cursors.version("prod", ORDERS, "billing") == 3


def test_a_cursor_is_forgotten(store: StateStore) -> None:
    store.change_cursors.move("prod", ORDERS, "billing", 0, 3, "me")
    said = [store.change_cursors.forget("prod", ORDERS, "billing") for _ in range(2)]
    assert (said, store.change_cursors.for_model("prod", ORDERS)) == ([True, False], [])
