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
    from pyiceberg.table import Table

    from vde_dagster.execution.warehouse import Warehouse


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
    if table.branch is not None:
        return _of_branch(loaded, table.branch, wanted).rename_columns(shown)
    scan = loaded.scan(selected_fields=tuple(set(wanted)))
    rows: pa.Table = scan.to_arrow().select(wanted).rename_columns(shown)
    return rows


def _of_branch(loaded: Table, branch: str, wanted: Sequence[str]) -> pa.Table:
    """Read a preview; a branch that nothing was written to yet knows no columns added since."""
    import pyarrow

    head = loaded.snapshot_by_name(branch)
    assert head is not None
    schema = loaded.schema() if head.schema_id is None else loaded.schemas()[head.schema_id]
    there = [name for name in dict.fromkeys(wanted) if name in schema.column_names]
    rows = loaded.scan(selected_fields=tuple(there), snapshot_id=head.snapshot_id).to_arrow()
    types = loaded.schema().as_arrow()
    empty = {
        name: pyarrow.nulls(rows.num_rows, types.field(name).type)
        for name in wanted
        if name not in there
    }
    columns = [empty[name] if name in empty else rows[name] for name in wanted]
    return pyarrow.table(columns, names=list(wanted))
