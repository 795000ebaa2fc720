"""Exceptions and failed plans as messages, JSON objects and exit codes."""

from __future__ import annotations

import sys
from typing import Any

from vde_dagster.base.failures import NO_SPACE_HINT, is_no_space
from vde_dagster.cli.output import print_json
from vde_dagster.errors import ExecutionError, ProjectError, VdeError
from vde_dagster.reports.errors import error_lines

CANCELLED = 130
"""Exit code after Ctrl-C, as in shells (128 + SIGINT)."""


class Cancelled(Exception):
    """Raised when Ctrl-C canceled the work."""


def report(error: Exception, *, as_json: bool, debug: bool) -> int:
    """Print an error and return the process's exit code.

    Args:
        as_json: Also print `{"error": …}` on stdout.
        debug: Show the traceback.

    Returns:
        1 for failed work, 2 for an error in the project or the call.
    """
    if not isinstance(error, VdeError) and is_no_space(error):
        error = ExecutionError(f"no space left: {_first_line(error)}", hint=NO_SPACE_HINT)
    if debug:
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    if not isinstance(error, VdeError):
        message = f"unexpected {type(error).__name__}: {_first_line(error)}"
        hint = "run the command again with --debug for the traceback"
        lines = [f"error: {message} (--debug shows the traceback)"]
        return _print_error(lines, {"message": message, "hint": hint}, as_json, 1)
    several = error.mistakes if isinstance(error, ProjectError) else ()
    detail: dict[str, Any] = {**_error_json(error), "mistakes": list(map(_error_json, several))}
    if isinstance(error, ExecutionError):
        detail["failures"] = [failure.to_json() for failure in error.failures]
        detail["log"] = str(error.log) if error.log else None
    return _print_error(error_lines(error), detail, as_json, error.exit_code)


def report_call(message: str, command: str, *, as_json: bool) -> int:
    """Print an error in a command's arguments, and return exit code 2."""
    what = "the commands and their options" if command == "vde" else "its arguments and options"
    hint = f"run `{command} --help` for {what}"
    lines = [f"error: {message}", f"hint: {hint}"]
    return _print_error(lines, {"message": message, "hint": hint}, as_json, 2)


def report_cancelled(*, as_json: bool) -> int:
    """Print that the user canceled the work, and return exit code 130."""
    detail = {"message": "canceled", "hint": "run the command again to continue"}
    return _print_error(["canceled"], detail, as_json, CANCELLED)


_NOTHING: dict[str, Any] = {
    **dict.fromkeys(("message", "hint", "file", "line", "column")),
    "mistakes": [],
    "failures": [],
    "log": None,
}


def _print_error(lines: list[str], detail: dict[str, Any], as_json: bool, code: int) -> int:
    if as_json:
        print_json({"error": {**_NOTHING, **detail}})
    print("\n".join(lines), file=sys.stderr)
    return code


def _error_json(error: VdeError) -> dict[str, Any]:
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
