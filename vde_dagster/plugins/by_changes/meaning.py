from __future__ import annotations

from vde_dagster.api.kinds import SemanticVersion, WholeMeaning
from vde_dagster.api.models import Model
from vde_dagster.plugins.by_changes.kind import IncrementalByChanges


class ByChangesMeaning(WholeMeaning):
    """Versions of INCREMENTAL_BY_CHANGES models, whose tables equal the queries' results."""

    def rows(self, model: Model, version: SemanticVersion) -> str:
        for name in self.changed_by(model):
            self.column_version(model, version, name)
        return super().rows(model, version)

    def changed_by(self, model: Model) -> tuple[str, ...]:
        return IncrementalByChanges.from_model(model).key

    def metadata(self, model: Model) -> list[str | None]:
        # The key determines how work is divided, but not the rows.
        return ["changed by", *self.changed_by(model)]
