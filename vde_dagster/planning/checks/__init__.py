"""Checks: mistakes that show when a model's query, kind and properties are seen together.

Each module is a group of them, and each function goes from a model and what is known of it to
problems. Nothing is asked of Spark or of the state.
"""

from __future__ import annotations

CHECKS_VERSION = "11"
"""Raised whenever checks find more, or less: remembered models are looked at again."""
