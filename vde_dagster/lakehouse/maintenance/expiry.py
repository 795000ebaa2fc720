"""Forgetting Iceberg snapshots that were replaced long ago, but for those that versions pin."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from vde_dagster.errors import DamagedFileError
from vde_dagster.lakehouse.maintenance.cleaning import Cleaning, Decision
from vde_dagster.lakehouse.maintenance.sweep import change_own_table, with_metadata
from vde_dagster.lakehouse.metadata.changes import Updates, remove_snapshots, superseded
from vde_dagster.lakehouse.metadata.snapshot_files import bytes_of_no_other
from vde_dagster.lakehouse.publishing.shown_tables import showing_tables
from vde_dagster.planning.tables.table import TableRef


def expire_snapshots(run: Cleaning, forgotten: Collection[tuple[str, int]] = ()) -> None:
    """Forget superseded Iceberg snapshots of live tables after their time, but for pinned ones.

    Args:
        forgotten: (environment, version) whose pins keep nothing any more.
    """
    oldest = run.store.database.clock.now() - run.keep_snapshots
    oldest_ms = int(oldest.timestamp() * 1000)
    ledger = [table for table in run.store.ledger.tables() if table.branch is None]
    showing: dict[str, list[TableRef]] | None = None
    for table, metadata in with_metadata(run, ledger):
        past = superseded(metadata, oldest_ms)
        if not past:
            continue
        pins = run.store.pin_history.kept(table.ref, forgotten)
        gone = superseded(metadata, oldest_ms, pins)
        if run.dry_run:
            _tell_pinned(run, table.ref, metadata["snapshots"], past, pins)
        if not gone:
            continue
        decision = Decision(
            "expire_snapshots",
            str(table.ref),
            f"{len(gone)} snapshots are past their time",
            "planned",
        )
        if showing is None:
            try:
                showing = showing_tables(run.lakehouse)
            except DamagedFileError as error:
                run.leave("snapshots of tables that others show", error)
                return
        shown_by = showing.get(metadata["location"], [])
        run.act(decision, _expirer(run, table.ref, oldest_ms, shown_by))


def _tell_pinned(
    run: Cleaning,
    ref: TableRef,
    snapshots: Sequence[dict[str, Any]],
    past: Collection[int],
    pins: Mapping[int, list[tuple[str, int, int]]],
) -> None:
    """Say which Iceberg snapshots are kept for pins alone, for which versions, and their bytes."""
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
    reason = f"{many} past the time, and pinned by {versions}"
    size = bytes_of_no_other(
        run.lakehouse.files,
        [one for one in snapshots if int(one["snapshot-id"]) in held],
        [one for one in snapshots if int(one["snapshot-id"]) not in past],
    )
    run.tell(Decision("keep_snapshots", str(ref), reason, "kept", size))


def _expirer(
    run: Cleaning, ref: TableRef, oldest_ms: int, shown_by: Collection[TableRef]
) -> Callable[[], bool]:
    def change(metadata: dict[str, Any]) -> Updates:
        # Read after the metadata: whoever pins another snapshot of it moves its pointer.
        pins = run.store.pin_history.kept(ref)
        return remove_snapshots(metadata, superseded(metadata, oldest_ms, pins))

    return lambda: change_own_table(run, ref, change, "janitor.expire_snapshots", shown_by)
