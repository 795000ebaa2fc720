"""Journal of mirrored views: wanted definitions, writers, and since when views are outdated.

The publish transaction records each view's wanted definition. From then on the view is outdated,
until a writer has updated the view and recorded the update. A writer needs a lease, and records its
name before it writes. If the writer never records the end, the write may still happen, so the
view is watched for a while.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, or_, select, update

from vde_dagster.base.times import instant_text
from vde_dagster.errors import ConflictError
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.leases import Lease, LeaseStore
from vde_dagster.state.db.rows import upsert

WATCHED = timedelta(minutes=10)
"""How long a view is watched after its writer died, because a request may arrive late."""
_TABLE = schema.mirrored_views
_ROW = _TABLE.c


@dataclass(frozen=True, slots=True)
class WantedView:
    """Definition that a view in a mirror catalog should have.

    Args:
        hash: Hash of the definition; None if the view should be deleted.
    """

    ref: TableRef
    environment: str
    hash: str | None
    definition: str | None


@dataclass(frozen=True, slots=True)
class MirroredView:
    """A view in a mirror catalog, with the time when it became outdated.

    Args:
        watched_until: Time (UTC) until which a request of an ended process may still change the
            view; None if this is not possible.
    """

    wanted: WantedView
    behind_since: datetime | None
    watched_until: datetime | None
    failure: str | None


@dataclass(frozen=True, slots=True)
class MirrorStanding:
    """Counts of an environment's views in mirror catalogs: all, and outdated ones."""

    views: int
    behind: int
    since: datetime | None
    failure: str | None

    def __str__(self) -> str:
        if self.since is None:
            return "as published"
        why = f": {self.failure}" if self.failure else ""
        return f"{self.behind} of {self.views} views outdated since {instant_text(self.since)}{why}"


