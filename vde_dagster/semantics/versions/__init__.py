"""Versions of a query's rows and columns, made by hashing its algebra, and column lineage."""
