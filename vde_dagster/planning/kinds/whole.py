"""FULL and SEED: tables that are written whole."""

from __future__ import annotations

from vde_dagster.base.hashing import digest
from vde_dagster.planning.kinds.base import Meaning
from vde_dagster.planning.proven_keys import proven_keys
from vde_dagster.project.kinds import Seed
from vde_dagster.project.model import Model
from vde_dagster.semantics import SemanticVersion


class WholeMeaning(Meaning):
    """A table whose blocking audits look at all of its rows, and so prove keys."""

    replaces_all = True

    def unique_keys(self, model: Model, version: SemanticVersion) -> tuple[frozenset[str], ...]:
        """Return the query's keys, and those that a blocking audit checks."""
        keys = list(version.unique_keys)
        for audit in model.audits:
            if audit.blocking:
                keys += proven_keys(audit.query)
        return tuple(dict.fromkeys(keys))


class SeedMeaning(WholeMeaning):
    """Rows of a file: its hashes are the version, and once loaded they stay."""

    filled_once = True

    def own_version(self, model: Model) -> SemanticVersion:
        """Return the version that the file's rows and values make."""
        assert isinstance(model.kind, Seed)
        values = dict(model.kind.column_hashes)
        typed = {c.name: digest("seed", values.get(c.name), c.type) for c in model.columns}
        return SemanticVersion(rows=model.kind.rows_hash, columns=typed, opaque=None)

    def metadata(self, model: Model) -> list[str | None]:
        """Return where the file lies and how it is read, which its hashes do not say."""
        assert isinstance(model.kind, Seed)
        kind = model.kind
        return ["seed", kind.path, kind.delimiter, *kind.null_values, *kind.later_settings]
