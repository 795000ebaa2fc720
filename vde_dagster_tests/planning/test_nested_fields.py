"""Fields inside of columns: which ones a definition adds, reads and fills."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from vde_dagster.lakehouse.metadata.changes import append_columns
from vde_dagster.lakehouse.metadata.table_metadata import with_other_columns
from vde_dagster.planning.environments.resolver import Binding, select_physical
from vde_dagster.planning.rendering.view_dialects import trino_select
from vde_dagster.planning.tables.column_types import same_type
from vde_dagster.planning.tables.nested_fields import (
    Field,
    FieldMerge,
    Fields,
    Path,
    list_fields,
    missing_fields,
    select_fields,
    with_fields,
)
from vde_dagster.planning.tables.pinned_reads import PinnedTable, pinned_select
from vde_dagster.planning.tables.table import PhysicalColumn, PhysicalTable, TableRef
from vde_dagster.sql.casts import UnmatchedField, whole_columns

OLD = "struct<x:int,n:struct<k:int>,a:array<struct<q:int>>,m:map<string,struct<w:int>>>"
NEW = (
    "STRUCT<x: STRING, n: STRUCT<k: INT, l: INT>, a: ARRAY<STRUCT<r: DATE>>, "
    "m: MAP<STRING, STRUCT<w: INT, v: STRUCT<g: INT>>>>"
)


def version(path: Path, type_: str) -> str:
    return f"{'.'.join(path)}:{type_}"


def merged(old: str, new: str, **said: bool) -> tuple[FieldMerge, str, Fields]:
    merging = FieldMerge(same_type, version, **said)
    found = merging.merge(old, list_fields(old), new)
    assert found is not None
    return merging, *found


def grown(old: str, new: str) -> tuple[str, Fields, Fields]:
    """Return a table's type with a definition's fields, the added ones, and the shown ones."""
    _, type_, fields = merged(old, new)
    missing = missing_fields(old, (), fields, type_)
    added = tuple(Field((*one.parent, one.name), one.version) for one in missing)
    return with_fields(old, missing), added, fields


def test_each_changed_field_is_found_at_its_depth() -> None:
    merging, type_, fields = merged(OLD, NEW)
    assert [(one.what, ".".join(one.path)) for one in merging.changes] == [
        ("retyped", "x"),
        ("added", "n.l"),
        ("removed", "a.element.q"),
        ("added", "a.element.r"),
        ("added", "m.value.v"),
    ]
    assert type_ == NEW
    assert Field(("m", "value", "v"), "m.value.v:STRUCT<g: INT>") in fields


def test_policies_leave_fields_as_they_are() -> None:
    _, type_, fields = merged(OLD, NEW, keeps_removed=True, leaves_added=True)
    assert same_type(type_, OLD)
    assert set(fields) == set(list_fields(OLD))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("struct<x:int>", "ARRAY<STRUCT<x: INT>>"),
        ("map<struct<x:int>,int>", "MAP<STRUCT<x: INT, y: INT>, INT>"),
        ("array<int>", "ARRAY<STRING>"),
        ("map<string,struct<x:int>>", "MAP<INT, STRUCT<x: INT>>"),
    ],
)
def test_other_forms_and_keys_change_a_column_as_a_whole(old: str, new: str) -> None:
    assert FieldMerge(same_type, version).merge(old, list_fields(old), new) is None


def test_a_field_of_another_type_has_another_name_in_the_table() -> None:
    has, added, fields = grown(OLD, NEW)
    assert "x: INT" in has
    assert "x__x:STRI" in has
    new, old = select_fields(has, added, fields), select_fields(has, added, ())
    assert new.shown == NEW
    assert same_type(old.shown, OLD)
    assert new.value("`p`").endswith(f"AS {NEW})")
    assert old.value("`p`").startswith("IF(`p` IS NULL, NULL, named_struct('x', `p`['x'], ")
    assert "'l'" not in old.value("`p`")


def test_a_definition_fills_hidden_fields_with_null_and_refuses_unknown_ones() -> None:
    has, added, fields = grown("struct<x:int>", "STRUCT<z: INT>")
    new = select_fields(has, added, fields)
    stored = new.stored("`p`", "struct<z:int>")
    assert stored.startswith("CAST(IF(`p` IS NULL, NULL, named_struct('vde hidden 0', NULL, 'z', ")
    assert stored.endswith(f"AS {has})")
    with pytest.raises(UnmatchedField):
        new.stored("`p`", "struct<z:int,x:int>")
    assert "'x'" not in new.stored("`p`", "struct<z:int,x:int>", strict=False)
    assert new.stored("`p`", "void") == f"CAST(`p` AS {has})"


def test_an_earlier_snapshot_lacks_fields() -> None:
    has, added, fields = grown("struct<x:int>", "STRUCT<x: INT, z: INT>")
    new = select_fields(has, added, fields)
    state = PinnedTable(7, {"p": has}, {"p": "STRUCT<x: INT>"})
    assert pinned_select("`t`", state, [("p", "p")], {"p": new}) == (
        "SELECT CAST(IF(`p` IS NULL, NULL, named_struct('x', `p`['x'], 'z', NULL)) AS "
        "STRUCT<x: INT, z: INT>) AS `p` FROM `t` VERSION AS OF 7"
    )


def test_trino_reads_the_shown_fields_by_their_names() -> None:
    has, added, fields = grown("struct<x:int,a:array<struct<q:int>>>", "STRUCT<x: STRING>")
    ref, shown = TableRef("n", "t"), {"p": select_fields(has, added, fields)}
    assert trino_select(ref, [("p", "p")], "lake", None, shown) == (
        'SELECT IF("p" IS NULL, NULL, CAST(ROW("p"."x__x:STRI") AS ROW("x" VARCHAR))) AS "p" '
        'FROM "lake"."n"."t"'
    )
    old = {"p": select_fields(has, added, ())}
    text = trino_select(ref, [("p", "p")], "lake", None, old)
    assert 'transform("p"."a", e0 -> IF(e0 IS NULL, NULL, CAST(ROW(e0."q") AS ROW(' in text


METADATA: dict[str, Any] = {
    "table-uuid": "u",
    "last-updated-ms": 1,
    "last-column-id": 4,
    "current-schema-id": 0,
    "schemas": [
        {
            "type": "struct",
            "schema-id": 0,
            "fields": [
                {
                    "id": 1,
                    "name": "p",
                    "required": False,
                    "type": {
                        "type": "list",
                        "element-id": 2,
                        "element-required": False,
                        "element": {
                            "type": "struct",
                            "fields": [{"id": 3, "name": "x", "required": False, "type": "int"}],
                        },
                    },
                },
                {"id": 4, "name": "q", "required": False, "type": "int"},
            ],
        }
    ],
    "partition-specs": [{"spec-id": 0, "fields": []}],
    "default-spec-id": 0,
    "default-sort-order-id": 0,
}


def test_fields_get_new_ids_and_readers_get_the_ids_of_their_fields() -> None:
    type_ = "ARRAY<STRUCT<x: INT, z: STRUCT<k: INT, l: STRING>>>"
    added, current = append_columns(METADATA, [("p", type_), ("r", "INT")])
    assert current["action"] == "set-current-schema"
    assert added["last-column-id"] == 8
    fields = added["schema"]["fields"]
    struct = fields[0]["type"]["element"]["fields"]
    assert [(one["id"], one["name"]) for one in struct] == [(3, "x"), (5, "z")]
    assert [one["id"] for one in struct[1]["type"]["fields"]] == [6, 7]
    assert [one["id"] for one in fields] == [1, 4, 8]
    now = {**METADATA, "schemas": [{**added["schema"], "schema-id": 0}]}
    place = ("element", "z")
    shown = select_fields(type_, (Field(place, "v"),), ())
    narrow = with_other_columns(now, [("p", "p")], {}, "u", {}, 1, {"p": shown})
    found = narrow["schemas"][-1]["fields"][0]["type"]["element"]["fields"]
    assert [(one["id"], one["name"]) for one in found] == [(3, "x")]
    named = (Field(("element", "y"), "v"), Field(("element", "y", "k")))
    other = select_fields(type_, (Field(place, "v"),), named)
    wide = with_other_columns(now, [("p", "p")], {}, "u", {}, 1, {"p": other})
    found = wide["schemas"][-1]["fields"][0]["type"]["element"]["fields"]
    assert [(one["id"], one["name"]) for one in found] == [(5, "y")]
    assert [one["id"] for one in found[0]["type"]["fields"]] == [6]


def test_a_column_is_read_as_a_whole_or_for_single_fields() -> None:
    assert whole_columns("SELECT m.st.x, li FROM q.m WHERE st.y > 1") == {"x", "li", "y"}
    assert whole_columns("SELECT * FROM q.m") is None


def test_a_stand_in_for_a_preview_is_read_without_its_branch() -> None:
    table = PhysicalTable("t", TableRef("n", "t"), "f", (PhysicalColumn("p", "v"),), "s")
    given: Any = None
    binding = Binding(given, table, (("p", "p"),), "branch", stand_in="(SELECT 1 AS p)")
    assert select_physical(binding, "lake") == "SELECT `p` FROM (SELECT 1 AS p)"
    at = select_physical(replace(binding, stand_in=None), "lake")
    assert at == "SELECT `p` FROM `lake`.`n`.`t` VERSION AS OF 'branch'"
