"""FULL: tables that are replaced whole."""

from __future__ import annotations

from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.project.kinds import (
    Full,
)
from vde_dagster.spark.strategies.base import (
    Strategy,
    Write,
    strategy_for,
)


@strategy_for(Full)
class WholeTable(Strategy):
    """Replaces all rows in one Iceberg commit; readers see the old rows until then."""

    def digest_condition(self, write: Write, interval: Interval) -> str | None:
        """Return None: all rows belong to the interval."""
        return None

    def write(self, write: Write) -> None:
        """Overwrite everything."""
        write.overwrite(write.frame, write.task.branch)
