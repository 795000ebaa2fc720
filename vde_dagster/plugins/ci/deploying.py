"""Deployments: publishes reviewed plans, lets other plans wait for an approval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from vde_dagster.api.errors import ConflictError, UsageError, VdeError
from vde_dagster.api.plans import PRODUCTION, Change, Plan
from vde_dagster.api.values import count
from vde_dagster.api.workspace import Workspace
from vde_dagster.plugins.ci.base_branch import (
    DeploymentHistory,
    base_branch,
    find_deployment_base,
    read_deployments,
)
from vde_dagster.plugins.ci.comment import (
    comment_marker,
    findings_markdown,
    replace_status,
    shorten,
)
from vde_dagster.plugins.ci.findings import Findings
from vde_dagster.plugins.ci.forges.forge import Forge
from vde_dagster.plugins.ci.forges.plain_git import PlainGit
from vde_dagster.plugins.ci.seen import (
    delete_reviewed_plan,
    deploying_plan_id,
    is_applied,
    load_reviewed_plan,
    store_deployment,
)
from vde_dagster.plugins.ci.settings import ci_settings
from vde_dagster.plugins.ci.unseen import unreviewed_effects

Outcome = Literal["published", "unchanged", "waiting", "rejected"]
MOST_PARENTS = 50
"""Maximum number of commits whose pull requests are deployed at once."""
_MOST_VERSIONS = 500
_MOST_REASONS = 30


@dataclass(frozen=True, slots=True)
class DeployResult:
    """The result of deploying a commit.

    Args:
        pull_requests: The numbers of the pull requests that the commit brings to production.
        plan_id: The stored plan for production; empty if there is nothing to change.
        version: Production's version, if the plan was published and the version is still known.
        reasons: The reasons why the plan waits or was rejected, in sentences.
        failed: Statements on published views that failed.
    """

    commit: str
    outcome: Outcome
    pull_requests: tuple[int, ...] = ()
    plan_id: str = ""
    version: int | None = None
    computed: int = 0
    reasons: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether nothing was changed because an approval is missing."""
        return self.outcome in ("waiting", "rejected")

    @property
    def sentence(self) -> str:
        plan = f"plan {self.plan_id}"
        if self.outcome == "published":
            at = f" as version {self.version}" if self.version else ""
            made = count(self.computed, "model") if self.computed else "nothing"
            return f"{plan} was published to {PRODUCTION}{at}, {made} computed"
        if self.outcome == "unchanged":
            return f"{PRODUCTION} already shows these changes"
        if self.outcome == "rejected":
            return f"{plan} was rejected, nothing was published"
        return f"{plan} waits for an approval, nothing was published"

    def to_json(self) -> dict[str, Any]:
        return {
            "commit": self.commit,
            "outcome": self.outcome,
            "pull_requests": list(self.pull_requests),
            "plan": self.plan_id or None,
            "version": self.version,
            "reasons": list(self.reasons),
        }


@dataclass(frozen=True, slots=True)
class CloseResult:
    number: int
    environment: str
    dropped: bool

    @property
    def sentence(self) -> str:
        gone = "was dropped" if self.dropped else "does not exist or was dropped before"
        return f"environment {self.environment} of pull request {self.number} {gone}"

    def to_json(self) -> dict[str, Any]:
        return {
            "pull_request": self.number,
            "environment": self.environment,
            "dropped": self.dropped,
        }


def close(workspace: Workspace, forge: Forge, number: int) -> CloseResult:
    """Drop the environment of a pull request that was closed, merged or not.

    If the forge reports it as not merged, the reviewed plan is deleted and the comment is updated.

    Raises:
        UsageError: The forge refuses a request.
        ExecutionError: The forge cannot be reached.
    """
    environment, store = ci_settings(workspace).environment(number), workspace.store
    shown = store.environments.get(environment)
    dropped = shown is not None and environment not in store.environments.expired()
    if dropped:
        workspace.environments.drop(environment)
    if forge.pull_request(number).state == "closed":
        delete_reviewed_plan(workspace, number)
        if forge.comment(number, comment_marker(workspace, number)) is not None:
            status = f"## 🧹 vde: closed without a merge\n\nEnvironment {environment} was dropped."
            _write_status(workspace, forge, number, status)
    return CloseResult(number, environment, dropped)


def deploy(workspace: Workspace, forge: Forge, commit: str = "", number: int = 0) -> DeployResult:
    """Deploy the checked-out commit of the main branch with the plan that its reviewers saw.

    If the commit was deployed before, that result is reported again and nothing is repeated.

    Args:
        commit: Empty for the checked-out commit.
        number: The pull request that the commit merged; 0 to get it from the forge.

    Raises:
        UsageError: Another commit is checked out, or the forge refuses a request.
        ConflictError: Another process is changing production.
        ExecutionError: The apply failed without a publication, or the forge cannot be reached.
    """
    commit = _require_checked_out(workspace, commit)
    history = read_deployments(workspace, commit)
    commits = _undeployed_commits(history)
    numbers = (number,) if number else _merged_pull_requests(forge, commits)
    try:
        done = _earlier_result(workspace, history, numbers) or _deploy(workspace, history, numbers)
    except ConflictError:
        raise  # The first process reports the result.
    except VdeError as error:
        for one in numbers:
            _write_status(workspace, forge, one, _failure_status(commit, error))
        raise
    # The job of an overtaken commit may start later, also after a plan that waits was approved in
    # Dagster. It must not propose the older files.
    for late in commits[1:]:
        store_deployment(workspace, late, done.plan_id, deploying_plan_id(workspace, late))
    for one in numbers:
        _write_status(workspace, forge, one, _result_status(done))
    return done


