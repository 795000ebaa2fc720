"""Kinds without properties: FULL, VIEW, EMBEDDED, EXTERNAL, and standalone audits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vde_dagster.project.kinds.base import Kind


@dataclass(frozen=True, slots=True)
class Full(Kind):
    """Rebuilt whole, once per cron tick."""

    name: Literal["FULL"] = "FULL"

    summary = "whole, in one commit"


@dataclass(frozen=True, slots=True)
class View(Kind):
    """A query without a table of its own: every environment's view holds it."""

    name: Literal["VIEW"] = "VIEW"

    summary = (
        "no table: readers inline the query, the environment's view holds it; it has no interval, "
        "so time variables are refused"
    )
    allows_python = False
    owns_table = False
    ignored = frozenset({"materialized"})


@dataclass(frozen=True, slots=True)
class Embedded(Kind):
    """A query that is only ever inlined into its readers: neither a table nor a view."""

    name: Literal["EMBEDDED"] = "EMBEDDED"

    summary = (
        "neither table nor view: readers inline it; its time variables are those of its reader"
    )
    allows_python = False
    owns_table = False
    is_shown = False
    is_audited = False


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
