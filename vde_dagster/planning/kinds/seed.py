"""SEED: rows of a file."""

from __future__ import annotations

from vde_dagster.base.hashing import digest
from vde_dagster.planning.kinds.base import meaning_for
from vde_dagster.planning.kinds.simple import WholeMeaning
from vde_dagster.project.kinds import Seed
from vde_dagster.project.model import Model
from vde_dagster.semantics.versions.version import SemanticVersion


@meaning_for(Seed)
class SeedMeaning(WholeMeaning):
    # The rows never change. Their versions are hashes of the file.
    filled_once = True

    def standalone_version(self, model: Model) -> SemanticVersion:
        kind = Seed.from_model(model)
        values = dict(kind.column_hashes)
        typed = {c.name: digest("seed", values.get(c.name), c.type) for c in model.columns}
        return SemanticVersion(rows=kind.rows_hash, columns=typed, opaque=None)

    def metadata(self, model: Model) -> list[str | None]:
        # The hashes do not include them.
        kind = Seed.from_model(model)
        return ["seed", kind.path, kind.delimiter, *kind.null_values, *kind.later_settings]
