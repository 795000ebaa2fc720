"""The command `vde fsck`, which finds damage and suggests what to do. It repairs nothing.

It checks the state's database, the pointers of vde's tables and views, every file that a pointer or
a kept version reaches, and the ledger. It also finds data files in tables' folders that were never
committed.

Publications may happen during the check. So pointers, views and pins are read in one transaction,
and only a problem that is found again in the newest state is reported.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import Connection, select

from vde_dagster.base.texts import count
from vde_dagster.errors import DamagedFileError, StoreError
from vde_dagster.lakehouse.catalogs.catalog import TABLE, VIEW, Pointer
from vde_dagster.lakehouse.maintenance.fsck_files import READ_BYTES, Checked, Damage, check_files
from vde_dagster.lakehouse.maintenance.sweep import find_orphans
from vde_dagster.lakehouse.metadata.table_metadata import head_of, history
from vde_dagster.lakehouse.publishing.mirror import proven_view
from vde_dagster.lakehouse.publishing.proven_publication import find_contradiction
from vde_dagster.lakehouse.publishing.shown_tables import behind_the_times
from vde_dagster.planning.environments.environment import PRODUCTION
from vde_dagster.planning.plan.assign_tables import preview_version
from vde_dagster.planning.snapshots.snapshot import CANONICALISER
from vde_dagster.planning.tables.table import PhysicalTable, TableRef
from vde_dagster.state.db import schema
from vde_dagster.state.retention import Retention
from vde_dagster.state.tables.tables import DROPPED, DROPPING, LIVE, TOMBSTONED, LedgerTable

if TYPE_CHECKING:
    from vde_dagster.lakehouse.handles import LakeHandles


Problem = Literal[
    "damaged_state",
    "foreign_definition",
    "foreign_plan",
    "foreign_publication",
    "foreign_table",
    "foreign_view",
    "foreign_view_types",
    "new_state",
    "missing_metadata_file",
    "damaged_metadata_file",
    "missing_manifest_list",
    "damaged_manifest_list",
    "missing_manifest",
    "damaged_manifest",
    "missing_data_file",
    "damaged_data_file",
    "view_gone",
    "view_replaced",
    "table_gone",
    "shown_table_not_live",
    "pin_gone",
    "pointer_moved",
    "shown_table_behind",
    "stranger",
    "orphans",
]
_LOG = logging.getLogger(__name__)
_RESTORE = "restore the file from a backup, or from an earlier version of it in the storage"
_NEW_TABLE = "change the model's query, so that a plan computes a new table"


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem that `vde fsck` found, with advice for its repair."""

    problem: Problem
    subject: str
    detail: str
    advice: str
    file: str | None = None

    @property
    def is_damage(self) -> bool:
        return self.problem not in ("new_state", "stranger", "orphans")

    def to_json(self) -> dict[str, str | None]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _State:
    pointers: Mapping[TableRef, Pointer]
    views: Mapping[TableRef, str]
    tables: Mapping[str, LedgerTable]
    pinned: Mapping[TableRef, frozenset[int]]
    shown: Collection[str]
    heads: Mapping[str, int]

    @classmethod
    def read(cls, lakehouse: LakeHandles) -> _State:
        store = lakehouse.store
        with store.database.reading() as conn:
            pointers = lakehouse.catalog.all_pointers(conn)
            ledger = store.ledger.tables((LIVE, TOMBSTONED, DROPPING, DROPPED), conn)
            tables = {table.id: table for table in ledger}
            pinned: dict[TableRef, set[int]] = {}
            for table_id, snapshot in store.pins.kept_snapshots(conn):
                if table_id in tables:
                    pinned.setdefault(tables[table_id].ref, set()).add(snapshot)
            return cls(
                pointers,
                _published(conn, lakehouse.catalog_name),
                tables,
                {ref: frozenset(found) for ref, found in pinned.items()},
                store.shown.tables(conn),
                store.pins.current(conn, PRODUCTION),
            )

    @property
    def by_ref(self) -> dict[TableRef, LedgerTable]:
        return {table.ref: table for table in self.tables.values() if table.branch is None}

    def checked(self, refs: Collection[TableRef] | None = None) -> list[Checked]:
        tables = self.by_ref
        return [
            Checked(
                ref,
                pointer,
                tables[ref].id if ref in tables and pointer.kind == TABLE else None,
                self.pinned.get(ref, frozenset()) if pointer.kind == TABLE else frozenset(),
                ref in tables or pointer.location == self.views.get(ref),
            )
            for ref, pointer in self.pointers.items()
            if (ref in self.views or ref in tables) and (refs is None or ref in refs)
        ]


