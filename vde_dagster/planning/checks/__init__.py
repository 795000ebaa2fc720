"""Checks for mistakes in the combination of a model's query, kind and properties.

Each module holds a group of checks; each function takes an analyzed model and its parents and
yields problems. No check needs Spark or the state.
"""

from __future__ import annotations

CHECKS_VERSION = "15"
"""Increased when the checks find more or fewer mistakes, to invalidate cached results."""
