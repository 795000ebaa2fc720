"""Catalogs: where a table's current metadata file is looked up and swapped."""

from vde_dagster.lakehouse.catalogs.catalog import Catalog, Following, Pointer, SparkCatalog, Swap
from vde_dagster.lakehouse.io.files import MetadataFiles
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state.db.effects import Effects

__all__ = [
    "Catalog",
    "Effects",
    "Following",
    "MetadataFiles",
    "Pointer",
    "SparkCatalog",
    "Swap",
    "TableRef",
]
