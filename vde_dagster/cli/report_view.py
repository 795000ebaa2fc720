"""Reports and differences on a terminal: a tree of sections, or a few lines; and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from vde_dagster.base.texts import first_of
from vde_dagster.planning.plan.plan import Change
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
        amount = section.amount or len(section.rows)
        console.print(f"{_lower(section.title):<9} {amount}", markup=False)
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


def diff_json(environment: str, diffs: Sequence[Difference]) -> dict[str, Any]:
    """Return the documented JSON form."""
    return {
        "environment": environment,
        "models": [
            {
                "name": str(diff.name),
                "change": diff.change.value,
                "category": diff.category.value if diff.category else None,
                "diff": _lines(diff),
                "columns": diff.columns,
            }
            for diff in diffs
        ],
    }


def show_diffs(
    console: Console, environment: str, diffs: Sequence[Difference], *, same: str = ""
) -> None:
    """Print what differs; `same` is said when nothing does."""
    if not diffs:
        console.print(same or f"the project is what [bold]{environment}[/] has")
    for diff in diffs:
        change, category = diff.change.value, diff.category.value if diff.category else None
        category = f", {category}" if category not in (None, change) else ""
        console.print(f"[bold]{diff.name}[/]  {change}{category}")
        for what, names in diff.columns.items():
            if names and diff.change not in (Change.ADDED, Change.REMOVED):
                console.print(f"  columns {what}: {', '.join(names)}", markup=False)
        if diff.change is not Change.ADDED and (lines := _lines(diff)):
            console.print(coloured(lines))


def _lines(diff: Difference) -> list[str]:
    """Return a unified diff of a model's file; nothing where only its parents changed."""
    texts = (snapshot.model.source if snapshot else "" for snapshot in (diff.old, diff.new))
    return diff_lines(*texts)


def show_data(console: Console, data: Iterable[DataDifference]) -> None:
    """Print of which models two versions show other rows."""
    for one in data:
        after, before = ("?" if n is None else n for n in (one.after, one.before))
        rows = f"{after} rows, {before} before"
        if one.added is not None:
            rows += f": {one.added} added, {one.removed} removed"
        table = "" if one.same_table else ", in another table"
        console.print(f"[bold]{one.name}[/]  data: {rows}{table}")
