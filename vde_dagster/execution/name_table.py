"""Naming the physical table that an environment shows a model by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName, quote
from vde_dagster.execution.published_entry import published_entry

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class TableName:
    """Where an environment has a model.

    Args:
        model: The model.
        environment: The environment.
        view: Its view in Spark, quoted; None for what has none.
        table: The table that holds its rows, quoted; None where a view of its query is all.
        branch: The Iceberg branch that has them; None for `main`.
    """

    model: ModelName
    environment: str
    view: str | None
    table: str | None
    branch: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return {
            "model": str(self.model),
            "environment": self.environment,
            "view": self.view,
            "table": self.table,
            "branch": self.branch,
        }


def name_table(warehouse: Warehouse, environment: str, model: str) -> TableName:
    """Name the table of a model in an environment; asks the state store alone.

    Raises:
        UsageError: There is no such environment, or it shows no such model.
    """
    name = ModelName.parse(model, warehouse.settings.default_namespace)
    known, entry = published_entry(warehouse.store, environment, name)
    catalog = warehouse.settings.catalog
    if entry.table_id is None:
        snapshot = warehouse.store.snapshots.load([entry.snapshot_id])[entry.snapshot_id]
        shown = snapshot.model.kind.is_shown
        return TableName(
            name, environment, known.views.quoted(name, catalog) if shown else None, None
        )
    table = warehouse.store.tables.get(entry.table_id)
    quoted = ".".join(quote(part) for part in (catalog, table.ref.namespace, table.ref.name))
    return TableName(name, environment, known.views.quoted(name, catalog), quoted, table.branch)
