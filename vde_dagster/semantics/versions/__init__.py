"""Versions of a query's rows and columns, which are hashes of its algebra, and column lineage."""
