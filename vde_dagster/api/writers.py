"""Writers of kinds: the layout of tables, and one atomic commit per fill. Imports Spark."""

from vde_dagster.spark.strategies.base import Layout, Strategy, Write
from vde_dagster.spark.strategies.simple import WholeTable

__all__ = ["Layout", "Strategy", "WholeTable", "Write"]
