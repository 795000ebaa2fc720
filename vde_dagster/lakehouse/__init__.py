"""Iceberg without Spark: catalog, view and table metadata, the publish transaction, clean-up."""

from __future__ import annotations

from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.publication import FastForward, Publication
from vde_dagster.lakehouse.table_metadata import CommittedFill

__all__ = ["CommittedFill", "FastForward", "Lakehouse", "Publication"]
