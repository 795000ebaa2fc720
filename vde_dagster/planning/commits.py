"""The commits of a table, and which of them a fill reads: those since the fill before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeptCommit:
    """A commit to a table, as far as it is to be judged.

    Args:
        snapshot_id: Its Iceberg snapshot.
        parent_id: The one before, or None for the first.
        quiet: Whether Iceberg says that no row was added or removed: files were rewritten, or
            there was nothing to write.
        ours: Whether a fill made it.
        appends: Whether it added rows and did nothing else.
    """

    snapshot_id: int
    parent_id: int | None
    quiet: bool
    ours: bool
    appends: bool = False


@dataclass(frozen=True, slots=True)
class CommitRange:
    """Consecutive commits of one table, or all that it holds at one of them.

    Args:
        since: The Iceberg snapshot after which the range begins; None for all rows at its end.
        until: Its last Iceberg snapshot; None for a table that has none.
    """

    since: int | None
    until: int | None

    @property
    def clause(self) -> str:
        """What follows the table's name in Spark SQL.

        Iceberg reads the rows that were added between two snapshots by options of the read
        (https://iceberg.apache.org/docs/latest/spark-queries/#incremental-read).

        >>> CommitRange(None, 7).clause, CommitRange(7, 7).clause
        (' VERSION AS OF 7', ' VERSION AS OF 7 WHERE false')
        >>> CommitRange(7, 9).clause
        " WITH (`start-snapshot-id` = '7', `end-snapshot-id` = '9')"
        """
        if self.until is None:
            return ""
        if self.since is None:
            return f" VERSION AS OF {self.until}"
        if self.since == self.until:
            return f" VERSION AS OF {self.until} WHERE false"
        return f" WITH (`start-snapshot-id` = '{self.since}', `end-snapshot-id` = '{self.until}')"


def range_since(line: Sequence[KeptCommit], since: int | None) -> CommitRange:
    """Return what a table's reader goes on with.

    Args:
        line: The table's commits, newest first, as far back as they are kept.
        since: The Iceberg snapshot that was read last, or None.

    Returns:
        The commits since then where each of them only added rows; else all rows, which stand for
        everything that was read before: rows were changed or removed, or the commit is not kept.
    """
    until = line[0].snapshot_id if line else None
    for commit in line:
        if commit.snapshot_id == since:
            return CommitRange(since, until)
        if not (commit.quiet or commit.appends):
            break
    return CommitRange(None, until)
