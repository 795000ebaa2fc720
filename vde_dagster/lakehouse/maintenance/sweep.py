"""The janitor's decisions, and its deletion of branches, left-over files and namespaces.

Orphans are data files in a table's folder that were never committed. Spark first writes data files
and then commits them, so a killed process leaves files that are in the folder but not in the
table's metadata. Four rules ensure that no file is deleted that may still be committed or read:

- The folder is listed before the metadata is read. So the metadata lists a file that is committed
  in between.
- A file must be older than the longest possible run, so that its writer can no longer commit it.
- A table with an active lease is left alone. The lease is checked after the listing: a process that
  takes the lease later writes files that are not listed.
- Files of expired Iceberg snapshots are not orphans. The state lists them, and they are deleted
  after a time for readers to finish. The list is read after the metadata, because both change in
  one transaction.

In doubt, nothing is deleted: a missing or damaged manifest is an error, and no file is an orphan if
the metadata spells locations differently than the storage.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from vde_dagster.base.texts import count
from vde_dagster.errors import DamagedFileError, StoreError, VdeError
from vde_dagster.lakehouse.catalogs.catalog import VIEW, Form
from vde_dagster.lakehouse.io.files import StoredFile, normalized_location, read_metadata
from vde_dagster.lakehouse.io.locations import is_tables_own
from vde_dagster.lakehouse.io.manifests import named_by_snapshot, unused_files
from vde_dagster.lakehouse.maintenance.kept import Kept, Ruling
from vde_dagster.lakehouse.metadata.changes import apply_updates, remove_branches
from vde_dagster.lakehouse.metadata.commit_summaries import belongs_to_table, plan_of_branch
from vde_dagster.lakehouse.publishing.commit import Change, change_table
from vde_dagster.lakehouse.publishing.shown_tables import SHOWN, expire_in_shown_tables
from vde_dagster.lakehouse.publishing.view_ledger import drop_namespace, recorded_namespaces
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state.environments.publications import PublicationRecord
from vde_dagster.state.plans.plans import OPEN_PLANS
from vde_dagster.state.retention import Mark, Retention
from vde_dagster.state.table_commits import TableCommit
from vde_dagster.state.tables.tables import LedgerTable

if TYPE_CHECKING:
    from vde_dagster.lakehouse.handles import LakeHandles


Action = Literal[
    "drop_environment",
    "give_up_table",
    "drop_table",
    "keep_table",
    "drop_branch",
    "close_plan",
    "compact_table",
    "forget_version",
    "delete_files",
    "delete_orphans",
    "drop_namespace",
    "expire_snapshots",
    "keep_snapshots",
    "hold_snapshots",
    "forget_records",
    "repair_mirror",
]
Outcome = Literal["planned", "done", "kept", "failed"]
_FILES_AT_ONCE = 2_000
"""Number of files to check together, because each check reads all catalog pointers twice."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision of the janitor about one object, for example a table, and its outcome."""

    action: Action
    subject: str
    reason: str
    outcome: Outcome = "planned"
    bytes: int | None = None
    error: str | None = None
    version: tuple[str, int] | None = None

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if key != "version"}


class Cleaning:
    """One cleanup of the janitor, with its settings and the decisions made so far."""

    def __init__(
        self, lakehouse: LakeHandles, retention: Retention, keep_snapshots: timedelta, dry_run: bool
    ) -> None:
        self.store = lakehouse.store
        self.lakehouse = lakehouse
        self.retention = retention
        self.keep_snapshots = keep_snapshots
        self.dry_run = dry_run
        self.decisions: list[Decision] = []
        self.kept = Kept(lakehouse)
        self._damaged: set[str] = set()

    def report(self, decision: Decision) -> None:
        self.decisions.append(decision)

    def report_kept(
        self,
        subject: str,
        error: VdeError | OSError,
        reason: str = "none of its files is removed, because one of them cannot be read",
    ) -> None:
        """Report that a table is kept because of an error, once for each damaged file."""
        file = error.file if isinstance(error, DamagedFileError) else str(error)
        if file not in self._damaged:
            self._damaged.add(file)
            self.report(Decision("keep_table", subject, reason, "failed", error=str(error)))

    def act(self, decision: Decision, work: Callable[[], bool]) -> None:
        """Carry out a decision (not in a dry run), and report its outcome."""
        if self.dry_run:
            self.report(decision)
            return
        try:
            done = work()
        except (VdeError, OSError) as error:
            self.fail(decision, error)
            return
        self.report(replace(decision, outcome="done" if done else "kept"))

    def fail(self, decision: Decision, error: VdeError | OSError) -> None:
        if isinstance(error, DamagedFileError):
            self._damaged.add(error.file)
        self.report(replace(decision, outcome="failed", error=str(error)))