def fsck(
    lakehouse: LakeHandles, orphan_grace: timedelta | None = None, *, deep: bool = False
) -> tuple[Finding, ...]:
    """Check the state and the files of all tables and views that vde recorded.

    Args:
        orphan_grace: Age after which a data file can no longer be committed.
        deep: Whether to read the footers of data files, and not only their sizes.
    """
    findings = _database(lakehouse)
    try:
        findings += _foreign(lakehouse)
        state = _State.read(lakehouse)
        found = _all(lakehouse, state, None, deep)
        if found:
            again = _State.read(lakehouse)
            refs = {ref for _, ref in found if ref is not None}
            still = {_key(one) for one, _ in _all(lakehouse, again, refs, deep)}
            found = [(one, ref) for one, ref in found if _key(one) in still]
        findings += [one for one, _ in found]
        findings += _new_beside_old(lakehouse)
        findings += _strangers(state.pointers, state.by_ref)
        grace = Retention().uncommitted_grace if orphan_grace is None else orphan_grace
        findings += _orphans(lakehouse, state.tables.values(), grace)
    except StoreError as error:
        if not findings:
            raise
        _LOG.warning("the check ended early, so there may be more to find: %s", error.message)
    return tuple(findings)


def find_damage(lakehouse: LakeHandles, refs: Collection[TableRef]) -> DamagedFileError | None:
    """Check all files of some tables, and return an error for a damaged file, if any."""
    if not refs:
        return None
    checked = _State.read(lakehouse).checked(refs)
    damages, _ = check_files(lakehouse.files, checked, deep=True, read_bytes=READ_BYTES)
    return damages[0].error if damages else None


_Found = tuple[Finding, "TableRef | None"]


def _key(finding: Finding) -> tuple[str, str, str]:
    return finding.problem, finding.subject, finding.detail


def _all(
    lakehouse: LakeHandles, state: _State, refs: Collection[TableRef] | None, deep: bool
) -> list[_Found]:
    damages, lost = check_files(lakehouse.files, state.checked(refs), deep=deep)
    found: list[_Found] = [(one, None) for one in _views(state.views, state.pointers)]
    found += [(_damaged(one), one.ref) for one in damages]
    found += [(one, None) for one in _shown_tables(lakehouse, state)]
    found += [(one, None) for one in _behind(lakehouse)]
    found += [(one, ref) for one, ref in _moved(lakehouse, state, refs)]
    found += [(one, ref) for ref, gone in lost.items() if (one := _lost(lakehouse, ref, gone))]
    return found


def _database(lakehouse: LakeHandles) -> list[Finding]:
    database = lakehouse.store.database
    if not database.is_sqlite:
        return []
    file = str(database.engine.url.database)
    advice = (
        "stop all processes that use it and restore it from a backup, or import an earlier "
        "`vde state export`; until then publish nothing"
    )
    try:
        with database.reading() as conn:
            problems = [str(row[0]) for row in conn.exec_driver_sql("PRAGMA quick_check(10)")]
    except StoreError as error:
        problems = [error.message]
    if problems == ["ok"]:
        return []
    return [Finding("damaged_state", file, f"{file}: {'; '.join(problems)}", advice, file)]


def _foreign(lakehouse: LakeHandles) -> Iterator[Finding]:
    store = lakehouse.store
    lost = set()
    again = "delete the row as the owner of the state's tables, and check who can write there"
    for key, model, why in store.snapshots.foreign():
        lost.add(key)
        shown = sorted(store.shown.environments_with_snapshot(key))
        plans = " and ".join(f"vde plan {one}" for one in shown)
        advice = f"rewrite it from the project's files ({plans}), or {again}" if shown else again
        yield Finding("foreign_definition", f"{model} ({key})", why, advice)
    for plan_id, why in store.plans.foreign():
        yield Finding("foreign_plan", plan_id, why, again)
    for table, why in (*store.tables.mislabeled(), *_wrong_fill_versions(lakehouse)):
        yield Finding("foreign_table", f"{table.ref} ({table.id})", why, again)
    for record in store.publications.unsettled() if lakehouse.catalog.form.follows else ():
        why = find_contradiction(lakehouse, record) or ""
        if why:
            yield Finding("foreign_publication", record.id, why, again)
    for view in store.mirror.views(lakehouse.catalog_name):
        if view.wanted.definition is not None:
            try:
                proven_view(view.wanted)
            except StoreError as error:
                advice = error.hint or again
                yield Finding("foreign_view", str(view.wanted.ref), error.message, advice)
    for key, why in store.snapshots.foreign_view_types(lost):
        advice = f"{again}; Spark computes the types again when the view is next published"
        yield Finding("foreign_view_types", key, why, advice)


