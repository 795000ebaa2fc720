"""FIRST_SEEN: what it means for plans."""

from __future__ import annotations

from vde_dagster.base.hashing import digest
from vde_dagster.planning.kinds.base import kind_of, version_of
from vde_dagster.planning.kinds.incremental import IncrementalMeaning
from vde_dagster.plugins.vault.kinds import FirstSeen
from vde_dagster.project.model import Model
from vde_dagster.semantics.versions.version import SemanticVersion


class FirstSeenMeaning(IncrementalMeaning):
    """One row per key: the earliest that any fill brought."""

    def rows(self, model: Model, version: SemanticVersion) -> str:
        """Add the key, and what decides which of its rows is kept: in the end all columns."""
        kind = kind_of(model, FirstSeen)
        key = sorted(version_of(model, version, name) for name in kind.key)
        order = [version_of(model, version, name) for name in kind.named_columns[len(kind.key) :]]
        every = version.columns.values()
        return digest("first seen", version.rows, *key, "|", *order, "|", *every)

    def is_cut_freely(self, model: Model) -> bool:
        """Say yes: the earliest of all rows is the earliest of the parts' earliest."""
        return not model.reads_itself or super().is_cut_freely(model)

    def unique_keys(self, model: Model, version: SemanticVersion) -> tuple[frozenset[str], ...]:
        """Return the key."""
        return (frozenset(name.lower() for name in kind_of(model, FirstSeen).key),)
