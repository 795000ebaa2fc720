"""Rules of the base branch, which a pull request must meet in addition to the rules in its files.

Rules, budgets, signatures and settings are files, so a pull request can change them together with
the models that they protect. A check and a deployment therefore also use the base branch's files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vde_dagster.api.errors import UsageError, VdeError
from vde_dagster.api.plans import Objection
from vde_dagster.plugins.ci.forges.plain_git import PlainGit, place_in_repository
from vde_dagster.plugins.ci.seen import is_applied, load_deployments
from vde_dagster.plugins.ci.settings import ci_settings

if TYPE_CHECKING:
    from vde_dagster.api.plans import Plan
    from vde_dagster.api.workspace import Workspace


@dataclass(frozen=True, slots=True)
class BaseBranch:
    """Checks the plans of a pull request by the rules of its base commit.

    Args:
        workspace: The project at the base commit, with the current state; None without a commit,
            or without the project's folder in that commit.
        commit: The base commit; empty if the repository has no earlier commit.
    """

    workspace: Workspace | None
    commit: str = ""

    def objections(
        self, workspace: Workspace, plan: Plan, known: Sequence[Objection]
    ) -> list[Objection]:
        """Return `known`, and after it the objections that only the base commit's rules have.

        Args:
            workspace: The checked-out project.
        """
        if plan.is_empty:
            return [*known]
        has_models = self.workspace is not None and self.workspace.has_models
        # A new project has no earlier rules, but one that moved to another folder has.
        moved = self.commit and plan.base_version and not has_models
        unknown = [_unknown_rules(self.commit)] if moved else []
        if self.workspace is None:
            return [*known, *unknown]
        found = self.workspace.plans.gates.objections(workspace.plans.proven(plan))
        more = (one for one in found if one not in known)
        mark = f"{{}} (as of {self.commit[:12]}, before this change)"
        return [*known, *(replace(one, rule=mark.format(one.rule)) for one in more), *unknown]


@contextmanager
def base_branch(workspace: Workspace, commit: str) -> Iterator[BaseBranch]:
    """Yield the rules of a base commit.

    The workspace's settings also get the base commit's `protected` environments, and the lower
    `max_removed` of the workspace and the base commit.

    Args:
        commit: Empty for the first commit of a repository.

    Raises:
        UsageError: The commit or its settings cannot be read.
    """
    if not commit:
        yield BaseBranch(None)
        return
    with tempfile.TemporaryDirectory(prefix="vde-base-") as folder:
        root = Path(folder).resolve()
        if not _write_files(workspace.root, commit, root):
            yield BaseBranch(None, commit)
            return
        try:
            view = workspace.over_folder(root)
        except VdeError as error:
            raise UsageError(
                f"the settings of the base branch ({commit[:12]}) cannot be read: {error.message}",
                hint="correct them on the base branch first",
            ) from error
        own, settings = workspace.settings, view.settings
        workspace.settings = replace(
            own,
            max_removed=min(own.max_removed, settings.max_removed),
            protected=tuple(dict.fromkeys((*own.protected, *settings.protected))),
        )
        yield BaseBranch(view, commit)


def find_check_base(workspace: Workspace, variables: Mapping[str, str], given: str = "") -> str:
    """Return the newest commit of a pull request's base branch.

    Args:
        variables: The process's environment variables: GitHub and GitLab set the branch's name.
        given: A commit or branch to use instead.

    Raises:
        UsageError: The branch does not exist, or is unknown.
    """
    git = PlainGit(workspace.root, ci_settings(workspace).remote)
    if given:
        return git.run_git("rev-parse", "--verify", f"{given}^{{commit}}").strip()
    if variables.get("GITHUB_BASE_REF"):
        head, *parents = git.run_git("rev-list", "--parents", "-n", "1", "HEAD").split()
        # GitHub checks out a merge into the base branch. Any other merge is the author's, such as
        # the head that a job of Gitea checks out, whose variables have the same names.
        is_merge = variables.get("GITHUB_REF", "").endswith("/merge")
        if is_merge and len(parents) > 1 and head == variables.get("GITHUB_SHA"):
            return parents[0]
    branch = variables.get("GITHUB_BASE_REF") or variables.get(
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME", ""
    )
    found = git.fetch_newest(branch)
    if found is None:
        raise UsageError(
            "the base branch of the pull request was not found: "
            f"{branch or 'the remote has no default branch'}",
            hint="fetch it, or name it: vde ci check --pr N --base origin/main",
        )
    return found


@dataclass(frozen=True, slots=True)
class DeploymentHistory:
    """Deployments of a commit and of the commits before it.

    Args:
        commits: The commit and its first parents, newest first.
        plan_ids: Id of the deploying plan by commit, see `load_deployments`.
        complete: The newest earlier commit whose deployment is complete; empty without one.
    """

    commits: Sequence[str]
    plan_ids: Mapping[str, str]
    complete: str

    @property
    def commit(self) -> str:
        return self.commits[0]

    @property
    def undeployed(self) -> Sequence[str]:
        """The commit, and the commits between it and `complete`, newest first."""
        end = self.commits.index(self.complete) if self.complete else len(self.commits)
        return self.commits[:end]


def read_deployments(workspace: Workspace, commit: str) -> DeploymentHistory:
    # A merge may add any number of commits to the branch.
    commits = PlainGit(workspace.root).first_parents(commit, limit=-1)
    plan_ids = load_deployments(workspace)
    complete = (one for one in commits[1:] if is_applied(workspace, plan_ids.get(one)))
    return DeploymentHistory(commits, plan_ids, next(complete, ""))


def find_deployment_base(workspace: Workspace, history: DeploymentHistory) -> str:
    """Return the earlier commit whose rules apply when the history's commit is deployed.

    A commit's rules do not apply while its deployment waits for an approval.

    Returns:
        The newest earlier commit whose deployment is complete. If no deployment is complete, the
        first parent of the oldest earlier commit whose deployment began (or this commit, if it has
        no parent), or else the first parent of the history's commit. Empty if that is the
        repository's first commit.

    Raises:
        UsageError: The clone is shallow and lacks the commit.
    """
    if history.complete:
        return history.complete
    git, commits, plan_ids = PlainGit(workspace.root), history.commits, history.plan_ids
    oldest_waiting = next((one for one in reversed(commits[1:]) if one in plan_ids), "")
    parent = "".join(git.first_parents(oldest_waiting or history.commit, limit=2)[1:])
    if git.run_git("rev-parse", "--is-shallow-repository").strip() == "true":
        earlier = (plan_ids[one] for one in plan_ids.keys() - commits)
        if not parent or any(is_applied(workspace, plan_id) for plan_id in earlier):
            raise UsageError(
                "the clone is shallow: it lacks the commit whose rules apply to "
                f"{history.commit[:12]}",
                hint="fetch all of the history (fetch-depth: 0, GIT_DEPTH: 0)",
            )
    return parent or oldest_waiting


def _unknown_rules(commit: str) -> Objection:
    message = f"commit {commit[:12]} has no models in this folder, so earlier rules are unknown"
    return Objection("base branch", message, "ask")


def _write_files(root: Path, commit: str, target: Path) -> bool:
    place = place_in_repository(root).rstrip("/")
    top = PlainGit(Path(PlainGit(root).run_git("rev-parse", "--show-toplevel").strip()))
    if place and not top.run_git("ls-tree", commit, place).strip():
        return False
    with tempfile.TemporaryDirectory(prefix="vde-index-") as folder:
        index = str(Path(folder) / "index")
        top.run_git("read-tree", f"{commit}:{place}", index=index)
        top.run_git("checkout-index", "--all", "--force", f"--prefix={target}/", index=index)
    return True
