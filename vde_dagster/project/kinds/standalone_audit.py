"""AUDIT: a standalone audit, which belongs to no model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vde_dagster.project.kinds.base import Kind


@dataclass(frozen=True, slots=True)
class StandaloneAudit(Kind):
    """A check in the graph: it reads models, nobody reads it, and it has neither table nor view."""

    name: Literal["AUDIT"] = "AUDIT"

    summary = "a check of its own, neither table nor view"
    has_query = False
    allows_python = False
    owns_table = False
    is_shown = False
    is_read = False
