"""APPENDED: how its tables are written."""

from __future__ import annotations

from vde_dagster.spark.strategies.base import Strategy, Write, condition, strategy_for
from vde_dagster_tests.kinds.appended import Appended


@strategy_for(Appended)
class AppendedRows(Strategy):
    """Adds what came; where the parent was not only added to, replaces everything."""

    def write(self, write: Write) -> None:
        """Append, or overwrite."""
        writer = write.writer(write.frame, write.task.branch)
        if write.task.anew:
            writer.overwrite(condition("true"))
        else:
            writer.append()
