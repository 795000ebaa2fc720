"""Queries with a slip in them: tokens of real ones left out, doubled, exchanged or replaced."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from vde_dagster.sql.scanner import SourceText, scan

_WORDS = """
SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT JOIN LEFT INNER CROSS ON USING AS AND OR NOT IN IS
NULL LIKE BETWEEN CASE WHEN THEN ELSE END CAST DISTINCT UNION ALL EXCEPT WITH OVER PARTITION ROWS
LATERAL VIEW EXISTS INTERVAL DATE TIMESTAMP ARRAY MAP STRUCT VALUES FILTER WINDOW a b1 `c` t.x
'text' "words" 1 2.5 1e3 7L 0.5BD ( ) , . [ ] = <> < > + - * / % || :: -> : ; ! ? == <=> DIV
"""


def mutated(rng: random.Random, queries: Sequence[str]) -> Iterator[str]:
    """Yield mutated queries without end.

    Args:
        rng: Where chance comes from.
        queries: What to take them from.
    """
    pieces = [_pieces(query) for query in queries]
    pool = [piece.strip() for query in pieces for piece in query] + _WORDS.split() * 20
    while True:
        mutant = list(rng.choice(pieces))
        for _ in range(rng.choice((1, 1, 1, 2))):
            _mutate(rng, mutant, pool)
        yield "".join(mutant)


def _pieces(query: str) -> list[str]:
    """A query's tokens, each with the blanks before it."""
    found, at = [], 0
    for token in scan(SourceText(Path(), query)):
        found.append(query[at : token.end])
        at = token.end
    return [re.sub(r"\s+", " ", piece) for piece in found]


def _mutate(rng: random.Random, query: list[str], pool: Sequence[str]) -> None:
    if len(query) < 2:
        return
    at = rng.randrange(len(query))
    how = rng.choice(("delete", "swap", "double", "replace", "insert", "cut"))
    if how == "delete":
        del query[at]
    elif how == "swap":
        other = min(len(query) - 1, at + 1)
        query[at], query[other] = query[other], query[at]
    elif how == "double":
        query.insert(at, query[at])
    elif how == "replace":
        query[at] = " " + rng.choice(pool)
    elif how == "insert":
        query.insert(at, " " + rng.choice(pool))
    else:
        del query[at : at + rng.randrange(2, 6)]
