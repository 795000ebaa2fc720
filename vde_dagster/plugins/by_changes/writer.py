from __future__ import annotations

from vde_dagster.api.writers import WholeTable


class ByChangesWriter(WholeTable):
    """Replaces the rows of changed keys, or all rows if the changed keys are unknown."""
