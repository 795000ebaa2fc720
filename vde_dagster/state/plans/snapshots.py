"""Snapshots: the definitions of planned models, each stored once."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, select, update

from vde_dagster.base.names import ModelName
from vde_dagster.errors import StoreError
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.serialise import from_text
from vde_dagster.state.db import codec, schema
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.guards.write_views import writes_by_views
from vde_dagster.state.db.rights import has_right
from vde_dagster.state.db.rows import among, upsert

_VIEW_TYPES = select(schema.view_types.c.snapshot_id, schema.view_types.c.columns)
_TRUSTED_TYPES = _VIEW_TYPES.where(schema.view_types.c.db_user.is_(None))


@dataclass(frozen=True, slots=True)
class SnapshotStore:
    database: Database

    def save(self, snapshots: Iterable[Snapshot], connection: Connection | None = None) -> None:
        """Store new snapshots.

        Raises:
            StoreError: A row's content differs from the snapshot with its id. Nothing was stored.
        """
        wanted = {snapshot.id: snapshot for snapshot in snapshots}
        known = self._proven(wanted, connection)
        absent = [wanted[key] for key in wanted.keys() - known]
        if not absent:
            return
        now = self.database.clock.now()
        rows = [
            {
                "snapshot_id": snapshot.id,
                "model_namespace": snapshot.name.namespace,
                "model_name": snapshot.name.name,
                "payload": codec.dump_snapshot(snapshot),
                "created_at": now,
            }
            for snapshot in absent
        ]

        def work(conn: Connection) -> None:
            upsert(conn, schema.snapshots, rows)
            # Another program may have stored it first: its row is verified like any other.
            self._proven([snapshot.id for snapshot in absent], conn)

        self.database.run(connection, work, name="state.save_snapshots")

    def load(
        self,
        ids: Iterable[str],
        connection: Connection | None = None,
        unreadable: set[str] | None = None,
    ) -> dict[str, Snapshot]:
        """Read snapshots by id, and verify their content. Unknown ids are left out.

        Args:
            unreadable: Collects the ids of unreadable snapshots, instead of raising an error.

        Raises:
            StoreError: A snapshot is unreadable, or its content does not match its id.
        """
        wanted = list(dict.fromkeys(ids))
        with self.database.reading(connection) as conn:
            payloads = dict(_payloads(conn, wanted))
        found: dict[str, Snapshot] = {}
        for key in wanted:
            if key in payloads:
                try:
                    found[key] = codec.load_snapshot(payloads[key], key)
                except StoreError as error:
                    if unreadable is not None:
                        unreadable.add(key)
                        continue
                    raise self._with_model(key, error, connection) from error
        return found

    def _proven(self, ids: Iterable[str], connection: Connection | None) -> set[str]:
        with self.database.reading(connection) as conn:
            found = dict(_payloads(conn, ids))
        self.load(
            [key for key, data in found.items() if not codec.matches_id(key, data)], connection
        )
        return set(found)

    def foreign(self) -> Iterator[tuple[str, ModelName, str]]:
        """Yield (id, model, reason) of snapshots that are damaged or changed by other programs."""
        table = schema.snapshots.c
        query = select(
            table.snapshot_id, table.model_namespace, table.model_name, table.payload
        ).order_by(table.model_namespace, table.model_name, table.snapshot_id)
        for key, namespace, name, payload in self.database.rows(query):
            model = ModelName(namespace, name)
            try:
                snapshot = codec.load_snapshot(payload, key)
            except StoreError as error:
                yield key, model, error.message
                continue
            if snapshot.name != model:
                yield key, model, f"its content is a definition of {snapshot.name}"

    def mend(self, snapshots: Iterable[Snapshot]) -> list[Snapshot]:
        """Replace the damaged stored content of snapshots, and return the repaired snapshots."""
        known = {snapshot.id: snapshot for snapshot in snapshots}
        with self.database.reading() as conn:
            again = [known[key] for key, data in _payloads(conn, known) if _is_damaged(key, data)]
        if again:
            table = schema.snapshots
            statement = (
                update(table)
                .where(table.c.snapshot_id == bindparam("id"))
                .values(payload=bindparam("again"))
            )
            rows = [{"id": one.id, "again": codec.dump_snapshot(one)} for one in again]
            self.database.run_transaction(
                lambda conn: conn.execute(statement, rows), name="state.mend_snapshots"
            )
        return again

    def _with_model(
        self, snapshot_id: str, error: StoreError, connection: Connection | None
    ) -> StoreError:
        table, entry = schema.snapshots.c, schema.entries.c
        names = select(table.model_namespace, table.model_name)
        shown = select(entry.environment).where(
            entry.snapshot_id == snapshot_id, entry.valid_to.is_(None)
        )
        with self.database.reading(connection) as conn:
            namespace, name = conn.execute(names.where(table.snapshot_id == snapshot_id)).one()
            environments: list[str] = sorted(set(conn.execute(shown).scalars()))
        what = f"the definition {snapshot_id[:12]} of {namespace}.{name}: {error.message}"
        plans = " and ".join(f"`vde plan {environment}`" for environment in environments)
        mended = f"run {plans} with the project's files to rewrite it" if plans else ""
        return StoreError(what, hint="; or ".join(filter(None, (mended, error.hint))))

    def view_types(self, ids: Iterable[str]) -> dict[str, tuple[tuple[str, str], ...]]:
        """Return the (column, type) pairs that `save_view_types` stored, by snapshot id.

        Pairs that cannot be read are left out: Spark determines them again.
        """
        with self.database.reading() as conn:
            # A login that may publish ignores types that other logins stored. Spark
            # then analyzes these views again.
            trusted = not writes_by_views(conn) or has_right(conn, "publish")
            query = _TRUSTED_TYPES if trusted else _VIEW_TYPES
            rows = list(among(conn, query, schema.view_types.c.snapshot_id, ids))
        found: dict[str, tuple[tuple[str, str], ...]] = {}
        for key, columns in rows:
            with suppress(ValueError):
                found[key] = from_text(tuple[tuple[str, str], ...], columns)
        return found

    def foreign_view_types(self, unreadable: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield (id, reason) for each view whose stored column names differ from its snapshot's.

        Snapshots in `unreadable` are left out.
        """
        ids = [row[0] for row in self.database.rows(select(schema.view_types.c.snapshot_id))]
        known = self.load(key for key in ids if key not in unreadable)
        for key, types in self.view_types(known).items():
            if not has_columns(known[key], types):
                found, own = (", ".join(one) for one in _names(known[key], types))
                yield key, f"the stored columns of {known[key].name} are {found}, but it has {own}"

    def save_view_types(self, types: Mapping[str, Iterable[tuple[str, str]]]) -> None:
        """Store the (column, type) pairs that Spark determined for views, by snapshot id."""
        rows = [
            {"snapshot_id": key, "columns": json.dumps(list(columns)), "db_user": None}
            for key, columns in types.items()
        ]
        self.database.run_transaction(
            lambda conn: upsert(conn, schema.view_types, rows, "columns", "db_user"),
            name="state.save_view_types",
        )


def has_columns(snapshot: Snapshot, types: Iterable[tuple[str, str]]) -> bool:
    """Return whether `types` has the column names of a snapshot.

    Also True if the names of the snapshot's columns are unknown, or its query is opaque.
    """
    found, own = _names(snapshot, types)
    return not own or snapshot.version.opaque is not None or found == own


def _names(snapshot: Snapshot, types: Iterable[tuple[str, str]]) -> tuple[list[str], list[str]]:
    found = [name.lower() for name, _ in types]
    return found, [column.name.lower() for column in snapshot.columns]


def _is_damaged(key: str, data: bytes) -> bool:
    if codec.matches_id(key, data):
        return False
    try:
        codec.load_snapshot(data, key)
    except codec.ForeignContentError:
        return True
    except StoreError:
        return not codec.is_whole(data)
    return False


def _payloads(connection: Connection, ids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    return among(connection, _PAYLOADS, schema.snapshots.c.snapshot_id, ids)


_PAYLOADS = select(schema.snapshots.c.snapshot_id, schema.snapshots.c.payload)
