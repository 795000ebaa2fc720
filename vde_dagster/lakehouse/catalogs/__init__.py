"""The Iceberg catalogs that there are, one a module, each as `catalog.Catalog` says."""
