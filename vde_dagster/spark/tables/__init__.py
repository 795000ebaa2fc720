"""Iceberg tables for strategies, and their columns and digests for Spark."""
