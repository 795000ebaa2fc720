"""The meaning of NEWEST_ROWS for plans."""

from __future__ import annotations

from vde_dagster.api.kinds import IncrementalMeaning, SemanticVersion
from vde_dagster.api.models import Model
from vde_dagster.api.values import digest
from vde_dagster_tests.kinds.newest_rows import NewestRows


class NewestMeaning(IncrementalMeaning):
    """Rows that the key, the order and, for equal times, all columns choose."""

    def rows(self, model: Model, version: SemanticVersion) -> str:
        """Add the key, the order and the number of rows."""
        kind = NewestRows.from_model(model)
        named = [self.column_version(model, version, name) for name in kind.named_columns]
        every = version.columns.values()
        return digest("newest", version.rows, str(kind.keep), *named, "|", *every)

    def unique_keys(self, model: Model, version: SemanticVersion) -> tuple[frozenset[str], ...]:
        """Return the key with the row's number."""
        kind = NewestRows.from_model(model)
        return (frozenset({*(name.lower() for name in kind.row_key), "newest"}),)
