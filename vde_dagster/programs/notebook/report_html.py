"""Reports as HTML: a table for each section, with reasons and edits below its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from vde_dagster.base.texts import and_more, count
from vde_dagster.reports.document import MOST_REASONS, Cell, Mark, Report, Row, Section

SHOWN_ROWS = 50
"""Number of a section's rows that are visible; the others fold out."""

_STYLES = {
    Mark.NAME: "font-weight:bold",
    Mark.GOOD: "color:#1a7f37",
    Mark.CHANGED: "color:#9a6700",
    Mark.AFFECTED: "color:#8250df",
    Mark.WORK: "color:#0969da",
    Mark.BAD: "color:#cf222e",
    Mark.QUIET: "opacity:.6",
}
_LEFT = "text-align:left;vertical-align:top"
_SMALL = "opacity:.7;font-size:smaller"
_DIFF = {"+": _STYLES[Mark.GOOD], "-": _STYLES[Mark.BAD], "@": _STYLES[Mark.WORK]}


def report_html(report: Report) -> str:
    """Return a report as HTML tables, without style sheets and scripts."""
    facts = f"id {report.id}, {report.facts}" if report.id else report.facts
    parts = [
        f"<p>{escape(report.title)} <b>{escape(report.subject)}</b>: {escape(report.summary)}<br/>"
        f"<span style='{_SMALL}'>{escape(facts)}</span></p>"
    ]
    breaks = [report.breaks] if report.breaks else []
    warnings = tuple(Row((Cell(text, Mark.CHANGED),)) for text in report.warnings)
    told = [Section(report.warnings_title, rows=warnings)] if warnings else []
    parts += map(_section, [*breaks, *told, *report.work, *report.rest])
    return "".join(parts)


def _section(section: Section) -> str:
    style = _STYLES.get(section.mark, "")
    heading = f"<p style='{style}'><b>{escape(section.title)}</b> {escape(section.amount)}</p>"
    shown, folded = section.rows[:SHOWN_ROWS], section.rows[SHOWN_ROWS:]
    table = heading + _table(section.columns, shown)
    if not folded:
        return table
    more = f"<summary>{count(len(folded), 'more row')}</summary>"
    return f"{table}<details>{more}{_table(section.columns, folded)}</details>"


def _table(columns: tuple[str, ...], rows: Iterable[Row]) -> str:
    rows = list(rows)
    if not rows:
        return ""
    width = max(len(columns), *(len(row.cells) for row in rows))
    names = "".join(f"<th style='{_LEFT}'>{escape(name)}</th>" for name in columns)
    head = f"<thead><tr>{names}</tr></thead>" if any(columns) else ""
    body = "".join(part for row in rows for part in _row(row, width))
    return f"<table>{head}<tbody>{body}</tbody></table>"


def _row(row: Row, width: int) -> Iterator[str]:
    cells = [
        f"<td style='{_LEFT};{_STYLES.get(cell.mark, '')}'>{escape(cell.text)}</td>"
        for cell in row.cells
    ]
    cells += ["<td></td>"] * (width - len(cells))
    yield f"<tr>{''.join(cells)}</tr>"
    reasons = [*row.reasons[:MOST_REASONS], and_more(len(row.reasons), MOST_REASONS).lstrip()]
    under = [f"<div style='{_SMALL}'>{escape(reason)}</div>" for reason in reasons if reason]
    if row.diff:
        lines = (
            f"<span style='{_DIFF.get(line[:1], _SMALL)}'>{escape(line)}</span>"
            for line in row.diff
        )
        under.append(f"<pre style='margin:0'>{chr(10).join(lines)}</pre>")
    if under:
        yield f"<tr><td colspan='{width}' style='{_LEFT}'>{''.join(under)}</td></tr>"
