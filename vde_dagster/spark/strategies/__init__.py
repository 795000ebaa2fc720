"""One write strategy per family of model kinds; a new kind is a new module in this list."""

from vde_dagster.spark.strategies import (
    custom,
    partitions,
    scd_type_2,
    seed,
    time_range,
    unique_key,
    whole_table,
)
from vde_dagster.spark.strategies.base import Layout, Strategy, Write, find_strategy

__all__ = [
    "Layout",
    "Strategy",
    "Write",
    "custom",
    "find_strategy",
    "partitions",
    "scd_type_2",
    "seed",
    "time_range",
    "unique_key",
    "whole_table",
]
