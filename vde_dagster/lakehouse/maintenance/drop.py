"""Deletion of tables that no environment has used during their grace time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from vde_dagster.errors import DamagedFileError, VdeError
from vde_dagster.lakehouse.catalogs.catalog import TABLE, Swap
from vde_dagster.lakehouse.io.files import read_metadata
from vde_dagster.lakehouse.io.inside import flaw_inside, is_below, place_key
from vde_dagster.lakehouse.maintenance import sweep
from vde_dagster.lakehouse.metadata.commit_summaries import belongs_to_table
from vde_dagster.state.tables.tables import LedgerTable

_AT_ONCE = 100
"""Number of tables to check together, because each check reads all catalog pointers."""


def drop_tables(run: sweep.Cleaning, tables: Iterable[LedgerTable]) -> None:
    """Delete unneeded tables whose grace time is over, with their files."""
    waiting = list(tables)
    for start in range(0, len(waiting), _AT_ONCE):
        # The catalog's pointers are removed first, and the files only after that.
        _drop_some(run, [_Drop(table) for table in waiting[start : start + _AT_ONCE]])


@dataclass(slots=True)
class _Drop:
    table: LedgerTable
    folder: str | None = None
    pointer: str | None = None
    refusal: str | None = None

    @property
    def is_kept(self) -> bool:
        return self.refusal is not None and self.folder is not None

    def decision(self, run: sweep.Cleaning) -> sweep.Decision:
        reason = (
            "it was marked for deletion, and its grace time has passed, so no reader still uses it"
        )
        size = sweep.table_bytes(run, self.table)
        return sweep.Decision("drop_table", str(self.table.ref), reason, bytes=size)


def _drop_some(run: sweep.Cleaning, drops: Sequence[_Drop]) -> None:
    decisions = {one.table.id: one.decision(run) for one in drops}
    try:
        for one in drops:
            _find_folder(run, one)
        _rule_folders(run, drops, [one.pointer for one in drops if one.pointer is not None])
        claimed = []
        for one in drops:
            decision = decisions[one.table.id]
            if one.is_kept or run.dry_run:
                _report_kept(run, one, decision) if one.refusal else run.report(decision)
                continue
            with sweep.reporting(run, decision):
                if _claim(run, one):
                    claimed.append(one)
                else:
                    run.report(replace(decision, outcome="kept"))
        _rule_folders(run, claimed)
    except (VdeError, OSError) as error:
        told = {one.subject for one in run.decisions if one.action == "drop_table"}
        for one in drops:
            if str(one.table.ref) not in told:
                run.fail(decisions[one.table.id], error)
        return
    for one in claimed:
        with sweep.reporting(run, decisions[one.table.id]):
            _delete(run, one, decisions[one.table.id])


def _report_kept(run: sweep.Cleaning, drop: _Drop, decision: sweep.Decision) -> None:
    run.report(replace(decision, outcome="kept", reason=drop.refusal or "", bytes=None))


def _delete(run: sweep.Cleaning, drop: _Drop, decision: sweep.Decision) -> None:
    if drop.is_kept:
        _report_kept(run, drop, decision)
        return
    if drop.table.branch is not None:
        sweep.drop_branch(run, drop.table.ref, drop.table.branch)  # and nothing else of its table
    elif drop.folder is not None:
        run.lakehouse.files.delete_tree(drop.folder, "janitor.delete_tree")
    # Finished even if the deletion was refused, so that this is reported only once.
    run.store.ledger.finish_dropping(drop.table.id)
    if drop.refusal is None:
        run.report(replace(decision, outcome="done"))
    else:
        error = f"{drop.refusal}: no file was deleted"
        run.report(replace(decision, outcome="failed", error=error, bytes=None))


def _find_folder(run: sweep.Cleaning, drop: _Drop) -> None:
    lakehouse, table = run.lakehouse, drop.table
    if table.branch is not None:
        return
    made = lakehouse.table_location(table.ref, table.id)
    # A table whose creation was interrupted is in no catalog, but may have left files here.
    drop.folder = table.location or made
    # The catalog may have another table under this name.
    pointer = lakehouse.metadata_location(table.ref)
    if pointer is None:
        if flaw_inside(drop.folder, lakehouse.warehouse) is None and not _has_own(run, drop):
            drop.refusal = f"{drop.folder} has metadata of another table than {table.id}"
            drop.folder = None
        return
    try:
        metadata = read_metadata(lakehouse.files, pointer, str(table.ref))
        folder, is_own = str(metadata["location"]), belongs_to_table(metadata, table.id)
    except DamagedFileError:
        # Damaged metadata does not name the folder: its files are at the table's first location.
        folder, is_own = made, is_below(place_key(pointer), place_key(made))
    if is_own:
        drop.folder, drop.pointer = folder, pointer
    else:
        drop.folder = None
        drop.refusal = f"the catalog's {table.ref} is not the table {table.id}"


def _has_own(run: sweep.Cleaning, drop: _Drop) -> bool:
    files = run.lakehouse.files
    for file in files.list_files(f"{drop.folder}/metadata"):
        if not file.location.endswith(".metadata.json"):
            continue
        try:
            metadata = read_metadata(files, file.location, str(drop.table.ref))
        except DamagedFileError:
            continue
        if not belongs_to_table(metadata, drop.table.id):
            return False
    return True


def _rule_folders(run: sweep.Cleaning, drops: Sequence[_Drop], own: Collection[str] = ()) -> None:
    folders = {one.folder: one.table.id for one in drops if one.folder is not None}
    if not folders:
        return
    rulings = run.kept.rule_folders(folders, own)
    for one in drops:
        ruling = rulings[one.folder] if one.folder is not None else None
        if ruling is not None and ruling.verdict != "free":
            one.refusal = ruling.reason
            if ruling.verdict == "refused":
                one.folder = None


def _claim(run: sweep.Cleaning, drop: _Drop) -> bool:
    store, table = run.store, drop.table

    def work(conn: Connection) -> bool:
        if not store.ledger.start_dropping(conn, table.id, drop.folder):
            return False
        # In the same transaction, so that no publication can use the table in between.
        if drop.pointer is not None:
            run.lakehouse.catalog.swap([Swap(table.ref, TABLE, drop.pointer, None)], conn)
        return True

    return store.database.run_transaction(work, name="janitor.drop_table")
