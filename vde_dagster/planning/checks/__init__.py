"""Checks for mistakes in the combination of a model's query, kind and properties.

Each check takes an analyzed model and its parents, needs neither Spark nor the state, and yields
problems.
"""

from __future__ import annotations

CHECKS_VERSION = "15"
"""Increased when the checks find more or fewer mistakes, to invalidate cached results."""
