"""The sources that there are. How to write another one is in docs/extending.md."""

from __future__ import annotations

from vde_dagster.project.sources.own_files import own_files
from vde_dagster.project.sources.source import SourceFactory

SOURCES: tuple[SourceFactory, ...] = (own_files,)
"""A file that several sources take belongs to the first of them."""
