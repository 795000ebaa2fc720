"""Iceberg tables as strategies use them, and their columns and digests for Spark."""
