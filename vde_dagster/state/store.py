"""The state store: the record of tables, fills and publications, in one SQL database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, insert, select, update

from vde_dagster.base.locations import normal_location
from vde_dagster.errors import UsageError
from vde_dagster.project.identity import ProjectIdentity
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database, make_engine
from vde_dagster.state.db.effects import Clock, Effects
from vde_dagster.state.db.leases import LeaseStore
from vde_dagster.state.db.log import LogStore
from vde_dagster.state.db.migrate import ensure_schema
from vde_dagster.state.db.outbox import Outbox
from vde_dagster.state.db.rights import RightsStore, has_right
from vde_dagster.state.environments.environments import EnvironmentStore
from vde_dagster.state.environments.versions import ShownStore, VersionStore
from vde_dagster.state.plans.plans import PlanStore
from vde_dagster.state.plans.snapshots import SnapshotStore
from vde_dagster.state.tables.tables import LedgerStore, TableStore

if TYPE_CHECKING:
    from vde_dagster.state.environments.changes import ChangeCursorStore
    from vde_dagster.state.environments.mirror import MirrorStore
    from vde_dagster.state.environments.pins import PinStore
    from vde_dagster.state.environments.publications import PublicationStore
    from vde_dagster.state.environments.statements import StatementStore
    from vde_dagster.state.environments.tokens import TokenStore
    from vde_dagster.state.fills.fills import FillStore
    from vde_dagster.state.fills.outdated import OutdatedStore
    from vde_dagster.state.fills.pending import PendingStore
    from vde_dagster.state.plans.audits import AuditStore
    from vde_dagster.state.retention import RetentionStore


class StateStore:
    """The state of a project in a SQL database. Each subject is an attribute, such as `fills`."""

    def __init__(self, database: Database) -> None:
        self.database = database
        # Planning imports the modules of these parts. The others are imported on first access.
        self.leases = LeaseStore(database)
        self.ledger = LedgerStore(database, self.leases)
        self.log = LogStore(database)
        self.outbox = Outbox(database)
        self.rights = RightsStore(database)
        self.shown = ShownStore(database)
        self.versions = VersionStore(database)
        self.snapshots = SnapshotStore(database)
        self.tables = TableStore(database)
        self.environments = EnvironmentStore(database, self.tables)
        self.plans = PlanStore(database, self.snapshots)
        self.project = ProjectStore(database)

    @classmethod
    def open(
        cls, url: str, *, clock: Clock | None = None, effects: Effects | None = None
    ) -> StateStore:
        """Open the state's database by its SQLAlchemy URL, and create or upgrade its tables."""
        database = Database(make_engine(url), clock, effects)
        ensure_schema(database)
        return cls(database)

    def close(self) -> None:
        self.database.close()

    @cached_property
    def audits(self) -> AuditStore:
        from vde_dagster.state.plans.audits import AuditStore

        return AuditStore(self.database)

    @cached_property
    def change_cursors(self) -> ChangeCursorStore:
        from vde_dagster.state.environments.changes import ChangeCursorStore

        return ChangeCursorStore(self.database)

    @cached_property
    def fills(self) -> FillStore:
        from vde_dagster.state.fills.fills import FillStore

        return FillStore(self.database)

    @cached_property
    def mirror(self) -> MirrorStore:
        from vde_dagster.state.environments.mirror import MirrorStore

        return MirrorStore(self.database, self.leases)

    @cached_property
    def outdated(self) -> OutdatedStore:
        from vde_dagster.state.fills.outdated import OutdatedStore

        return OutdatedStore(self.database, self.tables, self.snapshots, self.fills)

    @cached_property
    def pending(self) -> PendingStore:
        from vde_dagster.state.fills.pending import PendingStore

        return PendingStore(self.database, self.fills, self.leases)

    @cached_property
    def pins(self) -> PinStore:
        from vde_dagster.state.environments.pins import PinStore

        return PinStore(self.database)

    @cached_property
    def publications(self) -> PublicationStore:
        from vde_dagster.state.environments.publications import PublicationStore

        return PublicationStore(self.database)

    @cached_property
    def retention(self) -> RetentionStore:
        from vde_dagster.state.retention import RetentionStore

        return RetentionStore(self.database, self.plans, self.leases, self.ledger)

    @cached_property
    def statements(self) -> StatementStore:
        from vde_dagster.state.environments.statements import StatementStore

        return StatementStore(self.database)

    @cached_property
    def tokens(self) -> TokenStore:
        from vde_dagster.state.environments.tokens import TokenStore

        return TokenStore(self.database)


