"""EXTERNAL: a table that others write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vde_dagster.project.kinds.base import Kind


@dataclass(frozen=True, slots=True)
class External(Kind):
    """A table that others write; models only read it."""

    name: Literal["EXTERNAL"] = "EXTERNAL"

    summary = "by others"
    has_query = False
    allows_python = False
    owns_table = False
    is_shown = False
    is_external = True
