"""Snapshots: every model definition that was ever planned, stored once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, select, update

from vde_dagster.errors import StoreError
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.state.db import schema
from vde_dagster.state.db.codec import dump_snapshot, is_whole, load_snapshot
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.rows import among, upsert


@dataclass(frozen=True, slots=True)
class SnapshotStore:
    """Reading and writing snapshots."""

    database: Database

    def save(self, snapshots: Iterable[Snapshot], connection: Connection | None = None) -> None:
        """Store those snapshots that are not stored yet; the others cost one read of their ids."""
        wanted = {snapshot.id: snapshot for snapshot in snapshots}
        column = schema.snapshots.c.snapshot_id
        known = {row[0] for row in self.database.among(select(column), column, wanted, connection)}
        absent = [wanted[key] for key in wanted.keys() - known]
        if not absent:
            return
        now = self.database.clock.now()
        rows = [
            {
                "snapshot_id": snapshot.id,
                "model_namespace": snapshot.name.namespace,
                "model_name": snapshot.name.name,
                "payload": dump_snapshot(snapshot),
                "created_at": now,
            }
            for snapshot in absent
        ]
        self.database.run(
            connection,
            lambda conn: upsert(conn, schema.snapshots, rows),
            name="state.save_snapshots",
        )

    def load(
        self,
        ids: Iterable[str],
        connection: Connection | None = None,
        unreadable: set[str] | None = None,
    ) -> dict[str, Snapshot]:
        """Read snapshots by id in one go; unknown ids are left out.

        Args:
            unreadable: Gets the ids of those that cannot be read, which is no error then.
        """
        wanted = list(dict.fromkeys(ids))
        with self.database.reading(connection) as conn:
            payloads = dict(_payloads(conn, wanted))
        found: dict[str, Snapshot] = {}
        for key in wanted:
            if key in payloads:
                try:
                    found[key] = load_snapshot(payloads[key])
                except StoreError as error:
                    if unreadable is not None:
                        unreadable.add(key)
                        continue
                    raise self._of_model(key, error) from error
        return found

    def mend(self, snapshots: Iterable[Snapshot]) -> list[Snapshot]:
        """Write those of some snapshots again whose stored bytes are damaged, and return them."""
        known = {snapshot.id: snapshot for snapshot in snapshots}
        with self.database.reading() as conn:
            damaged = [known[key] for key, data in _payloads(conn, known) if not is_whole(data)]
        if damaged:
            table = schema.snapshots
            statement = (
                update(table)
                .where(table.c.snapshot_id == bindparam("id"))
                .values(payload=bindparam("again"))
            )
            rows = [{"id": one.id, "again": dump_snapshot(one)} for one in damaged]
            self.database.run_transaction(
                lambda conn: conn.execute(statement, rows), name="state.mend_snapshots"
            )
        return damaged

    def _of_model(self, snapshot_id: str, error: StoreError) -> StoreError:
        """Return the error about a stored value with the model that it is of, and who shows it."""
        table, entry = schema.snapshots.c, schema.entries.c
        names = select(table.model_namespace, table.model_name)
        shown = select(entry.environment).where(
            entry.snapshot_id == snapshot_id, entry.valid_to.is_(None)
        )
        with self.database.reading() as conn:
            namespace, name = conn.execute(names.where(table.snapshot_id == snapshot_id)).one()
            environments: list[str] = sorted(set(conn.execute(shown).scalars()))
        what = f"the definition {snapshot_id[:12]} of {namespace}.{name}: {error.message}"
        plans = " and ".join(f"`vde plan {environment}`" for environment in environments)
        mended = f"{plans} with the project's files mends it" if plans else ""
        return StoreError(what, hint="; or ".join(filter(None, (mended, error.hint))))

    def view_types(self, ids: Iterable[str]) -> dict[str, tuple[tuple[str, str], ...]]:
        """Return the known view types of many snapshots in one read."""
        table = schema.view_types.c
        query = select(table.snapshot_id, table.columns)
        found = dict(map(tuple, self.database.among(query, table.snapshot_id, ids)))
        return {key: tuple(map(tuple, json.loads(columns))) for key, columns in found.items()}

    def save_view_types(self, types: Mapping[str, Iterable[tuple[str, str]]]) -> None:
        """Store what Spark computed as VIEW models' output types, in place of older ones.

        Args:
            types: (column, Spark SQL type) by snapshot.
        """
        rows = [{"snapshot_id": key, "columns": json.dumps(list(c))} for key, c in types.items()]
        self.database.run_transaction(
            lambda conn: upsert(conn, schema.view_types, rows, "columns"),
            name="state.save_view_types",
        )


def _payloads(connection: Connection, ids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    table = schema.snapshots.c
    query = select(table.snapshot_id, table.payload)
    return among(connection, query, table.snapshot_id, ids)
