"""APPENDED: what it means for plans."""

from __future__ import annotations

from vde_dagster.base.hashing import digest
from vde_dagster.planning.kinds import register
from vde_dagster.planning.kinds.base import Meaning
from vde_dagster.project.model import Model
from vde_dagster.semantics.versions.version import SemanticVersion
from vde_dagster_tests.kinds.appended import Appended


class AppendedMeaning(Meaning):
    """The query's rows, where it treats each row of the parent by itself."""

    def rows(self, model: Model, version: SemanticVersion) -> str:
        """Add the parent."""
        assert isinstance(model.kind, Appended)
        return digest("appended", version.rows, model.kind.parent)

    def unique_keys(self, model: Model, version: SemanticVersion) -> tuple[frozenset[str], ...]:
        """Return none: what is unique in each commit may come twice."""
        return ()


register(AppendedMeaning(), Appended)
