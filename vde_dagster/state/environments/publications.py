"""Publications: announced before they write files, decided exactly once.

The row of a publication moves from `intended` to `committed` (in the publish transaction itself) or
to `aborted`. If the catalog is outside that transaction, the row is `decided` until all pointers
are moved, and `committed` after that. Commit and abort are updates of the same row that require
`intended`. So a process that lost a commit's response tries to abort the publication: the database
makes the abort wait for a running commit, and then exactly one of the two has happened.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, insert, select, update

from vde_dagster.errors import ConflictError, StoreError
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state.db import schema
from vde_dagster.state.db.codec import pack, unpack
from vde_dagster.state.db.database import Database, lock_rows
from vde_dagster.state.db.rows import value_from_row
from vde_dagster.state.environments.pins import dump_filled, load_filled

_ROW = schema.publications.c
PublicationStatus = Literal["intended", "decided", "committed", "aborted", "unused"]


@dataclass(frozen=True, slots=True)
class ReturnedTo:
    """The Iceberg snapshot and the filled ranges of a table after a rollback.

    Args:
        expected: The Iceberg snapshot that readers see before the rollback; None if the table is
            empty.
    """

    expected: int | None
    snapshot_id: int | None
    filled: IntervalSet


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file in a publication's record: a metadata file to write, or a file to delete.

    Args:
        location: Empty for a view that is dropped.
        ref: The table or view whose pointer moves to the file, or which is dropped; None for a file
            to delete, and in records of older code.
        branch: For a table that moves forward, the branch with the new rows. For a rollback, the
            branch that moves instead of `main`.
        table_id: Id of a table that moves forward or back; None for other changes.
        returned: The target of a rollback; None if the table moves forward.
        into: For a table that moves forward, the branch that moves instead of `main`.
        snapshot_id: The target Iceberg snapshot.
    """

    location: str
    previous: str | None
    kind: str
    ref: TableRef | None = None
    branch: str | None = None
    table_id: str | None = None
    returned: ReturnedTo | None = None
    into: str | None = None
    snapshot_id: int | None = None
    widened: tuple[tuple[str, str], ...] = ()


UNREADABLE = (PublishedFile("", None, "unreadable"),)
"""Value of `PublicationRecord.files` if the stored list of files is damaged."""


@dataclass(frozen=True, slots=True)
class PublicationRecord:
    """Record of a publication, or (with status `unused`) a list of files to delete."""

    id: str
    environment: str
    status: PublicationStatus
    version: int | None
    plan_id: str | None
    published_by: str
    files: tuple[PublishedFile, ...]
    started_at: datetime
    decided_at: datetime | None


