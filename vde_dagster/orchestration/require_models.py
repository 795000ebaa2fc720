"""Telling a project from any other folder."""

from __future__ import annotations

from pathlib import Path

from vde_dagster.errors import UsageError
from vde_dagster.project.loading.loader import Project, load_project, no_models


def require_models(root: Path) -> Project:
    """Load a project that has models, be they wrong.

    Args:
        root: Its folder.

    Raises:
        UsageError: The folder does not exist, or has no models.
        ProjectError: The project's settings are wrong.
    """
    if not root.is_dir():
        hint = "give a project's folder with --project, or make a project with `vde init`"
        raise UsageError(f"there is no folder {root}", hint=hint)
    project = load_project(root, strict=False)
    if not project.models and not project.problems:
        raise no_models(project.settings)
    return project
