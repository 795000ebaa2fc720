"""Iceberg without Spark: catalog, view and table metadata, the publish transaction, clean-up."""

from __future__ import annotations

from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.metadata.commit_summaries import CommittedFill
from vde_dagster.lakehouse.publishing.publication import FastForward, Publication

__all__ = ["CommittedFill", "FastForward", "Lakehouse", "Publication"]
