"""A plan, rows and links as Markdown, to be read like a good pull request.

Metadata has 800 pixels of a screen of 1,400: columns are as wide as their longest word.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from urllib.parse import quote, urlsplit

import dagster as dg

from vde_dagster.base.names import ModelName
from vde_dagster.orchestration.instance import URL_VARIABLE
from vde_dagster.orchestration.names import SHORT, Names
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.plan.plan import Category, Change, Plan, PlanKind, PlannedModel
from vde_dagster.planning.snapshots.snapshot import Snapshot

MAX_DIFF_LINES = 200
MAX_ROWS = 200
MAX_INLINE = 950

_WORDS = {
    Category.METADATA: "metadata only",
    Category.REUSE: "reuses its table",
    Category.NON_BREAKING: "non-breaking",
    Category.BREAKING: "**breaking**",
    Category.AFFECTED: "affected",
    Category.FORWARD_ONLY: "forward-only",
}

Estimate = Callable[[PlannedModel], float | None]
"""Seconds that a model's work is likely to take, from earlier runs; None when never run."""


Readers = Mapping[ModelName, Sequence[str]]
"""Who reads a model besides the project's models, as far as it is known."""


def plan_markdown(
    plan: Plan,
    previous: Mapping[str, Snapshot],
    estimate: Estimate | None = None,
    readers: Readers = MappingProxyType({}),
    names: Names = SHORT,
) -> str:
    """Describe a plan: what breaks, what will run, then why, what is reused, views and risks.

    Args:
        previous: The snapshots that the environment has now, by id.
        estimate: Seconds of work per model, from earlier runs.
        readers: Who reads the models besides models.
        names: The project's names.
    """
    parts = [_title(plan, names), _breaks(plan, readers), _warnings(plan)]
    parts.append(_work(plan, estimate))
    parts += [_changes(plan, previous), _reused(plan)]
    parts += [_outdated(plan), _views(plan), _statements(plan), _risks(plan)]
    return "\n\n".join(part for part in parts if part)


def plan_summary(
    plan: Plan,
    estimate: Estimate | None = None,
    readers: Readers = MappingProxyType({}),
    names: Names = SHORT,
) -> str:
    """Describe a plan's result and its work so shortly that the page shows it at once.

    Dagster's page shows Markdown below a thousand characters in place, longer as a link.

    Args:
        estimate: Seconds of work per model, from earlier runs.
        readers: Who reads the models besides models.
        names: The project's names.
    """
    parts = [_title(plan, names), _breaks(plan, readers, 5)]
    if plan.warnings:
        count = len(plan.warnings)
        what = "What looks like a mistake in the project"
        what = what if plan.kind is PlanKind.PLAN else "What is worth knowing of it"
        parts.append(f"{what} ({count}) is in the plan.")
    parts.append(_in_place(plan))
    if plan.outdates:
        parts.append(f"What becomes outdated elsewhere ({len(plan.outdates)}) is in the plan.")
    title = "\n\n".join(part for part in parts if part)
    lines = _work(plan, estimate).splitlines()
    while len(title) + sum(len(line) + 1 for line in lines) > MAX_INLINE and len(lines) > 5:
        lines = [*lines[:-2], "| … the rest is in the plan | | | |"]
    return "\n\n".join([title, "\n".join(lines)])


def change_pages(plan: Plan, previous: Mapping[str, Snapshot]) -> dict[ModelName, str]:
    """Return what is said of each model that somebody edited, by model.

    Args:
        previous: The snapshots that the environment has now, by id.
    """
    edited = [model for model in plan.models if model.change in (Change.MODIFIED, Change.REMOVED)]
    return {model.name: _change(model, plan, previous) for model in edited}


def summary(plan: Plan) -> str:
    """Describe a plan in one line."""
    counts = {
        change: sum(model.change is change for model in plan.models)
        for change in Change
        if change is not Change.UNCHANGED
    }
    words = [f"{count} {change.value}" for change, count in counts.items() if count]
    builds = sum(model.skips is None for model in plan.builds)
    words.append(f"{builds} to compute" if builds else "nothing to compute")
    skips = len(plan.builds) - builds
    if skips:
        words.append(f"{skips} to skip")
    if audited := audits_only(plan):
        words.append(f"{len(audited)} to audit")
    return ", ".join(words)