@contextmanager
def reporting(run: Cleaning, decision: Decision) -> Iterator[None]:
    """Report a decision as failed if the block raises an error."""
    try:
        yield
    except (VdeError, OSError) as error:
        run.fail(decision, error)


def table_bytes(run: Cleaning, table: LedgerTable) -> int | None:
    """Add up the sizes of a table's files. Return None for a branch, or without metadata."""
    try:
        found = run.lakehouse.find_table(table.ref, table.id) if table.branch is None else None
    except (DamagedFileError, OSError):
        return None
    if found is None:
        return None
    summaries = [one.get("summary", {}) for one in found.metadata.get("snapshots", [])]
    return sum(int(one.get("added-files-size", 0)) for one in summaries)


def drop_branches(run: Cleaning, marked: Mark) -> None:
    """Remove the branches of closed plans."""
    store = run.store
    given_up = {t.id for t in marked.unreachable} if run.dry_run else set()
    ledger = [
        table
        for table in store.ledger.tables()
        if table.created and table.branch is None and table.id not in given_up
    ]
    # A branch that is created meanwhile belongs to a live plan, and stays.
    for table, metadata in with_metadata(run, ledger):
        for branch in sorted(metadata.get("refs", {})):
            plan_id = plan_of_branch(branch)
            if plan_id is None:
                continue
            record = store.plans.record(plan_id)
            dead = plan_id in marked.dead_plans
            # A plan that was closed may be applied again meanwhile.
            is_open = record is not None and record.status in OPEN_PLANS
            if record is None or (is_open and not (dead and run.dry_run)):
                continue
            finished = record.finished_at or record.created_at
            if not dead and finished + run.retention.grace > store.database.clock.now():
                continue
            status = "superseded" if dead else record.status
            decision = Decision("drop_branch", f"{table.ref} {branch}", f"its plan is {status}")
            run.act(decision, partial(drop_branch, run, table.ref, branch))


def with_metadata(
    run: Cleaning, ledger: Iterable[LedgerTable]
) -> Iterator[tuple[LedgerTable, dict[str, Any]]]:
    """Yield the ledger's tables that the catalog has, with their metadata.

    Tables with unreadable metadata, and tables that another program created under the same name,
    are reported and left out.
    """
    ledger = list(ledger)
    pointers = run.lakehouse.metadata_locations(table.ref for table in ledger)
    for table in ledger:
        pointer = pointers.get(table.ref)
        if pointer is None:
            continue
        try:
            metadata = read_metadata(run.lakehouse.files, pointer, str(table.ref), table.id)
        except (DamagedFileError, OSError) as error:
            run.report_kept(str(table.ref), error)
            continue
        if belongs_to_table(metadata, table.id):
            yield table, metadata
        else:
            other = StoreError(f"the catalog's {table.ref} is not the table {table.id}")
            run.report_kept(str(table.ref), other, "another program made a table of this name")


def drop_branch(run: Cleaning, ref: TableRef, branch: str) -> bool:
    return change_own_table(
        run, ref, lambda metadata: remove_branches(metadata, [branch]), "janitor.drop_branch"
    )


def change_own_table(
    run: Cleaning, ref: TableRef, change: Change, name: str, shown_by: Collection[TableRef] = ()
) -> bool:
    """Change the metadata of a table, and replace its metadata file in the catalog."""
    lakehouse = run.lakehouse
    table = lakehouse.find_table(ref)
    updates = change(table.metadata) if table is not None else ()
    if table is None or not updates:
        return False
    now_ms = lakehouse.now_ms()
    changed = apply_updates(table.metadata, table.location, updates, now_ms)
    unused = unused_files(lakehouse.files, table.metadata, changed, str(ref))
    shown = expire_in_shown_tables(lakehouse, shown_by, changed, now_ms)
    if shown:
        # Recorded before they are written, so that unused ones are deleted in any case.
        new = [one.swap.after or "" for one in shown]
        lakehouse.store.database.run_transaction(
            lambda conn: run.store.publications.note_unused_files(conn, new), name=f"{name}.note"
        )
    unused += [one.swap.before or "" for one in shown]
    # Files that become unused are recorded with the change, and deleted after the grace time.
    also = TableCommit(unused_files=tuple(unused))
    change_table(lakehouse, table, ref, updates, name, also, shown)
    return True


