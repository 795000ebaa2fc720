"""Output of commands: results to stdout, everything else to stderr."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from vde_dagster.execution.query.query import QueryResult
    from vde_dagster.terminal.tables import PlainTable


PIPE_WIDTH = 1000
"""Width of output to a file or a pipe, where lines are not folded."""


class Output:
    """Prints a command's result, as one JSON object or as text."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json

    @functools.cached_property
    def out(self) -> Console:
        return _console(stderr=False)

    @functools.cached_property
    def err(self) -> Console:
        return _console(stderr=True)

    def result(
        self, value: dict[str, Any], shown: Callable[[Console], None] | PlainTable | str
    ) -> None:
        """Print a command's result once: `value` as documented JSON, or `shown` as text."""
        if self.as_json:
            print_json(value)
        elif callable(shown):
            shown(self.out)
        else:
            self.out.print(shown, markup=False, soft_wrap=isinstance(shown, str))

    @staticmethod
    def show_failed_statements(console: Console, environment: str, failed: Sequence[str]) -> None:
        for sentence in failed:
            console.print(sentence, style="red", markup=False, highlight=False)
        if failed:
            console.print(
                f"the views of {environment} are published; "
                "the next apply retries these statements",
                highlight=False,
            )

    def query_result(self, result: QueryResult) -> None:
        """Print the result of `Workspace.query`: the documented JSON, or a table with notes."""
        from vde_dagster.base.texts import count
        from vde_dagster.cli.shapes import rows_json
        from vde_dagster.terminal.tables import show_rows

        self.result(
            {
                **rows_json(result.columns, result.rows),
                "publication": result.publication_id,
                "version": result.version,
                "read_live": list(result.read_live),
            },
            lambda console: show_rows(console, result.columns, result.rows),
        )
        self.note(f"[dim]{count(len(result.rows), 'row')}[/]")
        if result.read_live:
            tables = ", ".join(result.read_live)
            self.note(
                "external tables were read in their current state, because versions do not "
                f"pin them: {tables}"
            )

    def note(self, text: str) -> None:
        """Print a message, with markup such as `[bold]…[/]`, on stderr; nothing with `--json`."""
        if not self.as_json:
            self.err.print(text)


def _console(*, stderr: bool) -> Console:
    from rich.console import Console

    width = None if (sys.stderr if stderr else sys.stdout).isatty() else PIPE_WIDTH
    return Console(stderr=stderr, highlight=False, width=width)


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object on stdout, indented."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")
    sys.stdout.flush()
