"""The supported Iceberg catalogs, one a module, each implementing `catalog.Catalog`."""
