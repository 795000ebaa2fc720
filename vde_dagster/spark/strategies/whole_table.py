"""Kinds that are rebuilt whole: one overwrite, so the table is never missing or half full."""

from __future__ import annotations

from collections.abc import Mapping

from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.project.kinds import Full, Seed
from vde_dagster.spark.strategies.base import Layout, Write, condition, strategy_for


@strategy_for(Full, Seed)
class WholeTable:
    """Replaces all rows in one Iceberg commit; readers see the old rows until then."""

    own_session = False

    def layout(self, snapshot: Snapshot, types: Mapping[str, str]) -> Layout:
        """Leave the table unpartitioned."""
        return Layout()

    def write(self, write: Write) -> None:
        """Overwrite everything."""
        write.writer(write.frame, write.task.branch).overwrite(condition("true"))
