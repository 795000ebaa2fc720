"""Errors as lines of text, with the failing rows of audits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from vde_dagster.errors import ExecutionError, ProjectError, VdeError, shortened

if TYPE_CHECKING:
    from vde_dagster.base.failures import FailedAudit

_WIDEST = 40


def error_lines(error: VdeError) -> list[str]:
    """Return the lines of an error, or of each combined mistake: message, failures and hint."""
    several = error.mistakes if isinstance(error, ProjectError) else ()
    lines = [line for mistake in several or (error,) for line in _lines(mistake)]
    if len(several) > 1:
        lines.append(f"{len(several)} mistakes")
    if isinstance(error, ExecutionError):
        lines[1:1] = _failure_lines(error)
    return lines


def rows_as_lines(audit: FailedAudit) -> list[str]:
    """Format failing rows as a table of texts.

    >>> from vde_dagster.base.failures import FailedAudit
    >>> rows_as_lines(FailedAudit("not_null", 1, ({"id": None, "day": "Monday"},)))
    ['id    day', 'NULL  Monday']
    """
    if not audit.sample:
        return []
    rows = [list(audit.sample[0]), *(list(map(_cell, row.values())) for row in audit.sample)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _lines(error: VdeError) -> list[str]:
    where = f"{error.location}: " if error.location else ""
    headline = f"{where}error: {error.message}"
    return [headline, f"hint: {error.hint}"] if error.hint else [headline]


def _failure_lines(error: ExecutionError) -> Iterator[str]:
    for failure in error.failures:
        for audit in failure.audits:
            shown = f"{len(audit.sample)} of {audit.rows} failing rows"
            yield f"{failure.model}: {audit.audit}, {shown}:"
            yield from (f"    {line}" for line in rows_as_lines(audit))
        if failure.hint and not failure.audits:
            yield f"{failure.model}: hint: {failure.hint}"
    if error.log is not None:
        yield f"full tracebacks: {error.log}"


def _cell(value: str | None) -> str:
    if value is None:
        return "NULL"
    return shortened(" ".join(value.split()), _WIDEST)
