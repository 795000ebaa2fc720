"""Jinja in SQL, which is not supported: refused where it stands, before anything reads it."""

from __future__ import annotations

from vde_dagster.errors import ProjectError
from vde_dagster.sql.scanner import SourceText, scan

_BEGINNINGS = ("{{", "{%", "{#")
JINJA = "Jinja is not supported yet"
JINJA_HINT = "write macros and variables with @, such as @name or @EACH(…); see docs/reference.md"


def find_jinja(source: SourceText, *, backslash: bool = True) -> int | None:
    """Find Jinja outside strings, quoted identifiers and comments; SQL has no such brackets.

    Args:
        source: The text.
        backslash: As for `scan`.

    Returns:
        The offset of the first `{{`, `{%` or `{#`, or None.
    """
    text = source.text
    if not any(beginning in text for beginning in _BEGINNINGS):
        return None
    try:
        for token in scan(source, backslash=backslash):
            if token.text == "{" and text[token.start : token.start + 2] in _BEGINNINGS:
                return token.start
    except ProjectError:
        pass  # Something before it is not closed, which is a mistake of its own.
    return None
