"""A plan for people: intervals to compute, changes that cost nothing, views and texts."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vde_dagster.base.times import range_text
from vde_dagster.planning.intervals.cadence import IntervalUnit
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.plan.plan import Category, Change, Plan, PlanKind, PlannedModel
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.table_contents import Skipped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

    from vde_dagster.execution.environments.compare import DataDifference, Difference


MOST_REASONS = 4
"""Reasons shown per model; the JSON form has them all."""

MOST_NAMES = 10
"""Breaking models, and columns that go, that a summary names."""

_KINDS = {
    PlanKind.PLAN: "plan for",
    PlanKind.RUN: "run of",
    PlanKind.RESTATEMENT: "restatement of",
}

_STYLES = {
    Change.ADDED: "green",
    Change.MODIFIED: "yellow",
    Change.AFFECTED: "magenta",
    Change.REMOVED: "red",
    Change.UNCHANGED: "dim",
}


def show_plan(
    console: Console, plan: Plan, previous: Mapping[str, Snapshot], *, diffs: bool = True
) -> None:
    """Print a plan; of an empty one, only its warnings.

    Args:
        console: Where to.
        previous: The snapshots that the plan replaces, by id.
        diffs: Whether to show the change of each modified model's text.
    """
    from rich.tree import Tree

    if plan.is_empty:
        show_warnings(console, plan)
        return
    tree = Tree(_title(plan))
    _add_breaks(tree, plan)
    works = [model for model in plan.models if model.builds and model.skips is None]
    idle = [model for model in plan.models if model.skips is not None]
    less = saved(model.skips for model in idle if model.skips is not None)
    free = [m for m in plan.models if not m.builds and m.change is not Change.UNCHANGED]
    audited = [model for model in _audited(plan) if model.change is Change.UNCHANGED]
    for title, models in (
        (f"[bold]computes[/] {count(len(works), 'model')}", works),
        (f"[bold]skips[/] {count(len(idle), 'model')}{less}", idle),
        (f"[bold]changes without computing[/] {count(len(free), 'model')}", free),
        (f"[bold]audits[/] {count(len(audited), 'model')} without computing", audited),
    ):
        if models:
            branch = tree.add(title)
            for model in models:
                _add_model(branch, plan, model, previous, diffs)
    untouched = len(plan.models) - len(works) - len(idle) - len(free) - len(audited)
    if untouched:
        tree.add(f"[dim]leaves {count(untouched, 'model')} as they are[/]")
    _add_views(tree, plan)
    _add_outdated(tree, plan)
    _add_statements(tree, plan)
    console.print(tree)
    show_warnings(console, plan)


def show_warnings(console: Console, plan: Plan) -> None:
    """Print what looks like a mistake in the project, one a line."""
    from rich.text import Text

    for warning in plan.warnings:
        console.print(Text("warning: ", style="yellow").append(warning, style="default"))


def _add_statements(tree: Tree, plan: Plan) -> None:
    """Say what runs before and after all else."""
    from rich.text import Text

    statements = plan.complete_statements
    for title, texts in (("before all", statements.before), ("after all", statements.after)):
        if texts:
            branch = tree.add(f"runs {title}")
            for text in texts:
                branch.add(Text(text))


def _add_breaks(tree: Tree, plan: Plan) -> None:
    """Say first what readers will not find as it is."""
    from rich.text import Text

    if plan.breaks:
        branch = tree.add("[bold red]breaks what is published[/]")
        for broken in plan.breaks:
            branch.add(Text(broken.describe(), style="red"))


def show_summary(console: Console, plan: Plan) -> None:
    """Print a plan in numbers, a line each for what is computed, what changes and the views."""
    from rich.text import Text

    console.print(_title(plan))
    for broken in plan.breaks[:MOST_NAMES]:
        console.print(Text(f"breaks    {broken.describe()}", style="red"))
    if plan.breaks[MOST_NAMES:]:
        console.print(f"          and {len(plan.breaks) - MOST_NAMES} more", style="red")
    works = [model for model in plan.builds if model.skips is None]
    intervals = sum(
        count_units(snapshot.cadence.unit, model.intervals) if snapshot.is_incremental else 1
        for model in works
        for snapshot in [plan.snapshots[model.snapshot_id or ""]]
    )
    computed = f"{count(len(works), 'model')}, {count(intervals, 'interval')}"
    console.print(f"computes  {computed}" if works else "computes  nothing")
    idle = [model.skips for model in plan.builds if model.skips is not None]
    if idle:
        console.print(f"skips     {count(len(idle), 'model')}{saved(idle)}")
    audited = _audited(plan)
    if audited:
        console.print(f"audits    {count(len(audited), 'model')} without computing")
    changes = Counter(model.change for model in plan.models)
    shown = [f"{changes[change]} {change.value}" for change in Change if changes[change]]
    console.print(f"models    {', '.join(shown)}")
    breaking = [str(m.name) for m in plan.models if m.category is Category.BREAKING]
    if breaking:
        more = f" and {len(breaking) - MOST_NAMES} more" if breaking[MOST_NAMES:] else ""
        console.print(f"breaking  {', '.join(breaking[:MOST_NAMES])}{more}", style="red")
    for model in plan.models:
        if model.in_place is not None:
            console.print(f"in place  {model.name}: {'; '.join(model.in_place.sentences())}")
    views = _view_counts(plan)
    if views:
        console.print(f"views     {views}")
    if plan.outdates:
        console.print(f"outdates  {count(len(plan.outdates), 'table')} of others")
    show_warnings(console, plan)


def _audited(plan: Plan) -> list[PlannedModel]:
    return [model for model in plan.models if model.audits and not model.builds]


def _title(plan: Plan) -> str:
    what = _KINDS[plan.kind]
    base = f"at version {plan.base_version}" if plan.base_version else "new"
    return f"{what} [bold]{plan.environment}[/] ({base}) · id {plan.id}"


def _add_model(
    branch: Tree,
    plan: Plan,
    model: PlannedModel,
    previous: Mapping[str, Snapshot],
    diffs: bool,
) -> None:
    from rich.text import Text

    line = Text(str(model.name), style="bold")
    line.append(f"  {model.change.value}", style=_STYLES[model.change])
    if model.category is not None and model.category.value != model.change.value:
        line.append(f", {model.category.value.replace('_', '-')}", style=_STYLES[model.change])
    if model.skips is not None:
        line.append(f"  skipped, {model.skips.why}", style="green")
    elif model.builds:
        again = "  again" if model.again else ""
        line.append(f"{again}  {describe_intervals(plan, model)}", style="cyan")
    if model.audits:
        rows = "that stay" if model.builds else "that are there"
        line.append(f"  audits the rows {rows}", style="cyan")
    if version := plan.version_of(model):
        line.append(f"  {version}", style="dim")
    node = branch.add(line)
    for sentence in model.in_place.sentences() if model.in_place else ():
        node.add(Text(sentence, style="cyan"))
    if model.batches is not None:
        node.add(Text(model.batches.text, style="cyan"))
    if model.change is Change.ADDED:
        return
    for reason in model.reasons[:MOST_REASONS]:
        node.add(Text(reason, style="dim"))
    if len(model.reasons) > MOST_REASONS:
        node.add(Text(f"and {len(model.reasons) - MOST_REASONS} more", style="dim"))
    old = previous.get(model.previous_snapshot_id or "")
    new = plan.snapshots.get(model.snapshot_id or "")
    if diffs and model.change is Change.MODIFIED and old and new:
        lines = diff_lines(old.model.source, new.model.source)
        if lines:
            node.add(coloured(lines))


def _add_views(tree: Tree, plan: Plan) -> None:
    changes = _view_counts(plan)
    if changes:
        branch = tree.add(f"[bold]views[/] {changes}")
        for ref in plan.views.dropped:
            branch.add(f"[red]drops {ref}[/]")


def _add_outdated(tree: Tree, plan: Plan) -> None:
    """Say what others have to compute again, since they made it of what is restated."""
    from rich.text import Text

    if not plan.outdates:
        return
    branch = tree.add("[bold]makes outdated[/], for their own next runs to compute again")
    for found in plan.outdates[:MOST_NAMES]:
        first, last = found.intervals.ranges[0], found.intervals.ranges[-1]
        shown = "whole table" if found.whole else range_text(first.start, last.end)
        branch.add(Text(f"{found.name}  {found.shown_by()}  {shown}"))
    if plan.outdates[MOST_NAMES:]:
        branch.add(f"and {len(plan.outdates) - MOST_NAMES} more")


def _view_counts(plan: Plan) -> str:
    views = plan.views
    counts = {"created": views.created, "replaced": views.replaced, "dropped": views.dropped}
    return ", ".join(f"{len(refs)} {word}" for word, refs in counts.items() if refs)


def describe_intervals(plan: Plan, model: PlannedModel) -> str:
    """Say what of a model is computed: `365 days, 2013-01-01 … 2013-12-31`, or `whole table`."""
    snapshot = plan.snapshots[model.snapshot_id or ""]
    if model.records_only:
        return f"records as filled, computes nothing: {_intervals(snapshot, model)}"
    return _intervals(snapshot, model)


def _intervals(snapshot: Snapshot, model: PlannedModel) -> str:
    if not snapshot.is_incremental:
        return "whole table"
    total = count_units(snapshot.cadence.unit, model.intervals)
    ranges = [describe_range(snapshot.cadence.unit, interval) for interval in model.intervals]
    shown = ", ".join(ranges[:3]) + (f" and {len(ranges) - 3} more ranges" if ranges[3:] else "")
    return f"{count(total, unit_name(snapshot.cadence.unit))}, {shown}"


def describe_range(unit: IntervalUnit, interval: Interval) -> str:
    """Write a range by its first and last unit, both included."""
    last = unit.shift(interval.end, -1)
    form = "%Y-%m-%d" if unit in (IntervalUnit.DAY, IntervalUnit.MONTH) else "%Y-%m-%d %H:%M"
    form = "%Y" if unit is IntervalUnit.YEAR else form
    first_text, last_text = interval.start.strftime(form), last.strftime(form)
    return first_text if first_text == last_text else f"{first_text} … {last_text}"


def count_units(unit: IntervalUnit, intervals: Iterable[Interval]) -> int:
    """Count the units (days, hours …) in aligned ranges."""
    return sum(unit.count(interval) for interval in intervals)


def unit_name(unit: IntervalUnit) -> str:
    """Name a unit, as in `day` or `quarter hour`."""
    name = unit.name.lower().replace("_", " ")
    return name.removesuffix("s")


def saved(skipped: Iterable[Skipped]) -> str:
    """Say what skipping saves, as far as earlier fills tell: `, which saves 12 s and 3.4 MB`."""
    listed = list(skipped)
    seconds = sum(one.seconds or 0.0 for one in listed)
    size = sum(one.bytes or 0 for one in listed)
    parts = [f"{seconds:,.1f} s"] if seconds else []
    if size:
        parts.append(f"{size / 1e6:,.1f} MB" if size >= 100_000 else f"{size / 1e3:,.1f} kB")
    return f", which saves {' and '.join(parts)}" if parts else ""


def count(number: int, noun: str) -> str:
    """Write a number with its noun: `1 day`, `2 days`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


