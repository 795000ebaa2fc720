"""Reports and differences on a terminal: a tree of sections, or a few lines; and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vde_dagster.base.texts import first_of
from vde_dagster.planning.plan.plan import Change, Plan
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.reports.document import Mark, Report, Row, Section, diff_lines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

    from vde_dagster.execution.environments.compare import DataDifference, Difference


MOST_REASONS = 4
"""Reasons shown per row; the JSON form has them all."""
MOST_NAMES = 10
"""Breaks that the short form names."""

_STYLES = {
    Mark.PLAIN: "",
    Mark.NAME: "bold",
    Mark.GOOD: "green",
    Mark.CHANGED: "yellow",
    Mark.AFFECTED: "magenta",
    Mark.WORK: "cyan",
    Mark.BAD: "red",
    Mark.QUIET: "dim",
    Mark.PLAN: "",
}


def show_report(console: Console, report: Report) -> None:
    """Print a report as a tree, and its warnings below."""
    from rich.text import Text
    from rich.tree import Tree

    tree = Tree(_title(report))
    breaks = [report.breaks] if report.breaks else []
    for section in (*breaks, *report.work, *report.rest):
        heading = Text(_lower(section.title), style=_STYLES[section.mark] or "bold")
        heading.append(f" {section.amount}".rstrip(), style=_STYLES[section.mark] or "not bold")
        branch = tree.add(heading)
        for row in section.rows:
            _add_row(branch, row)
    console.print(tree)
    show_warnings(console, report.warnings)


def show_table(console: Console, section: Section) -> None:
    """Print a section's rows as a table, if there are any, and its title below."""
    from vde_dagster.cli.output import simple_table

    rows = [[cell.text for cell in row.cells] for row in section.rows]
    if rows:
        console.print(simple_table(section.columns, rows))
    if section.title:
        console.print(section.title, style=_STYLES[section.mark])


def show_summary(console: Console, report: Report) -> None:
    """Print a report in short: what breaks, and a line for each section."""
    console.print(_title(report))
    broken = report.breaks.rows if report.breaks else ()
    for row in broken[:MOST_NAMES]:
        console.print(_line(row, "breaks    "))
    if more := first_of(len(broken), MOST_NAMES):
        console.print(f"         {more}", style="red")
    for section in (*report.work, *report.rest):
        console.print(f"{_lower(section.title):<9} {_amount(section)}", markup=False)
    for sentence in report.short:
        console.print(sentence, markup=False)
    show_warnings(console, report.warnings)


def show_warnings(console: Console, warnings: Sequence[str]) -> None:
    """Print what looks like a mistake in the project, one a line."""
    from rich.text import Text

    for warning in warnings:
        console.print(Text("warning: ", style="yellow").append(warning, style="default"))


def coloured(lines: Sequence[str]) -> Text:
    """Colour a diff: removed lines red, added ones green."""
    from rich.text import Text

    text = Text()
    for number, line in enumerate(lines):
        style = {"-": "red", "+": "green", "@": "cyan"}.get(line[:1], "dim")
        text.append(("\n" if number else "") + line, style=style)
    return text


def _title(report: Report) -> Text:
    from rich.text import Text

    title = Text(f"{_lower(report.title)} ").append(report.subject, style="bold")
    return title.append(
        f": {report.summary} · {f'id {report.id}, ' if report.id else ''}{report.facts}"
    )


def _lower(title: str) -> str:
    return title[:1].lower() + title[1:]


def _amount(section: Section) -> str:
    return section.amount or f"{len(section.rows)}"


def _add_row(branch: Tree, row: Row) -> None:
    from rich.text import Text

    node = branch.add(_line(row))
    for reason in row.reasons[:MOST_REASONS]:
        node.add(Text(reason, style="dim"))
    if more := first_of(len(row.reasons), MOST_REASONS):
        node.add(Text(more.lstrip(), style="dim"))
    if row.diff:
        node.add(coloured(row.diff))


def _line(row: Row, before: str = "") -> Text:
    from rich.text import Text

    cells = [Text(cell.text, style=_STYLES[cell.mark]) for cell in row.cells if cell.text]
    return Text(before).append_text(Text("  ").join(cells))


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
