"""Links between Dagster's pages, and names that fit into their tables.

Metadata has 800 pixels of a screen of 1,400: columns are as wide as their longest word.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from urllib.parse import quote, urlsplit

import dagster as dg

from vde_dagster.orchestration.reload import URL_VARIABLE

MAX_NAME = 32
"""Characters of a name in a table; JSON beside the table has it whole."""
MAX_LINE = 70
"""Characters of a line of code that is not cut off."""


def partition_link(key: dg.AssetKey, partition: str, text: str) -> str:
    """Return a Markdown link to a partition of an asset, on whichever address Dagster is opened.

    Args:
        key: The asset.
        partition: The partition.
        text: What to click.
    """
    prefix = urlsplit(os.environ.get(URL_VARIABLE, "")).path.rstrip("/")
    path = "/".join(quote(part, safe="") for part in key.path)
    return f"[{text}]({prefix}/assets/{path}?view=partitions&partition={quote(partition)})"


def short_name(name: object) -> str:
    """Shorten a name in its middle if it is too long for a table."""
    text = str(name)
    half = (MAX_NAME - 1) // 2
    return text if len(text) <= MAX_NAME else f"{text[:half]}…{text[-half:]}"


def folded(line: str) -> Iterator[str]:
    """Break a line of a diff that is too long, at spaces; each part keeps the line's sign."""
    sign, rest = line[:1], line[1:]
    indent = " " * (len(rest) - len(rest.lstrip()))
    while len(rest) > MAX_LINE:
        at = rest.rfind(" ", len(indent) + MAX_LINE // 3, MAX_LINE)
        at = at if at > 0 else MAX_LINE
        yield sign + rest[:at]
        rest = f"{indent[: MAX_LINE // 3]}    {rest[at:].lstrip()}"
    yield sign + rest
