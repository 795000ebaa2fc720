"""The janitor, which removes objects that no kept version of an environment reaches.

The janitor first sets a tombstone, and deletes an object only after the grace time. The ledger's
rows are only candidates: before each deletion, the janitor verifies that nothing needs the object
(`kept`). Every step can be repeated. `sweep` finds data files that were never committed.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from vde_dagster.base.texts import count
from vde_dagster.base.times import instant_text
from vde_dagster.errors import ConflictError, DamagedFileError
from vde_dagster.lakehouse.io.manifests import bytes_of_no_other
from vde_dagster.lakehouse.maintenance import sweep
from vde_dagster.lakehouse.maintenance.compaction import Compact, compact_tables
from vde_dagster.lakehouse.maintenance.drop import drop_tables
from vde_dagster.lakehouse.maintenance.readers import Holds, describe_holds, find_holds
from vde_dagster.lakehouse.metadata.changes import Updates, remove_snapshots, superseded
from vde_dagster.lakehouse.publishing.finish_publication import recover
from vde_dagster.lakehouse.publishing.mirror import update_mirror, verify
from vde_dagster.lakehouse.publishing.publication import Publication
from vde_dagster.lakehouse.publishing.publish import publish
from vde_dagster.lakehouse.publishing.shown_tables import showing_tables
from vde_dagster.lakehouse.publishing.view_ledger import published_views
from vde_dagster.planning.environments.environment import Environment
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.project.settings import Settings
from vde_dagster.state.db.leases import environment_lease, lease_owner
from vde_dagster.state.retention import Mark, Retention

if TYPE_CHECKING:
    from vde_dagster.lakehouse.handles import LakeHandles


@dataclass(frozen=True, slots=True)
class JanitorReport:
    """Decisions of one cleanup, with their outcomes."""

    dry_run: bool
    decisions: tuple[sweep.Decision, ...]

    @property
    def acted(self) -> tuple[sweep.Decision, ...]:
        """Decisions to remove or change something."""
        return tuple(decision for decision in self.decisions if decision.outcome != "kept")

    @property
    def failures(self) -> tuple[sweep.Decision, ...]:
        return tuple(decision for decision in self.decisions if decision.outcome == "failed")

    @property
    def bytes(self) -> int:
        """Bytes that were freed, or would be without `dry_run`. Unknown sizes count as 0."""
        return sum(
            decision.bytes or 0
            for decision in self.decisions
            if decision.outcome in ("done", "planned") and decision.action != "give_up_table"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "dry_run": self.dry_run,
            "decisions": [decision.to_json() for decision in self.decisions],
            "failures": len(self.failures),
            "bytes": self.bytes,
        }


def retention_policy(settings: Settings) -> Retention:
    """Read the retention periods and limits from a project's settings."""
    return Retention(
        history_versions=settings.history_versions,
        history=timedelta(days=settings.history_days),
        grace=timedelta(hours=settings.janitor_grace_hours),
        orphan_grace=timedelta(hours=settings.orphan_grace_hours),
        readers=timedelta(days=settings.reader_hold_days),
    )


def clean(
    lakehouse: LakeHandles,
    retention: Retention,
    keep_snapshots: timedelta,
    *,
    compact: Compact | None = None,
    dry_run: bool = False,
) -> JanitorReport:
    """Drop expired environments, unneeded tables and versions, and left-over files.

    `compact`, if given, is called for each table with many deleted rows or delete files.
    """
    run = sweep.Cleaning(lakehouse, retention, keep_snapshots, dry_run)
    if not dry_run:
        recover(lakehouse)
    _repair_mirror(run)
    _drop_environments(run)
    marked = run.store.retention.mark(retention, write=not dry_run)
    _report_mark(run, marked)
    drop_tables(run, marked.dropping)
    sweep.drop_branches(run, marked)
    if compact is not None:
        compact_tables(run, marked.reasons, compact)
    holds = find_holds(run.store, marked.reasons, retention.readers)
    expire_snapshots(run, marked.forgotten, holds)
    sweep.delete_left_over_files(run)
    sweep.delete_orphans(run)
    sweep.drop_namespaces(run)
    _forget_records(run)
    return JanitorReport(dry_run, tuple(run.decisions))


