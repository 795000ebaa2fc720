"""Work on Iceberg tables without Spark: catalogs, metadata, publishing and clean-up."""
