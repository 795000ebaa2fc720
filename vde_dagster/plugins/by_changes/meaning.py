"""The meaning of INCREMENTAL_BY_CHANGES for plans."""

from __future__ import annotations

from vde_dagster.api.kinds import SemanticVersion, WholeMeaning
from vde_dagster.api.models import Model
from vde_dagster.plugins.by_changes.kind import IncrementalByChanges


class ByChangesMeaning(WholeMeaning):
    """Rules of INCREMENTAL_BY_CHANGES, whose tables have exactly the rows of their queries."""

    def rows(self, model: Model, version: SemanticVersion) -> str:
        """Return the query's version, after checking that its columns include the key."""
        for name in self.changed_by(model):
            self.column_version(model, version, name)
        return super().rows(model, version)

    def changed_by(self, model: Model) -> tuple[str, ...]:
        """Return the key of the kind."""
        return IncrementalByChanges.from_model(model).key

    def metadata(self, model: Model) -> list[str | None]:
        """Return the key."""
        # The key determines how work is divided, but not the rows.
        return ["changed by", *self.changed_by(model)]
