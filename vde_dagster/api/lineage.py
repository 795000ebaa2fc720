"""Lineage of queries: the columns that each output column and condition is made from."""

from vde_dagster.semantics.analysis import analyze

__all__ = ["analyze"]
