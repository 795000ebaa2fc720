"""The sources that there are. How to write another one is in docs/extending.md."""

from __future__ import annotations

from vde_dagster.base.plugins import Seam
from vde_dagster.project.settings import Settings
from vde_dagster.project.sources.own_files import own_files
from vde_dagster.project.sources.source import SourceFactory

SOURCES: tuple[SourceFactory, ...] = (own_files,)
"""Those that every project has. A file that several take belongs to the first of them."""
_PLUGINS: Seam[SourceFactory] = Seam("sources")


def sources_of(settings: Settings) -> tuple[SourceFactory, ...]:
    """Return the sources of a project: every project's, and those that its settings name.

    Raises:
        UsageError: One of them is not installed, or broken.
    """
    return (*SOURCES, *(_PLUGINS.require(name) for name in settings.sources))