_DATA = (".parquet", ".orc", ".avro", ".puffin")
"""Suffixes of data and delete files; other files in the folder belong to another program."""


def find_orphans(lakehouse: LakeHandles, table: LedgerTable, before: datetime) -> list[StoredFile]:
    """Find data files in a table's folder that were never committed and never will be.

    Args:
        before: Only files written before this time (UTC) are returned. The time must be longer ago
            than the longest run.

    Raises:
        DamagedFileError: The files that the table uses cannot be determined.
    """
    found = lakehouse.find_table(table.ref, table.id)
    location = str(found.metadata["location"]).rstrip("/") if found is not None else ""
    if not is_tables_own(location, table.id):
        return []
    listed = {
        normalized_location(file.location): file
        for file in lakehouse.files.list_files(f"{location}/data")
        if file.location.endswith(_DATA) and not os.path.basename(file.location).startswith(".")
    }
    left = {place: file for place, file in listed.items() if file.written_at < before}
    if not left:
        return []
    newest = lakehouse.find_table(table.ref, table.id)
    if newest is None or table.id in lakehouse.store.leases.tables():
        return []
    data_here = data_elsewhere = False
    for data, others in _named(lakehouse, newest.metadata, str(table.ref)):
        for place in map(normalized_location, data):
            here = place in listed
            data_here, data_elsewhere = data_here or here, data_elsewhere or not here
            left.pop(place, None)
        for place in map(normalized_location, others):
            left.pop(place, None)
        if not left:
            return []
    if data_elsewhere and not data_here:
        return []  # The metadata names no listed file: the spellings of locations may differ.
    for location in lakehouse.store.publications.files_to_delete():
        left.pop(normalized_location(location), None)
    return sorted(left.values(), key=lambda file: file.written_at)


def _named(
    lakehouse: LakeHandles, metadata: dict[str, Any], what: str
) -> Iterator[tuple[Set[str], Set[str]]]:
    """Yield the data files and the other files of each snapshot in the metadata, newest first."""
    for kind in ("statistics", "partition-statistics"):
        yield frozenset(), {item["statistics-path"] for item in metadata.get(kind, [])}
    known: dict[str, dict[str, int]] = {}
    for snapshot in reversed(metadata.get("snapshots", [])):
        named = named_by_snapshot(lakehouse.files, snapshot, known, what)
        others = {snapshot["manifest-list"], *known}
        yield named.keys() - others, others


def delete_orphans(run: Cleaning) -> None:
    """Delete data files that were never committed from the folders of live tables."""
    store, retention = run.store, run.retention
    grace = retention.uncommitted_grace
    ledger = [t for t in store.ledger.tables() if t.created and t.branch is None]
    left = retention.orphan_cap
    chosen: list[tuple[Decision, list[str]]] = []
    later: list[Decision] = []
    for table in ledger:
        before = store.database.clock.now() - grace
        try:
            found = find_orphans(run.lakehouse, table, before)
        except DamagedFileError as error:
            run.report_kept(str(table.ref), error)
            continue
        except (VdeError, OSError) as error:
            reason = "its folder could not be searched for files that were never committed"
            failed = Decision("delete_orphans", str(table.ref), reason, "failed", error=str(error))
            run.report(failed)
            continue
        files, waiting = found[:left], found[left:]
        left -= len(files)
        if files:
            reason = (
                f"{count(len(files), 'data file')} that its metadata does not name, older than "
                f"{count(grace // timedelta(hours=1), 'hour')}"
            )
            size = sum(file.bytes for file in files)
            decision = Decision("delete_orphans", str(table.ref), reason, bytes=size)
            chosen.append((decision, [file.location for file in files]))
        if waiting:
            reason = (
                f"{count(len(waiting), 'data file')} that its metadata does not name; this cleanup "
                "already deletes as many files as it may"
            )
            later.append(Decision("delete_orphans", str(table.ref), reason, "kept"))
    _delete_orphans(run, chosen)
    for decision in later:
        run.report(decision)


def _delete_orphans(run: Cleaning, chosen: Sequence[tuple[Decision, list[str]]]) -> None:
    rulings: dict[str, Ruling] = {}
    if chosen and not run.dry_run:
        try:
            rulings = run.kept.rule(file for _, files in chosen for file in files)
        except (VdeError, OSError) as error:
            for decision, _ in chosen:
                run.fail(decision, error)
            return

    def delete(files: list[str]) -> bool:
        free = [one for one in files if rulings[one].verdict == "free"]
        # A current writer may be about to use the folder of its partition.
        run.lakehouse.files.delete_all(free, "janitor.delete_orphan", keep_folders=True)
        return bool(free)

    for decision, files in chosen:
        run.act(decision, partial(delete, files))


