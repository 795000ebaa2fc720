"""INCREMENTAL_BY_CHANGES: the layout of its tables."""

from __future__ import annotations

from collections.abc import Mapping

from vde_dagster.api.plans import Snapshot
from vde_dagster.api.writers import Layout, WholeTable


class ByChangesWriter(WholeTable):
    """Replaces the rows of the keys that changed, or all rows if these keys are unknown."""

    def layout(self, snapshot: Snapshot, types: Mapping[str, str]) -> Layout:
        """Use merge on read, because copy on write would rewrite every file with a changed key."""
        return Layout(properties={"write.delete.mode": "merge-on-read"})
