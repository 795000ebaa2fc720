"""Summaries of Iceberg commits: written for fills, and read for counts and origins.

Sources: https://iceberg.apache.org/spec/#optional-snapshot-summary-fields and, for row lineage,
https://iceberg.apache.org/spec/#row-lineage.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from vde_dagster.lakehouse.metadata.table_metadata import head_of, history
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.tables.pinned_reads import KeptCommit
from vde_dagster.state.environments.pins import Growth

PLAN_KEY = "vde.plan"
TABLE_KEY = "vde.table"
"""Key of the physical table's id, also used in a table's own properties."""
INTERVAL_KEY = "vde.interval"
KIND_KEY = "vde.kind"
FILL_KEY = "vde.fill"
"""Key of the fill's unique id, by which a fill finds its own commit."""
DEFINITION_KEY = "vde.definition"
"""Key of the definition that computed the rows, see `Snapshot.standalone_meaning_hash`."""
SUMMARY_KEYS = (PLAN_KEY, TABLE_KEY, INTERVAL_KEY, KIND_KEY, FILL_KEY, DEFINITION_KEY)


def fill_summary(
    plan_id: str, table_id: str, interval: Interval, kind: str, fill_id: str, definition: str
) -> dict[str, str]:
    """Build the properties that a fill writes to the summary of its Iceberg commit."""
    return {
        PLAN_KEY: plan_id,
        TABLE_KEY: table_id,
        INTERVAL_KEY: str(interval),
        KIND_KEY: kind,
        FILL_KEY: fill_id,
        DEFINITION_KEY: definition,
    }


def belongs_to_table(metadata: Mapping[str, Any], table_id: str) -> bool:
    """Check whether a table's properties or commits contain the id of a physical table."""
    written = [metadata.get("properties", {})]
    written += [one.get("summary", {}) for one in metadata.get("snapshots", ())]
    return any(one.get(TABLE_KEY) == table_id for one in written)


@dataclass(frozen=True, slots=True)
class CommittedFill:
    plan_id: str
    table_id: str
    interval: Interval
    iceberg_snapshot_id: int
    rows: int | None


def committed_fills(metadata: dict[str, Any], branch: str | None = None) -> list[CommittedFill]:
    """Read the fills from the summaries of a branch's commits, newest first."""
    return [
        CommittedFill(
            plan_id=said[PLAN_KEY],
            table_id=said.get(TABLE_KEY, ""),
            interval=Interval.parse(said[INTERVAL_KEY]),
            iceberg_snapshot_id=int(snapshot["snapshot-id"]),
            rows=int(said["added-records"]) if "added-records" in said else None,
        )
        for snapshot in history(metadata, head_of(metadata, branch))
        if (said := snapshot.get("summary", {})).keys() >= {PLAN_KEY, INTERVAL_KEY}
    ]


PREFIX = "vde_"
_PARTS = re.compile(r"vde_(?P<plan>.+)_(?P<attempt>\d+)(?P<shared>s?)")
_SCRATCH = re.compile(r"vde_(?P<plan>.+)_[0-9a-f]{32}_scratch")


@dataclass(frozen=True, slots=True)
class BranchName:
    """The name of the branch that one attempt of a plan writes.

    For example, `vde_prod-1f_12s` is attempt 12 of the plan `prod-1f`, and `shared`.

    Args:
        shared: Whether the attempt read only published data, so that another plan may reuse the
            branch.
    """

    # An attempt that stalls and loses its lease may continue to write later. Its branch is never
    # published, so its commits have no effect.
    plan_id: str
    attempt: int
    shared: bool

    def __str__(self) -> str:
        return f"{PREFIX}{self.plan_id}_{self.attempt}{'s' if self.shared else ''}"


def parse_branch(name: str) -> BranchName | None:
    """Parse a branch's name (see `BranchName`), or return None if it has another form."""
    match = _PARTS.fullmatch(name)
    if match is None:
        return None
    return BranchName(match["plan"], int(match["attempt"]), bool(match["shared"]))


def scratch_branch(plan_id: str) -> str:
    """Create a unique name for a temporary branch of a plan."""
    return f"{PREFIX}{plan_id}_{uuid.uuid4().hex}_scratch"


def plan_of_branch(name: str) -> str | None:
    """Extract the plan's id from the name of a branch that a plan created.

    >>> plan_of_branch("vde_prod-1f_12s"), plan_of_branch(scratch_branch("prod-1f"))
    ('prod-1f', 'prod-1f')
    >>> plan_of_branch("theirs") is None
    True
    """
    if not name.startswith(PREFIX):
        return None
    match = _PARTS.fullmatch(name) or _SCRATCH.fullmatch(name)
    return match["plan"] if match else name.removeprefix(PREFIX)


def rows_in(summary: Mapping[str, str]) -> int | None:
    """Return how many rows a table has after a commit, or None if unknown.

    Rows that position deletes hide do not count. With equality deletes, the number is unknown.

    >>> rows_in({"total-records": "9", "total-position-deletes": "2"}), rows_in({})
    (7, None)
    """
    total = summary.get("total-records")
    if total is None or int(summary.get("total-equality-deletes") or 0):
        return None
    return int(total) - int(summary.get("total-position-deletes") or 0)


def rows_at(metadata: dict[str, Any], snapshot_id: int | None) -> int | None:
    """Return how many rows a snapshot has according to its summary, or None if unknown."""
    return 0 if snapshot_id is None else rows_in(_read_summary(metadata, snapshot_id))


def _read_summary(metadata: dict[str, Any], snapshot_id: int) -> Mapping[str, str]:
    found: Mapping[str, str] = next(history(metadata, snapshot_id), {}).get("summary", {})
    return found


