"""The forge that a job runs for."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from vde_dagster.plugins.ci.forges.forge import Forge
from vde_dagster.plugins.ci.forges.github import GitHub
from vde_dagster.plugins.ci.forges.gitlab import GitLab
from vde_dagster.plugins.ci.forges.plain_git import PlainGit
from vde_dagster.plugins.ci.seen import seen_of
from vde_dagster.plugins.ci.settings import ci_settings

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace


def forge_of(workspace: Workspace) -> Forge:
    """Return the forge that the settings name, or else the one whose job this is.

    Raises:
        UsageError: The job's variables lack something.
    """
    settings = ci_settings(workspace)
    name = settings.forge or forge_of_job()
    if name == "github":
        return GitHub.of_variables(settings.login)
    if name == "gitlab":
        return GitLab.of_variables(settings.login)
    return PlainGit(workspace.root, settings.remote, partial(seen_of, workspace))


def forge_of_job() -> str:
    """Name the forge whose variables this process has; `git` where it has none's."""
    if os.environ.get("GITHUB_REPOSITORY"):
        return "github"
    return "gitlab" if os.environ.get("GITLAB_CI") else "git"
