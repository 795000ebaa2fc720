"""Where a table lies that others write."""

from __future__ import annotations

from dataclasses import dataclass

from vde_dagster.base.names import quote
from vde_dagster.project.model import Model


@dataclass(frozen=True, slots=True)
class ExternalTable:
    """A table that others write.

    Args:
        namespace: Its namespace in the catalog.
        name: Its name in that.
        catalog: Its catalog in Spark, or None for the project's own.
    """

    namespace: str
    name: str
    catalog: str | None = None

    def quoted(self, own_catalog: str) -> str:
        """Quote its full name for Spark SQL.

        Args:
            own_catalog: The project's catalog in Spark.
        """
        parts = (self.catalog or own_catalog, self.namespace, self.name)
        return ".".join(quote(part) for part in parts)


def external_table(model: Model) -> ExternalTable:
    """Return the table that an external model stands for."""
    if model.table:
        catalog, namespace, name = model.table
        return ExternalTable(namespace, name, catalog)
    return ExternalTable(model.name.namespace, model.name.name)
