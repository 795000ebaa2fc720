"""FULL: fills replace all rows of the table, or only the changed rows."""

from __future__ import annotations

from vde_dagster.planning.engine_tasks import ChangedGroups, ChangedRows
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.project.kinds import Full
from vde_dagster.spark.strategies.base import Strategy, Write, strategy_for
from vde_dagster.spark.strategies.changed_keys import KeysView, changed_keys, select_rows
from vde_dagster.spark.strategies.changed_rows import NotWrittenError, write_changes
from vde_dagster.spark.strategies.replace_rows import replace_rows


@strategy_for(Full)
class WholeTable(Strategy):
    """Replaces all rows, or only the changed rows if these are known, in one commit."""

    def digest_condition(self, write: Write, interval: Interval) -> str | None:
        return None

    def digests_table(self, write: Write) -> bool:
        return write.task.changed is not None

    def write(self, write: Write) -> None:
        changed = write.task.changed
        if isinstance(changed, ChangedRows | ChangedGroups):
            try:
                write_changes(write, changed)
            except NotWrittenError as why:
                write.why_all.append(str(why))
                write.notes.append(f"all rows are computed: {why}")
                write.overwrite(write.frame, write.task.branch)
            return
        with changed_keys(write) as keys:
            if keys is None:
                write.overwrite(write.frame, write.task.branch)
            else:
                _replace_keys(write, keys)


def _replace_keys(write: Write, keys: KeysView) -> None:
    if keys.is_empty:
        write.writer(write.frame.limit(0), write.task.branch).append()
        return
    replace_rows(write, keys.is_in("target"), select_rows(write, keys))
