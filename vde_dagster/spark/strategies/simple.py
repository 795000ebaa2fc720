"""FULL: tables that are replaced whole, or by the keys whose rows changed."""

from __future__ import annotations

from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.project.kinds import Full
from vde_dagster.spark.strategies.base import Strategy, Write, strategy_for
from vde_dagster.spark.strategies.changed_keys import KeysView, changed_keys, rows_of


@strategy_for(Full)
class WholeTable(Strategy):
    """Replaces all rows, or the rows of changed keys, in one Iceberg commit."""

    def digest_condition(self, write: Write, interval: Interval) -> str | None:
        """Return None: all rows belong to the interval."""
        return None

    def digests_table(self, write: Write) -> bool:
        """Return whether only some keys are written, which may get the same rows again."""
        return write.task.changed is not None

    def write(self, write: Write) -> None:
        """Overwrite all rows, or the rows of the keys that changed."""
        with changed_keys(write) as keys:
            if keys is None:
                write.overwrite(write.frame, write.task.branch)
            else:
                _replace_keys(write, keys)


def _replace_keys(write: Write, keys: KeysView) -> None:
    rows = rows_of(write, keys)

    def put_together(staging: str) -> None:
        write.session.sql(
            f"DELETE FROM {write.target(staging)} AS target WHERE {keys.is_in('target')}"
        )
        write.writer(rows, staging).append()

    write.staged(put_together, "changed")
