"""`vde fsck`: what is damaged, and what to do about it. Reads only.

It looks at every pointer of the catalog, at every line of the ledger, and in the folders of tables
for data files that were never committed. It repairs nothing by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import select

from vde_dagster.lakehouse.catalog import TABLE, VIEW, Pointer
from vde_dagster.lakehouse.orphans import find_orphans
from vde_dagster.lakehouse.shown_tables import behind_the_times
from vde_dagster.lakehouse.table_metadata import head_of
from vde_dagster.planning.table import TableRef
from vde_dagster.state import schema
from vde_dagster.state.ledger import LedgerTable
from vde_dagster.state.policy import Retention
from vde_dagster.state.tables import DROPPED, DROPPING, LIVE, TOMBSTONED

if TYPE_CHECKING:
    from vde_dagster.lakehouse.lakehouse import Lakehouse

Problem = Literal[
    "missing_metadata_file",
    "missing_manifest_list",
    "view_gone",
    "view_replaced",
    "table_gone",
    "shown_table_not_live",
    "pin_gone",
    "shown_table_behind",
    "stranger",
    "orphans",
]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    Args:
        problem: What kind of thing.
        subject: The view, table or environment.
        detail: What exactly.
        advice: What to do.
    """

    problem: Problem
    subject: str
    detail: str
    advice: str

    @property
    def is_damage(self) -> bool:
        """Whether somebody cannot read what was published; the rest only takes space."""
        return self.problem not in ("stranger", "orphans")

    def to_json(self) -> dict[str, str]:
        """Return plain JSON data."""
        return {
            "problem": self.problem,
            "subject": self.subject,
            "detail": self.detail,
            "advice": self.advice,
        }


def fsck(lakehouse: Lakehouse, orphan_grace: timedelta | None = None) -> tuple[Finding, ...]:
    """Check every pointer, every published view and every table that an environment shows.

    Args:
        lakehouse: The catalog.
        orphan_grace: How old a data file is that cannot be committed any more.

    Raises:
        StoreError: The state store cannot be reached.
    """
    store = lakehouse.store
    pointers = lakehouse.catalog.all_pointers()
    tables = {
        table.id: table for table in store.ledger.tables((LIVE, TOMBSTONED, DROPPING, DROPPED))
    }
    by_ref = {table.ref: table for table in tables.values() if table.branch is None}
    views = _published(lakehouse)
    findings = _views(views, pointers)
    findings += _files(lakehouse, pointers, views, by_ref)
    findings += _shown_tables(lakehouse, tables, pointers)
    findings += _pins(lakehouse, pointers)
    findings += _behind(lakehouse)
    findings += _strangers(pointers, by_ref)
    grace = Retention().uncommitted_grace if orphan_grace is None else orphan_grace
    findings += _orphans(lakehouse, tables.values(), pointers, grace)
    return tuple(findings)


def _published(lakehouse: Lakehouse) -> dict[TableRef, str]:
    """Return the metadata file of every view that an environment is published with."""
    view, head = schema.views.c, schema.environments.c
    query = (
        select(view.namespace, view.name, view.metadata_location)
        .join_from(schema.views, schema.environments, view.environment == head.environment)
        .where(view.catalog_name == lakehouse.catalog_name, head.live)
        .order_by(view.environment, view.namespace, view.name)
    )
    with lakehouse.store.database.reading() as conn:
        return {TableRef(row[0], row[1]): row[2] for row in conn.execute(query)}


def _views(views: dict[TableRef, str], pointers: dict[TableRef, Pointer]) -> list[Finding]:
    findings = []
    for ref, location in views.items():
        pointer = pointers.get(ref)
        advice = "publish again: vde apply, or vde rollback to the current version"
        if pointer is None or (pointer.kind != VIEW and pointer.location != location):
            findings.append(Finding("view_gone", str(ref), "somebody dropped the view", advice))
        elif pointer.location != location:
            findings.append(
                Finding("view_replaced", str(ref), "somebody replaced the view", advice)
            )
    return findings


def _files(
    lakehouse: Lakehouse,
    pointers: dict[TableRef, Pointer],
    views: dict[TableRef, str],
    tables: dict[TableRef, LedgerTable],
) -> list[Finding]:
    ours = [(ref, pointers[ref]) for ref in pointers if ref in views or ref in tables]
    found = lakehouse.files.each(lambda item: _file(lakehouse, *item), ours)
    return [finding for finding in found if finding is not None]