@dataclass(frozen=True, slots=True)
class MirrorStore:
    database: Database
    leases: LeaseStore

    def want(
        self, connection: Connection, catalog: str, environment: str, views: Iterable[WantedView]
    ) -> None:
        """Record the definitions that views should have, in a publication's transaction.

        Raises:
            ConflictError: A view belongs to another environment.
        """
        known = {one.wanted.ref: one for one in self.views(catalog, connection)}
        now = self.database.clock.now()
        rows = []
        for view in views:
            before = known.get(view.ref)
            of_other = before is not None and before.wanted.environment != environment
            if view.hash is None and (before is None or of_other):
                continue
            if before is not None and of_other and before.wanted.hash is not None:
                raise view_of_another(view.ref, before.wanted.environment)
            if before is not None and before.wanted == view:
                continue  # The text is compared as well: its hash alone could be forged.
            since = before.behind_since if before is not None else None
            rows.append(
                {
                    **_place(catalog, view.ref),
                    "environment": environment,
                    "wanted_hash": view.hash,
                    "definition": view.definition,
                    "behind_since": since or now,
                }
            )
        changed = ("environment", "wanted_hash", "definition", "behind_since")
        upsert(connection, _TABLE, rows, *changed)

    def views(self, catalog: str, connection: Connection | None = None) -> list[MirroredView]:
        return self._read(connection, _ROW.catalog_name == catalog)

    def waiting(self, catalog: str) -> list[MirroredView]:
        """Return outdated views, and those that requests of an ended process may still change."""
        open_ = or_(_ROW.behind_since.is_not(None), _ROW.watched_until.is_not(None))
        return self._read(None, _ROW.catalog_name == catalog, open_)

    def standings(self) -> dict[str, MirrorStanding]:
        """Count the views in mirror catalogs, and the outdated ones, by environment."""
        found: dict[str, list[MirroredView]] = {}
        for view in self._read(None):
            found.setdefault(view.wanted.environment, []).append(view)
        standings = {}
        for environment, views in found.items():
            behind = [(view.behind_since, view) for view in views if view.behind_since is not None]
            failure = next((view.failure for _, view in behind if view.failure), None)
            since = min((at for at, _ in behind), default=None)
            standings[environment] = MirrorStanding(len(views), len(behind), since, failure)
        return standings

    def begin(
        self, catalog: str, views: Sequence[MirroredView], writer: str, lease: Lease
    ) -> list[WantedView]:
        """Record that a process begins to write views, and return the definitions to write.

        Raises:
            LeaseLostError: The lease ended or was taken over.
        """

        def work(conn: Connection) -> list[WantedView]:
            self.leases.check(conn, lease)
            begun = []
            for view in views:
                row = self._row(conn, catalog, view.wanted.ref)
                if row is None:
                    continue
                values: dict[str, Any] = {"writer": writer}
                if row.writer is not None and row.writer != writer:
                    values["watched_until"] = self.database.clock.now() + WATCHED
                self._set(conn, catalog, view.wanted.ref, values)
                begun.append(_view(row).wanted)
            return begun

        return self.database.run_transaction(work, name="mirror.begin") if views else []

    def end(self, catalog: str, done: Sequence[tuple[WantedView, str | None]], writer: str) -> None:
        """Record which views were written, and why other views could not be written."""

        def work(conn: Connection) -> None:
            # Another process may be the writer by now.
            for view, failure in done:
                self._end(conn, catalog, view, writer, failure)

        if done:
            self.database.run_transaction(work, name="mirror.end")

    def _end(
        self, conn: Connection, catalog: str, done: WantedView, writer: str, failure: str | None
    ) -> None:
        row = self._row(conn, catalog, done.ref)
        if row is None:
            return
        now = self.database.clock.now()
        behind = row.behind_since or now
        values: dict[str, Any]
        if row.writer != writer:
            # Another process writes, or wrote: which write came last is unknown.
            values = {"behind_since": behind, "watched_until": now + WATCHED}
        elif failure is not None:
            # It may have happened all the same, so the writer stays recorded.
            values = {"behind_since": behind, "failure": failure[:1000]}
        elif row.wanted_hash != done.hash:
            values = {"writer": None, "failure": None}
        else:
            watched = row.watched_until if (row.watched_until or now) > now else None
            if done.hash is None and watched is None:
                conn.execute(_TABLE.delete().where(*_at(catalog, done.ref)))
                return
            values = {
                "writer": None,
                "failure": None,
                "behind_since": None,
                "watched_until": watched,
            }
        self._set(conn, catalog, done.ref, values)

    def _row(self, connection: Connection, catalog: str, ref: TableRef) -> Any:
        return connection.execute(select(_TABLE).where(*_at(catalog, ref))).one_or_none()

    def mark_behind(self, catalog: str, ref: TableRef) -> None:
        """Record that a view in a mirror catalog was changed by another program."""
        known = (*_at(catalog, ref), _ROW.behind_since.is_(None))
        behind = update(_TABLE).where(*known).values(behind_since=self.database.clock.now())
        self.database.run_transaction(lambda conn: conn.execute(behind), name="mirror.strayed")

    def _set(
        self, connection: Connection, catalog: str, ref: TableRef, values: dict[str, Any]
    ) -> None:
        connection.execute(update(_TABLE).where(*_at(catalog, ref)).values(values))

    def _read(self, connection: Connection | None, *conditions: Any) -> list[MirroredView]:
        query = select(_TABLE).where(*conditions).order_by(_ROW.namespace, _ROW.name)
        return [_view(row) for row in self.database.rows(query, connection)]


def _place(catalog: str, ref: TableRef) -> dict[str, str]:
    return {"catalog_name": catalog, "namespace": ref.namespace, "name": ref.name}


def _at(catalog: str, ref: TableRef) -> Sequence[Any]:
    return (_ROW.catalog_name == catalog, _ROW.namespace == ref.namespace, _ROW.name == ref.name)


def _view(row: Any) -> MirroredView:
    ref = TableRef(row.namespace, row.name)
    wanted = WantedView(ref, row.environment, row.wanted_hash, row.definition)
    return MirroredView(wanted, row.behind_since, row.watched_until, row.failure)


def view_of_another(ref: TableRef, environment: str) -> ConflictError:
    """Build the error for a view whose name another environment uses."""
    return ConflictError(
        f"the view {ref} belongs to another model in the environment '{environment}'",
        hint="rename the model or the environment, so that their views get different names",
    )
