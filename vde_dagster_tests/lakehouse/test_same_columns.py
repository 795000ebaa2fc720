"""Which columns of a table are still those that a snapshot's schema has under their names."""

from __future__ import annotations

from typing import Any

import pytest

from vde_dagster.lakehouse.metadata.table_metadata import reads_same_columns


def _field(number: int, name: str, kind: Any = "int", **more: Any) -> dict[str, Any]:
    return {"id": number, "name": name, "required": False, "type": kind, **more}


def _struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def _list(number: int, element: Any) -> dict[str, Any]:
    return {"type": "list", "element-id": number, "element": element, "element-required": False}


def _map(key: int, value: int, kind: Any) -> dict[str, Any]:
    ids = {"key-id": key, "value-id": value}
    return {"type": "map", **ids, "key": "string", "value": kind, "value-required": False}


A, B = _field(1, "a"), _field(2, "b")
INSIDE = _struct(_field(3, "x"), _field(4, "y"))
OTHER_INSIDE = _struct(_field(3, "x"), _field(5, "y"))


def _same(
    then: list[dict[str, Any]], now: list[dict[str, Any]], columns: str, *, or_new: bool
) -> bool:
    schemas = [{"schema-id": 0, "fields": then}, {"schema-id": 1, "fields": now}]
    metadata = {"current-schema-id": 1, "schemas": schemas}
    return reads_same_columns(metadata, 0, columns, or_new=or_new)


@pytest.mark.parametrize("or_new", [False, True])
@pytest.mark.parametrize(
    ("then", "now", "columns", "same"),
    [
        ([A, B], [A, B], "ab", True),
        ([A, B], [B, A], "ab", True),
        ([A, B], [_field(1, "a", "long"), _field(2, "b", doc="said")], "ab", True),
        ([A, B], [A], "a", True),
        ([A, B], [A, _field(3, "b")], "ab", False),
        ([A, B], [A, _field(3, "b")], "a", True),
        ([A, B], [_field(1, "b"), _field(2, "a")], "a", False),
        ([A, B], [A, _field(2, "c")], "ac", False),
        ([A], [A, B], "a", True),
        ([A], [A], "z", False),
        ([_field(2, "b", INSIDE)], [_field(2, "b", INSIDE)], "b", True),
        ([_field(2, "b", INSIDE)], [_field(2, "b", OTHER_INSIDE)], "b", False),
        ([_field(2, "b", _list(6, INSIDE))], [_field(2, "b", _list(6, INSIDE))], "b", True),
        ([_field(2, "b", _list(6, INSIDE))], [_field(2, "b", _list(6, OTHER_INSIDE))], "b", False),
        ([_field(2, "b", _map(6, 7, INSIDE))], [_field(2, "b", _map(6, 7, INSIDE))], "b", True),
        ([_field(2, "b", _map(6, 7, INSIDE))], [_field(2, "b", _map(6, 8, INSIDE))], "b", False),
    ],
)
def test_a_column_is_the_same_if_its_name_has_the_same_field_ids(
    then: list[dict[str, Any]],
    now: list[dict[str, Any]],
    columns: str,
    same: bool,
    or_new: bool,
) -> None:
    assert _same(then, now, columns, or_new=or_new) == same


@pytest.mark.parametrize(
    ("added", "same"), [(B, True), (_field(2, "b", **{"initial-default": 1}), False)]
)
def test_a_new_column_is_null_in_earlier_rows_unless_it_has_a_default(
    added: dict[str, Any], same: bool
) -> None:
    assert _same([A], [A, added], "ab", or_new=True) == same
    assert not _same([A], [A, added], "ab", or_new=False)


def test_a_state_without_a_schema_is_read_with_the_current_one() -> None:
    metadata = {"current-schema-id": 1, "schemas": [{"schema-id": 1, "fields": [A]}]}
    assert reads_same_columns(metadata, None, "a", or_new=False)
    assert reads_same_columns(metadata, 1, "a", or_new=False)
    assert not reads_same_columns(metadata, 0, "a", or_new=True)
