"""FULL: a table that is rebuilt whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vde_dagster.project.kinds.base import Kind


@dataclass(frozen=True, slots=True)
class Full(Kind):
    """Rebuilt whole, once per cron tick."""

    name: Literal["FULL"] = "FULL"

    summary = "whole, in one commit"
