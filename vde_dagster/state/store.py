"""The state store: the record of tables, fills and publications, in one SQL database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, insert, select, update

from vde_dagster.base.locations import normal_location
from vde_dagster.errors import UsageError
from vde_dagster.project.settings import ProjectIdentity
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database, make_engine
from vde_dagster.state.db.effects import Clock, Effects
from vde_dagster.state.db.migrate import ensure_schema
from vde_dagster.state.db.rights import has_right
from vde_dagster.state.environments.environments import EnvironmentStore
from vde_dagster.state.plans.plans import PlanStore
from vde_dagster.state.plans.snapshots import SnapshotStore
from vde_dagster.state.tables.tables import TableStore

if TYPE_CHECKING:
    from vde_dagster.state.db.leases import LeaseStore
    from vde_dagster.state.db.log import LogStore
    from vde_dagster.state.db.outbox import Outbox
    from vde_dagster.state.db.rights import RightsStore
    from vde_dagster.state.environments.changes import ChangeCursorStore
    from vde_dagster.state.environments.mirror import MirrorStore
    from vde_dagster.state.environments.pins import PinStore
    from vde_dagster.state.environments.publications import PublicationStore
    from vde_dagster.state.environments.statements import StatementStore
    from vde_dagster.state.environments.tokens import TokenStore
    from vde_dagster.state.environments.versions import ShownStore, VersionStore
    from vde_dagster.state.fills.fills import FillStore
    from vde_dagster.state.fills.outdated import OutdatedStore
    from vde_dagster.state.fills.table_commits import PendingStore
    from vde_dagster.state.plans.audits import AuditStore
    from vde_dagster.state.retention import RetentionStore
    from vde_dagster.state.tables.tables import LedgerStore


def _part(place: str) -> cached_property[Any]:
    """Return a part of the store, by its place in `state`, built from the parts it depends on."""
    module, _, kind = place.rpartition(".")

    def make(store: StateStore) -> Any:
        part = getattr(import_module(f"{__package__}.{module}"), kind)
        return part(*(getattr(store, needed.name) for needed in fields(part)))

    return cached_property(make)


class StateStore:
    """All facts that are not in the project's files; each attribute is one part.

    The parts that planning reads are built at once; other parts are built, and their code is
    imported, on first access.
    """

    audits: cached_property[AuditStore] = _part("plans.audits.AuditStore")
    change_cursors: cached_property[ChangeCursorStore] = _part(
        "environments.changes.ChangeCursorStore"
    )
    fills: cached_property[FillStore] = _part("fills.fills.FillStore")
    leases: cached_property[LeaseStore] = _part("db.leases.LeaseStore")
    ledger: cached_property[LedgerStore] = _part("tables.tables.LedgerStore")
    log: cached_property[LogStore] = _part("db.log.LogStore")
    mirror: cached_property[MirrorStore] = _part("environments.mirror.MirrorStore")
    outbox: cached_property[Outbox] = _part("db.outbox.Outbox")
    outdated: cached_property[OutdatedStore] = _part("fills.outdated.OutdatedStore")
    pending: cached_property[PendingStore] = _part("fills.table_commits.PendingStore")
    pins: cached_property[PinStore] = _part("environments.pins.PinStore")
    publications: cached_property[PublicationStore] = _part(
        "environments.publications.PublicationStore"
    )
    retention: cached_property[RetentionStore] = _part("retention.RetentionStore")
    rights: cached_property[RightsStore] = _part("db.rights.RightsStore")
    shown: cached_property[ShownStore] = _part("environments.versions.ShownStore")
    statements: cached_property[StatementStore] = _part("environments.statements.StatementStore")
    tokens: cached_property[TokenStore] = _part("environments.tokens.TokenStore")
    versions: cached_property[VersionStore] = _part("environments.versions.VersionStore")

    def __init__(self, database: Database) -> None:
        self.database = database
        self.snapshots = SnapshotStore(database)
        self.tables = TableStore(database)
        self.environments = EnvironmentStore(database, self.tables)
        self.plans = PlanStore(database, self.snapshots)
        self.project = ProjectStore(database)

    @classmethod
    def open(
        cls, url: str, *, clock: Clock | None = None, effects: Effects | None = None
    ) -> StateStore:
        """Open a store, creating or upgrading its tables if needed.

        Args:
            url: `sqlite:///path/to/file.db` or `postgresql://user@host/database`.
        """
        database = Database(make_engine(url), clock, effects)
        ensure_schema(database)
        return cls(database)

    def close(self) -> None:
        """Close every pooled connection."""
        self.database.close()


_ROW = schema.project


def _no_requirement() -> None:
    """Require nothing: the store was opened without a project's folder."""


