"""Names of tables in statements that are in no grammar which is known here, such as GRANT."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from vde_dagster.sql.edits import Edit, apply_edits
from vde_dagster.sql.scanner import SourceText, Token, scan, unquote


def replace_dotted_names(statement: str, meaning: Callable[[list[str]], str | None]) -> str:
    """Write other names for those of two and three parts, wherever they stand.

    Names are told by their words: two or three with dots between them, and no bracket behind.

    Args:
        statement: Spark SQL.
        meaning: Tells what is written for a name's parts, without quotes; None for as it is.
    """
    tokens = [t for t in scan(SourceText(Path("statement"), statement)) if t.kind != "comment"]
    edits = []
    for chain in _chains(tokens):
        other = meaning([unquote(one) for one in chain])
        if other is not None:
            edits.append(Edit(chain[0].start, chain[-1].end, other))
    return apply_edits(statement, edits)


def _chains(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Yield the words of every name."""
    texts = [token.text for token in tokens] + ["", ""]
    words = [token.kind in ("word", "quoted") for token in tokens] + [False, False]
    index = 0
    while index < len(tokens):
        begin = index
        while words[index] and texts[index + 1] == "." and words[index + 2]:
            index += 2
        index += 1
        chain = tokens[begin:index:2]
        before = texts[begin - 1] if begin else ""
        if len(chain) in (2, 3) and before != "." and texts[index] not in (".", "("):
            yield list(chain)
