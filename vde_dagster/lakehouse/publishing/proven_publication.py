"""Checks a publication of another process before this process moves pointers for it.

If the catalog is outside the state's database, a process moves the pointers that a row of
`vde_publications` names. Every login that may apply plans can write such a row. So no pointer moves
if one of the row's files contradicts the environment's version, its pins, or the ledgers of tables
and views. All of these were written in the transaction that decided the publication, and triggers
of the database checked the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from vde_dagster.lakehouse.catalogs.catalog import TABLE, VIEW
from vde_dagster.lakehouse.metadata.commit_summaries import plan_of_branch
from vde_dagster.lakehouse.metadata.table_metadata import ancestors, head_of
from vde_dagster.lakehouse.publishing.view_ledger import PublishedView, published_views
from vde_dagster.planning.environments.environment import PRODUCTION, Environment
from vde_dagster.planning.tables.table import PhysicalTable, TableRef
from vde_dagster.state.environments.pins import Pin, dump_filled
from vde_dagster.state.environments.publications import (
    UNREADABLE,
    PublicationRecord,
    PublishedFile,
)

if TYPE_CHECKING:
    from vde_dagster.lakehouse.handles import LakeHandles


def find_contradiction(lakehouse: LakeHandles, record: PublicationRecord) -> str | None:
    """Return why a committed publication's files contradict the state, or None if they agree."""
    if record.files == UNREADABLE:
        return "its list of files cannot be read"
    store = lakehouse.store
    version = record.version or 0
    made = store.versions.at(record.environment, version)
    if made is None:
        return f"there is no version {version} of '{record.environment}'"
    is_version = made.publication_id == record.id
    if is_version and made.plan_id != record.plan_id:
        return f"version {version} was made by plan {made.plan_id}, not by {record.plan_id}"
    with store.database.reading() as conn:
        views = [file.ref for file in record.files if file.kind == VIEW.lower() and file.ref]
        proof = _Proof(
            lakehouse,
            record,
            made,
            is_version,
            store.pins.at(record.environment, version),
            published_views(conn, lakehouse.catalog_name, refs=views),
        )
        found = (proof.check_file(conn, file) for file in record.files)
        return next((why for why in found if why is not None), None)


@dataclass(frozen=True, slots=True)
class _Proof:
    lakehouse: LakeHandles
    record: PublicationRecord
    made: Environment
    is_version: bool
    pins: Mapping[str, Pin]
    ledger: Mapping[TableRef, PublishedView]

    def check_file(self, conn: Connection, file: PublishedFile) -> str | None:
        if file.ref is None:
            return "one of its files belongs to no table or view"
        if file.kind == VIEW.lower():
            return self._check_view(file, file.ref)
        if file.kind == TABLE.lower() and self.is_version:
            return self._check_table(conn, file, file.ref)
        return f"the publication did not create the {file.kind} {file.ref}"

    def _check_view(self, file: PublishedFile, ref: TableRef) -> str | None:
        known, own = self.ledger.get(ref), self.record.environment
        if not file.location:
            is_gone = known is None and self._was_ours(file)
            return None if is_gone else f"the publication did not drop the view {ref}"
        if known is None or known.metadata_location != file.location:
            return f"the publication did not write {file.location} for the view {ref}"
        # Production's publications alone may hold what other environments show.
        if known.environment != own and own != PRODUCTION:
            return f"the view {ref} belongs to '{known.environment}'"
        return None

    def _was_ours(self, file: PublishedFile) -> bool:
        folder = self.lakehouse.views_folder("").rstrip("/")
        return bool(file.previous and file.previous.startswith(f"{folder}/"))

    def _check_table(self, conn: Connection, file: PublishedFile, ref: TableRef) -> str | None:
        store = self.lakehouse.store
        shown = {entry.table_id for entry in self.made.entries.values() if entry.table_id}
        tables = {one.id: one for one in store.tables.load(shown, conn).values() if one.ref == ref}
        if file.table_id is not None:
            tables = {key: one for key, one in tables.items() if key == file.table_id}
        if not tables:
            return f"version {self.made.version} shows no table {ref}"
        if self.record.environment != PRODUCTION and store.shown.tables_in(
            conn, PRODUCTION, tables
        ):
            return f"production shows the table {ref}"
        (table, *_) = tables.values()
        if self.lakehouse.catalog.form.keeps_pointers:
            head = store.pins.heads(conn, [table.id]).get(table.id)
            if head is None or head.location != file.location:
                return f"the publication did not write {file.location} for the table {ref}"
        rows = self._check_rows(file, table) if file.table_id is not None else None
        return rows or self._check_types(file, table)

    def _check_rows(self, file: PublishedFile, table: PhysicalTable) -> str | None:
        pin = self.pins.get(table.id)
        if pin is None:
            return f"version {self.made.version} pins no rows of {table.ref}"
        if file.returned is not None:
            back = (file.returned.snapshot_id, dump_filled(file.returned.filled))
            if back != (pin.snapshot_id, pin.filled) or file.branch != table.branch:
                return f"{table.ref} would go back to {back[0]}, but the version pins other rows"
            return None
        if file.branch is None:
            return None
        if file.into != table.branch or plan_of_branch(file.branch) != self.record.plan_id:
            return f"{table.ref} would move to the branch {file.branch}, which another plan created"
        if file.snapshot_id is not None and file.snapshot_id != pin.snapshot_id:
            return (
                f"{table.ref} would move to {file.snapshot_id}, not to {pin.snapshot_id}, its pin"
            )
        return self._check_branch(file, table, pin)

    def _check_branch(self, file: PublishedFile, table: PhysicalTable, pin: Pin) -> str | None:
        loaded = self.lakehouse.find_table(table.ref)
        metadata = loaded.metadata if loaded is not None else {}
        arrived = pin.snapshot_id in ancestors(metadata, head_of(metadata, file.into))
        at = head_of(metadata, file.branch or "")
        if arrived or at is None or at == pin.snapshot_id:
            return None
        return f"the branch {file.branch} of {table.ref} is at {at}, not at the pinned snapshot"

    def _check_types(self, file: PublishedFile, table: PhysicalTable) -> str | None:
        types = {column.name: column.type for column in table.columns}
        other = [name for name, type_ in file.widened if types.get(name) != type_]
        return f"the column {other[0]} of {table.ref} has another type" if other else None
