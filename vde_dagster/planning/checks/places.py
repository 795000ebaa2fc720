"""Where in a model's file something stands that is known from its expanded query.

That query is in one line and has no comments: its positions are none of the file's, so the word
that stands there is looked for in the file, the same one of several.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.project.model import Model
from vde_dagster.sql.scanner import SourceText, Token, matching, scan


def place_in_query(model: Model, column: int | None) -> SourceLocation:
    """Find a place of a model's query in its file.

    Args:
        model: The model.
        column: 1-based column in its query, which is one line, or None.
    """
    if model.query is None or column is None or model.python is not None:
        return model.location
    written = _tokens(model.query)
    at = next((i for i, token in enumerate(written) if token.end >= column), None)
    if at is None:
        return model.location
    word = written[at].text.casefold()
    before = [token for token in written if token.text.casefold() == word]
    _, body = _parts(model)
    here = [token for token in body if token.text.casefold() == word]
    if not here:
        return model.location
    same = before.index(written[at]) if len(here) == len(before) else 0
    return _source(model).location(here[same].start)


def place_in_header(model: Model, *words: str) -> SourceLocation:
    """Find words in a model's header, each behind the one before; the last that is there."""
    if model.python is not None:
        return model.location
    header, _ = _parts(model)
    found: Token | None = None
    start = 0
    for word in words:
        for i in range(start, len(header)):
            if header[i].text.strip("`'\"").casefold() == word.strip("`").casefold():
                found, start = header[i], i + 1
                break
    return model.location if found is None else _source(model).location(found.start)


def _source(model: Model) -> SourceText:
    return SourceText(model.location.path, model.source)


def _parts(model: Model) -> tuple[list[Token], list[Token]]:
    """The tokens of a model's header, and those behind it up to the next block of its file."""
    return _split(model.source, model.location.line or 1)


@lru_cache(maxsize=64)
def _split(text: str, line: int) -> tuple[list[Token], list[Token]]:
    source = SourceText(Path(), text)
    offset = sum(len(part) for part in text.splitlines(keepends=True)[: line - 1])
    tokens = [token for token in _tokens(text) if token.start >= offset]
    opening = next((i for i, token in enumerate(tokens) if token.text == "("), None)
    if opening is None:
        return [], tokens
    try:
        end = matching(source, tokens, opening)
    except ProjectError:
        return [], tokens
    body = tokens[end + 1 :]
    for i, token in enumerate(body[:-2]):
        behind, bracket = body[i + 1 : i + 3]
        if token.text == ";" and behind.is_word("MODEL", "AUDIT") and bracket.text == "(":
            return tokens[:end], body[:i]
    return tokens[:end], body


def _tokens(text: str) -> list[Token]:
    try:
        return [t for t in scan(SourceText(Path(), text)) if t.kind != "comment"]
    except ProjectError:
        return []
