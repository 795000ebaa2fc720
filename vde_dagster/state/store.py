"""The state store: what has been built and published, in one SQL database."""

from __future__ import annotations

from pathlib import Path

from vde_dagster.state.clock import Clock
from vde_dagster.state.database import make_engine
from vde_dagster.state.effects import Effects
from vde_dagster.state.migrate import ensure_schema
from vde_dagster.state.records import RecordStore


class StateStore(RecordStore):
    """Everything that is known beyond the project's files.

    Each part lives in a module of its own (snapshots, tables, environments, plans, audits,
    leases, publications, retention, records) as a class that extends the one before; this one
    opens all.
    """

    @classmethod
    def open(
        cls, url: str, *, clock: Clock | None = None, effects: Effects | None = None
    ) -> StateStore:
        """Open a store, creating or upgrading its tables when needed.

        Args:
            url: `sqlite:///path/to/file.db` or `postgresql://user@host/database`.
            clock: Who tells the time; the machine by default.
            effects: The port for side effects; for tests.

        Raises:
            UsageError: The URL names neither a SQLite file nor a PostgreSQL database.
            StoreError: The database cannot be reached, or was written by newer code.
        """
        store = cls(make_engine(url), clock, effects)
        ensure_schema(store)
        return store

    def export_state(self, path: Path) -> dict[str, int]:
        """Write the whole store to a file; see `transfer.export_state`."""
        from vde_dagster.state.transfer import export_state

        return export_state(self, path)

    def import_state(self, path: Path) -> dict[str, int]:
        """Read a whole store from a file into this one, which has to be empty."""
        from vde_dagster.state.transfer import import_state

        return import_state(self, path)