def delete_left_over_files(run: Cleaning) -> None:
    """Delete the files of failed publications, replaced views and expired snapshots."""
    due = []
    for record in run.store.publications.uncleaned():
        since = record.decided_at or record.started_at
        if record.status == "decided":
            continue  # its pointers have not followed yet
        if since + run.retention.grace <= run.store.database.clock.now():
            due.append(record)
    some: list[PublicationRecord] = []
    files = 0
    for record in due:
        some.append(record)
        files += len(record.files)
        if files >= _FILES_AT_ONCE or record is due[-1]:
            _delete_left_over(run, some)
            some, files = [], 0


def _delete_left_over(run: Cleaning, records: Sequence[PublicationRecord]) -> None:
    files = {one.id: _deletable(one, run.lakehouse.catalog.form) for one in records}
    decisions = {
        one.id: Decision("delete_files", count(len(files[one.id]), "file"), _why_left_over(one))
        for one in records
    }
    if run.dry_run:
        for decision in decisions.values():
            run.report(decision)
        return
    given_up: list[PublicationRecord] = []
    for record in records:
        # Its process ended long ago; from here on the publication can no longer happen.
        with reporting(run, decisions[record.id]):
            publications = run.store.publications
            if record.status != "intended" or publications.resolve(record.id) == "aborted":
                given_up.append(record)
            else:
                run.report(replace(decisions[record.id], outcome="kept"))
    named = [file for record in given_up for file in files[record.id]]
    try:
        rulings = run.kept.rule(named)
    except (VdeError, OSError) as error:
        for record in given_up:
            run.fail(decisions[record.id], error)
        return
    for record in given_up:
        ruled = {file: rulings[file] for file in files[record.id]}
        with reporting(run, decisions[record.id]):
            _delete_files(run, record, decisions[record.id], ruled)


def _why_left_over(record: PublicationRecord) -> str:
    if record.status == "committed":
        return "the grace time since their replacement is over"
    if record.status == "unused":
        return "only expired Iceberg snapshots use them"
    return "they were written for a publication that did not happen"


def _delete_files(
    run: Cleaning, record: PublicationRecord, decision: Decision, ruled: Mapping[str, Ruling]
) -> None:
    free = [file for file, ruling in ruled.items() if ruling.verdict == "free"]
    run.lakehouse.files.delete_all(free, "janitor.delete_file")
    if any(ruling.verdict == "waiting" for ruling in ruled.values()):
        run.report(replace(decision, outcome="kept", reason=_first(ruled, "waiting")))
        return
    # Marked even if deletions were refused, so that these are reported only once.
    run.store.publications.mark_cleaned(record.id)
    if any(ruling.verdict == "refused" for ruling in ruled.values()):
        error = f"{_first(ruled, 'refused')}: not deleted"
        run.report(replace(decision, outcome="failed", error=error))
    else:
        run.report(replace(decision, outcome="done" if free else "kept"))


def _first(ruled: Mapping[str, Ruling], verdict: str) -> str:
    found = [(file, one.reason) for file, one in ruled.items() if one.verdict == verdict]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{found[0][0]}: {found[0][1]}{more}"


def _deletable(record: PublicationRecord, form: Form) -> list[str]:
    if record.status == "committed":
        # Replaced table metadata stays: the table's own metadata log names it.
        kinds = (VIEW.lower(), SHOWN)
        replaced = [file.previous for file in record.files if file.previous and file.kind in kinds]
        if form.keeps_pointers:
            return replaced
        # The catalog wrote its own files for these changes.
        return [*replaced, *(file.location for file in record.files if file.location)]
    return [file.location for file in record.files if file.location]


def drop_namespaces(run: Cleaning) -> None:
    """Remove the empty namespaces that publications created."""
    catalog, database = run.lakehouse.catalog, run.store.database
    with database.reading() as conn:
        known = recorded_namespaces(conn, catalog.name)
    occupied = {ref.namespace for ref in catalog.all_pointers()}
    for name, environment in known.items():
        if name not in occupied:
            reason = f"environment '{environment}' no longer has views in it"
            run.act(
                Decision("drop_namespace", name, reason),
                lambda name=name: database.run_transaction(  # type: ignore[misc]
                    lambda conn: drop_namespace(conn, catalog, name), name="janitor.drop_namespace"
                ),
            )
