"""Positions of common table expressions in a query's text, and queries for their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vde_dagster.sql.scanner import Token

_BEGINS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")


class Cte(NamedTuple):
    """A common table expression of a query's text.

    Args:
        start: Start of its name.
        end: Position after its closing bracket.
        around: Starts of the brackets around it, outer brackets first.
    """

    name: str
    start: int
    end: int
    around: tuple[int, ...] = ()


def ctes(query: str) -> list[Cte]:
    tokens = Token.split(query)
    around: list[int] = []
    names: dict[int, Token] = {}
    found: list[Cte] = []
    for at, token in enumerate(tokens):
        if token.text == "(":
            name = _cte_name(tokens, at)
            if name is not None:
                names[token.start] = name
            around.append(token.start)
        elif token.text == ")" and around:
            opened = around.pop()
            if opened in names:
                name = names[opened]
                text = name.text.strip("`")
                found.append(Cte(text, name.start, token.end, tuple(around)))
    return sorted(found, key=lambda one: one.start)


def _cte_name(tokens: Sequence[Token], at: int) -> Token | None:
    if at < 3 or not tokens[at - 1].is_word("AS") or at + 1 >= len(tokens):
        return None
    if not (tokens[at + 1].is_word(*_BEGINS) or tokens[at + 1].text == "("):
        return None
    name = at - 2
    if tokens[name].text == ")":  # It has a list of column names.
        while name > 1 and tokens[name].text != "(":
            name -= 1
        name -= 1
    before = tokens[name - 1] if name else tokens[0]
    begins = before.is_word("WITH", "RECURSIVE") or before.text == ","
    return tokens[name] if begins and tokens[name].kind in ("word", "quoted") else None


def select_cte(query: str, chosen: Cte) -> str:
    """Return a query that selects a CTE's rows, with the CTEs before it.

    >>> query = "WITH a AS (SELECT 1 AS x), b AS (SELECT x FROM a) SELECT * FROM b"
    >>> select_cte(query, ctes(query)[0])
    'WITH a AS (SELECT 1 AS x) SELECT * FROM `a`'
    """
    known = [
        one
        for one in ctes(query)
        if one.end <= chosen.start and one.around == chosen.around[: len(one.around)]
    ]
    texts = [query[one.start : one.end] for one in (*known, chosen)]
    recursive = any(token.is_word("RECURSIVE") for token in Token.split(query))
    word = "WITH RECURSIVE" if recursive else "WITH"
    return f"{word} {', '.join(texts)} SELECT * FROM `{chosen.name}`"
