"""One write strategy per family of model kinds; a new family gets a new module in this list."""

from vde_dagster.spark.strategies import custom, incremental, scd_type_2, seed, simple, unique_key
from vde_dagster.spark.strategies.base import Layout, Strategy, Write, find_strategy
