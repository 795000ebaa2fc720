"""The comment of a pull request: result, failures, objections, row differences and the plan."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vde_dagster.api.reports import literal, plan_comment, without_mentions
from vde_dagster.api.values import count
from vde_dagster.plugins.ci.forges.forge import Annotation
from vde_dagster.plugins.ci.settings import ci_settings

if TYPE_CHECKING:
    from vde_dagster.api.plans import Objection, Plan
    from vde_dagster.api.workspace import Workspace

MAX_COMMENT = 60_000
"""Maximum length of a comment; GitHub accepts 65,536 characters and GitLab a million."""
_LONGEST_UPDATE = 65_000
_MOST_LISTED = 30
_LONGEST_MESSAGE = 1_000
_LEAST_FOR_PLAN = 20_000
"""Minimum number of characters reserved for the plan."""
_BEGIN, _END = "<!-- vde status -->", "<!-- vde status ends -->"
_STATUS = re.compile(f"{_BEGIN}.*?{_END}", re.DOTALL)


def comment_marker(workspace: Workspace, number: int) -> str:
    """Return the first line of a project's comment, such as `<!-- vde ci shop 7 -->`."""
    identity = workspace.settings.identity
    name = re.sub(r"[^\w.-]", "_", identity.id or identity.name)
    return f"<!-- vde ci {name} {number} -->"


def replace_status(workspace: Workspace, number: int, before: str | None, status: str) -> str:
    """Return `before` with the new status, or a new comment if `before` has no status.

    If the comment would be too long, the end of its other sections is left out.
    """
    block = f"{_BEGIN}\n{without_mentions(status)}\n{_END}"
    if before is None or not _STATUS.search(before):
        return f"{comment_marker(workspace, number)}\n{block}\n"
    text = _STATUS.sub(lambda _: block, before, count=1)
    if len(text) <= _LONGEST_UPDATE:
        return text
    return f"{text[:_LONGEST_UPDATE]}\n\n… the rest is left out: the comment would be too long\n"


def check_comment(
    workspace: Workspace, number: int, environment: str, status: str, parts: Sequence[str]
) -> str:
    """Write the comment of a check.

    Args:
        status: The result, as Markdown.
        parts: Sections, the most important first. Sections that do not fit are left out.
    """
    links = ci_settings(workspace).links(environment, workspace.settings.dagster.prefix)
    status = f"{status}\n\n{links}" if links else status
    text = replace_status(workspace, number, None, status)
    left_out = 0
    for part in parts:
        added = f"\n{without_mentions(part)}\n"
        if len(text) + len(added) > MAX_COMMENT:
            left_out += 1
            continue
        text += added
    if left_out:
        text += f"\n… {count(left_out, 'section')} left out: the comment would be too long\n"
    return text


def plan_parts(
    workspace: Workspace, plan: Plan, cost: str, against: Sequence[Objection], reserved: int
) -> list[str]:
    """Write the sections about a plan for production: broken rules, the plan, and its cost.

    Args:
        cost: The estimate, such as `90 s of work, 2 MB written`; empty if unknown.
        reserved: Number of characters to leave for other sections.
    """
    parts = []
    if against:
        rules = (f"- **{one.level}**: {literal(one.sentence)}" for one in against)
        parts.append("\n".join(["### Rules", "", *rules]))
    # It is planned again once all is computed, so this plan must not be applied by its id.
    previous = workspace.plans.previous_snapshots(plan)
    most = max(MAX_COMMENT - reserved - sum(map(len, parts)) - 2_000, _LEAST_FOR_PLAN)
    text = plan_comment(plan, previous, most, with_id=False)
    parts.append(text.partition("\n")[2])  # Its own marker would make it another comment.
    if cost:
        parts.append(f"It takes {cost}.")
    return parts


def findings_markdown(annotations: Sequence[Annotation], errors: Sequence[str]) -> list[str]:
    if not (annotations or errors):
        return []
    lines = ["### Problems", ""]
    lines += (f"- {shorten(error)}" for error in errors[:_MOST_LISTED])
    for one in annotations[:_MOST_LISTED]:
        word = "" if one.level == "failure" else " (warns)"
        lines.append(
            f"- `{one.path}:{one.line}` {shorten(one.title)}{word}: {shorten(one.message)}"
        )
    more = len(annotations) + len(errors) - (len(lines) - 2)
    return ["\n".join([*lines, *([f"- and {more:,} more"] if more > 0 else [])])]


def shorten(text: str) -> str:
    """Write a text as one line of Markdown of at most 1,000 characters."""
    shown = literal(text)
    return shown if len(shown) <= _LONGEST_MESSAGE else f"{shown[: _LONGEST_MESSAGE - 1]}…"
