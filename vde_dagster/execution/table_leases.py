"""The leases of the tables that an apply writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from vde_dagster.planning.table import PhysicalTable
from vde_dagster.state import Lease, StateStore
from vde_dagster.state.lease_names import table_lease

TABLE_WAIT_SECONDS = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class TableLeases:
    """Leases of tables, for one owner.

    Args:
        store: The state store.
        owner: Who takes them.
        held: Those of tables that an environment shows, by table id, which the apply holds until
            it publishes.
    """

    store: StateStore
    owner: str
    held: Mapping[str, Lease]

    @classmethod
    def take(
        cls, store: StateStore, owner: str, table_ids: Iterable[str], until: ExitStack
    ) -> TableLeases:
        """Take the leases of tables that an environment shows.

        They are taken at once in the order of their names: two applies can never wait for each
        other in a circle.

        Args:
            store: The state store.
            owner: Who takes them.
            table_ids: The tables.
            until: What gives them back.
        """
        held = {
            table_id: until.enter_context(
                store.leases.holding(table_lease(table_id), owner, wait_seconds=TABLE_WAIT_SECONDS)
            ).lease
            for table_id in sorted(table_ids)
        }
        return cls(store, owner, held)

    @contextmanager
    def guard(self, table: PhysicalTable) -> Iterator[Lease]:
        """Hold a table's lease for a block, unless the apply holds it already."""
        if table.id in self.held:
            yield self.held[table.id]
            return
        with self.store.leases.holding(
            table_lease(table.id), self.owner, wait_seconds=TABLE_WAIT_SECONDS
        ) as held:
            yield held.lease
