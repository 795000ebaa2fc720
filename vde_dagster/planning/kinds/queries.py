"""VIEW, EMBEDDED, EXTERNAL and standalone audits: models without a table of their own."""

from __future__ import annotations

from vde_dagster import semantics
from vde_dagster.base.hashing import digest
from vde_dagster.planning.kinds.base import Meaning
from vde_dagster.project.model import Model


class QueryMeaning(Meaning):
    """A query that its readers inline."""

    def fill(self, model: Model, rows: str) -> str:
        """Hash the rows alone: nothing is filled."""
        return digest("query", rows)


class ExternalMeaning(QueryMeaning):
    """A table that others write: its name and its columns' types are all that is known of it."""

    def own_version(self, model: Model) -> semantics.SemanticVersion:
        """Return the version of a leaf of the graph."""
        return semantics.leaf_version(
            ".".join(model.table) or str(model.name),
            {c.name: c.type or "UNKNOWN" for c in model.columns},
        )


class AuditMeaning(QueryMeaning):
    """A standalone audit: nobody reads it, so that all of it is metadata."""

    def own_version(self, model: Model) -> semantics.SemanticVersion:
        """Return the version of what has no rows."""
        return semantics.SemanticVersion(rows=digest("audit"), columns={}, opaque=None)

    def metadata(self, model: Model) -> list[str | None]:
        """Return what it waits for, which its query need not say, and what makes it new."""
        return ["standalone", *map(str, model.depends_on), *model.marks]
