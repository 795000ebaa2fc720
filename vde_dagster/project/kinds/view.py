"""VIEW: a query without a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vde_dagster.project.kinds.base import Kind


@dataclass(frozen=True, slots=True)
class View(Kind):
    """A query without a table of its own: every environment's view holds it."""

    name: Literal["VIEW"] = "VIEW"

    summary = "no table: readers inline the query, the environment's view holds it"
    allows_python = False
    owns_table = False
    ignored = frozenset({"materialized"})
