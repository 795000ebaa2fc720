"""Reading a published model without an engine: with PyIceberg, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.base.suggestions import suggest
from vde_dagster.errors import UsageError
from vde_dagster.planning.resolver import column_map

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from vde_dagster.execution.warehouse import Warehouse
    from vde_dagster.planning.environment import Held


def read_published(
    warehouse: Warehouse, environment: str, model: ModelName, columns: Sequence[str]
) -> pa.Table:
    """Read what an environment shows of a model; see `Workspace.read`."""
    published = warehouse.store.environments.get(environment)
    if published is None:
        raise UsageError(
            f"there is no environment '{environment}'",
            hint=f"plan and apply it first: vde apply {environment}",
        )
    entry = published.entries.get(model)
    if entry is None:
        raise UsageError(
            f"environment '{environment}' has no model {model}",
            hint=suggest(str(model), map(str, published.entries), "models"),
        )
    if entry.table_id is None:
        raise UsageError(
            f"{model} has no table of its own, so it can only be read by an engine",
            hint="read it with Spark, or give its model another kind, such as FULL",
        )
    snapshot = warehouse.store.snapshots.load([entry.snapshot_id])[entry.snapshot_id]
    table = warehouse.store.tables.get(entry.table_id)
    physical = dict(column_map(snapshot, table))
    named = {name.lower(): name for name in physical}
    for column in columns:
        if column.lower() not in named:
            raise UsageError(
                f"{model} has no column '{column}'",
                hint=suggest(column, physical, "columns"),
            )
    shown = [named[column.lower()] for column in columns] or list(physical)
    wanted = [physical[name] for name in shown]
    loaded = warehouse.lakehouse.load_table(table.ref)
    with warehouse.lakehouse.naming_damage(lambda _: [table.ref]):
        if entry.held is not None:
            return _as_of(loaded, entry.held, wanted).rename_columns(shown)
        if table.branch is not None:
            return _of_branch(loaded, table.branch, wanted).rename_columns(shown)
        scan = loaded.scan(selected_fields=tuple(set(wanted)))
        rows: pa.Table = scan.to_arrow().select(wanted).rename_columns(shown)
        return rows


def _of_branch(loaded: Table, branch: str, wanted: Sequence[str]) -> pa.Table:
    """Read a preview."""
    head = loaded.snapshot_by_name(branch)
    assert head is not None
    return _read(loaded, head, loaded.schema(), wanted)


def _as_of(loaded: Table, held: Held, wanted: Sequence[str]) -> pa.Table:
    """Read a state of a table, under the columns that it had then."""
    schema = loaded.schemas().get(held.schema_id, loaded.schema())
    if held.snapshot_id is None:
        return schema.as_arrow().empty_table().select(list(wanted))
    snapshot = loaded.snapshot_by_id(held.snapshot_id)
    if snapshot is None:
        raise UsageError(
            f"the data of {'.'.join(loaded.name())} that are shown are gone: another program than "
            "vde expired them",
            hint="`vde fsck` says what is damaged; restore a backup",
        )
    return _read(loaded, snapshot, schema, wanted)


def _read(loaded: Table, snapshot: Snapshot, schema: Schema, wanted: Sequence[str]) -> pa.Table:
    """Read a snapshot under a schema; one of before knows no columns added since."""
    import pyarrow

    own = loaded.schema() if snapshot.schema_id is None else loaded.schemas()[snapshot.schema_id]
    there = [name for name in dict.fromkeys(wanted) if name in own.column_names]
    rows = loaded.scan(selected_fields=tuple(there), snapshot_id=snapshot.snapshot_id).to_arrow()
    types = schema.as_arrow()
    columns = [
        rows[name].cast(types.field(name).type)
        if name in there
        else pyarrow.nulls(rows.num_rows, types.field(name).type)
        for name in wanted
    ]
    return pyarrow.table(columns, names=list(wanted))