def title_in_words(plan: Plan, most: int = 3) -> str:
    """Say what a plan is about: `orders changed, total added and 2 more models`."""
    if plan.kind is PlanKind.RESTATEMENT:
        names = [f"`{short_name(name)}`" for name in list(plan.restates)[:most]]
        return f"computes {', '.join(names)} again"
    if not plan.base_version:
        return f"a new environment of {len(plan.entries)} models"
    order = [Change.MODIFIED, Change.REMOVED, Change.ADDED]
    edited = [model for change in order for model in plan.models if model.change is change]
    words = {Change.MODIFIED: "changed", Change.REMOVED: "removed", Change.ADDED: "added"}
    said = [f"`{short_name(model.name)}` {words[model.change]}" for model in edited[:most]]
    more = f" and {len(edited) - most} more" if len(edited) > most else ""
    if said:
        return f"{', '.join(said)}{more}"
    return "what is due" if plan.builds else "views and descriptions"


def audits_only(plan: Plan) -> list[PlannedModel]:
    """Return the models whose rows stay as they are and are audited again."""
    return [model for model in plan.models if model.audits and not model.builds]


def units(model: PlannedModel, snapshot: Snapshot) -> int:
    """Count the intervals that a model's work fills."""
    if not snapshot.is_incremental:
        return 1 if model.intervals else 0
    unit = snapshot.cadence.unit
    return sum(unit.count(interval) for interval in model.intervals)


def span(interval: Interval) -> str:
    """Write a half-open range for people: days by their dates, both ends included."""
    return interval.text.removesuffix(" UTC")


def spans(intervals: IntervalSet, most: int = 3) -> str:
    """Write ranges for people, the first few of them."""
    shown = [span(interval) for interval in list(intervals)[:most]]
    if len(intervals) > most:
        shown.append(f"and {len(intervals) - most} more ranges")
    return ", ".join(shown)


_KINDS = {
    PlanKind.PLAN: "Plan for",
    PlanKind.RUN: "What is due in",
    PlanKind.RESTATEMENT: "Restatement of",
}


def _title(plan: Plan, names: Names) -> str:
    what = _KINDS[plan.kind]
    base = f"version {plan.base_version}" if plan.base_version else "a new environment"
    if plan.is_empty:
        return f"## {what} `{plan.environment}`\n\nNothing to publish."
    approve, reject = (
        partition_link(key, plan.id, f"its partition of {key.to_user_string()}")
        for key in (names.apply_key, names.reject_key)
    )
    return (
        f"## {what} `{plan.environment}`: {summary(plan)}\n\n"
        f"Plan `{plan.id}`, made {plan.created_at:%Y-%m-%d %H:%M} UTC against {base}. "
        f"Approve it by materialising {approve}, reject it by {reject}."
    )


def _warnings(plan: Plan) -> str:
    if not plan.warnings:
        return ""
    lines = [f"- {_literal(warning)}" for warning in plan.warnings[:MAX_ROWS]]
    title = "Looks like a mistake" if plan.kind is PlanKind.PLAN else "Worth knowing"
    return "\n".join([f"### {title}", "", *lines, *_more(len(plan.warnings))])


def _literal(text: str) -> str:
    """Write a text of one line in which SQL's signs are no Markdown."""
    return " ".join(text.split()).replace("<", "&lt;").replace("*", "\\*")


def _in_place(plan: Plan, most: int = 5) -> str:
    """Say in short which tables go on with a new definition, and which are only previewed."""
    changed = [model for model in plan.models if model.in_place is not None]
    if not changed:
        return ""
    deploys = any(model.in_place.deploys for model in changed if model.in_place)
    names = ", ".join(f"`{short_name(model.name)}`" for model in changed[:most])
    more = f" and {len(changed) - most} more" if len(changed) > most else ""
    what = "Forward-only, in place" if deploys else "Forward-only, previewed on a branch"
    return f"{what}: {names}{more}."


def _outdated(plan: Plan) -> str:
    """Say what others have to compute again, since they made it of what is restated."""
    if not plan.outdates:
        return ""
    lines = ["### Becomes outdated elsewhere", "", "| model | shown | range |", "|---|---|---|"]
    for found in plan.outdates[:MAX_ROWS]:
        shown = "whole table" if found.whole else spans(found.intervals)
        lines.append(f"| `{short_name(found.name)}` | {found.shown_by()} | {shown} |")
    lines += _more(len(plan.outdates))
    return "\n".join([*lines, "", "The next runs of these environments compute it again."])


def _statements(plan: Plan) -> str:
    """Say what runs before and after all else."""
    complete = plan.complete_statements
    named = (("Runs before all else", complete.before), ("Runs after all else", complete.after))
    return "\n\n".join(
        "\n".join([f"### {title}", "", *(f"    {' '.join(text.split())}" for text in texts)])
        for title, texts in named
        if texts
    )


def _breaks(plan: Plan, readers: Readers, most: int = MAX_ROWS) -> str:
    if not plan.breaks:
        return ""
    said = [f"- {text}" for text in breaks(plan, readers)]
    more = [f"- … and {len(said) - most} more"] if len(said) > most else []
    return "\n".join(["### Breaks what is published", "", *said[:most], *more])


