"""Kinds that are rebuilt whole: one overwrite, so the table is never missing or half full."""

from __future__ import annotations

from vde_dagster.planning.interval import Interval
from vde_dagster.project.kinds import Full
from vde_dagster.spark.strategies.base import Strategy, Write, condition, strategy_for


@strategy_for(Full)
class WholeTable(Strategy):
    """Replaces all rows in one Iceberg commit; readers see the old rows until then."""

    def digest_condition(self, write: Write, interval: Interval) -> str | None:
        """All rows are the interval's."""
        return None

    def write(self, write: Write) -> None:
        """Overwrite everything."""
        write.writer(write.frame, write.task.branch).overwrite(condition("true"))