def _repair_mirror(run: sweep.Cleaning) -> None:
    if run.lakehouse.catalog.mirror is None:
        return
    reason = "views that differ from the newest publication are written again"

    def work() -> bool:
        strayed = verify(run.lakehouse)
        update_mirror(run.lakehouse)
        return strayed > 0

    if run.lakehouse.store.mirror.views(run.lakehouse.catalog.name):
        run.act(sweep.Decision("repair_mirror", "views", reason), work)


def _drop_environments(run: sweep.Cleaning) -> None:
    for name in run.store.environments.expired():
        environment = run.store.environments.get(name)
        if environment is None or environment.expires_at is None:
            continue
        with run.lakehouse.store.database.reading() as conn:
            views = published_views(conn, run.lakehouse.catalog_name, environment=name)
            shown = count(len(list(views)), "view")
        reason = f"it expired at {instant_text(environment.expires_at)} ({shown})"
        decision = sweep.Decision("drop_environment", name, reason)
        run.act(decision, partial(_drop_environment, run, environment))


def _drop_environment(run: sweep.Cleaning, environment: Environment) -> bool:
    store = run.store
    resource = environment_lease(environment.name)
    try:
        held = store.leases.acquire(resource, lease_owner("janitor"))
    except ConflictError:
        return False  # somebody is working on it, and may renew it
    try:
        current = store.environments.get(environment.name)
        now = store.database.clock.now()
        if current is None or current.expires_at is None or current.expires_at > now:
            return False
        end = replace(
            current,
            entries={},
            publication_id=uuid.uuid4().hex,
            plan_id=None,
            published_at=now,
            published_by="janitor",
            note="expired",
        )
        publish(
            run.lakehouse,
            Publication(
                environment=end, base_version=current.version, leases=(held,), ends_environment=True
            ),
        )
        return True
    finally:
        store.leases.release(held)


def _forget_records(run: sweep.Cleaning) -> None:
    counts = run.store.retention.old_records(run.retention)
    subject = ", ".join(count(many, kind[:-1]) for kind, many in counts.items()) or "events"
    reason = (
        f"they ended more than {count(run.retention.history.days, 'day')} ago, and no kept record "
        "refers to them"
    )
    decision = sweep.Decision("forget_records", subject, reason)
    if counts:
        run.act(decision, lambda: bool(run.store.retention.forget_records(run.retention)))
    elif not run.dry_run:  # Records of the outbox are deleted without being counted.
        with sweep.reporting(run, decision):
            run.store.retention.forget_records(run.retention)


def _report_mark(run: sweep.Cleaning, marked: Mark) -> None:

    outcome: sweep.Outcome = "planned" if run.dry_run else "done"
    for (environment, version), reason in marked.forgotten.items():
        run.report(
            sweep.Decision(
                "forget_version",
                f"{environment} version {version}",
                reason,
                outcome,
                version=(environment, version),
            )
        )
    for plan_id, reason in marked.dead_plans.items():
        run.report(sweep.Decision("close_plan", plan_id, reason, outcome))
    for table in marked.unreachable:
        reason = "no kept version of any environment, no plan and no lease reaches it"
        size = sweep.table_bytes(run, table)
        run.report(sweep.Decision("give_up_table", str(table.ref), reason, outcome, size))
    for table in marked.held_back:
        reason = "it is not needed, but this cleanup has already marked as many tables as it may"
        run.report(sweep.Decision("keep_table", str(table.ref), reason, "kept"))
    for table in marked.waiting:
        reason = "it was marked for deletion, and its grace time has not passed yet"
        run.report(sweep.Decision("keep_table", str(table.ref), reason, "kept"))
    if run.dry_run:
        refs = {table.id: table.ref for table in run.store.ledger.tables()}
        for table_id, reason in sorted(marked.reasons.items()):
            if table_id in refs:
                run.report(sweep.Decision("keep_table", str(refs[table_id]), reason, "kept"))


