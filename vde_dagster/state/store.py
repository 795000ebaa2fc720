"""The state store: what has been built and published, in one SQL database."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vde_dagster.state.db.database import Database, make_engine
from vde_dagster.state.db.effects import Clock, Effects
from vde_dagster.state.db.migrate import ensure_schema
from vde_dagster.state.db.project import ProjectStore
from vde_dagster.state.environments.environments import EnvironmentStore
from vde_dagster.state.plans.plans import PlanStore
from vde_dagster.state.plans.snapshots import SnapshotStore
from vde_dagster.state.tables.tables import TableStore

if TYPE_CHECKING:
    from vde_dagster.state.db.leases import LeaseStore
    from vde_dagster.state.db.outbox import NewsStore
    from vde_dagster.state.environments.changes import ChangeCursorStore, ChangePoints
    from vde_dagster.state.environments.entries import ShownStore
    from vde_dagster.state.environments.mirror import MirrorStore
    from vde_dagster.state.environments.pin_history import PinHistory
    from vde_dagster.state.environments.pins import PinStore
    from vde_dagster.state.environments.publications import PublicationStore
    from vde_dagster.state.environments.statements import (
        EnvironmentStatementStore,
        VirtualUpdateStore,
    )
    from vde_dagster.state.environments.tokens import TokenStore
    from vde_dagster.state.environments.versions import VersionStore
    from vde_dagster.state.fills.fills import FactStore, FillStore
    from vde_dagster.state.fills.outdated import OutdatedStore
    from vde_dagster.state.fills.table_commits import PendingStore
    from vde_dagster.state.gc.records import RecordStore
    from vde_dagster.state.gc.retention import RetentionStore
    from vde_dagster.state.plans.audits import AuditStore
    from vde_dagster.state.tables.ledger import LedgerStore


class StateStore:
    """Everything that is known beyond the project's files, each part by its name.

    What planning reads is there at once; the other parts are made, and their code is imported,
    when they are asked for first.

    Args:
        database: Where all parts are. A change of several parts is one transaction of it, whose
            connection their methods take.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.snapshots = SnapshotStore(database)
        self.tables = TableStore(database)
        self.environments = EnvironmentStore(database, self.tables)
        self.plans = PlanStore(database, self.snapshots)
        self.project = ProjectStore(database)

    @cached_property
    def audits(self) -> AuditStore:
        """Reading and writing audit results."""
        from vde_dagster.state.plans.audits import AuditStore

        return AuditStore(self.database)

    @cached_property
    def change_cursors(self) -> ChangeCursorStore:
        """Reading and moving the cursors of those who consume changes."""
        from vde_dagster.state.environments.changes import ChangeCursorStore

        return ChangeCursorStore(self.database)

    @cached_property
    def change_points(self) -> ChangePoints:
        """Reading with which versions what is shown of a model became another."""
        from vde_dagster.state.environments.changes import ChangePoints

        return ChangePoints(self.database)

    @cached_property
    def facts(self) -> FactStore:
        """Reading what fills remember of their inputs and outputs."""
        from vde_dagster.state.fills.fills import FactStore

        return FactStore(self.database)

    @cached_property
    def fills(self) -> FillStore:
        """Reading and writing what is filled in tables."""
        from vde_dagster.state.fills.fills import FillStore

        return FillStore(self.database)

    @cached_property
    def leases(self) -> LeaseStore:
        """Acquiring, renewing, checking and giving back leases."""
        from vde_dagster.state.db.leases import LeaseStore

        return LeaseStore(self.database)

    @cached_property
    def ledger(self) -> LedgerStore:
        """Reading physical tables of any status, and dropping those that were given up."""
        from vde_dagster.state.tables.ledger import LedgerStore

        return LedgerStore(self.database, self.leases)

    @cached_property
    def mirror(self) -> MirrorStore:
        """Writing down what mirrored views are to be, and what they are."""
        from vde_dagster.state.environments.mirror import MirrorStore

        return MirrorStore(self.database, self.leases)

    @cached_property
    def news(self) -> NewsStore:
        """Reading news."""
        from vde_dagster.state.db.outbox import NewsStore

        return NewsStore(self.database)

    @cached_property
    def outdated(self) -> OutdatedStore:
        """Finding what a restatement makes outdated, and remembering it."""
        from vde_dagster.state.fills.outdated import OutdatedStore

        return OutdatedStore(self.database, self.tables, self.snapshots, self.fills)

    @cached_property
    def pending(self) -> PendingStore:
        """Reading and writing what waits for a publication."""
        from vde_dagster.state.fills.table_commits import PendingStore

        return PendingStore(self.database, self.fills)

    @cached_property
    def pin_history(self) -> PinHistory:
        """Reading the pins of many versions."""
        from vde_dagster.state.environments.pin_history import PinHistory

        return PinHistory(self.database)

    @cached_property
    def pins(self) -> PinStore:
        """Reading and writing what publications pin."""
        from vde_dagster.state.environments.pins import PinStore

        return PinStore(self.database)

    @cached_property
    def publications(self) -> PublicationStore:
        """Announcing and deciding publications."""
        from vde_dagster.state.environments.publications import PublicationStore

        return PublicationStore(self.database)

    @cached_property
    def records(self) -> RecordStore:
        """Forgetting old records."""
        from vde_dagster.state.gc.records import RecordStore

        return RecordStore(self.database)

    @cached_property
    def retention(self) -> RetentionStore:
        """Deciding what may be forgotten, and giving it up."""
        from vde_dagster.state.gc.retention import RetentionStore

        return RetentionStore(self.database, self.plans, self.leases)

    @cached_property
    def shown(self) -> ShownStore:
        """Asking which environments show what."""
        from vde_dagster.state.environments.entries import ShownStore

        return ShownStore(self.database)

    @cached_property
    def tokens(self) -> TokenStore:
        """Reading and writing who may read environments over HTTP."""
        from vde_dagster.state.environments.tokens import TokenStore

        return TokenStore(self.database)

    @cached_property
    def versions(self) -> VersionStore:
        """Reading the history of environments."""
        from vde_dagster.state.environments.versions import VersionStore

        return VersionStore(self.database)

    @cached_property
    def environment_statements(self) -> EnvironmentStatementStore:
        """Statements of environments before and after all else."""
        from vde_dagster.state.environments.statements import EnvironmentStatementStore

        return EnvironmentStatementStore(self.database)

    @cached_property
    def virtual_updates(self) -> VirtualUpdateStore:
        """Writing down what runs once views are published, and crossing it off."""
        from vde_dagster.state.environments.statements import VirtualUpdateStore

        return VirtualUpdateStore(self.database)

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
        database = Database(make_engine(url), clock, effects)
        ensure_schema(database)
        return cls(database)

    def export_state(self, path: Path) -> dict[str, int]:
        """Write the whole store to a file; see `transfer.export_state`."""
        from vde_dagster.state.db.transfer import export_state

        return export_state(self.database, path)

    def import_state(self, path: Path) -> dict[str, int]:
        """Read a whole store from a file into this one, which has to be empty."""
        from vde_dagster.state.db.transfer import import_state

        return import_state(self.database, path)

    def close(self) -> None:
        """Close every pooled connection."""
        self.database.close()
