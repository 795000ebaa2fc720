"""CUSTOM: rows that a function of the project writes."""

from __future__ import annotations

from vde_dagster.base.hashing import digest
from vde_dagster.planning.kinds.base import meaning_for
from vde_dagster.planning.kinds.incremental import IncrementalMeaning
from vde_dagster.project.kinds import Custom
from vde_dagster.project.model import Model
from vde_dagster.semantics.versions.version import SemanticVersion


@meaning_for(Custom)
class CustomMeaning(IncrementalMeaning):
    def rows(self, model: Model, version: SemanticVersion) -> str:
        kind = Custom.from_model(model)
        path, _, function = kind.entrypoint.rpartition(":")
        from vde_dagster.project.python.versions import python_version

        code = python_version(path, function, dict(kind.code), dict(kind.outside))
        properties = repr(kind.materialization_properties)
        columns = (part for pair in version.columns.items() for part in pair)
        return digest("custom", version.rows, code, properties, *columns)

    def unique_keys(self, model: Model, version: SemanticVersion) -> tuple[frozenset[str], ...]:
        """Return no keys, because the function may write a key twice."""
        return ()
