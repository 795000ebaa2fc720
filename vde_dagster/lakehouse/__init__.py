"""Iceberg without Spark: catalog, view and table metadata, the publish transaction, clean-up."""
