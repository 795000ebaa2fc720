"""CUSTOM: what the project's own function makes of the rows, nobody can know."""

from __future__ import annotations

from vde_dagster import semantics
from vde_dagster.base.hashing import digest
from vde_dagster.planning.kinds.incremental import IncrementalMeaning
from vde_dagster.project.kinds import Custom
from vde_dagster.project.model import Model
from vde_dagster.semantics import SemanticVersion


class CustomMeaning(IncrementalMeaning):
    """Rows that the function may have made from all columns of all rows."""

    def rows(self, model: Model, version: SemanticVersion) -> str:
        """Add the function's code, what it is told, and every column in order."""
        kind = model.kind
        assert isinstance(kind, Custom)
        path, _, function = kind.entrypoint.rpartition(":")
        code = semantics.python_version(
            path, function, "/project", files=dict(kind.code), outside=dict(kind.outside)
        ).text
        told = repr(kind.materialization_properties)
        columns = (part for pair in version.columns.items() for part in pair)
        return digest("custom", version.rows, code, told, *columns)

    def unique_keys(self, model: Model, version: SemanticVersion) -> tuple[frozenset[str], ...]:
        """Return no key: the function may write a row twice."""
        return ()
