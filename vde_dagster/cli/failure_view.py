"""A failed plan for people and as JSON: model by model where, what, and the rows that fail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from vde_dagster.errors import ExecutionError, VdeError

if TYPE_CHECKING:
    from vde_dagster.base.failures import FailedAudit

NO_FAILURES: dict[str, Any] = {"failures": [], "log": None}
"""What JSON says of an error that is not a failed plan."""

_WIDEST = 40


def failures_json(error: VdeError) -> dict[str, Any]:
    """Return the models that failed, and the file with their stacks."""
    if not isinstance(error, ExecutionError):
        return NO_FAILURES
    return {
        "failures": [failure.to_json() for failure in error.failures],
        "log": str(error.log) if error.log else None,
    }


def failure_lines(error: VdeError) -> list[str]:
    """Return what is said of a failed plan below its message; nothing of other errors."""
    if not isinstance(error, ExecutionError):
        return []
    lines = [line for failure in error.failures for line in _details(failure)]
    if error.log is not None:
        lines.append(f"whole stacks: {error.log}")
    return lines


def _details(failure: Any) -> Iterator[str]:
    for audit in failure.audits:
        yield f"{failure.model}: {audit.audit}, {len(audit.sample)} of {audit.rows} failing rows:"
        yield from (f"    {line}" for line in rows_as_lines(audit))
    if failure.hint and not failure.audits:
        yield f"{failure.model}: hint: {failure.hint}"


def rows_as_lines(audit: FailedAudit) -> list[str]:
    """Lay failing rows out as a table of texts, long values cut.

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


def _cell(value: str | None) -> str:
    if value is None:
        return "NULL"
    text = " ".join(value.split())
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
