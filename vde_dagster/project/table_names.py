"""Resolution of table names in a project's files, including tables of other catalogs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vde_dagster.base.names import ModelName, quote
from vde_dagster.errors import UsageError


@dataclass(frozen=True, slots=True)
class TableNames:
    """Resolves names of tables in a project's files to names of models.

    A model's name has two parts. For another catalog, the namespace joins catalog and schema:
    `crm__sales.orders` is `crm.sales.orders`. Such a name may be a model or an external table.

    Args:
        catalog: The project's catalog, which names of models leave out.
        default_namespace: Namespace of names that consist of one part.
        catalogs: Spark's names of catalogs, by the lower-case names used in files. An empty text,
            or the value of `catalog`, means the project's own catalog.
        any_catalog: Whether files may name unlisted catalogs, under the name that Spark uses.
        used: Collects the unlisted catalogs that files name.
    """

    catalog: str
    default_namespace: str
    catalogs: Mapping[str, str] = field(default_factory=dict)
    any_catalog: bool = False
    used: set[str] = field(default_factory=set, compare=False, repr=False)

    def read(self, text: str) -> ModelName:
        """Parse a name as written in a file: `name`, `schema.name` or `catalog.schema.name`."""
        parts = ModelName.split(text)
        if len(parts) == 3:
            return self.model_name(parts)
        return ModelName.parse(text, self.default_namespace)

    def model_name(self, parts: Sequence[str]) -> ModelName:
        """Return the model's name for the parts of a table's name.

        Raises:
            UsageError: The name is invalid, or in an unknown catalog.
        """
        if len(parts) > 3:
            raise UsageError(
                f"'{'.'.join(parts)}' has more than three parts", hint="write schema.table"
            )
        quoted = quote(*parts[-2:])
        name = ModelName.parse(quoted, self.default_namespace)
        if len(parts) < 3 or parts[0].lower() == self.catalog.lower():
            return name
        catalog = self.catalogs.get(parts[0].lower())
        if catalog is None and self.any_catalog:
            catalog = parts[0]
            self.used.add(catalog)
        if catalog is None:
            raise UsageError(
                f"'{'.'.join(parts)}' is in another catalog than the project's",
                hint=f"write schema.table for the project's catalog '{self.catalog}', or add the "
                "other catalog under [tool.vde.catalogs]",
            )
        if not catalog or catalog.lower() == self.catalog.lower():
            return name
        return ModelName(_namespace_prefix(catalog) + name.namespace, name.name)

    def model_name_or_none(self, parts: Sequence[str]) -> ModelName | None:
        """Return the model's name for the parts of a table's name, or None if they are invalid."""
        try:
            return self.model_name(parts)
        except UsageError:
            return None

    def in_own_catalog(self, parts: Sequence[str]) -> str | None:
        """Return a name for Spark, or None if `catalogs` does not map its catalog to `catalog`."""
        if len(parts) != 3:
            return None
        meant = self.catalogs.get(parts[0].lower())
        if meant is None or meant.lower() not in ("", self.catalog.lower()):
            return None
        return quote(self.catalog, *parts[1:])

    def foreign_table(self, name: ModelName) -> tuple[str, str, str] | None:
        """Return (catalog, schema, name) of a table in another catalog, None for other tables."""
        for catalog in self.catalogs.values():
            prefix = _namespace_prefix(catalog)
            own = not catalog or catalog.lower() == self.catalog.lower()
            if not own and name.namespace.startswith(prefix):
                return catalog, name.namespace.removeprefix(prefix), name.name
        return None


def _namespace_prefix(catalog: str) -> str:
    return re.sub(r"\W", "_", catalog.lower()) + "__"