def growth_between(metadata: dict[str, Any], before: int | None, after: int | None) -> Growth:
    """Count the rows that commits added and removed between two Iceberg snapshots.

    A rewritten row counts as removed and as added. A reverted commit counts with its additions and
    removals exchanged.
    """
    left, found = list(history(metadata, before)), list(history(metadata, after))
    both = {one["snapshot-id"] for one in left} & {one["snapshot-id"] for one in found}
    forward, back = _counts(found, both, after), _counts(left, both, before)
    if forward is None or back is None:
        return Growth(before, None, None)
    return Growth(before, forward[0] + back[1], forward[1] + back[0])


def bytes_at(metadata: dict[str, Any], snapshot_id: int | None) -> int | None:
    """Return the total size of a snapshot's files from its summary, or None if unknown."""
    if snapshot_id is None:
        return 0
    total = _read_summary(metadata, snapshot_id).get("total-files-size")
    return None if total is None else int(total)


def bytes_between(metadata: dict[str, Any], before: int | None, after: int | None) -> int | None:
    """Add up the sizes of files that commits added and removed between two Iceberg snapshots.

    Files that were rewritten with the same rows do not count. Return None if the metadata lacks a
    commit, or a summary lacks sizes.
    """
    lines = [list(history(metadata, one)) for one in (before, after)]
    both = set.intersection(*({one["snapshot-id"] for one in line} for line in lines))
    moved = 0
    for line in lines:
        parent = None
        for snapshot in line:
            if snapshot["snapshot-id"] in both:
                parent = None
                break
            summary, parent = snapshot.get("summary", {}), snapshot.get("parent-snapshot-id")
            if summary.get("operation") != "replace":
                if "total-files-size" not in summary:
                    return None
                moved += _count(summary, "added-files-size") + _count(summary, "removed-files-size")
        if parent is not None:
            return None
    return moved


def _counts(
    line: list[dict[str, Any]], both: Collection[int], newest: int | None
) -> tuple[int, int] | None:
    added = removed = 0
    parent = newest
    for snapshot in line:
        if snapshot["snapshot-id"] in both:
            return added, removed
        summary = snapshot.get("summary", {})
        if summary.get("operation") != "replace":
            if "total-records" not in summary or int(summary.get("added-equality-deletes") or 0):
                return None
            hidden = _count(summary, "added-position-deletes")
            hidden -= _count(summary, "removed-position-deletes")
            added += _count(summary, "added-records")
            removed += _count(summary, "deleted-records") + hidden
        parent = snapshot.get("parent-snapshot-id")
    return (added, removed) if parent is None else None


def _count(summary: Mapping[str, str], name: str) -> int:
    return int(summary.get(name) or 0)


_COUNTS = (
    "added-data-files",
    "deleted-data-files",
    "added-delete-files",
    "removed-delete-files",
    "added-dvs",
    "removed-dvs",
    "added-records",
    "deleted-records",
    "added-position-deletes",
    "removed-position-deletes",
    "added-equality-deletes",
    "removed-equality-deletes",
)


def commit_line(
    metadata: dict[str, Any], head: int | None, table_id: str = ""
) -> tuple[KeptCommit, ...]:
    """Return a table's commits, from the Iceberg snapshot `head` back to the oldest.

    Args:
        table_id: Commits by fills of this physical table have `KeptCommit.ours` set.
    """
    return tuple(_commit(snapshot, table_id) for snapshot in history(metadata, head))


def _commit(snapshot: Mapping[str, Any], table_id: str) -> KeptCommit:
    summary = snapshot.get("summary", {})
    moved = [_count(summary, name) for name in ("added-records", "deleted-records")]
    return KeptCommit(
        int(snapshot["snapshot-id"]),
        snapshot.get("parent-snapshot-id"),
        is_quiet(summary),
        PLAN_KEY in summary and summary.get(TABLE_KEY) == table_id,
        summary.get("operation") == "append",
        int(snapshot.get("sequence-number") or 0),
        any(summary.get(name, "") != "0" for name in _DELETES),
        sum(moved) if "total-records" in summary else None,
        rows_in(summary),
        # Writers of format version 3 also assign ids to older rows.
        snapshot.get("first-row-id") is not None,
    )


def is_quiet(summary: dict[str, str]) -> bool:
    """Check whether a commit left all rows unchanged, according to its summary.

    The operation `replace` means that files were rewritten with the same rows
    (https://iceberg.apache.org/spec/#snapshots). A summary without totals is not quiet.

    >>> is_quiet({"operation": "replace", "added-records": "5", "deleted-records": "5"})
    True
    >>> is_quiet({"operation": "append", "total-records": "5"}), is_quiet({"operation": "append"})
    (True, False)
    """
    if summary.get("operation") == "replace":
        return True
    if "total-records" not in summary:
        return False
    return all(_count(summary, name) == 0 for name in _COUNTS)


_DELETES = ("total-delete-files", "total-position-deletes", "total-equality-deletes")


def field_ids(metadata: dict[str, Any], schema_id: int | None) -> dict[str, int]:
    """Return the Iceberg field id of each column in one of a table's schemas."""
    wanted = metadata["current-schema-id"] if schema_id is None else schema_id
    found = (one for one in metadata["schemas"] if int(one["schema-id"]) == int(wanted))
    return {field["name"]: int(field["id"]) for one in found for field in one["fields"]}


def identifier_columns(metadata: dict[str, Any]) -> tuple[str, ...]:
    """Return the columns that a table's schema declares as identifier fields."""
    ids = field_ids(metadata, None)
    schemas = metadata["schemas"]
    current = next(one for one in schemas if one["schema-id"] == metadata["current-schema-id"])
    wanted = set(current.get("identifier-field-ids", ()))
    return tuple(name for name, field in ids.items() if field in wanted)
