"""Word-by-word parsing of statements: temporary views, and names of tables, as in GRANT."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from vde_dagster.sql.edits import Edit, apply_edits
from vde_dagster.sql.scanner import CLOSING, OPENING, Token, unquote


@dataclass(frozen=True, slots=True)
class TemporaryView:
    """A temporary view or cached table that a statement creates.

    Args:
        columns: New names of the query's columns, as written; empty if the names stay.
        start: Offset in the statement at which the query begins; None without a query.
        problem: A mistake, such as a name with a schema, and its hint; or None.
    """

    name: str
    written: str
    columns: tuple[str, ...]
    start: int | None
    problem: tuple[str, str] | None = None


def read_temporary_view(tokens: list[Token]) -> TemporaryView | None:
    """Parse `CREATE TEMPORARY VIEW x AS …` or `CACHE TABLE x AS …`, else return None."""
    words = [t.text.upper() if t.kind == "word" else t.text for t in tokens]
    if words[:1] == ["CACHE"]:
        return _read_cache(tokens, words)
    return _read_create(tokens, words) if words[:1] == ["CREATE"] else None


_DROPS = re.compile(r"(DROP VIEW|UNCACHE TABLE)( IF EXISTS)?|CACHE( LAZY)? TABLE")


def read_dropped_name(tokens: Sequence[Token]) -> str | None:
    """Return `x` of `DROP VIEW x`, `UNCACHE TABLE x` or `CACHE TABLE x`; None for `a.x` etc."""
    words = [t.text.upper() if t.kind == "word" else t.text for t in tokens]
    return unquote(tokens[-1]) if _DROPS.fullmatch(" ".join(words[:-1])) else None


def _read_create(tokens: list[Token], words: list[str]) -> TemporaryView | None:
    at = 1
    if words[at : at + 2] == ["OR", "REPLACE"]:
        at += 2
    is_global = words[at : at + 1] == ["GLOBAL"]
    at += is_global
    if words[at : at + 1] not in (["TEMPORARY"], ["TEMP"]) or words[at + 1 : at + 2] != ["VIEW"]:
        return None
    at += 2
    if words[at : at + 3] == ["IF", "NOT", "EXISTS"]:
        at += 3
    if at >= len(tokens):
        return None
    named = tokens[at]
    problem = None
    if is_global:
        problem = "a global temporary view is visible to all models", "write CREATE TEMPORARY VIEW"
    elif words[at + 1 : at + 2] == ["."]:
        problem = "the name of a temporary view cannot have a schema", "write a name without a dot"
    at += 1
    columns: tuple[str, ...] = ()
    if words[at : at + 1] == ["("]:
        columns = _first_words(tokens, at)
    start = _query_start(tokens, words, at)
    return TemporaryView(unquote(named), named.text, columns, start, problem)


def _read_cache(tokens: list[Token], words: list[str]) -> TemporaryView | None:
    at = 2 + (words[1:2] == ["LAZY"])
    if words[at - 1 : at] != ["TABLE"] or at >= len(tokens) - 1:
        return None
    start = _query_start(tokens, words, at + 1)
    if start is None:
        begins = (i for i in range(at + 1, len(words)) if words[i] in ("SELECT", "WITH", "FROM"))
        first = next(begins, None)
        start = tokens[first].start if first is not None else None
    problem = None
    if words[at + 1] == ".":
        problem = "the name of a cached query cannot have a schema", "write a name without a dot"
    return TemporaryView(unquote(tokens[at]), tokens[at].text, (), start, problem)


def _query_start(tokens: list[Token], words: list[str], at: int) -> int | None:
    depth = 0
    for index in range(at, len(tokens) - 1):
        depth += (words[index] in OPENING) - (words[index] in CLOSING)
        if depth == 0 and words[index] == "AS":
            return tokens[index + 1].start
        if depth == 0 and words[index] in ("SELECT", "WITH"):
            return None
    return None


def _first_words(tokens: list[Token], at: int) -> tuple[str, ...]:
    """Return the first word of each item in a list in brackets, as `a` and `b` of `(a, b INT)`."""
    out, depth, first = [], 0, False
    for token in tokens[at:]:
        depth += (token.text in OPENING) - (token.text in CLOSING)
        if depth == 0:
            break
        if first:
            out.append(token.text)
        first = depth == 1 and token.text in ("(", ",")
    return tuple(out)


def replace_dotted_names(statement: str, meaning: Callable[[list[str]], str | None]) -> str:
    """Replace names such as `a.b` and `a.b.c` anywhere in a statement, except function names.

    Args:
        meaning: Returns the new text for a name's unquoted parts, or None to keep the name.
    """
    tokens = Token.split(statement)
    edits = []
    for chain in _dotted_names(tokens):
        other = meaning([unquote(one) for one in chain])
        if other is not None:
            edits.append(Edit(chain[0].start, chain[-1].end, other))
    return apply_edits(statement, edits)


def _dotted_names(tokens: Sequence[Token]) -> Iterator[list[Token]]:
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
