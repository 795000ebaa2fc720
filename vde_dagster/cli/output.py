"""Output of commands: results to stdout, everything else to stderr."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
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


def simple_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> PlainTable:
    """Build a plain table; texts are shown as they are, without markup."""
    texts = [tuple("" if cell is None else str(cell) for cell in row) for row in rows]
    return PlainTable(tuple(headers), texts)


class PlainTable:
    """A table under a line, as Rich draws it; drawn here where it fits, which is ten times faster.

    Args:
        headers: The columns' names.
        rows: The cells' texts.
    """

    def __init__(self, headers: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
        self._headers = headers
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.cells import cell_len
        from rich.segment import Segment
        from rich.style import Style

        lines = [self._headers, *self._rows]
        plain = all(cell.isprintable() for line in lines for cell in line)
        widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
        if not plain or not all(widths) or sum(widths) + 3 * len(widths) - 1 > options.max_width:
            yield self._folded()
            return
        bold = Style(bold=True)
        across = sum(widths) + 3 * (len(widths) - 1)
        blank = " " * (across + 2)
        yield Segment(f"{blank}\n")
        for number, line in enumerate(lines):
            cells = (
                cell + " " * (width - cell_len(cell))
                for cell, width in zip(line, widths, strict=True)
            )
            yield Segment(f" {'   '.join(cells)} \n", None if number else bold)
            if not number:
                yield Segment(f" {'─' * across} \n")
        yield Segment(f"{blank}\n")

    def _folded(self) -> Table:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for header in self._headers:
            table.add_column(Text(header), overflow="fold")
        for row in self._rows:
            table.add_row(*map(Text, row))
        return table
