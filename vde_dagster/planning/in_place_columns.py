"""Which columns a table has of a definition that goes on in it: old, new, and of what type."""

from __future__ import annotations

from collections.abc import Mapping

from vde_dagster.base.hashing import digest
from vde_dagster.planning.contracts import same_type, widens_in_place
from vde_dagster.planning.in_place import ColumnChange, ColumnChanges
from vde_dagster.planning.snapshot import OutputColumn, Snapshot
from vde_dagster.planning.table import PhysicalTable


def columns_in_place(
    plain: Snapshot, base: Snapshot, table: PhysicalTable, types: Mapping[str, str]
) -> tuple[tuple[OutputColumn, ...], ColumnChanges]:
    """Return the columns of a definition that goes on in a table, and what changes of them.

    Args:
        plain: The definition as it is on its own.
        base: The definition that production shows.
        table: Production's table.
        types: Spark SQL types of the table's columns, by name.
    """
    policy = plain.model.kind.in_place
    assert policy is not None
    before = {column.name.lower(): column for column in base.columns}
    physical = table.column_named_by_version()
    columns: list[OutputColumn] = []
    changes: list[ColumnChange] = []
    for column in plain.columns:
        old = before.pop(column.name.lower(), None)
        if old is None:
            if policy.on_additive_change == "ignore":
                changes.append(ColumnChange(column.name, "not_added", None, column.type))
                continue
            columns.append(column._replace(version=_new_version(table, column)))
            restored = columns[-1].version == column.version
            changes.append(
                ColumnChange(column.name, "restored" if restored else "added", None, column.type)
            )
            continue
        was = types.get(physical.get(old.version, ""), old.type)
        kept = column._replace(version=old.version)
        if not was or not column.type or same_type(was, column.type):
            columns.append(kept)
        elif widens_in_place(was, column.type):
            if policy.on_additive_change == "ignore":
                columns.append(kept._replace(type=was))
            else:
                columns.append(kept)
                changes.append(ColumnChange(column.name, "widened", was, column.type))
        elif policy.on_destructive_change == "ignore":
            columns.append(kept._replace(type=was))
            changes.append(ColumnChange(column.name, "not_retyped", was, column.type))
        else:
            columns.append(column._replace(version=_new_version(table, column)))
            changes.append(ColumnChange(column.name, "retyped", was, column.type))
    for old in before.values():
        if policy.on_destructive_change == "ignore":
            columns.append(old)
            changes.append(ColumnChange(old.name, "kept", old.type))
        else:
            changes.append(ColumnChange(old.name, "removed", old.type))
    return tuple(columns), tuple(changes)


def _new_version(table: PhysicalTable, column: OutputColumn) -> str:
    """Hash a column of which rows that are there have nothing.

    One that the table has of an earlier definition is that one: what it held is shown again.
    """
    new = digest("in place", table.id, column.name.lower(), column.type, column.version)
    for known in table.columns:
        same_name = known.name.lower() == column.name.lower()
        if same_name and known.is_version(column.version):
            return column.version
    return new