def _file(lakehouse: Lakehouse, ref: TableRef, pointer: Pointer) -> Finding | None:
    if not lakehouse.files.exists(pointer.location):
        if pointer.kind == VIEW:
            advice = "drop the view's row from the catalog and publish again"
        else:
            advice = (
                "restore the file from a backup; or drop the table from the catalog, forget its "
                "intervals and plan again: it is computed anew"
            )
        return Finding("missing_metadata_file", str(ref), pointer.location, advice)
    if pointer.kind == VIEW:
        return None
    metadata: dict[str, Any] = lakehouse.files.read_json(pointer.location)
    head = head_of(metadata)
    for snapshot in metadata.get("snapshots", []):
        manifests = snapshot.get("manifest-list")
        if int(snapshot["snapshot-id"]) == head and manifests:
            if lakehouse.files.exists(manifests):
                return None
            advice = "roll the table back to an older Iceberg snapshot, or compute it anew"
            return Finding("missing_manifest_list", str(ref), manifests, advice)
    return None


def _shown_tables(
    lakehouse: Lakehouse,
    tables: dict[str, LedgerTable],
    pointers: dict[TableRef, Pointer],
) -> list[Finding]:
    findings = []
    # Environments share most of their tables: what is wrong with one is asked once.
    wrong = {
        table_id: found
        for table_id in lakehouse.store.shown.tables()
        if (found := _not_served(table_id, tables.get(table_id), pointers)) is not None
    }
    for environment, entry in lakehouse.store.shown.entries_of(wrong):
        problem, detail = wrong[entry.table_id or ""]
        subject = f"{entry.name} in environment '{environment}'"
        advice = f"plan and apply again: vde plan {environment}"
        findings.append(Finding(problem, subject, detail, advice))
    return findings


def _not_served(
    table_id: str, table: LedgerTable | None, pointers: dict[TableRef, Pointer]
) -> tuple[Problem, str] | None:
    """Say what is wrong with a table that an environment shows."""
    if table is None or table.status != LIVE:
        status = table.status if table else "unknown"
        return "shown_table_not_live", f"its table {table_id} is {status}"
    if table.created and table.ref not in pointers:
        return "table_gone", f"its table {table.ref} is not in the catalog"
    return None


def _pins(lakehouse: Lakehouse, pointers: dict[TableRef, Pointer]) -> list[Finding]:
    """Find versions that pin Iceberg snapshots which their tables no longer have."""
    pinned = lakehouse.store.pin_history.of_live_environments()

    def check(ref: TableRef) -> Finding | None:
        pointer = pointers.get(ref)
        if pointer is None or not lakehouse.files.exists(pointer.location):
            return None  # That is a finding of its own.
        metadata = lakehouse.files.read_json(pointer.location)
        there = {int(snapshot["snapshot-id"]) for snapshot in metadata.get("snapshots", [])}
        lost = sorted(by for snapshot, by in pinned[ref].items() if snapshot not in there)
        if not lost:
            return None
        versions = ", ".join(f"{name}@{version}" for name, version in lost)
        detail = f"Iceberg snapshots were expired that versions pin: {versions}"
        advice = "another program than vde did so; what those versions showed cannot be read again"
        return Finding("pin_gone", str(ref), detail, advice)

    found = lakehouse.files.each(check, sorted(pinned, key=str))
    return [finding for finding in found if finding is not None]


def _behind(lakehouse: Lakehouse) -> list[Finding]:
    advice = "publish it again: vde apply prod, or vde rollback to the current version"
    return [
        Finding("shown_table_behind", str(ref), f"{number} snapshots are gone in {source}", advice)
        for ref, source, number in behind_the_times(lakehouse)
    ]


def _strangers(
    pointers: dict[TableRef, Pointer], tables: dict[TableRef, LedgerTable]
) -> list[Finding]:
    namespaces = {ref.namespace for ref in tables}
    return [
        Finding(
            "stranger",
            str(ref),
            "it lies among the physical tables, but no plan made it",
            "the janitor leaves it alone; drop it yourself if nobody needs it",
        )
        for ref, pointer in pointers.items()
        if pointer.kind == TABLE and ref.namespace in namespaces and ref not in tables
    ]


def _orphans(
    lakehouse: Lakehouse,
    tables: Iterable[LedgerTable],
    pointers: dict[TableRef, Pointer],
    grace: timedelta,
) -> list[Finding]:
    before = lakehouse.store.database.clock.now() - grace
    findings = []
    for table in tables:
        pointer = pointers.get(table.ref)
        if table.status != LIVE or pointer is None or pointer.kind != TABLE:
            continue
        if table.branch is not None:
            continue  # Its files are those of the table that it is a branch of.
        found = find_orphans(lakehouse, table, pointer.location, before)
        if found.files:
            detail = (
                f"{len(found.files)} data files ({found.bytes} bytes) that no metadata of it "
                f"names, the oldest {found.files[0].location}"
            )
            advice = "a run that was killed left them; the janitor deletes them"
            findings.append(Finding("orphans", str(table.ref), detail, advice))
    return findings
