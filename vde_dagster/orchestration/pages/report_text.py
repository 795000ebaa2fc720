"""Reports, rows and links as Markdown, in the style of a good pull request.

Tables fit into 600 pixels; metadata is 800 pixels wide on a screen of 1,400.
"""

from __future__ import annotations

from functools import partial

from vde_dagster.orchestration.names import Names
from vde_dagster.reports.document import Cell, Mark, Report, Row, Section
from vde_dagster.reports.markdown import (
    MAX_ROWS,
    literal,
    more_rows,
    plain_table,
    row_markdown,
    section_markdown,
    short_name,
)

MAX_INLINE = 950
"""Maximum length of Markdown that Dagster shows inline; longer texts become a link."""
MOST_BREAKS = 5


_section = partial(section_markdown, narrow=True)


def report_markdown(report: Report, names: Names, *, is_open: bool = True) -> str:
    """Format a report as Markdown: breaking changes, warnings, work, reasons and effects."""
    parts = [_title(report, names, is_open)]
    if report.breaks:
        parts.append(_section(report.breaks))
    if report.warnings:
        warnings = tuple(Row((Cell(warning),)) for warning in report.warnings)
        parts.append(_section(Section(report.warnings_title, rows=warnings)))
    parts += map(_section, report.work)
    if explained := [row for section in report.work for row in section.rows if row_markdown(row)]:
        parts += ["### Why", *map(row_markdown, explained[:MAX_ROWS]), *more_rows(len(explained))]
    return "\n\n".join([*parts, *map(_section, report.rest)])


def short_markdown(report: Report, names: Names, *, is_open: bool = True) -> str:
    """Format a report as Markdown that is short enough for Dagster to show inline."""
    parts = [_title(report, names, is_open)]
    if report.breaks:
        parts.append(_section(report.breaks, MOST_BREAKS))
    counts = [(report.warnings_title, len(report.warnings))] if report.warnings else []
    others = [section.heading for section in report.rest]
    facts = [*(f"{title}: {number}" for title, number in counts), *report.short, *others]
    parts.append("\n".join(f"- {literal(text)}" for text in facts))
    title = "\n\n".join(filter(None, parts))
    lines = "\n\n".join(map(_section, report.work)).splitlines()
    while len(title) + sum(len(line) + 1 for line in lines) > MAX_INLINE and len(lines) > 5:
        lines = [*lines[:-2], "… the rest is in the plan"]
    return "\n\n".join([title, *(["\n".join(lines)] if lines else [])])


def change_texts(report: Report) -> list[str]:
    """Return the reasons and the diff of each model whose file was edited."""
    return [row_markdown(row) for section in report.work for row in section.rows if row.diff]


def _title(report: Report, names: Names, is_open: bool) -> str:
    title = f"## {report.title} `{report.subject}`: {report.summary}"
    if not report.id:
        return title
    title = f"{title}\n\nPlan `{report.id}`, {report.facts}."
    if not is_open:
        return title
    approve, reject = (
        names.link(key, report.id, f"its partition of {key.to_user_string()}")
        for key in (names.apply_key, names.reject_key)
    )
    return f"{title} To approve it, materialize {approve}; to reject it, {reject}."


def section_table(section: Section, names: Names, most: int = MAX_ROWS) -> str:
    rows = [[_linked(cell, names) for cell in row.cells] for row in section.rows[:most]]
    table = plain_table(section.columns, rows, narrow=True)
    return "\n".join([table, *more_rows(len(section.rows), most)])


def _linked(cell: Cell, names: Names) -> str:
    if cell.mark is Mark.PLAN and cell.text:
        return names.link(names.plan_key, cell.text, "plan")
    if cell.mark is Mark.NAME:
        return ", ".join(map(short_name, cell.text.split(", ")))
    return cell.text
