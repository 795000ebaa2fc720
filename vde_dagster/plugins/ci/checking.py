"""Checking a pull request: building an environment, comparing rows, writing a comment."""

from __future__ import annotations

import os
from dataclasses import dataclass

from vde_dagster.api.errors import UsageError, VdeError
from vde_dagster.api.plans import PRODUCTION, Plan
from vde_dagster.api.reports import summary
from vde_dagster.api.values import count
from vde_dagster.api.workspace import Workspace
from vde_dagster.plugins.ci.base_branch import base_branch, find_check_base
from vde_dagster.plugins.ci.comment import (
    check_comment,
    comment_marker,
    findings_markdown,
    plan_parts,
)
from vde_dagster.plugins.ci.findings import Findings
from vde_dagster.plugins.ci.forges.forge import Check, Forge
from vde_dagster.plugins.ci.forges.plain_git import place_in_repository
from vde_dagster.plugins.ci.rows import compare_rows, rows_markdown
from vde_dagster.plugins.ci.seen import delete_reviewed_plan, store_reviewed_plan
from vde_dagster.plugins.ci.settings import ci_settings


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result; `plan_id` is empty if the check failed, or if production would not change."""

    number: int
    environment: str
    passed: bool
    plan_id: str
    check: Check
    comment: str


def check_pull_request(
    workspace: Workspace, forge: Forge, number: int, commit: str = "", base: str = ""
) -> CheckResult:
    """Build the environment of a pull request, and write a comment and a check to the forge.

    Args:
        commit: The pull request's newest commit; requested from the forge if empty.
        base: A commit or branch whose rules apply, too; the base branch if empty.

    Raises:
        UsageError: The pull request is merged or closed or has a newer commit, or the forge refuses
            a request.
        ExecutionError: The forge cannot be reached.
    """
    settings = ci_settings(workspace)
    environment = settings.environment(number)
    pull_request = forge.pull_request(number)
    if pull_request.state in ("merged", "closed"):
        # Its environment was dropped, and a new one would never be dropped.
        raise UsageError(
            f"pull request {number} is {pull_request.state}: there is nothing to check",
            hint="open it again, or compare production: vde plan prod",
        )
    commit = commit or pull_request.head
    if pull_request.state == "open" and not pull_request.head.startswith(commit):
        # Its result would replace the newer commit's.
        raise UsageError(
            f"commit {commit[:12]} was not checked: the newest commit of pull request {number} is "
            f"{pull_request.head[:12]}",
            hint="wait for the job of the newest commit, or pass that commit as --commit",
        )
    place = place_in_repository(workspace.root)
    findings = Findings(place)
    parts: list[str] = []
    seen: Plan | None = None
    done = ""
    try:
        with base_branch(workspace, find_check_base(workspace, os.environ, base)) as rules:
            wanted = workspace.plan(PRODUCTION, save=False)
            estimate = workspace.plans.estimate(wanted)
            known = workspace.plans.gates.stored_objections(wanted)
            against = rules.objections(workspace, wanted, known)
        cost = estimate.sentence() if estimate.models else ""
        parts = plan_parts(workspace, wanted, cost, against, 0)
        # Something that can still be added, such as a signature, does not fail a pull request.
        refused = (one for one in against if one.level == "refuse" and not one.approvers)
        findings.errors += (one.sentence for one in refused)
        done = _build(workspace, environment, findings)
        rows = rows_markdown(compare_rows(workspace, wanted, environment, settings.samples))
        parts = [*rows, *plan_parts(workspace, wanted, cost, against, sum(map(len, rows)))]
        seen = workspace.plan(PRODUCTION)
    except VdeError as error:
        findings.record_error(error)
    passed = not findings.has_failures and seen is not None
    if not passed and "store" in workspace.__dict__:
        # Errors in the project's files leave it unopened.
        delete_reviewed_plan(workspace, number)
    plan_id = seen.id if passed and seen is not None and not seen.is_empty else ""
    wrong = len(findings.errors) + sum(one.level == "failure" for one in findings.annotations)
    title = f"{environment}: {done}" if passed else f"{environment}: {count(wrong, 'failure')}"
    status = f"## {'✅' if passed else '❌'} vde: {title}\n\nof commit {commit[:12]}. "
    status += _merge_sentence(seen) if passed and seen is not None else "Do not merge this commit."
    problems = findings_markdown(findings.annotations, findings.errors)
    text = check_comment(workspace, number, environment, status, [*problems, *parts])
    check = Check(commit, passed, title, text.partition("\n")[2], findings.annotations, place)
    forge.write_comment(number, comment_marker(workspace, number), text)
    forge.write_check(check)
    if passed and seen is not None:
        # Only now: a plan that no comment shows was not reviewed.
        store_reviewed_plan(workspace, number, "" if seen.is_empty else seen.id, commit)
    return CheckResult(number, environment, passed, plan_id, check, text)


def _build(workspace: Workspace, environment: str, findings: Findings) -> str:
    plan = workspace.plan(environment, at_once=True)
    result = workspace.apply(plan, on_event=findings.record)
    findings.errors += (one.sentence for one in result.failed_statements if one.error)
    if not result.published:
        return "up to date"
    reused = sum(model.table is not None for model in result.plan.models) - result.computed
    return f"{count(result.computed, 'model')} computed, {max(reused, 0)} reused"


def _merge_sentence(seen: Plan) -> str:
    if seen.is_empty:
        return "A merge changes nothing in production."
    return f"When it is merged, production gets plan `{seen.id}`: {summary(seen)}."
