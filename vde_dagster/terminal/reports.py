"""Reports as trees, tables and summaries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vde_dagster.base.texts import and_more
from vde_dagster.reports.document import MOST_REASONS, Mark, Report, Row, Section
from vde_dagster.terminal.tables import simple_table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree


MOST_NAMES = 10
"""Maximum number of breaking changes in the short form."""

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


def report_text(report: Report, width: int) -> str:
    """Return a report as text without colors."""
    from io import StringIO

    from rich.console import Console

    printed = StringIO()
    # In a notebook's kernel, Rich would also display output written to a file.
    show_report(Console(file=printed, width=width, color_system=None, force_jupyter=False), report)
    return printed.getvalue().rstrip()


def show_report(console: Console, report: Report) -> None:
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
    """Print a section's rows as a table, then its title; without rows, only the title."""
    rows = [[cell.text for cell in row.cells] for row in section.rows]
    if rows:
        console.print(simple_table(section.columns, rows))
    if section.title:
        console.print(section.title, style=_STYLES[section.mark])


def show_summary(console: Console, report: Report) -> None:
    """Print a report's summary: breaking changes, and a line for each section."""
    console.print(_title(report))
    broken = report.breaks.rows if report.breaks else ()
    for row in broken[:MOST_NAMES]:
        console.print(_line(row, "breaks    "))
    if more := and_more(len(broken), MOST_NAMES):
        console.print(f"         {more}", style="red")
    for section in (*report.work, *report.rest):
        amount = section.amount or len(section.rows)
        console.print(f"{_lower(section.title):<9} {amount}", markup=False)
    for sentence in report.short:
        console.print(sentence, markup=False)
    show_warnings(console, report.warnings)


def show_warnings(console: Console, warnings: Sequence[str]) -> None:
    from rich.text import Text

    for warning in warnings:
        console.print(Text("warning: ", style="yellow").append(warning, style="default"))


def color_diff(lines: Sequence[str]) -> Text:
    """Color a diff: removed lines red, added lines green."""
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
    if more := and_more(len(row.reasons), MOST_REASONS):
        node.add(Text(more.lstrip(), style="dim"))
    if row.diff:
        node.add(color_diff(row.diff))


def _line(row: Row, before: str = "") -> Text:
    from rich.text import Text

    cells = [Text(cell.text, style=_STYLES[cell.mark]) for cell in row.cells if cell.text]
    return Text(before).append_text(Text("  ").join(cells))
