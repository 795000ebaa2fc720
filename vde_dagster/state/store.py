"""The state store: what has been built and published, in one SQL database."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

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
    from vde_dagster.state.db.outbox import Outbox
    from vde_dagster.state.environments.changes import ChangeCursorStore
    from vde_dagster.state.environments.entries import ShownStore
    from vde_dagster.state.environments.mirror import MirrorStore
    from vde_dagster.state.environments.pin_history import PinHistory
    from vde_dagster.state.environments.pins import PinStore
    from vde_dagster.state.environments.publications import PublicationStore
    from vde_dagster.state.environments.statements import StatementStore
    from vde_dagster.state.environments.tokens import TokenStore
    from vde_dagster.state.environments.versions import VersionStore
    from vde_dagster.state.fills.fills import FillStore
    from vde_dagster.state.fills.outdated import OutdatedStore
    from vde_dagster.state.fills.table_commits import PendingStore
    from vde_dagster.state.gc.records import RecordStore
    from vde_dagster.state.gc.retention import RetentionStore
    from vde_dagster.state.plans.audits import AuditStore
    from vde_dagster.state.tables.ledger import LedgerStore


_PARTS = {
    "audits": "plans.audits.AuditStore",
    "change_cursors": "environments.changes.ChangeCursorStore",
    "fills": "fills.fills.FillStore",
    "leases": "db.leases.LeaseStore",
    "ledger": "tables.ledger.LedgerStore",
    "mirror": "environments.mirror.MirrorStore",
    "outbox": "db.outbox.Outbox",
    "outdated": "fills.outdated.OutdatedStore",
    "pending": "fills.table_commits.PendingStore",
    "pin_history": "environments.pin_history.PinHistory",
    "pins": "environments.pins.PinStore",
    "publications": "environments.publications.PublicationStore",
    "records": "gc.records.RecordStore",
    "retention": "gc.retention.RetentionStore",
    "shown": "environments.entries.ShownStore",
    "statements": "environments.statements.StatementStore",
    "tokens": "environments.tokens.TokenStore",
    "versions": "environments.versions.VersionStore",
}
"""The parts that are made when they are asked for first, by their places below `state`."""


class StateStore:
    """Everything that is known beyond the project's files, each part by its name.

    What planning reads is there at once; the other parts are made, and their code is imported,
    when they are asked for first.

    Args:
        database: Where all parts are. A change of several parts is one transaction of it, whose
            connection their methods take.
    """

    audits: AuditStore
    change_cursors: ChangeCursorStore
    fills: FillStore
    leases: LeaseStore
    ledger: LedgerStore
    mirror: MirrorStore
    outbox: Outbox
    outdated: OutdatedStore
    pending: PendingStore
    pin_history: PinHistory
    pins: PinStore
    publications: PublicationStore
    records: RecordStore
    retention: RetentionStore
    shown: ShownStore
    statements: StatementStore
    tokens: TokenStore
    versions: VersionStore

    def __init__(self, database: Database) -> None:
        self.database = database
        self.snapshots = SnapshotStore(database)
        self.tables = TableStore(database)
        self.environments = EnvironmentStore(database, self.tables)
        self.plans = PlanStore(database, self.snapshots)
        self.project = ProjectStore(database)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Make a part when it is asked for first, of those that its fields name."""
            if name not in _PARTS:
                raise AttributeError(f"the state store has no part '{name}'")
            module, _, kind = _PARTS[name].rpartition(".")
            part = getattr(import_module(f"{__package__}.{module}"), kind)
            made = part(*(getattr(self, needed.name) for needed in fields(part)))
            setattr(self, name, made)
            return made

    @classmethod
    def open(
        cls, url: str, *, clock: Clock | None = None, effects: Effects | None = None
    ) -> StateStore:
        """Open a store, creating or upgrading its tables when needed.

        Args:
            url: `sqlite:///path/to/file.db` or `postgresql://user@host/database`.

        Raises:
            UsageError: The URL names neither a SQLite file nor a PostgreSQL database.
            StoreError: The database cannot be reached, or was written by newer code.
        """
        database = Database(make_engine(url), clock, effects)
        ensure_schema(database)
        return cls(database)

    def close(self) -> None:
        """Close every pooled connection."""
        self.database.close()
