"""The Iceberg catalogs that there are, one a module, each as `lakehouse.catalog.Catalog` says."""
