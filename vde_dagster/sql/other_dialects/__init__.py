"""Queries of other dialects in Spark SQL."""
