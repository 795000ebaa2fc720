"""Columns and fields of a changed definition that reuses a table in place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from vde_dagster.base.hashing import digest
from vde_dagster.planning.environments.resolver import nested_columns
from vde_dagster.planning.snapshots.snapshot import OutputColumn, Snapshot
from vde_dagster.planning.tables.column_types import same_type, widens_in_place
from vde_dagster.planning.tables.nested_fields import (
    Field,
    FieldMerge,
    Fields,
    Path,
    is_nested,
    list_fields,
    select_fields,
    typed_fields,
)
from vde_dagster.planning.tables.table import ColumnChange, PhysicalColumn, PhysicalTable


@dataclass
class ColumnsInPlace:
    """The columns that a changed definition gets if it keeps production's table.

    Args:
        plain: The snapshot computed from the definition alone.
        base: The snapshot that fills the table now.
        types: Spark SQL types of the table's columns, by name.
        fields: The shown fields of nested columns, by output column.
        widened: The new types of columns that were widened in place, by output column.
        unnamed: Columns that get new fields, although production's view reads the whole column.
    """

    plain: Snapshot
    base: Snapshot
    table: PhysicalTable
    types: Mapping[str, str]
    columns: list[OutputColumn] = field(default_factory=list)
    changes: list[ColumnChange] = field(default_factory=list)
    fields: dict[str, Fields] = field(default_factory=dict)
    widened: dict[str, str] = field(default_factory=dict)
    unnamed: list[str] = field(default_factory=list)

    def compare(self) -> ColumnsInPlace:
        """Record how the columns of both definitions differ, and return this object."""
        kind = self.plain.model.kind
        before = {column.name.lower(): column for column in self.base.columns}
        for column in self.plain.columns:
            old = before.pop(column.name.lower(), None)
            if old is not None:
                self._continue(column, old)
            elif kind.on_additive_change == "ignore":
                self._note(column, "not_added", None)
            else:
                new = column._replace(version=self._new_version(column))
                self.columns.append(new)
                what = "restored" if new.version == column.version else "added"
                self._note(column, what, None)
        for old in before.values():
            if kind.on_destructive_change == "ignore":
                self._keep(old, self._base_fields(old))
                self.changes.append(ColumnChange(old.name, "kept", old.type))
            else:
                self.changes.append(ColumnChange(old.name, "removed", old.type))
        return self

    def _continue(self, column: OutputColumn, old: OutputColumn) -> None:
        self._compare(column, old)
        forward = self.base.forward
        earlier = dict(forward.widened).get(old.name) if forward is not None else None
        if earlier is not None and self.columns[-1].version == old.version:
            self.widened.setdefault(column.name, earlier)

    def _compare(self, column: OutputColumn, old: OutputColumn) -> None:
        kind, own = self.plain.model.kind, self._base_fields(old)
        place = self._place(old)
        was = self.types.get(place.name if place else "", old.type)
        if place is not None and is_nested(place.type):
            assert place.type is not None
            was = select_fields(place.type, place.fields, own).shown
        kept = column._replace(version=old.version)
        if own and kept.type is None:
            kept = kept._replace(type=was)
        fields = _change_of_fields(self.plain, self.base, column, was)
        ignored = kind.on_destructive_change == "ignore"
        if fields == "reordered":
            self._keep(kept._replace(type=was or None), own)
            self._note(column, "reordered", was)
        elif fields == "retyped":
            if ignored:
                self._keep(kept, own)
            else:
                self.columns.append(column._replace(version=self._new_version(column)))
            self._note(column, "not_retyped" if ignored else "retyped", was)
        elif not was or not column.type or same_type(was, column.type):
            self._keep(kept, own)
        elif place is not None and self._merge(column, kept, place, was, own):
            pass  # Only fields inside of it change.
        elif widens_in_place(was, column.type):
            if kind.on_additive_change == "ignore":
                self._keep(kept._replace(type=was), own)
            else:
                self._keep(kept, own)
                self.widened[column.name] = column.type
                self._note(column, "widened", was)
        elif ignored:
            self._keep(kept._replace(type=was), own)
            self._note(column, "not_retyped", was)
        else:
            self.columns.append(column._replace(version=self._new_version(column)))
            self._note(column, "retyped", was)

    def _merge(
        self, column: OutputColumn, kept: OutputColumn, place: PhysicalColumn, was: str, own: Fields
    ) -> bool:
        """Keep a nested column and merge its fields; return false if its whole type changes."""
        if not (is_nested(was) and is_nested(column.type) and is_nested(place.type)):
            return False
        assert column.type is not None
        assert place.type is not None
        original = select_fields(place.type, place.fields, ()).shown
        first = typed_fields(original)

        def version(path: Path, type_: str) -> str:
            known = first.get(Field(path).lower_path, "")
            if place.is_version(column.version) and same_type(known, type_):
                return ""  # The definition that made the table has it.
            return digest("field in place", self.table.id, *path, type_, column.version)

        kind = self.plain.model.kind
        keeps, leaves = (
            policy == "ignore" for policy in (kind.on_destructive_change, kind.on_additive_change)
        )
        merging = FieldMerge(same_type, version, keeps_removed=keeps, leaves_added=leaves)
        made = merging.merge(was, own or list_fields(was), column.type)
        if made is None:
            return False
        type_, fields = made
        if set(fields) == set(list_fields(original)):
            fields = ()  # It shows what the table had at first.
        self._keep(kept._replace(type=type_), fields)
        new = {one.path for one in fields if one.version} - {one.path for one in own if one.version}
        if new and column.name not in nested_columns(self.base, self.table):
            self.unnamed.append(column.name)
        words = {"removed": "kept", "retyped": "not_retyped"} if keeps else {}
        words |= {"added": "not_added"} if leaves else {}
        for change in merging.changes:
            what = words.get(change.what, change.what)
            if what == "added" and not version(change.path, change.becomes or ""):
                what = "restored"
            self.changes.append(
                ColumnChange(column.name, what, change.was, change.becomes, ".".join(change.path))
            )
        return True

    def _keep(self, column: OutputColumn, fields: Fields) -> None:
        self.columns.append(column)
        if fields:
            self.fields[column.name] = fields

    def _note(self, column: OutputColumn, what: str, was: str | None) -> None:
        self.changes.append(ColumnChange(column.name, what, was, column.type))

    def _base_fields(self, old: OutputColumn) -> Fields:
        forward = self.base.forward
        return forward.column_fields(old.name) if forward is not None else ()

    def _place(self, old: OutputColumn) -> PhysicalColumn | None:
        return next((one for one in self.table.columns if one.is_version(old.version)), None)

    def _new_version(self, column: OutputColumn) -> str:
        # If the table already has the column with this version, the version stays the same.
        name, known = column.name.lower(), self.table.columns
        if any(one.name.lower() == name and one.is_version(column.version) for one in known):
            return column.version
        return digest("in place", self.table.id, name, column.type, column.version)


def _change_of_fields(
    plain: Snapshot, base: Snapshot, column: OutputColumn, was: str | None
) -> str:
    # The fields come from the declared type, or else from the structs in the queries.
    from vde_dagster.sql.casts import sort_type_fields, struct_fields, type_fields

    if was and column.type and "<" in was and "<" in column.type:
        alike = sort_type_fields(was) == sort_type_fields(column.type)
        return "reordered" if alike and not same_type(was, column.type) else ""
    queries = base.model.query, plain.model.query
    if column.type or None in queries or was is None or (was and "STRUCT<" not in was.upper()):
        return ""
    own = type_fields(was)
    old, new = (struct_fields(query, column.name) for query in queries if query is not None)
    if not _contains_structs(old, own):
        return ""  # The structs come from elsewhere: from columns of parents, or functions.
    if not _contains_structs(new, own):
        return "retyped"
    return "" if Counter(own) <= Counter(new) else "reordered"


def _contains_structs(made: Iterable[tuple[str, ...]], own: Iterable[tuple[str, ...]]) -> bool:
    return Counter(map(frozenset, own)) <= Counter(map(frozenset, made))
