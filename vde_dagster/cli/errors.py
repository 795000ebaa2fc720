"""Exceptions and failed plans as messages, JSON objects and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from vde_dagster.base.failures import NO_SPACE_HINT, is_no_space
from vde_dagster.cli.output import print_json
from vde_dagster.errors import ExecutionError, ProjectError, VdeError

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
    """Return the lines below the message of a failed plan; none for other errors."""
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


CANCELLED = 130
"""Exit code after Ctrl-C, as shells have it (128 + SIGINT)."""


class Cancelled(Exception):
    """The user pressed Ctrl-C, and the work was stopped."""


def report(error: Exception, *, as_json: bool, debug: bool) -> int:
    """Print an error and return the process's exit code.

    Args:
        as_json: Print `{"error": …}` on stdout too.
        debug: Show the traceback of an unexpected error.

    Returns:
        1 for work that failed, 2 for a mistake in the project or the call.
    """
    if not isinstance(error, VdeError) and is_no_space(error):
        error = ExecutionError(f"no space left: {_first_line(error)}", hint=NO_SPACE_HINT)
    if isinstance(error, VdeError):
        code = error.exit_code
        detail = _detail(error)
        mistakes = error.mistakes if isinstance(error, ProjectError) else (error,)
        lines = [line for mistake in mistakes for line in _lines(mistake)]
        if len(mistakes) > 1:
            lines.append(f"{len(mistakes)} mistakes")
        details = failure_lines(error)
        if details:
            lines[1:1] = details  # Between what happened and what to do next.
    else:
        code = 1
        message = f"unexpected {type(error).__name__}: {_first_line(error)}"
        detail = {"message": message, "hint": "run it again with --debug for the traceback"}
        lines = [f"error: {message} (--debug shows the traceback)"]
    if debug:
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    if as_json:
        print_json({"error": {**_EMPTY, **detail}})
    print("\n".join(lines), file=sys.stderr)
    return code


def report_call(message: str, *, as_json: bool) -> int:
    """Print a mistake in the call that the argument parser found; return exit code 2."""
    hint = "--help lists the commands and their options"
    if as_json:
        print_json({"error": {**_EMPTY, "message": message, "hint": hint}})
    print(f"error: {message}\nhint: {hint}", file=sys.stderr)
    return 2


def report_cancelled(*, as_json: bool) -> int:
    """Print that the user stopped the work; return exit code 130."""
    if as_json:
        hint = "run it again to go on from here"
        print_json({"error": {**_EMPTY, "message": "cancelled", "hint": hint}})
    print("cancelled", file=sys.stderr)
    return CANCELLED


_EMPTY: dict[str, Any] = {
    "message": None,
    "hint": None,
    "file": None,
    "line": None,
    "column": None,
    "mistakes": [],
    **NO_FAILURES,
}


def _lines(error: VdeError) -> list[str]:
    where = f"{error.location}: " if error.location else ""
    headline = f"{where}error: {error.message}"
    return [headline, f"hint: {error.hint}"] if error.hint else [headline]


def _detail(error: VdeError) -> dict[str, Any]:
    mistakes = error.mistakes if isinstance(error, ProjectError) else ()
    return {
        **_one(error),
        "mistakes": [_one(mistake) for mistake in mistakes],
        **failures_json(error),
    }


def _one(error: VdeError) -> dict[str, Any]:
    location = error.location
    return {
        "message": error.message,
        "hint": error.hint,
        "file": location.path.as_posix() if location else None,
        "line": location.line if location else None,
        "column": location.column if location else None,
    }


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else "no message"
