"""Rows as a Markdown table, for metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def markdown_table(rows: Sequence[Mapping[str, object]]) -> str:
    """Write rows under the first row's columns; None is `NULL`, and `|` is escaped.

    Args:
        rows: At least one row, all with the same columns.
    """
    columns = list(rows[0])
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        cells = ("NULL" if row[c] is None else str(row[c]).replace("|", "\\|") for c in columns)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
