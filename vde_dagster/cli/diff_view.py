"""Changes of definitions and data between versions, for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vde_dagster.cli.report_view import coloured
from vde_dagster.planning.plan.plan import Change, Plan
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.reports.document import diff_lines

if TYPE_CHECKING:
    from rich.console import Console

    from vde_dagster.execution.environments.compare import DataDifference, Difference


@dataclass(frozen=True, slots=True)
class ModelDiff:
    """One model that differs.

    Args:
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
            console.print(coloured(diff.lines))


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