CONTEXT = 2
"""Unchanged lines shown around each change."""


def diff_lines(before: str, after: str) -> list[str]:
    """Return the lines of a unified diff without its file names.

    Args:
        before: The text that the environment has.
        after: The text that the project has.
    """
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=CONTEXT)
    return [line for line in lines if not line.startswith(("---", "+++"))]


def coloured(lines: list[str]) -> Text:
    """Colour a diff: removed lines red, added ones green."""
    from rich.text import Text

    text = Text()
    for number, line in enumerate(lines):
        style = {"-": "red", "+": "green", "@": "cyan"}.get(line[:1], "dim")
        text.append(("\n" if number else "") + line, style=style)
    return text


@dataclass(frozen=True, slots=True)
class ModelDiff:
    """One model that differs.

    Args:
        name: The model's name.
        category: What that means for its data, or None.
        lines: A unified diff of its file's text; empty when only its parents changed.
        columns: Names of columns that are added, removed and changed.
    """

    name: str
    change: Change
    category: str | None
    lines: tuple[str, ...]
    columns: Mapping[str, list[str]]


def model_diffs(plan: Plan, previous: Mapping[str, Snapshot]) -> tuple[ModelDiff, ...]:
    """Return what differs, in the plan's order.

    Args:
        previous: The snapshots that the plan replaces or removes, by id.
    """
    from vde_dagster.execution.environments.compare import Difference

    found = []
    for model in plan.models:
        if model.change is Change.UNCHANGED:
            continue
        old = previous.get(model.previous_snapshot_id or "")
        new = plan.snapshots.get(model.snapshot_id or "")
        found.append(difference_of(Difference(model.name, model.change, model.category, new, old)))
    return tuple(found)


