"""Names that Dagster shows and that other modules agree on."""

from __future__ import annotations

import dagster as dg

PLAN_KEY = dg.AssetKey(["vde", "plan"])
APPLY_KEY = dg.AssetKey(["vde", "apply"])
ENVIRONMENT_KEY = dg.AssetKey(["vde", "environment"])

PLANS = dg.DynamicPartitionsDefinition(name="vde_plans")
ENVIRONMENTS = dg.DynamicPartitionsDefinition(name="vde_environments")

SNAPSHOT = "snapshot"
"""The dimension of versions; it sorts before `time`, which decides the page's first column."""
TIME = "time"

GROUP = "vde"
POOL = "vde_spark"
LOCATION = "vde"
BREAKING_CHECK = "no_breaking_changes"

PLAN_TAG = "vde/plan"
ENVIRONMENT_TAG = "vde/environment"
VERSION_TAG = "vde/version"