def breaks(plan: Plan, readers: Readers = MappingProxyType({})) -> list[str]:
    """Say what readers of the environment will not find as it is, in sentences."""
    return [broken.describe(readers.get(broken.model, ())) for broken in plan.breaks]


def _work(plan: Plan, estimate: Estimate | None) -> str:
    if not plan.builds:
        return "\n\n".join(["### Will run", _nothing_computed(plan)])
    lines = ["### Will run", "", "| model | intervals | range | estimate |"]
    lines.append("|---|---:|---|---:|")
    total = 0.0
    works = [model for model in plan.builds if model.skips is None]
    for model in works[:MAX_ROWS]:
        snapshot = plan.snapshots[model.snapshot_id or ""]
        seconds = estimate(model) if estimate else None
        total += seconds or 0.0
        shown = spans(model.intervals) if snapshot.is_incremental else "whole table"
        shown += ", computed again" if model.again else ""
        shown += ", audits what stays" if model.audits else ""
        shown += ", recorded as filled, not computed" if model.records_only else ""
        shown += f", {model.batches.text}" if model.batches else ""
        lines.append(
            f"| `{short_name(model.name)}` | {units(model, snapshot)} | {shown} "
            f"| {_duration(seconds)} |"
        )
    lines += _more(len(works))
    if total:
        lines += ["", f"About {_duration(total)} of work, by earlier runs."]
    return "\n".join([*(lines if works else lines[:1]), *_skips(plan)])


def _skips(plan: Plan) -> list[str]:
    """Say what a run leaves as it is, why, and what that saves."""
    skips = [(model.name, model.skips) for model in plan.builds if model.skips is not None]
    if not skips:
        return []
    lines = ["", f"Skips {len(skips)}, whose tables have nothing new to read:", ""]
    for name, skipped in skips[:MAX_ROWS]:
        took = f" (saves {_duration(skipped.seconds)})" if skipped.seconds is not None else ""
        lines.append(f"- `{short_name(name)}`: {skipped.why}{took}")
    return [*lines, *_more(len(skips))]


def _nothing_computed(plan: Plan) -> str:
    audited = audits_only(plan)
    then = "the apply changes views" if plan.views else "no view changes"
    if not audited:
        return f"Nothing is computed: {then}."
    names = ", ".join(f"`{model.name}`" for model in audited[:MAX_ROWS])
    rest = ", ".join(_more(len(audited)))
    return f"Nothing is computed. The rows that are there are audited: {names}{rest}; {then}."


def _changes(plan: Plan, previous: Mapping[str, Snapshot]) -> str:
    changed = [model for model in plan.models if model.change is not Change.UNCHANGED]
    if not changed:
        return ""
    order = [Change.MODIFIED, Change.ADDED, Change.REMOVED, Change.AFFECTED]
    changed.sort(key=lambda model: order.index(model.change))
    parts = ["### Why"]
    first_time = plan.base_version == 0 and all(m.change is Change.ADDED for m in changed)
    if first_time:
        return f"### Why\n\nAll {len(changed)} models are new here."
    parts += [_change(model, plan, previous) for model in changed[:MAX_ROWS]]
    parts += _more(len(changed))
    return "\n\n".join(part for part in parts if part)


def _change(model: PlannedModel, plan: Plan, previous: Mapping[str, Snapshot]) -> str:
    category = f" · {_WORDS[model.category]}" if model.category else ""
    lines = [f"**`{model.name}`** {model.change.value}{category}"]
    in_place = model.in_place.sentences() if model.in_place else ()
    lines += ["", *(f"- {sentence}" for sentence in (*in_place, *model.reasons))]
    diff = _diff(model, plan, previous)
    if diff:
        lines += ["", "```diff", *diff, "```"]
    return "\n".join(lines)


def _diff(model: PlannedModel, plan: Plan, previous: Mapping[str, Snapshot]) -> list[str]:
    if model.change not in (Change.MODIFIED, Change.REMOVED):
        return []
    old = previous.get(model.previous_snapshot_id or "")
    new = plan.snapshots.get(model.snapshot_id or "")
    before = old.model.source.splitlines() if old else []
    after = new.model.source.splitlines() if new else []
    lines = list(difflib.unified_diff(before, after, lineterm="", n=3))[2:]
    # A line of three back quotes inside would end the fence.
    lines = [part for line in lines for part in folded(line.replace("```", "'''"))]
    if len(lines) > MAX_DIFF_LINES:
        lines = [*lines[:MAX_DIFF_LINES], f"… {len(lines) - MAX_DIFF_LINES} more lines"]
    return lines


