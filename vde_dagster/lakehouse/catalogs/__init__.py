"""The supported Iceberg catalogs, one per module, each implementing `catalog.Catalog`."""