def _require_checked_out(workspace: Workspace, commit: str) -> str:
    head = PlainGit(workspace.root).head()
    if commit and commit != head:
        raise UsageError(
            f"commit {commit} is to be deployed, but {head} is checked out",
            hint="check it out, or omit --commit",
        )
    return head


def _undeployed_commits(history: DeploymentHistory) -> Sequence[str]:
    """Return a commit, and the earlier commits that were not deployed, newest first."""
    # Earlier commits count because a CI system may skip a deployment if a newer one starts. If this
    # state has no recent deployment, only the commit itself counts.
    found = history.undeployed
    return found if history.complete and len(found) < MOST_PARENTS else found[:1]


def _merged_pull_requests(forge: Forge, commits: Sequence[str]) -> tuple[int, ...]:
    numbers = (forge.find_merged(one) for one in commits)
    return tuple(dict.fromkeys(one for one in numbers if one is not None))


def _earlier_result(
    workspace: Workspace, history: DeploymentHistory, numbers: tuple[int, ...]
) -> DeployResult | None:
    """Continue or report an earlier deployment of this commit; None if a new one must begin."""
    commit = history.commit
    plan_id = deploying_plan_id(workspace, commit)
    if plan_id is None:
        return None
    if not plan_id:
        failed = _waiting_statements(workspace)
        return DeployResult(commit, "unchanged", numbers, failed=failed)
    if is_applied(workspace, plan_id):
        return _published_result(workspace, commit, numbers, plan_id)
    store = workspace.store
    record = store.plans.record(plan_id)
    if record is None:
        return None
    if record.status == "rejected":
        return DeployResult(commit, "rejected", numbers, plan_id, reasons=(record.message or "",))
    if store.plans.find_dead([plan_id]):
        return None
    plan = store.plans.load(plan_id)
    reasons: Sequence[str] = ()
    if plan.proposal is not None:
        # It may have been signed or reviewed since.
        reasons = _reasons_to_wait(
            workspace, history, plan, _load_reviewed_plans(workspace, numbers)
        )
    if reasons:
        return _waiting_result(commit, numbers, plan, reasons)
    return _apply(workspace, commit, numbers, plan)


def _deploy(
    workspace: Workspace, history: DeploymentHistory, numbers: tuple[int, ...]
) -> DeployResult:
    commit = history.commit
    before = deploying_plan_id(workspace, commit)
    fresh = workspace.plan(PRODUCTION, save=False)
    if fresh.is_empty:
        failed = workspace.apply(fresh).failed_statements
        if store_deployment(workspace, commit, "", before):
            return _concurrent_result(workspace, history, numbers)
        return DeployResult(
            commit, "unchanged", numbers, failed=tuple(one.sentence for one in failed)
        )
    seen = _load_reviewed_plans(workspace, numbers)
    plan = _find_reviewed_plan(workspace, fresh, seen) or fresh
    reasons = _reasons_to_wait(workspace, history, plan, seen)
    if reasons:
        # With a new id: a stored plan never changes.
        plan = workspace.plans.proposed(replace(plan, id=fresh.id), _author(numbers))
    store = workspace.store
    store.plans.save(plan)
    if store_deployment(workspace, commit, plan.id, before) != plan.id:
        if plan.id == fresh.id:
            store.plans.set_status(plan.id, "superseded", "another deployment was first")
        return _concurrent_result(workspace, history, numbers)
    if reasons:
        return _waiting_result(commit, numbers, plan, reasons)
    return _apply(workspace, commit, numbers, plan)


def _concurrent_result(
    workspace: Workspace, history: DeploymentHistory, numbers: tuple[int, ...]
) -> DeployResult:
    done = _earlier_result(workspace, history, numbers)
    if done is None:
        raise ConflictError(
            f"commit {history.commit} is being deployed by another process",
            hint="run the job again",
        )
    return done


def _author(numbers: Sequence[int]) -> str | None:
    return ", ".join(f"pull request {one}" for one in numbers) or None


def _apply(workspace: Workspace, commit: str, numbers: tuple[int, ...], plan: Plan) -> DeployResult:
    try:
        done = workspace.apply(plan, who=_author(numbers))
    except ConflictError:
        # The other process may have published this very commit.
        if is_applied(workspace, plan_id := deploying_plan_id(workspace, commit)) and plan_id:
            return _published_result(workspace, commit, numbers, plan_id)
        raise
    result = _published_result(workspace, commit, numbers, plan.id)
    return replace(result, failed=tuple(one.sentence for one in done.failed_statements))


