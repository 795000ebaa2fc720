"""The choice of how to find the rows that differ between two Iceberg snapshots of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vde_dagster.planning.tables.pinned_reads import KeptCommit


@dataclass(frozen=True, slots=True)
class CommitSpan:
    """A range of a table's commits, to apply or to undo.

    Args:
        since: The Iceberg snapshot before the first commit; None for the empty table.
        until: The Iceberg snapshot of the last commit.
        forwards: True to apply the commits, False to undo them.
    """

    since: int | None
    until: int
    forwards: bool


@dataclass(frozen=True, slots=True)
class LineageComparison:
    """A comparison of two Iceberg snapshots by row lineage: it finds rows written after `older`.

    Args:
        older: An ancestor of the Iceberg snapshot `newer`.
        sequence: The sequence number of `older`.
        forwards: Whether the changes lead from `older` to `newer`. False after a rollback, when the
            later version shows `older`.
    """

    older: int
    newer: int
    sequence: int
    forwards: bool


def choose_comparison(
    before: Sequence[KeptCommit], after: Sequence[KeptCommit], *, pinned_only: bool = False
) -> tuple[CommitSpan, ...] | LineageComparison | None:
    """Choose how to find the rows that differ between two Iceberg snapshots of one table.

    Args:
        before: Commits up to the earlier version's Iceberg snapshot, newest first, without expired
            commits; empty for a table without commits.
        after: The commits up to the later version's Iceberg snapshot, in the same form.
        pinned_only: Whether only these two Iceberg snapshots may be read, because no others are
            kept.

    Returns:
        The ranges of commits to read: first back to the common ancestor, then forwards. Or a
            comparison by row lineage. None if both snapshots must be read as a whole.
    """
    # Iceberg's changelog returns the rows of a range of commits only if no delete files exist
    # ("Delete files are currently not supported in changelog scans"), even for a range that only
    # adds rows. Row lineage (https://iceberg.apache.org/spec/#row-lineage) needs one snapshot to be
    # an ancestor of the other.
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
            CommitSpan(part[-1].parent_id, part[0].snapshot_id, part is forth) for part in changed
        )
    if before and after and not (back and forth):
        older, newer = (before[0], after[0]) if forth else (after[0], before[0])
        if older.has_lineage and newer.has_lineage:
            return LineageComparison(
                older.snapshot_id, newer.snapshot_id, older.sequence, bool(forth)
            )
    return None


def _paths(
    before: Sequence[KeptCommit], after: Sequence[KeptCommit]
) -> tuple[Sequence[KeptCommit], Sequence[KeptCommit]] | None:
    places = {commit.snapshot_id: place for place, commit in enumerate(before)}
    for place, commit in enumerate(after):
        if commit.snapshot_id in places:
            return before[: places[commit.snapshot_id]], after[:place]
    if all(not line or line[-1].parent_id is None for line in (before, after)):
        return before, after  # They meet where the table had no rows yet.
    return None


def _is_less(moved: Sequence[KeptCommit], ends: Sequence[KeptCommit]) -> bool:
    rows = [commit.rows for commit in ends]
    counts = [0 if commit.quiet else commit.rows_moved for commit in moved]
    if None in rows or None in counts:
        return True
    return sum(n or 0 for n in counts) < sum(n or 0 for n in rows)
