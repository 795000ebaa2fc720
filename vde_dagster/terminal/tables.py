"""Tables of texts and of rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from vde_dagster.base.json_values import text_value

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table


def simple_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> PlainTable:
    """Build a plain table of texts, which are printed without markup."""
    texts = [tuple("" if cell is None else str(cell) for cell in row) for row in rows]
    return PlainTable(tuple(headers), texts)


def show_rows(
    console: Console, columns: Sequence[tuple[str, str]], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Print rows as a table. A column is (name, Spark SQL type)."""
    texts = [list(map(text_value, row)) for row in rows]
    console.print(simple_table([name for name, _ in columns], texts))


class PlainTable:
    """A table that looks like Rich's, but is drawn faster."""

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
