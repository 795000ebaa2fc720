"""Commits and row lineage by which two snapshots of a table are compared in part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vde_dagster.planning.tables.pinned_reads import KeptCommit


@dataclass(frozen=True, slots=True)
class Leg:
    """Consecutive commits of a table, whose changes count forwards or backwards.

    Args:
        since: The Iceberg snapshot before the first of them; None for the empty table.
        until: The Iceberg snapshot of the last.
    """

    since: int | None
    until: int
    forwards: bool


@dataclass(frozen=True, slots=True)
class ByLineage:
    """Read the rows that were written since, and those of before that are not there unchanged.

    Args:
        older: The Iceberg snapshot from which `newer` descends.
        sequence: The older one's sequence number.
        forwards: Whether the older one is the earlier version's.
    """

    older: int
    newer: int
    sequence: int
    forwards: bool


def read_by(
    before: Sequence[KeptCommit], after: Sequence[KeptCommit], *, pinned_only: bool = False
) -> tuple[Leg, ...] | ByLineage | None:
    """Choose the method by which two snapshots of one table are compared.

    Iceberg tells the rows of a range of commits where no file of deletes is involved: "Delete files
    are currently not supported in changelog scans", not even in a range that only adds rows. Row
    lineage (https://iceberg.apache.org/spec/#row-lineage) takes two snapshots of which one descends
    from the other.

    Args:
        before: The commits that lead to the earlier version's snapshot, newest first, as far as
            they are kept; none for a table without any.
        after: Those that lead to the later version's.
        pinned_only: Whether no commit but these two ends may be read: others are not kept.

    Returns:
        The legs of commits to read, back to where both histories meet, then forwards; None
        where both have to be read whole, or that is less work.
    """
    paths = _paths(before, after)
    if paths is None:
        return None
    back, forth = paths
    if all(commit.quiet for commit in (*back, *forth)):
        return ()
    met = before[len(back) : len(back) + 1]
    changed = [part for part in (back, forth) if not all(commit.quiet for commit in part)]
    if (
        not (pinned_only and len(back) + len(forth) > 1)
        and not any(c.has_deletes for c in (*back, *forth, *met))
        and _is_less([*back, *forth], [*before[:1], *after[:1]])
    ):
        return tuple(
            Leg(part[-1].parent_id, part[0].snapshot_id, part is forth) for part in changed
        )
    if before and after and not (back and forth):
        older, newer = (before[0], after[0]) if forth else (after[0], before[0])
        if older.has_lineage and newer.has_lineage:
            return ByLineage(older.snapshot_id, newer.snapshot_id, older.sequence, bool(forth))
    return None


def _paths(
    before: Sequence[KeptCommit], after: Sequence[KeptCommit]
) -> tuple[Sequence[KeptCommit], Sequence[KeptCommit]] | None:
    """Return the commits of either side since their histories meet; None where that is not kept."""
    places = {commit.snapshot_id: place for place, commit in enumerate(before)}
    for place, commit in enumerate(after):
        if commit.snapshot_id in places:
            return before[: places[commit.snapshot_id]], after[:place]
    if all(not line or line[-1].parent_id is None for line in (before, after)):
        return before, after  # They meet where the table had no rows yet.
    return None


def _is_less(moved: Sequence[KeptCommit], ends: Sequence[KeptCommit]) -> bool:
    """Say whether commits have fewer rows to read than both tables; unknown counts say yes."""
    rows = [commit.rows for commit in ends]
    counts = [0 if commit.quiet else commit.rows_moved for commit in moved]
    if None in rows or None in counts:
        return True
    return sum(n or 0 for n in counts) < sum(n or 0 for n in rows)
