"""Results in a notebook: rows as a table, and plans as their reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

from rich.console import Console

from vde_dagster.base.json_values import text_value
from vde_dagster.base.texts import and_more, count
from vde_dagster.errors import UsageError
from vde_dagster.execution.query.read_rows import rows_as_tuples
from vde_dagster.reports.document import MOST_REASONS, Cell, Mark, Report, Row, Section
from vde_dagster.reports.plan import plan_report
from vde_dagster.terminal.reports import report_text
from vde_dagster.terminal.tables import show_rows

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa

    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.planning.plan.plan import Plan
    from vde_dagster.reports.document import Report

SHOWN_ROWS = 100
_WIDTH = 120
_EXACT = 2**53
"""Up to this number, floats represent all integers."""
_NULL = "<td style='opacity:.5'>NULL</td>"


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one version of an environment.

    Args:
        arrow: The rows; instants are in UTC.
        environment: The version of the environment, such as `dev@7`.
        read_live: External tables that were read in their current state.
    """

    arrow: pa.Table
    environment: str
    read_live: tuple[str, ...] = ()

    def to_arrow(self) -> pa.Table:
        return self.arrow

    def to_pandas(self) -> pandas.DataFrame:
        """Return a DataFrame. Integers next to NULLs are floats, if floats can represent them."""
        import pandas
        import pyarrow as pa
        import pyarrow.compute as pc

        found: pandas.DataFrame = self.arrow.to_pandas()
        exact = {pa.int64(): pandas.Int64Dtype()}
        for number, column in enumerate(self.arrow.columns):
            if column.type in exact and column.null_count:
                least, most = (one or 0 for one in pc.min_max(column).as_py().values())
                if max(most, -least) > _EXACT:
                    found.isetitem(number, column.to_pandas(types_mapper=exact.get))
        return found

    def to_polars(self) -> polars.DataFrame:
        import polars

        found = polars.from_arrow(self.arrow)
        assert isinstance(found, polars.DataFrame)
        return found

    def __len__(self) -> int:
        return int(self.arrow.num_rows)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Pass the rows to another Arrow library without copying them."""
        return self.arrow.__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        head = "".join(
            f"<th title='{escape(str(field.type), quote=True)}'>{escape(field.name)}</th>"
            for field in self.arrow.schema
        )
        body = "".join(
            "<tr>" + "".join(map(_cell_html, row)) + "</tr>"
            for row in rows_as_tuples(self.arrow.slice(0, SHOWN_ROWS))
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"{table}<p>{escape(self._caption())}</p>"

    def __repr__(self) -> str:
        printed = StringIO()
        columns = [(field.name, str(field.type)) for field in self.arrow.schema]
        # In a kernel, Rich would show text written to any file.
        console = Console(file=printed, width=_WIDTH, color_system=None, force_jupyter=False)
        show_rows(console, columns, rows_as_tuples(self.arrow.slice(0, SHOWN_ROWS)))
        return f"{printed.getvalue().rstrip()}\n{self._caption()}"

    def _caption(self) -> str:
        caption = f"{count(len(self), 'row')} of {self.environment}"
        if len(self) > SHOWN_ROWS:
            caption += f", the first {SHOWN_ROWS} are shown"
        if self.read_live:
            caption += f"; read in their current state: {', '.join(self.read_live)}"
        return caption


def as_arrow(rows: Any) -> pa.Table:
    """Convert rows of Arrow, pandas, Polars or DuckDB to an Arrow table.

    Raises:
        UsageError: The type is not supported.
    """
    import pandas
    import pyarrow as pa

    if isinstance(rows, pandas.DataFrame):
        return pa.Table.from_pandas(rows, preserve_index=False)
    if not hasattr(rows, "__arrow_c_stream__"):
        raise UsageError(
            f"a {type(rows).__name__} is not a table of rows",
            hint="pass rows of workspace.read(…), an Arrow table, or a DataFrame of pandas, "
            "Polars or DuckDB",
        )
    # Polars' stream has string views, which Spark cannot read.
    return pa.table(rows.to_arrow() if hasattr(rows, "to_arrow") else rows)


def plan_as_text(workspace: Workspace, plan: Plan) -> str:
    """Return the report of a plan as plain text, 120 characters wide."""
    return report_text(_report(workspace, plan), _WIDTH)


def plan_as_html(workspace: Workspace, plan: Plan) -> str:
    return report_html(_report(workspace, plan))


def _report(workspace: Workspace, plan: Plan) -> Report:
    return plan_report(plan, workspace.plans.previous_snapshots(plan))


def _cell_html(value: Any) -> str:
    if value is None:
        return _NULL
    side = "right" if isinstance(value, int | float) else "left"
    return f"<td style='text-align:{side}'>{escape(text_value(value))}</td>"


_SECTION_ROWS = 50
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
    parts += map(_section_html, [*breaks, *told, *report.work, *report.rest])
    return "".join(parts)


def _section_html(section: Section) -> str:
    style = _STYLES.get(section.mark, "")
    heading = f"<p style='{style}'><b>{escape(section.title)}</b> {escape(section.amount)}</p>"
    shown, folded = section.rows[:_SECTION_ROWS], section.rows[_SECTION_ROWS:]
    table = heading + _table_html(section.columns, shown)
    if not folded:
        return table
    more = f"<summary>{count(len(folded), 'more row')}</summary>"
    return f"{table}<details>{more}{_table_html(section.columns, folded)}</details>"


def _table_html(columns: tuple[str, ...], rows: Iterable[Row]) -> str:
    rows = list(rows)
    if not rows:
        return ""
    width = max(len(columns), *(len(row.cells) for row in rows))
    names = "".join(f"<th style='{_LEFT}'>{escape(name)}</th>" for name in columns)
    head = f"<thead><tr>{names}</tr></thead>" if any(columns) else ""
    body = "".join(part for row in rows for part in _row_html(row, width))
    return f"<table>{head}<tbody>{body}</tbody></table>"


def _row_html(row: Row, width: int) -> Iterator[str]:
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
