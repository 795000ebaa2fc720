"""Kinds without increments: FULL, VIEW, EMBEDDED, EXTERNAL and standalone audits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vde_dagster.project.kinds.base import Kind, Property

REFRESHES = ("whole", "changes", "auto")


@dataclass(frozen=True, slots=True)
class Full(Kind):
    """A table with the rows that its query returns over all rows of its inputs.

    With `refresh changes`, a fill computes only the rows that are affected by changes of the
    inputs. With `refresh auto`, a fill does so only if it is likely to be faster.
    """

    refresh: str = Kind.later("auto", absent="whole")
    name: Literal["FULL"] = "FULL"

    summary = (
        "whole, in one commit, or only the rows that are affected by changes of its inputs, if "
        "that is likely to be faster"
    )
    properties = (Property.word("refresh", REFRESHES, "way to refresh", "ways"),)


@dataclass(frozen=True, slots=True)
class View(Kind):
    """A query that each environment shows as a view, without a table."""

    name: Literal["VIEW"] = "VIEW"

    summary = (
        "no table: readers inline the query, and each environment has a view; time variables are "
        "refused, because there is no interval"
    )
    allows_python = False
    owns_table = False
    ignored = frozenset({"materialized"})


@dataclass(frozen=True, slots=True)
class Embedded(Kind):
    """A query that is inserted into the queries that read it. It has neither table nor view."""

    name: Literal["EMBEDDED"] = "EMBEDDED"

    summary = (
        "neither table nor view: readers inline the query; time variables are those of the reader"
    )
    allows_python = False
    owns_table = False
    is_shown = False
    is_audited = False


@dataclass(frozen=True, slots=True)
class External(Kind):
    """A table that other programs write; if `partial`, it may have undeclared columns."""

    partial: bool = Kind.later(False)
    name: Literal["EXTERNAL"] = "EXTERNAL"

    summary = "by others"
    has_query = False
    allows_python = False
    owns_table = False
    is_shown = False
    is_external = True


@dataclass(frozen=True, slots=True)
class StandaloneAudit(Kind):
    """An audit that belongs to no model and has neither table nor view."""

    name: Literal["AUDIT"] = "AUDIT"

    summary = "a standalone check, neither table nor view"
    has_query = False
    allows_python = False
    owns_table = False
    is_shown = False
    is_read = False
