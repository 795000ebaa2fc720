from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from vde_dagster.plugins.ci.forges.forge import Forge
from vde_dagster.plugins.ci.forges.github import GitHub
from vde_dagster.plugins.ci.forges.gitlab import GitLab
from vde_dagster.plugins.ci.forges.plain_git import PlainGit
from vde_dagster.plugins.ci.seen import find_checked_pull_request
from vde_dagster.plugins.ci.settings import ci_settings

if TYPE_CHECKING:
    from vde_dagster.api.workspace import Workspace


def choose_forge(workspace: Workspace) -> Forge:
    """Return the forge in the settings, or else the forge that runs this job, or else plain Git.

    Raises:
        UsageError: A variable of the job is missing.
    """
    settings = ci_settings(workspace)
    name = settings.forge or detect_forge()
    if name == "github":
        return GitHub.from_variables(settings.login)
    if name == "gitlab":
        return GitLab.from_variables(settings.login)
    return PlainGit(workspace.root, settings.remote, partial(find_checked_pull_request, workspace))


def detect_forge() -> str:
    """Return `github` or `gitlab` inside a job of the forge, otherwise `git`."""
    if os.environ.get("GITHUB_REPOSITORY"):
        return "github"
    return "gitlab" if os.environ.get("GITLAB_CI") else "git"
