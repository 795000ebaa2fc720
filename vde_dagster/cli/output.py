"""Where a command's words go: results to stdout, everything else to stderr."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


PIPE_WIDTH = 1000
"""Columns of output that goes to a file or a pipe: nothing is folded there."""


class Output:
    """Prints a command's result, as one JSON object or for people.

    Args:
        as_json: Whether the caller asked for JSON.
    """

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json

    @functools.cached_property
    def out(self) -> Console:
        """The console for results."""
        from rich.console import Console

        return Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)

    @functools.cached_property
    def err(self) -> Console:
        """The console for progress and messages."""
        from rich.console import Console

        width = None if sys.stderr.isatty() else PIPE_WIDTH
        return Console(stderr=True, highlight=False, width=width)

    def result(self, value: dict[str, Any], show: Callable[[Console], None]) -> None:
        """Print a command's result, once per command.

        Args:
            value: The documented JSON object.
            show: Prints the same for people.
        """
        if self.as_json:
            print_json(value)
        else:
            show(self.out)

    def note(self, text: str) -> None:
        """Print a message for people on stderr; `[bold]…[/]` markup is understood."""
        self.err.print(text)


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object on stdout, readable and in ASCII-safe UTF-8."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")
    sys.stdout.flush()


def simple_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Build a plain table; texts are shown as they are, without markup."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    return table
