"""The comment of a pull request: what happened last, failures, rules, rows, and the plan."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from vde_dagster.base.texts import count
from vde_dagster.plugins.ci.forges.forge import Annotation
from vde_dagster.plugins.ci.settings import ci_settings
from vde_dagster.reports.markdown import MAX_COMMENT, literal, plan_comment, without_mentions
from vde_dagster.reports.plan import plan_report

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.planning.plan.plan import Objection, Plan

_MOST_LISTED = 30
_MOST_OF_MESSAGE = 1_000
_OF_PLAN = 20_000
"""Characters that are left to the plan in any case."""
_BEGIN, _END = "<!-- vde status -->", "<!-- vde status ends -->"
_STATUS = re.compile(f"{_BEGIN}.*?{_END}", re.DOTALL)


def marker_of(workspace: Workspace, number: int) -> str:
    """Return the first line of a comment; each project of a repository has one of its own."""
    identity = workspace.settings.identity
    name = re.sub(r"[^\w.-]", "_", identity.id or identity.name)
    return f"<!-- vde ci {name} {number} -->"


def with_status(workspace: Workspace, number: int, before: str | None, status: str) -> str:
    """Return a comment with another status at its top; all else stays as it was."""
    block = f"{_BEGIN}\n{without_mentions(status)}\n{_END}"
    if before is None or not _STATUS.search(before):
        return f"{marker_of(workspace, number)}\n{block}\n"
    return _STATUS.sub(lambda _: block, before, count=1)


def check_comment(
    workspace: Workspace, number: int, environment: str, status: str, parts: Sequence[str]
) -> str:
    """Write the comment of a check.

    Args:
        status: What happened, as Markdown.
        parts: Sections below it, the most important first; those for which there is no room are
            left out.
    """
    links = ci_settings(workspace).links(environment, workspace.settings.dagster.prefix)
    status = f"{status}\n\n{links}" if links else status
    text = with_status(workspace, number, None, status)
    left_out = 0
    for part in parts:
        added = f"\n{without_mentions(part)}\n"
        if len(text) + len(added) > MAX_COMMENT:
            left_out += 1
            continue
        text += added
    if left_out:
        text += f"\n… {count(left_out, 'part')} too long for a comment\n"
    return text


def plan_parts(
    workspace: Workspace, plan: Plan, cost: str, against: Sequence[Objection], room: int
) -> list[str]:
    """Write what production would get: rules that are against it, cost, and the plan.

    Args:
        cost: A sentence; empty where nothing is known.
        room: Characters that other parts take.
    """
    parts = []
    if against:
        rules = (f"- **{one.level}**: {literal(one.sentence)}" for one in against)
        parts.append("\n".join(["### Rules", "", *rules]))
    store = workspace.store
    old = [
        model.previous_snapshot_id
        for model in plan.models
        if model.previous_snapshot_id and model.previous_snapshot_id != model.snapshot_id
    ]
    # It is planned again once all is computed, so that nobody may apply this one by its id.
    report = replace(plan_report(plan, store.snapshots.load(old) if old else {}), id="")
    most = max(MAX_COMMENT - room - sum(map(len, parts)) - 2_000, _OF_PLAN)
    text = plan_comment(report, most)
    parts.append(text.partition("\n")[2])  # Its own mark would find it as another comment.
    if cost:
        parts.append(f"It takes {cost}.")
    return parts


def findings_markdown(annotations: Sequence[Annotation], errors: Sequence[str]) -> list[str]:
    """Write what is wrong, with files and lines."""
    if not (annotations or errors):
        return []
    lines = ["### What is wrong", ""]
    lines += (f"- {_text(error)}" for error in errors[:_MOST_LISTED])
    for one in annotations[:_MOST_LISTED]:
        word = "" if one.level == "failure" else " (warns)"
        lines.append(f"- `{one.path}:{one.line}` {_text(one.title)}{word}: {_text(one.message)}")
    more = len(annotations) + len(errors) - (len(lines) - 2)
    return ["\n".join([*lines, *([f"- and {more:,} more"] if more > 0 else [])])]


def _text(text: str) -> str:
    shown = literal(text)
    return shown if len(shown) <= _MOST_OF_MESSAGE else f"{shown[: _MOST_OF_MESSAGE - 1]}…"
