"""Comments that begin with `#`, as in BigQuery and MySQL, as the ones that all dialects have."""

from __future__ import annotations

import re

from vde_dagster.sql.scanner import SourceText

_DASHES_AND_BLANK = frozenset({"mysql", "doris", "starrocks", "singlestore"})
"""Dialects in which `--` begins a comment only before a blank."""
_DIALECTS = _DASHES_AND_BLANK | {"bigquery", "clickhouse"}
"""Dialects of SQLGlot whose tokenizers take `#` for a comment's beginning."""
_DIALECT = re.compile(r"\bdialect\s+['\"]?(\w+)", re.IGNORECASE)
_PIECES = re.compile(
    r"""'{3}(?:.*?'{3}|.*)|"{3}(?:.*?"{3}|.*)"""
    r"""|'(?:\\.|[^'\\]|\\\Z)*(?:'|\Z)|"(?:\\.|[^"\\]|\\\Z)*(?:"|\Z)|`[^`]*(?:`|\Z)"""
    r"""|--[^\n]*|/\*(?:.*?\*/|.*)|\{\#(?:.*?\#\}|.*)|(?P<hash>\#[^\n]*)""",
    re.DOTALL,
)
"""What is not closed takes all that follows, so that it is looked through once."""


def with_dash_comments(source: SourceText, dialect: str) -> SourceText:
    """Write `# why` as `--why` where the file's dialect has such comments; offsets stay.

    Where there is no room for the dashes, the comment becomes blanks.

    Args:
        source: The file.
        dialect: SQLGlot dialect of a file whose first header names none.
    """
    if "#" not in source.text:
        return source
    named = _DIALECT.search(source.text)
    own = named[1].lower() if named else dialect
    if own not in _DIALECTS:
        return source

    def written(found: re.Match[str]) -> str:
        comment = found["hash"]
        if comment is None:
            return found[0]
        has_room = comment[1:2].isspace() and own not in _DASHES_AND_BLANK
        return f"--{comment[2:]}" if has_room else " " * len(comment)

    return SourceText(source.path, _PIECES.sub(written, source.text))
