"""Where a table stands in a query, and how a subquery takes its place.

A relation in Spark is a name with an optional version (`VERSION AS OF 3`), sample and alias, in
this order; a subquery has a sample and an alias (`relationPrimary` in `SqlBaseParser.g4`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING

from vde_dagster.base.names import quote
from vde_dagster.errors import UsageError
from vde_dagster.sql.edits import Edit

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.tokens import Token  # type: ignore[attr-defined]

    from vde_dagster.sql.reading import Reading

_QUOTED = r"`(?:[^`]|``)*`"
_ONLY_A_NAME = re.compile(rf"SELECT \* FROM ({_QUOTED}(?:\.{_QUOTED})*)")
_VERSIONS = frozenset({"VERSION", "TIMESTAMP", "SYSTEM_VERSION", "SYSTEM_TIME"})


def put_in_place(reading: Reading, table: exp.Table, query: str, alias: str | None) -> list[Edit]:
    """Make the edits that put a query in a table's place.

    Args:
        reading: The text.
        table: The table in its tree.
        query: What the table's name stands for.
        alias: The name by which the rest of the query calls it, if it says none.

    Raises:
        UsageError: The table is read as of an earlier version, which a query cannot be.
    """
    start, end = table.parts[0].meta["start"], table.parts[-1].meta["end"] + 1
    only = _ONLY_A_NAME.fullmatch(query)
    new = only[1] if only else f"({query})"
    tokens = _from(reading.tokens, end)
    behind = end
    if tokens and _is_version(tokens):
        if only is None:
            raise UsageError(
                f"the query reads {table.name} as of an earlier version, but it is a model",
                hint="read the model as it is; rows of earlier versions are kept by no name",
            )
        behind = _end_of_version(tokens)
        tokens = _from(tokens, behind)
    if tokens and tokens[0].text.upper() == "TABLESAMPLE":
        behind = _end_of_sample(tokens)
    named = f" AS {quote(alias)}" if alias is not None else ""
    if behind == end:
        return [Edit(start, end, new + named)]
    edits = [Edit(start, end, new)]
    return [*edits, Edit(behind, behind, named)] if named else edits


def _from(tokens: list[Token], offset: int) -> list[Token]:
    """Return the tokens that begin at an offset or behind it."""
    return tokens[bisect_left(tokens, offset, key=lambda token: token.start) :]


def _is_version(tokens: list[Token]) -> bool:
    words = [token.text.upper() for token in tokens[:4]]
    if words[:1] == ["FOR"]:
        words = words[1:]
    first = words[0].split()[0] if words and words[0] else ""
    return first in _VERSIONS and "OF" in " ".join(words[:3]).split()


def _end_of_version(tokens: list[Token]) -> int:
    """Return the offset behind `VERSION AS OF 3` or `TIMESTAMP AS OF f(x)`."""
    index = next(i for i, token in enumerate(tokens) if token.text.upper().split()[-1:] == ["OF"])
    index += 1
    if tokens[index].text.isidentifier() and index + 1 < len(tokens):
        following = tokens[index + 1].text
        if following == "(":
            return _closing(tokens, index + 1)
        if following[:1] in "'\"":
            index += 1
    return tokens[index].end + 1


def _end_of_sample(tokens: list[Token]) -> int:
    """Return the offset behind `TABLESAMPLE (10 PERCENT) REPEATABLE (1)`."""
    behind = _closing(tokens, 1)
    rest = _from(tokens, behind)
    return _closing(rest, 1) if rest and rest[0].text.upper() == "REPEATABLE" else behind


def _closing(tokens: list[Token], opening: int) -> int:
    depth = 0
    for token in tokens[opening:]:
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0:
            return token.end + 1
    return tokens[-1].end + 1
