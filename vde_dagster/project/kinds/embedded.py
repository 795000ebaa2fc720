"""EMBEDDED: a query that only its readers see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vde_dagster.project.kinds.base import Kind


@dataclass(frozen=True, slots=True)
class Embedded(Kind):
    """A query that is only ever inlined into its readers: neither a table nor a view."""

    name: Literal["EMBEDDED"] = "EMBEDDED"

    summary = "neither table nor view: readers inline it"
    allows_python = False
    owns_table = False
    is_shown = False
    is_audited = False