def _published_result(
    workspace: Workspace, commit: str, numbers: tuple[int, ...], plan_id: str
) -> DeployResult:
    history = workspace.store.versions.history(PRODUCTION, _MOST_VERSIONS)
    version = next((one.version for one in history if one.plan_id == plan_id), None)
    plan = workspace.store.plans.find(plan_id)
    computed = len(plan.computed) if plan is not None else 0
    failed = _waiting_statements(workspace)
    return DeployResult(commit, "published", numbers, plan_id, version, computed, failed=failed)


def _waiting_statements(workspace: Workspace) -> tuple[str, ...]:
    """Describe the statements that failed or were not reached, and that the next apply must run."""
    found = workspace.store.statements.waiting(PRODUCTION)
    return tuple(f"{one.model}: {one.failure or 'a statement has not run'}" for one in found)


def _waiting_result(
    commit: str, numbers: tuple[int, ...], plan: Plan, reasons: Sequence[str]
) -> DeployResult:
    return DeployResult(commit, "waiting", numbers, plan.id, reasons=tuple(reasons))


def _load_reviewed_plans(workspace: Workspace, numbers: Sequence[int]) -> list[Plan] | None:
    """Return the reviewed plans that are still stored, or None if no plan was reviewed."""
    found = [
        one for number in numbers if (one := load_reviewed_plan(workspace, number)) is not None
    ]
    plans = (workspace.store.plans.find(one.plan_id) for one in found if one.plan_id)
    return [plan for plan in plans if plan is not None] if found else None


def _reasons_to_wait(
    workspace: Workspace, history: DeploymentHistory, plan: Plan, seen: Sequence[Plan] | None
) -> list[str]:
    """Return the reasons why a plan must wait; without reasons, it may be applied."""
    if seen is None:
        reasons = ["it was not reviewed: no pull request with a passed check contains this commit"]
    else:
        ids = {
            model.previous_snapshot_id
            for one in (plan, *seen)
            for model in one.models
            if model.previous_snapshot_id
        }
        reasons = unreviewed_effects(
            workspace, plan, seen, workspace.store.snapshots.load(sorted(ids))
        )
    with base_branch(workspace, find_deployment_base(workspace, history)) as rules:
        against = rules.objections(workspace, plan, workspace.plans.gates.current_objections(plan))
    return [*reasons, *(one.sentence for one in against if one.level != "warn")]


def _find_reviewed_plan(
    workspace: Workspace, fresh: Plan, seen: Sequence[Plan] | None
) -> Plan | None:
    # The reviewed plan has signatures. It may not do more than `fresh`, because users of the
    # database can change a stored plan. Intervals that became due since then are left to the next
    # run.
    changed = [model for model in fresh.models if model.change is not Change.UNCHANGED]
    if any(model.builds for model in changed):
        return None
    plans, versions = workspace.store.plans, workspace.store.versions
    for one in seen or ():
        same = _covers_no_more(one, fresh)
        record = plans.record(one.id)
        still = record is not None and record.status in ("planned", "failed")
        if same and still and versions.current_base(PRODUCTION, one.base_version) is not None:
            return one
    return None


def _covers_no_more(plan: Plan, fresh: Plan) -> bool:
    """Return whether `plan` publishes the same as `fresh` and computes no additional interval."""
    shown = ("environment", "entries", "statements", "kept", "expires_at", "restates")
    if any(getattr(plan, name) != getattr(fresh, name) for name in shown):
        return False
    wanted = {model.name: model for model in fresh.models}
    return all(
        model.name in wanted
        and not model.intervals - wanted[model.name].intervals
        and not model.records_only
        and model.in_place == wanted[model.name].in_place
        for model in plan.models
    )


def _write_status(workspace: Workspace, forge: Forge, number: int, status: str) -> None:
    marker = comment_marker(workspace, number)
    before = forge.comment(number, marker)
    text = replace_status(workspace, number, before, status)
    if text != before:
        forge.write_comment(number, marker, text)


def _failure_status(commit: str, error: VdeError) -> str:
    findings = Findings("")
    findings.record_error(error)
    lines = [f"## ❌ vde: {PRODUCTION} is unchanged, the deployment failed", ""]
    lines += [f"of commit {commit[:12]}. Fix the cause, and run the job again.", ""]
    found = findings_markdown(findings.annotations, findings.errors)
    return "\n".join([*lines, *(one.partition("\n\n")[2] for one in found)])


def _result_status(done: DeployResult) -> str:
    sign = {"published": "🚀", "unchanged": "✅", "waiting": "✋", "rejected": "❌"}[done.outcome]
    lines = [f"## {sign} vde: {done.sentence}", "", f"of commit {done.commit[:12]}."]
    if done.outcome == "waiting":
        lines[-1] += (
            f" Approve it in Dagster or with `vde apply {PRODUCTION} --plan {done.plan_id}`, "
            f"or reject it with `vde plan reject {done.plan_id}`. It waits because:"
        )
    more = len(done.reasons) - _MOST_REASONS
    lines += ["", *(f"- {shorten(reason)}" for reason in done.reasons[:_MOST_REASONS])]
    lines += [f"- and {more:,} more"] if more > 0 else []
    return "\n".join(lines).rstrip()