def _wrong_fill_versions(lakehouse: LakeHandles) -> Iterator[tuple[PhysicalTable, str]]:
    store = lakehouse.store
    tables = store.tables.load([table.id for table in store.ledger.tables((LIVE,))])
    known = store.snapshots.load({one.snapshot_id for one in tables.values()}, unreadable=set())
    for table in tables.values():
        snapshot = known.get(table.snapshot_id)
        if snapshot is None or snapshot.canonicaliser != CANONICALISER:
            continue  # Older versions' hashes may have been computed again since.
        own = preview_version(snapshot) if table.preview is not None else snapshot.fill_version
        if not table.mixed and table.fill_version != own:
            yield table, f"its fill version does not match its definition (model {snapshot.name})"


def _new_beside_old(lakehouse: LakeHandles) -> list[Finding]:
    if not lakehouse.store.project.is_new() or not (others := lakehouse.find_vde_folders()):
        return []
    detail = f"it is empty, but the warehouse has tables and views (in {', '.join(others)})"
    advice = (
        "if they belong to this project, the project's state is elsewhere or was lost: check "
        "state_url and VDE_STATE_URL, restore the state from a backup, or import an earlier "
        "`vde state export`"
    )
    return [Finding("new_state", "the state", detail, advice)]


def _published(connection: Connection, catalog: str) -> dict[TableRef, str]:
    view, head = schema.views.c, schema.environments.c
    query = (
        select(view.namespace, view.name, view.metadata_location)
        .join_from(schema.views, schema.environments, view.environment == head.environment)
        .where(view.catalog_name == catalog, head.live)
        .order_by(view.environment, view.namespace, view.name)
    )
    return {TableRef(row[0], row[1]): row[2] for row in connection.execute(query)}


def _views(views: Mapping[TableRef, str], pointers: Mapping[TableRef, Pointer]) -> list[Finding]:
    findings = []
    for ref, location in views.items():
        pointer = pointers.get(ref)
        advice = "publish the current version again: vde rollback ENV --to VERSION"
        if pointer is None or (pointer.kind != VIEW and pointer.location != location):
            findings.append(Finding("view_gone", str(ref), "another program dropped it", advice))
        elif pointer.location != location:
            findings.append(
                Finding("view_replaced", str(ref), "another program replaced it", advice)
            )
    return findings


def _damaged(damage: Damage) -> Finding:
    error = damage.error
    problem: Problem = f"{'missing' if error.is_missing else 'damaged'}_{damage.part}"  # type: ignore[assignment]
    if damage.kind == VIEW:
        other = "drop the view's row from the catalog, and run: vde rollback ENV --to VERSION"
    elif damage.part == "metadata_file":
        other = f"register an earlier metadata file of the table in the catalog, or {_NEW_TABLE}"
    elif damage.is_current:
        again = "run: vde apply ENV --restate MODEL" if damage.part == "data_file" else _NEW_TABLE
        other = f"roll back to a version that does not need the file, or {again}"
    else:
        other = (
            "do nothing: only older versions need the file. They cannot be read or rolled back to "
            "until it is restored"
        )
    detail = f"{error.what} {error.damage}: {error.file}"
    return Finding(problem, str(damage.ref), detail, f"{_RESTORE}; or {other}", error.file)


def _shown_tables(lakehouse: LakeHandles, state: _State) -> list[Finding]:
    findings = []
    # Environments share most of their tables: each table is checked once.
    wrong = {
        table_id: found
        for table_id in state.shown
        if (found := _not_served(table_id, state.tables.get(table_id), state.pointers)) is not None
    }
    for environment, entry in lakehouse.store.shown.entries_on_tables(wrong) if wrong else ():
        problem, detail = wrong[entry.table_id or ""]
        subject = f"{entry.name} in environment '{environment}'"
        advice = f"register the table's newest metadata file in the catalog, or {_NEW_TABLE}"
        findings.append(Finding(problem, subject, detail, advice))
    return findings


def _not_served(
    table_id: str, table: LedgerTable | None, pointers: Mapping[TableRef, Pointer]
) -> tuple[Problem, str] | None:
    if table is None or table.status != LIVE:
        status = table.status if table else "unknown"
        return "shown_table_not_live", f"its table {table_id} is {status}"
    if table.created and table.ref not in pointers:
        return "table_gone", f"its table {table.ref} is not in the catalog"
    return None