def difference_of(found: Difference) -> ModelDiff:
    """Return a difference with the lines of text that differ."""
    new, old = found.new, found.old
    lines = diff_lines(old.model.source if old else "", new.model.source if new else "")
    category = found.category.value if found.category else None
    return ModelDiff(str(found.name), found.change, category, tuple(lines), found.columns)


def diff_json(environment: str, diffs: tuple[ModelDiff, ...]) -> dict[str, Any]:
    """Return the documented JSON form."""
    return {
        "environment": environment,
        "models": [
            {
                "name": diff.name,
                "change": diff.change.value,
                "category": diff.category,
                "diff": list(diff.lines),
                "columns": dict(diff.columns),
            }
            for diff in diffs
        ],
    }


def show_diffs(
    console: Console, environment: str, diffs: tuple[ModelDiff, ...], *, same: str = ""
) -> None:
    """Print what differs; `same` is said when nothing does."""
    if not diffs:
        console.print(same or f"the project is what [bold]{environment}[/] has")
    for diff in diffs:
        category = f", {diff.category}" if diff.category not in (None, diff.change.value) else ""
        console.print(f"[bold]{diff.name}[/]  {diff.change.value}{category}")
        for what, names in diff.columns.items():
            if names and diff.change not in (Change.ADDED, Change.REMOVED):
                console.print(f"  columns {what}: {', '.join(names)}", markup=False)
        if diff.lines and diff.change is not Change.ADDED:
            console.print(coloured(list(diff.lines)))


def show_data(console: Console, data: Iterable[DataDifference]) -> None:
    """Print of which models two versions show other rows."""
    for one in data:
        rows = f"{_count(one.after)} rows, {_count(one.before)} before"
        if one.added is not None:
            rows += f": {one.added} added, {one.removed} removed"
        table = "" if one.same_table else ", in another table"
        console.print(f"[bold]{one.name}[/]  data: {rows}{table}")


def _count(rows: int | None) -> str:
    return "?" if rows is None else str(rows)
