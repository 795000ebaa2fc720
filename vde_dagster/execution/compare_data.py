"""How the rows that one version of an environment pins differ from what another one does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName
from vde_dagster.lakehouse.pins import growth_between

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse
    from vde_dagster.planning.environment import Environment
    from vde_dagster.state.pins import Pin


@dataclass(frozen=True, slots=True)
class DataDifference:
    """A model of which two versions show other rows, or may do.

    Args:
        name: The model.
        same_table: Whether one table serves both.
        before: Rows in the other version, when known.
        after: Rows in the version, when known.
        added: Rows that commits in between wrote, in one table and when known.
        removed: Rows that commits in between deleted or wrote anew.
    """

    name: ModelName
    same_table: bool
    before: int | None
    after: int | None
    added: int | None
    removed: int | None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {
            "model": str(self.name),
            "same_table": self.same_table,
            "rows_before": self.before,
            "rows": self.after,
            "rows_added": self.added,
            "rows_removed": self.removed,
        }


def compare_data(
    warehouse: Warehouse, new: Environment, old: Environment
) -> tuple[DataDifference, ...]:
    """Compare what two versions pin, by Iceberg's metadata; no rows are read.

    Args:
        warehouse: The project's warehouse.
        new: The version whose changes are told.
        old: The one that it is compared with.

    Returns:
        The models that both show, with their own table, as of another snapshot or table. What one
        of them has no pin of is left out.
    """
    pins = warehouse.store.pins
    now, then = (pins.at(one.name, one.version) for one in (new, old))
    found = []
    for name in sorted(new.entries.keys() & old.entries.keys()):
        one = now.get(new.entries[name].table_id or "")
        two = then.get(old.entries[name].table_id or "")
        if one is None or two is None:
            continue
        same = one.table_id == two.table_id
        if same and one.snapshot_id == two.snapshot_id:
            continue
        added, removed = _growth(warehouse, one, two) if same else (None, None)
        found.append(DataDifference(name, same, two.rows, one.rows, added, removed))
    return tuple(found)


def _growth(warehouse: Warehouse, new: Pin, old: Pin) -> tuple[int | None, int | None]:
    """Add up the commits between two snapshots; going back, what was added is removed."""
    with warehouse.store.database.reading() as conn:
        places = warehouse.store.pins.places(conn, [new.table_id])
    ref, _ = places[new.table_id]
    metadata = warehouse.lakehouse.table_metadata(ref)
    growth = growth_between(metadata, old.snapshot_id, new.snapshot_id)
    return growth.added, growth.removed