def expire_snapshots(
    run: sweep.Cleaning,
    forgotten: Collection[tuple[str, int]] = (),
    holds: Holds = MappingProxyType({}),
) -> None:
    """Remove from live tables the old Iceberg snapshots that no version and no reader needs."""
    oldest = run.store.database.clock.now() - run.keep_snapshots
    oldest_ms = int(oldest.timestamp() * 1000)
    ledger = [table for table in run.store.ledger.tables() if table.branch is None]
    showing: dict[str, list[TableRef]] | None = None
    for table, metadata in sweep.with_metadata(run, ledger):
        past = superseded(metadata, oldest_ms)
        if not past:
            continue
        # Snapshots that versions pin, or that readers of changes still need, are kept.
        pins = run.store.pins.kept(table.ref, forgotten)
        read = [hold for hold in holds.get(table.id, ()) if hold.snapshot_id in past]
        held = frozenset(hold.snapshot_id for hold in read if not hold.lapsed)
        gone = superseded(metadata, oldest_ms, {*pins, *held})
        if run.dry_run:
            _report_pinned(run, table.ref, metadata["snapshots"], past, pins)
        if held:
            by = describe_holds([hold for hold in read if not hold.lapsed])
            reason = (
                f"kept past the retention time, because later changes must still be read by {by}"
            )
            run.report(sweep.Decision("hold_snapshots", str(table.ref), reason, "kept"))
        if not gone:
            continue
        many = "1 snapshot is" if len(gone) == 1 else f"{len(gone):,} snapshots are"
        reason = f"{many} past the retention time"
        if lapsed := [hold for hold in read if hold.snapshot_id in gone]:
            reason += (
                f"; after the removal, the next fill computes all rows of {describe_holds(lapsed)}"
            )
        decision = sweep.Decision("expire_snapshots", str(table.ref), reason)
        if showing is None:
            try:
                showing = showing_tables(run.lakehouse)
            except DamagedFileError as error:
                run.report_kept("snapshots of all tables", error)
                return
        shown_by = showing.get(metadata["location"], [])
        run.act(decision, partial(_expire, run, table.ref, oldest_ms, held, shown_by))


def _report_pinned(
    run: sweep.Cleaning,
    ref: TableRef,
    snapshots: Sequence[dict[str, Any]],
    past: Collection[int],
    pins: Mapping[int, list[tuple[str, int, int]]],
) -> None:
    held = [number for number in sorted(past) if number in pins]
    if not held:
        return
    spans: dict[str, list[int]] = {}
    for number in held:
        for environment, first, last in pins[number]:
            spans.setdefault(environment, []).extend((first, last))
    versions = ", ".join(
        f"versions {min(numbers)} to {max(numbers)} of '{environment}'"
        if min(numbers) < max(numbers)
        else f"version {numbers[0]} of '{environment}'"
        for environment, numbers in sorted(spans.items())
    )
    many = "1 snapshot is" if len(held) == 1 else f"{len(held)} snapshots are"
    reason = f"{many} past the retention time, but pinned by {versions}"
    size = bytes_of_no_other(
        run.lakehouse.files,
        [one for one in snapshots if int(one["snapshot-id"]) in held],
        [one for one in snapshots if int(one["snapshot-id"]) not in past],
    )
    run.report(sweep.Decision("keep_snapshots", str(ref), reason, "kept", size))


def _expire(
    run: sweep.Cleaning,
    ref: TableRef,
    oldest_ms: int,
    held: Collection[int],
    shown_by: Collection[TableRef],
) -> bool:
    def change(metadata: dict[str, Any]) -> Updates:
        # Pins are read after the metadata: a later pin of another snapshot moves the pointer.
        pins = run.store.pins.kept(ref)
        return remove_snapshots(metadata, superseded(metadata, oldest_ms, {*pins, *held}))

    return sweep.change_own_table(run, ref, change, "janitor.expire_snapshots", shown_by)
