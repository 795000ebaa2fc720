"""Columns in the call of an audit, such as `not_null(columns=(a, `b, c`))`."""

from __future__ import annotations

import re

_COLUMN = re.compile(r"(?:`[^`]*`|[^,`])+")


def split_columns(text: str) -> list[tuple[str, str]]:
    """Split a list of columns into the SQL text and the unquoted name of each column.

    >>> split_columns("a, `b, c`, d + e")
    [('a', 'a'), ('`b, c`', 'b, c'), ('d + e', 'd + e')]
    """
    columns = [column.strip() for column in _COLUMN.findall(text)]
    return [(column, column.strip("`")) for column in columns]
