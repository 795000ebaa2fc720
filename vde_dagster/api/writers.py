"""Writers, which lay out the tables of a kind and commit each fill atomically. Imports Spark."""

from vde_dagster.spark.strategies.base import Layout, Strategy, Write
from vde_dagster.spark.strategies.simple import WholeTable

__all__ = ["Layout", "Strategy", "WholeTable", "Write"]