@dataclass(frozen=True, slots=True)
class PublicationStore:
    database: Database

    def intend(
        self,
        publication_id: str,
        environment: str,
        plan_id: str | None,
        published_by: str,
        files: Sequence[PublishedFile],
    ) -> None:
        """Record a publication before it writes its files."""
        row = {
            "publication_id": publication_id,
            "environment": environment,
            "status": "intended",
            "plan_id": plan_id,
            "published_by": published_by,
            "files": pack([_file_values(file) for file in files]),
            "started_at": self.database.clock.now(),
        }

        def work(conn: Connection) -> None:
            intended = (_ROW.publication_id == publication_id, _ROW.status == "intended")
            conn.execute(schema.publications.delete().where(*intended))
            conn.execute(insert(schema.publications).values(**row))

        self.database.run_transaction(work, name="publish.intend")

    def commit(
        self, connection: Connection, publication_id: str, version: int, *, settled: bool = True
    ) -> None:
        """Mark a publication as committed, in the transaction that writes its version.

        If `settled` is False, mark it as decided, because the catalog's pointers move later.

        Raises:
            ConflictError: The publication was aborted or committed before.
        """
        status = "committed" if settled else "decided"
        if not self._decide(connection, publication_id, status, version):
            raise ConflictError(
                f"the publication {publication_id} was unfinished, so another process aborted it",
                hint="apply the plan again: vde apply ENV --plan ID",
            )

    def resolve(self, publication_id: str) -> PublicationStatus:
        """Return the final status of a publication, after aborting it if it is undecided."""

        def work(conn: Connection) -> PublicationStatus:
            self._decide(conn, publication_id, "aborted", None)
            query = select(_ROW.status).where(_ROW.publication_id == publication_id)
            return conn.execute(query).scalar_one_or_none() or "aborted"

        return self.database.run_transaction(work, name="publish.resolve")

    def unsettled(self) -> list[PublicationRecord]:
        """Return the decided publications. The catalog may lack some of their changes."""
        return self._read(_ROW.status == "decided", _ROW.decided_at)

    def is_unsettled(self, connection: Connection, publication_id: str) -> bool:
        """Check whether the catalog lacks changes of a publication, and lock the record's row."""
        query = select(_ROW.status).where(_ROW.publication_id == publication_id)
        rows = lock_rows(connection, query, "vde_hold_publication", publication_id)
        return bool(rows.scalar() == "decided")

    def finish(self, connection: Connection, publication_id: str) -> None:
        """Record that the catalog has all changes of a publication. May be repeated."""
        decided = (_ROW.publication_id == publication_id, _ROW.status == "decided")
        connection.execute(update(schema.publications).where(*decided).values(status="committed"))

    def note_unused_files(self, connection: Connection, locations: Sequence[str]) -> None:
        """Record files for the janitor to delete later, such as files of expired snapshots."""
        now = self.database.clock.now()
        connection.execute(
            insert(schema.publications).values(
                publication_id=uuid.uuid4().hex,
                environment="",
                status="unused",
                published_by="janitor",
                files=pack([[location, None, "data"] for location in locations]),
                started_at=now,
                decided_at=now,
            )
        )

    def get(self, publication_id: str) -> PublicationRecord | None:
        found = self._read(_ROW.publication_id == publication_id, _ROW.started_at)
        return found[0] if found else None

    def uncleaned(self) -> list[PublicationRecord]:
        """Return the publications whose unused files were not deleted yet, oldest first."""
        query = select(schema.publications).where(_ROW.cleaned_at.is_(None))
        rows = self.database.rows(query.order_by(_ROW.started_at))
        # A damaged list of files counts as empty, so that it does not stop the janitor.
        return [_record(row, damaged=()) for row in rows]

    def files_to_delete(self) -> list[str]:
        """Return the files of `note_unused_files` that the janitor has not deleted yet.

        Raises:
            StoreError: A row's list of files is damaged.
        """
        records = self._read((_ROW.status == "unused") & _ROW.cleaned_at.is_(None), _ROW.started_at)
        for record in records:
            if record.files == UNREADABLE:
                raise StoreError(
                    f"the list of files in the row {record.id} of vde_publications is damaged",
                    hint="once the damaged row is older than the setting janitor_grace_hours, run: "
                    "vde janitor",
                )
        return [file.location for record in records for file in record.files]

    def open_files(self, but: Collection[str] = ()) -> set[str]:
        """Return the files that unfinished publications, except `but`, write or replace."""
        query = select(_ROW.publication_id, _ROW.files).where(
            _ROW.status.in_(("intended", "decided"))
        )
        found: set[str] = set()
        for row in self.database.rows(query):
            for file in () if row.publication_id in but else _readable_files(row.files):
                found.update(one for one in (file.location, file.previous) if one)
        return found

    def mark_cleaned(self, publication_id: str) -> None:
        ended = (_ROW.publication_id == publication_id, _ROW.status != "intended")
        cleaned = update(schema.publications).where(*ended)
        cleaned = cleaned.values(cleaned_at=self.database.clock.now())
        self.database.run_transaction(lambda conn: conn.execute(cleaned), name="publish.cleaned")

    def _read(
        self, condition: ColumnElement[bool], order: ColumnElement[Any]
    ) -> list[PublicationRecord]:
        query = select(schema.publications).where(condition).order_by(order)
        return [_record(row) for row in self.database.rows(query)]

    def _decide(
        self, conn: Connection, publication_id: str, status: str, version: int | None
    ) -> bool:
        intended = (_ROW.publication_id == publication_id, _ROW.status == "intended")
        changed = conn.execute(
            update(schema.publications)
            .where(*intended)
            .values(status=status, version=version, decided_at=self.database.clock.now())
        )
        return changed.rowcount == 1


def _record(row: Any, damaged: tuple[PublishedFile, ...] = UNREADABLE) -> PublicationRecord:
    files = _readable_files(row.files, damaged)
    return value_from_row(PublicationRecord, row, id=row.publication_id, files=files)


def _readable_files(
    packed: bytes, damaged: tuple[PublishedFile, ...] = ()
) -> tuple[PublishedFile, ...]:
    try:
        files = tuple(_file(values) for values in unpack(packed))
    except (ValueError, TypeError, LookupError, EOFError, zlib.error):
        return damaged
    named = [one for file in files for one in (file.location, file.previous) if one is not None]
    return files if all(isinstance(one, str) for one in named) else damaged


def _file_values(file: PublishedFile) -> list[Any]:
    place = [file.ref.namespace, file.ref.name] if file.ref else None
    values: list[Any] = [file.location, file.previous, file.kind, place, file.branch, file.table_id]
    back = file.returned
    values += [[back.expected, back.snapshot_id, dump_filled(back.filled)] if back else None]
    return [*values, file.into, file.snapshot_id, file.widened]


def _file(values: list[Any]) -> PublishedFile:
    # Older code stored only the first three values.
    known: Any = PublishedFile(*values)
    back = known.returned
    read: PublishedFile = replace(
        known,
        ref=TableRef(*known.ref) if known.ref else None,
        returned=ReturnedTo(back[0], back[1], load_filled(back[2])) if back else None,
        widened=tuple(map(tuple, known.widened or ())),
    )
    return read