def _lost(lakehouse: LakeHandles, ref: TableRef, lost: Collection[int]) -> Finding | None:
    kept = lakehouse.store.pins.kept(ref)
    pins = sorted((name, last) for one in lost for name, _, last in kept.get(one, ()))
    if not pins:
        return None  # They were forgotten meanwhile.
    versions = ", ".join(f"{name}@{version}" for name, version in pins)
    detail = f"Iceberg snapshots that versions pin were expired: {versions}"
    advice = "a program other than vde expired them; those versions can no longer be read"
    return Finding("pin_gone", str(ref), detail, advice)


def _moved(
    lakehouse: LakeHandles, state: _State, refs: Collection[TableRef] | None
) -> list[tuple[Finding, TableRef]]:
    def look(item: tuple[str, int]) -> tuple[Finding, TableRef] | None:
        table_id, pinned = item
        table = state.tables.get(table_id)
        pointer = state.pointers.get(table.ref) if table is not None else None
        if table is None or pointer is None or pointer.kind != TABLE:
            return None  # Another check reports that.
        try:
            metadata = lakehouse.files.read_json(pointer.location)
        except (DamagedFileError, FileNotFoundError):
            return None
        if not pointer.location.startswith(f"{metadata.get('location')}/"):
            return None  # The file has another table's metadata: another check reports that.
        head = head_of(metadata, table.branch)
        if _follows(metadata, head, pinned):
            return None
        detail = (
            f"its pointer refers to a file with the snapshot {head}, which does not descend from "
            f"the snapshot {pinned} that '{PRODUCTION}' pinned: {pointer.location}"
        )
        advice = (
            "move the pointer back to the metadata file of that version, and find out who wrote to "
            "the state: vde log"
        )
        return Finding("pointer_moved", str(table.ref), detail, advice), table.ref

    if lakehouse.catalog.form.follows and lakehouse.store.publications.unsettled():
        return []  # A publication's pointers are moving right now.
    asked = [
        (table_id, pinned)
        for table_id, pinned in sorted(state.heads.items())
        if refs is None or (table_id in state.tables and state.tables[table_id].ref in refs)
    ]
    return [one for one in lakehouse.files.each(look, asked) if one is not None]


def _follows(metadata: dict[str, Any], head: int | None, pinned: int) -> bool:
    """Return whether `head` descends from `pinned`, even if snapshots in between expired."""
    line = list(history(metadata, head))
    if any(int(snapshot["snapshot-id"]) == pinned for snapshot in line):
        return True
    known = {int(one["snapshot-id"]): one for one in metadata.get("snapshots", [])}
    if not line or pinned not in known or line[-1].get("parent-snapshot-id") is None:
        return False
    number = "sequence-number"
    return int(known[pinned].get(number, 0)) < int(line[-1].get(number, 0))


def _behind(lakehouse: LakeHandles) -> list[Finding]:
    advice = (
        f"to repair it, apply a plan to '{PRODUCTION}', for example: "
        f"vde apply {PRODUCTION} --restate MODEL"
    )
    try:
        behind = behind_the_times(lakehouse)
    except (DamagedFileError, FileNotFoundError):
        return []  # Another check reports that, and this one runs again after the repair.
    return [
        Finding(
            "shown_table_behind",
            str(ref),
            f"{number} of its snapshots are missing in {source}",
            advice,
        )
        for ref, source, number in behind
    ]


def _strangers(
    pointers: Mapping[TableRef, Pointer], tables: Mapping[TableRef, LedgerTable]
) -> list[Finding]:
    namespaces = {ref.namespace for ref in tables}
    return [
        Finding(
            "stranger",
            str(ref),
            "it is among the physical tables, but no plan created it",
            "the janitor leaves it alone; drop it yourself if it is not needed",
        )
        for ref, pointer in pointers.items()
        if pointer.kind == TABLE and ref.namespace in namespaces and ref not in tables
    ]


def _orphans(
    lakehouse: LakeHandles, tables: Iterable[LedgerTable], grace: timedelta
) -> list[Finding]:
    before = lakehouse.store.database.clock.now() - grace
    findings: list[Finding] = []
    for table in tables:
        if table.status != LIVE or table.branch is not None:
            continue  # The files of a branch belong to its table.
        try:
            found = find_orphans(lakehouse, table, before)
        except DamagedFileError:
            continue  # Another check reports that.
        except StoreError as error:
            return [*findings, Finding("orphans", str(table.ref), error.message, error.hint or "")]
        if found:
            size = sum(file.bytes for file in found)
            detail = (
                f"{count(len(found), 'data file')} ({size} bytes) that "
                f"its metadata does not name, the oldest {found[0].location}"
            )
            advice = "an interrupted run left them; the janitor deletes them"
            findings.append(Finding("orphans", str(table.ref), detail, advice))
    return findings
