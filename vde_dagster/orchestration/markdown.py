"""Reports, rows and links as Markdown, to be read like a good pull request.

Metadata has 800 pixels of a screen of 1,400: columns are as wide as their longest word.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import quote, urlsplit

import dagster as dg

from vde_dagster.base.texts import first_of
from vde_dagster.orchestration.instance import URL_VARIABLE
from vde_dagster.orchestration.names import Names
from vde_dagster.reports.document import Cell, Mark, Report, Row, Section

MAX_DIFF_LINES = 200
MAX_ROWS = 200
MAX_INLINE = 950
"""Characters of Markdown that Dagster's page shows in place; longer ones become a link."""
MOST_BREAKS = 5


def report_markdown(report: Report, names: Names) -> str:
    """Write a report: what breaks, warnings, work, then why, and what follows of it."""
    parts = [_title(report, names)]
    if report.breaks:
        parts.append(_section(report.breaks))
    if report.warnings:
        warnings = tuple(Row((Cell(warning),)) for warning in report.warnings)
        parts.append(_section(Section(report.warnings_title, rows=warnings)))
    parts += map(_section, report.work)
    if told := [row for section in report.work for row in section.rows if _why(row)]:
        parts += ["### Why", *map(_why, told[:MAX_ROWS]), *_more(len(told))]
    return "\n\n".join([*parts, *map(_section, report.rest)])


def short_markdown(report: Report, names: Names) -> str:
    """Write a report so shortly that Dagster's page shows it at once, with the work that fits."""
    parts = [_title(report, names)]
    if report.breaks:
        parts.append(_section(report.breaks, MOST_BREAKS))
    told = [(report.warnings_title, len(report.warnings))] if report.warnings else []
    others = [section.heading for section in report.rest]
    said = [*(f"{title}: {number}" for title, number in told), *report.short, *others]
    parts.append("\n".join(f"- {_literal(text)}" for text in said))
    title = "\n\n".join(filter(None, parts))
    lines = "\n\n".join(map(_section, report.work)).splitlines()
    while len(title) + sum(len(line) + 1 for line in lines) > MAX_INLINE and len(lines) > 5:
        lines = [*lines[:-2], "… the rest is in the plan"]
    return "\n\n".join([title, *(["\n".join(lines)] if lines else [])])


def change_texts(report: Report) -> list[str]:
    """Return what is said of each row whose text somebody edited."""
    return [_why(row) for section in report.work for row in section.rows if row.diff]


def _title(report: Report, names: Names) -> str:
    title = f"## {report.title} `{report.subject}`: {report.summary}"
    if not report.id:
        return title
    approve, reject = (
        partition_link(key, report.id, f"its partition of {key.to_user_string()}")
        for key in (names.apply_key, names.reject_key)
    )
    return (
        f"{title}\n\nPlan `{report.id}`, {report.facts}. "
        f"Approve it by materialising {approve}, reject it by {reject}."
    )


def _section(section: Section, most: int = MAX_ROWS) -> str:
    lines = [f"### {section.heading}"]
    if section.columns and section.rows:
        rows = [[_marked(cell) for cell in row.cells] for row in section.rows[:most]]
        lines += ["", _table(section.columns, rows)]
    elif section.rows:
        cells = (" ".join(_literal(c.text) for c in row.cells) for row in section.rows[:most])
        lines += ["", *(f"- {text}" for text in cells)]
    return "\n".join([*lines, *_more(len(section.rows), most)])


def section_table(section: Section, names: Names, most: int = MAX_ROWS) -> str:
    """Write the rows of a section without its title; plans are links to their pages."""
    rows = [[_linked(cell, names) for cell in row.cells] for row in section.rows[:most]]
    return "\n".join([_table(section.columns, rows), *_more(len(section.rows), most)])


def _linked(cell: Cell, names: Names) -> str:
    if cell.mark is Mark.PLAN and cell.text:
        return partition_link(names.plan_key, cell.text, "plan")
    if cell.mark is Mark.NAME:
        return ", ".join(map(short_name, cell.text.split(", ")))
    return cell.text


def _marked(cell: Cell) -> str:
    if cell.mark is Mark.NAME:
        return f"`{short_name(cell.text)}`"
    return f"**{cell.text}**" if cell.mark is Mark.BAD else cell.text


def _literal(text: str) -> str:
    """Write a text of one line in which SQL's signs are no Markdown."""
    return " ".join(text.split()).replace("<", "&lt;").replace("*", "\\*")


def _why(row: Row) -> str:
    """Write the reasons of a row, and the lines that changed; nothing where it has none."""
    if not row.reasons and not row.diff:
        return ""
    name, change = row.cells[0], row.cells[1]
    lines = [f"**`{name.text}`** {_marked(change)}", "", *(f"- {text}" for text in row.reasons)]
    if row.diff:
        lines += ["", diff_block(row.diff)]
    return "\n".join(lines)


def diff_block(lines: Iterable[str]) -> str:
    """Write the lines of a diff as a block of code; one that is long is folded, or cut off."""
    # A line of three back quotes inside would end the fence.
    diff = [part for line in lines for part in folded(line.replace("```", "'''"))]
    if len(diff) > MAX_DIFF_LINES:
        diff = [*diff[:MAX_DIFF_LINES], f"… {len(diff) - MAX_DIFF_LINES} more lines"]
    return "\n".join(["```diff", *diff, "```"])


def _more(total: int, most: int = MAX_ROWS) -> list[str]:
    return ["", f"…{first_of(total, most)}"] if total > most else []


def markdown_table(rows: Sequence[Mapping[str, object]]) -> str:
    """Write at least one row under the first row's columns; None is `NULL`, and `|` is escaped."""
    columns = list(rows[0])
    return _table(columns, [["NULL" if r[c] is None else str(r[c]) for c in columns] for r in rows])


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
    return "\n".join(lines)


MAX_NAME = 32
"""Characters of a name in a table; JSON beside the table has it whole."""
MAX_LINE = 70
"""Characters of a line of code that is not cut off."""


def partition_link(key: dg.AssetKey, partition: str, text: str) -> str:
    """Return a Markdown link to a partition of an asset, on whichever address Dagster is opened."""
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