_ROW = schema.project
_OWNER = select(_ROW.c.project_id, _ROW.c.name, _ROW.c.named, _ROW.c.warehouse)


def _identity(row: Row[Any] | None) -> ProjectIdentity | None:
    return None if row is None else ProjectIdentity(row.project_id, row.name, row.named)


def _warehouse(row: Row[Any] | None) -> str | None:
    return None if row is None or row.warehouse is None else normal_location(row.warehouse)


def _no_requirement() -> None: ...


@dataclass(slots=True)
class ProjectStore:
    """Stores the project that a state database belongs to, and compares other projects with it."""

    database: Database
    own: ProjectIdentity | None = None
    warehouse: str | None = None
    """The warehouse for which the store was opened, as `normal_location` spells it."""
    require_models: Callable[[], None] = _no_requirement
    """Raises an error if the project folder of the store has no models."""

    def owner(self, connection: Connection | None = None) -> ProjectIdentity | None:
        """Return the project that owns the state, or None before the first publication."""
        return _identity(self.database.row(_OWNER, connection))

    def is_new(self) -> bool:
        """Check whether the state has no project, no environment and no table yet."""
        with self.database.reading() as conn:
            return not any(
                conn.execute(select(table).limit(1)).first()
                for table in (_ROW, schema.environments, schema.tables)
            )

    def recorded_warehouse(self, connection: Connection | None = None) -> str | None:
        """Return the location of the state's new tables, or None if it is unknown."""
        return _warehouse(self.database.row(_OWNER, connection))

    def require_own(self, connection: Connection | None = None) -> ProjectIdentity | None:
        """Check that the state belongs to this project and its warehouse, and return its owner.

        Raises:
            UsageError: The store was opened for another project or warehouse.
        """
        row = self.database.row(_OWNER, connection)
        owner = self._require_owner(row)
        if owner is None or self.own is None:
            return owner
        if connection is None:
            self.require_models()
        known = _warehouse(row)
        if known is not None and self.warehouse is not None and known != self.warehouse:
            raise UsageError(
                f"the tables of the state store {self._url} are in the warehouse {known}, but this "
                f"project's warehouse is {self.warehouse}: nothing was changed",
                hint="correct the setting warehouse (or VDE_WAREHOUSE); to create new tables in "
                "this warehouse from now on: vde state use-warehouse",
            )
        return owner

    def use_warehouse(self) -> tuple[str | None, str | None]:
        """Store the configured warehouse for new tables; return the earlier and new warehouse.

        Existing tables stay where they are.

        Raises:
            UsageError: The state belongs to another project, or nothing was published yet.
        """
        self.require_models()

        def record(connection: Connection) -> tuple[str | None, str | None]:
            row = self.database.row(_OWNER, connection)
            if self._require_owner(row) is None:
                raise UsageError(
                    "nothing was published yet: the first publication records the warehouse",
                    hint="create a plan: vde plan prod",
                )
            before = _warehouse(row)
            connection.execute(update(_ROW).values(warehouse=self.warehouse))
            return before, self.warehouse

        self.database.before_writing = None
        return self.database.run_transaction(record, name="state.use_warehouse")

    @property
    def _url(self) -> str:
        return self.database.engine.url.render_as_string(hide_password=True)

    def _require_owner(self, row: Row[Any] | None) -> ProjectIdentity | None:
        owner = _identity(row)
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
        """Store this project as the owner of the state, with its warehouse, in a publication.

        Args:
            publishes: Whether the published environment is production.
        """
        owner = self.require_own(connection)
        known = self.own.or_known(owner) if self.own is not None and owner is not None else self.own
        if known is None:
            return
        recorded = self.recorded_warehouse(connection)
        place = recorded or self.warehouse
        # Without a recorded warehouse, only a publication of production records it, because only
        # logins that may publish can change the row.
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
