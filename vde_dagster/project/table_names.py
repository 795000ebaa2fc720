"""Resolution of table names in a project's files, with tables of other catalogs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vde_dagster.base.names import ModelName, quote, split_identifier
from vde_dagster.errors import UsageError


@dataclass(frozen=True, slots=True)
class TableNames:
    """From the names that files write to those of models, and back to tables of other catalogs.

    A model's name has two parts. In another catalog its namespace is made of the catalog and the
    schema: `crm__sales.orders` stands for `crm.sales.orders`, be it a model, which is published in
    the project's own catalog all the same, or a table that others write.

    Args:
        catalog: The project's own catalog, left out of names.
        default_namespace: Namespace of names without one.
        catalogs: Spark's names of catalogs, by the names (in lower case) that files call them
            by; the project's own may be among them, also as an empty text.
        any_catalog: Whether other catalogs may be named, too; Spark calls them by the same name.
        used: Collects these other catalogs.
    """

    catalog: str
    default_namespace: str
    catalogs: Mapping[str, str] = field(default_factory=dict)
    any_catalog: bool = False
    used: set[str] = field(default_factory=set, compare=False, repr=False)

    def read(self, text: str) -> ModelName:
        """Read a name as it is written: `name`, `schema.name` or `catalog.schema.name`."""
        parts = split_identifier(text)
        if len(parts) == 3:
            return self.model_name(parts)
        return ModelName.parse(text, self.default_namespace)

    def model_name(self, parts: Sequence[str]) -> ModelName:
        """Return the name of the model that a table's name stands for.

        Raises:
            UsageError: It is no name, or in a catalog that the project does not know.
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
                hint=f"the project's catalog is '{self.catalog}'; write schema.table, or name the "
                "other one under [tool.vde.catalogs]",
            )
        if not catalog or catalog.lower() == self.catalog.lower():
            return name
        return ModelName(_prefix(catalog) + name.namespace, name.name)

    def model_name_or_none(self, parts: Sequence[str]) -> ModelName | None:
        """Return the name of the model that a table's name may stand for, or None."""
        try:
            return self.model_name(parts)
        except UsageError:
            return None

    def in_own_catalog(self, parts: Sequence[str]) -> str | None:
        """Return a name of three parts in the own catalog as Spark knows it; None for others.

        Spark does not know the other names that a project's files call its catalog by.
        """
        if len(parts) != 3:
            return None
        meant = self.catalogs.get(parts[0].lower())
        if meant is None or meant.lower() not in ("", self.catalog.lower()):
            return None
        return quote(self.catalog, *parts[1:])

    def foreign_table(self, name: ModelName) -> tuple[str, str, str] | None:
        """Return catalog, schema and name of a table of another catalog; None for all others."""
        for catalog in self.catalogs.values():
            prefix = _prefix(catalog)
            own = not catalog or catalog.lower() == self.catalog.lower()
            if not own and name.namespace.startswith(prefix):
                return catalog, name.namespace.removeprefix(prefix), name.name
        return None


def _prefix(catalog: str) -> str:
    return re.sub(r"\W", "_", catalog.lower()) + "__"