def _reused(plan: Plan) -> str:
    reused = [
        model
        for model in plan.models
        if not model.builds and model.change is not Change.REMOVED and model.table is not None
    ]
    if not reused:
        return ""
    changed = [model for model in reused if model.change is not Change.UNCHANGED]
    untouched = len(reused) - len(changed)
    lines = ["### Reused, costs nothing", ""]
    lines += [f"- `{model.name}` is served by `{_table(model)}`" for model in changed[:MAX_ROWS]]
    lines += _more(len(changed))
    if untouched:
        lines.append(f"- {untouched} unchanged models keep their tables")
    return "\n".join(lines)


def _views(plan: Plan) -> str:
    if not plan.views:
        return ""
    lines = ["### Views", ""]
    for word, refs in (
        ("created", plan.views.created),
        ("replaced", plan.views.replaced),
        ("dropped", plan.views.dropped),
    ):
        if refs:
            names = ", ".join(f"`{ref}`" for ref in refs[:20])
            more = f" and {len(refs) - 20} more" if len(refs) > 20 else ""
            lines.append(f"- {len(refs)} {word}: {names}{more}")
    return "\n".join(lines)


def _risks(plan: Plan) -> str:
    """Say what is at risk and was not said above: the reasons of changes are."""
    seen = [f"`{model.name}` changes a table that readers see" for model in _deployed(plan)]
    lines = [f"- {text}" for text in (*seen, *_removed(plan))]
    return "\n".join(["### At risk", "", *lines]) if lines else ""


def risks(plan: Plan) -> list[str]:
    """Return what a reader should look at twice, in sentences."""
    out = [f"`{model.name}` is breaking: {'; '.join(model.reasons)}" for model in breaking(plan)]
    out += [
        f"`{model.name}` changes a table that readers see: {'; '.join(model.in_place.sentences())}"
        for model in _deployed(plan)
        if model.in_place is not None
    ]
    return [*out, *_removed(plan)]


def _deployed(plan: Plan) -> list[PlannedModel]:
    return [m for m in plan.models if m.in_place is not None and m.in_place.deploys]


def _removed(plan: Plan) -> list[str]:
    out: list[str] = []
    readers: dict[ModelName, int] = {}
    for snapshot in plan.snapshots.values():
        for parent in snapshot.model.depends_on:
            readers[parent] = readers.get(parent, 0) + 1
    for model in plan.models:
        if model.change is Change.REMOVED:
            still = readers.get(model.name, 0)
            out.append(
                f"`{model.name}` is removed"
                + (f" while {still} models still read it" if still else "")
            )
    return out


def breaking(plan: Plan) -> list[PlannedModel]:
    """Return the models whose existing rows or values change."""
    return [model for model in plan.models if model.category is Category.BREAKING]


def _table(model: PlannedModel) -> str:
    return str(model.table.ref) if model.table else "its parents' tables"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _more(count: int) -> list[str]:
    return [f"… and {count - MAX_ROWS} more"] if count > MAX_ROWS else []


def markdown_table(rows: Sequence[Mapping[str, object]]) -> str:
    """Write rows under the first row's columns; None is `NULL`, and `|` is escaped.

    Args:
        rows: At least one row, all with the same columns.
    """
    columns = list(rows[0])
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        cells = ("NULL" if row[c] is None else str(row[c]).replace("|", "\\|") for c in columns)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


MAX_NAME = 32
"""Characters of a name in a table; JSON beside the table has it whole."""
MAX_LINE = 70
"""Characters of a line of code that is not cut off."""


def partition_link(key: dg.AssetKey, partition: str, text: str) -> str:
    """Return a Markdown link to a partition of an asset, on whichever address Dagster is opened.

    Args:
        text: What to click.
    """
    prefix = urlsplit(os.environ.get(URL_VARIABLE, "")).path.rstrip("/")
    path = "/".join(quote(part, safe="") for part in key.path)
    return f"[{text}]({prefix}/assets/{path}?view=partitions&partition={quote(partition)})"


def short_name(name: object) -> str:
    """Shorten a name in its middle if it is too long for a table."""
    text = str(name)
    half = (MAX_NAME - 1) // 2
    return text if len(text) <= MAX_NAME else f"{text[:half]}…{text[-half:]}"


def folded(line: str) -> Iterator[str]:
    """Break a line of a diff that is too long, at spaces; each part keeps the line's sign."""
    sign, rest = line[:1], line[1:]
    indent = " " * (len(rest) - len(rest.lstrip()))
    while len(rest) > MAX_LINE:
        at = rest.rfind(" ", len(indent) + MAX_LINE // 3, MAX_LINE)
        at = at if at > 0 else MAX_LINE
        yield sign + rest[:at]
        rest = f"{indent[: MAX_LINE // 3]}    {rest[at:].lstrip()}"
    yield sign + rest
