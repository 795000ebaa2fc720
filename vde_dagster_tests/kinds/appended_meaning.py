"""APPENDED: what it means for plans."""

from __future__ import annotations

from collections.abc import Mapping

from vde_dagster.base.hashing import digest
from vde_dagster.base.names import ModelName
from vde_dagster.planning.kinds import register
from vde_dagster.planning.kinds.base import Meaning
from vde_dagster.planning.tables.pinned_reads import Input
from vde_dagster.project.model import Model
from vde_dagster.semantics.versions.version import SemanticVersion
from vde_dagster_tests.kinds.appended import Appended


class AppendedMeaning(Meaning):
    """The query's rows, where it treats each row of a parent by itself."""

    def rows(self, model: Model, version: SemanticVersion) -> str:
        """Add the parents."""
        assert isinstance(model.kind, Appended)
        return digest("appended", version.rows, *sorted(model.kind.parents))

    def inputs(self, model: Model) -> Mapping[ModelName, Input]:
        """Say that the parents are read by commits."""
        assert isinstance(model.kind, Appended)
        parents = map(ModelName.parse, model.kind.parents)
        return {**super().inputs(model), **dict.fromkeys(parents, Input.BY_COMMITS)}

    def unique_keys(self, model: Model, version: SemanticVersion) -> tuple[frozenset[str], ...]:
        """Return none: what is unique in each commit may come twice."""
        return ()


register(AppendedMeaning(), Appended)