@dataclass(slots=True)
class ProjectStore:
    """Compares a project with the state's owner, and records the owner."""

    database: Database
    own: ProjectIdentity | None = None
    warehouse: str | None = None
    """The warehouse for which the store was opened, as `normal_location` spells it."""
    require_models: Callable[[], None] = _no_requirement
    """Raises where the folder for which the store was opened has no models."""

    def owner(self, connection: Connection | None = None) -> ProjectIdentity | None:
        """Return the project that owns the state, or None before the first publication."""
        query = select(_ROW.c.project_id, _ROW.c.name, _ROW.c.named)
        row = self.database.row(query, connection)
        if row is None:
            return None
        return ProjectIdentity(row.project_id, row.name, row.named)

    def is_new(self) -> bool:
        """Return whether nothing was ever created or published here."""
        with self.database.reading() as conn:
            return not any(
                conn.execute(select(table).limit(1)).first()
                for table in (_ROW, schema.environments, schema.tables)
            )

    def recorded_warehouse(self, connection: Connection | None = None) -> str | None:
        """Return the warehouse of the state's tables, or None if it is unknown."""
        row = self.database.row(select(_ROW.c.warehouse), connection)
        return None if row is None or row.warehouse is None else normal_location(row.warehouse)

    def require_own(self, connection: Connection | None = None) -> ProjectIdentity | None:
        """Return the owner, if the store was opened for it, its warehouse and a folder with models.

        Raises:
            UsageError: It was opened for something else.
        """
        owner = self._require_owner(connection)
        if owner is None or self.own is None:
            return owner
        if connection is None:
            self.require_models()
        known = self.recorded_warehouse(connection)
        if known is not None and self.warehouse is not None and known != self.warehouse:
            raise UsageError(
                f"the tables of the state store {self._url} are in the warehouse {known}, but this "
                f"project's warehouse is {self.warehouse}: nothing was changed",
                hint="correct the setting warehouse (or VDE_WAREHOUSE); to create new tables in "
                "this warehouse from now on: vde state use-warehouse",
            )
        return owner

    def use_warehouse(self) -> tuple[str | None, str | None]:
        """Record the store's configured warehouse; return the earlier and the new one.

        Existing tables stay where they are.

        Raises:
            UsageError: The state belongs to another project, or nothing was published yet.
        """
        self.require_models()

        def record(connection: Connection) -> tuple[str | None, str | None]:
            if self._require_owner(connection) is None:
                raise UsageError(
                    "nothing was published yet: the first publication records the warehouse",
                    hint="create a plan: vde plan prod",
                )
            before = self.recorded_warehouse(connection)
            connection.execute(update(_ROW).values(warehouse=self.warehouse))
            return before, self.warehouse

        self.database.before_writing = None
        return self.database.run_transaction(record, name="state.use_warehouse")

    @property
    def _url(self) -> str:
        return self.database.engine.url.render_as_string(hide_password=True)

    def _require_owner(self, connection: Connection | None) -> ProjectIdentity | None:
        owner = self.owner(connection)
        if owner is None or self.own is None or not self.own.is_other(owner):
            return owner
        line = f'id = "{owner.id}"' if owner.id else f'name = "{owner.name}"'
        raise UsageError(
            f"the state store {self._url} belongs to the project {owner}, and this is the project "
            f"{self.own}: nothing was changed",
            hint=f"change to the folder of '{owner.name}' (--project), or give this project its "
            "own state (the setting state_url, or VDE_STATE_URL); if both are the same project, "
            f"write {line} below [tool.vde] in pyproject.toml",
        )

    def adopt(self, connection: Connection, *, publishes: bool = True) -> None:
        """Make the project and its warehouse the owner of the state, from this publication on.

        Args:
            publishes: Whether production is published, which may record the warehouse of an older
                state; other logins may not change that row.
        """
        owner = self.require_own(connection)
        known = self.own.or_known(owner) if self.own is not None and owner is not None else self.own
        if known is None:
            return
        recorded = self.recorded_warehouse(connection)
        place = recorded or self.warehouse
        if known == owner and (place == recorded or not publishes):
            return
        values = {
            "project_id": known.id,
            "name": known.name,
            "named": known.named,
            "warehouse": place,
        }
        if owner is not None:
            if has_right(connection, "publish"):
                connection.execute(update(_ROW).values(**values))
        else:
            since = self.database.clock.now()
            connection.execute(insert(_ROW).values(number=1, since=since, **values))
