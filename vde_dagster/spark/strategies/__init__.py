"""Write strategies, one module per family of model kinds; all are imported here."""

from vde_dagster.spark.strategies import custom, incremental, scd_type_2, seed, simple, unique_key
from vde_dagster.spark.strategies.base import Layout, Strategy, Write, find_strategy
