"""The tables of a version's catalog: models with tables, and views that only select columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName
from vde_dagster.lakehouse.io.files import read_metadata
from vde_dagster.lakehouse.publishing.pins import as_pinned
from vde_dagster.planning.environments.resolver import column_map
from vde_dagster.planning.rendering.served_views import RepeatedColumns, read_selection

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.planning.snapshots.snapshot import Snapshot
    from vde_dagster.planning.tables.table import PhysicalTable
    from vde_dagster.state.environments.pins import Pin

_MOST_KNOWN = 100_000


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table in the catalog, made from one physical table.

    Args:
        owner: The model with the physical table.
        columns: (name, output column of the owner) in order; None for all under their own names.
    """

    owner: ModelName
    columns: tuple[tuple[str, str], ...] | None = None


def find_selections(
    queries: Mapping[ModelName, Snapshot], owners: Mapping[ModelName, Snapshot]
) -> dict[ModelName, CatalogTable]:
    """Return the views that only select columns of one table, as tables for the catalog.

    Args:
        owners: The models with a table, at least all that `queries` read.
    """
    found: dict[ModelName, CatalogTable | None] = {}

    def find(name: ModelName) -> CatalogTable | None:
        if name not in found:
            found[name] = None
            found[name] = _find_selection(queries[name], find, queries, owners)
        return found[name]

    return {name: one for name in queries if (one := find(name)) is not None}


def _find_selection(
    snapshot: Snapshot,
    shown: Any,
    queries: Mapping[ModelName, Snapshot],
    owners: Mapping[ModelName, Snapshot],
) -> CatalogTable | None:
    query = snapshot.model.query
    selection = read_selection(query) if query is not None else None
    if selection is None:
        return None
    if selection.source in owners:
        owner = selection.source
        outputs = {column.name: column.name for column in owners[owner].columns}
    else:
        inner = shown(selection.source) if selection.source in queries else None
        if inner is None or inner.columns is None:
            return None
        owner, outputs = inner.owner, dict(inner.columns)
    columns = selection.columns(outputs)
    if columns is None or [name for name, _ in columns] != [c.name for c in snapshot.columns]:
        return None
    versions = {column.name: column.version for column in owners[owner].columns}
    if len({versions[column] for _, column in columns}) < len(columns):
        return None  # Two outputs may be one column of the table.
    return CatalogTable(owner, columns)


class RepeatedColumnsCache:
    """Finds and caches snapshots that have two output columns with the same column version."""

    def __init__(self) -> None:
        self._known: dict[str, bool] = {}

    def find_in(self, workspace: Workspace, ids: Iterable[str]) -> set[str]:
        wanted = set(ids)
        for snapshot in workspace.store.snapshots.load(wanted - self._known.keys()).values():
            versions = {column.version for column in snapshot.columns}
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[snapshot.id] = len(versions) < len(snapshot.columns)
        return {one for one in wanted if self._known.get(one)}


def find_columns_table(
    workspace: Workspace, snapshot: Snapshot, table: PhysicalTable, pin: Pin, names: set[ModelName]
) -> RepeatedColumns | None:
    """Return a table with each column once, if a model's view shows a column under two names."""
    location = workspace.lakehouse.metadata_location(table.ref)
    if location is None:
        return None  # Loading it reports the reason.
    metadata = read_metadata(workspace.lakehouse.files, location, str(snapshot.name), table.id)
    mapped = column_map(snapshot, as_pinned(table, metadata, pin.schema_id))
    first: dict[str, str] = {}
    columns = tuple((name, first.setdefault(physical, name)) for name, physical in mapped)
    if len(first) == len(columns):
        return None
    name = f"{snapshot.name.name}__columns"
    while ModelName(snapshot.name.namespace, name) in names:
        name += "_"
    return RepeatedColumns(ModelName(snapshot.name.namespace, name), columns)
