"""NEWEST_ROWS: what it means for plans."""

from __future__ import annotations

from vde_dagster.base.hashing import digest
from vde_dagster.planning.kinds import register
from vde_dagster.planning.kinds.base import version_of
from vde_dagster.planning.kinds.incremental import IncrementalMeaning
from vde_dagster.project.model import Model
from vde_dagster.semantics.versions.version import SemanticVersion
from vde_dagster_tests.kinds.newest_rows import NewestRows


class Newest(IncrementalMeaning):
    """Which rows are kept is decided by the key, the order and, among equals, by all columns."""

    def rows(self, model: Model, version: SemanticVersion) -> str:
        """Add the key, the order and how many are kept."""
        kind = model.kind
        assert isinstance(kind, NewestRows)
        named = [version_of(model, version, name) for name in kind.named_columns]
        every = version.columns.values()
        return digest("newest", version.rows, str(kind.keep), *named, "|", *every)

    def unique_keys(self, model: Model, version: SemanticVersion) -> tuple[frozenset[str], ...]:
        """Return the key with the row's number."""
        kind = model.kind
        assert isinstance(kind, NewestRows)
        return (frozenset({*(name.lower() for name in kind.row_key), "newest"}),)


register(Newest(), NewestRows)
