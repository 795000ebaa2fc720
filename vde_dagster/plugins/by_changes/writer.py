"""INCREMENTAL_BY_CHANGES: the writer of its tables."""

from __future__ import annotations

from vde_dagster.api.writers import WholeTable


class ByChangesWriter(WholeTable):
    """Replaces the rows of the keys that changed, or all rows if they are unknown."""
