"""From a place in the SQL that Spark got to the line of the model's file that it comes from.

What Spark gets is the author's words in one line, with subqueries in place of tables' names, values
in place of variables, and whatever macros made. So both texts are compared word by word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from sqlglot import exp
from sqlglot.errors import SqlglotError

from vde_dagster.base.failures import QueryPlace
from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.project.model import Audit, Model
from vde_dagster.project.reading.statements import Block, Statement, split_blocks
from vde_dagster.sql.reading import read_query
from vde_dagster.sql.scanner import SourceText, scan
from vde_dagster.sql.temporary_views import temporary_view
from vde_dagster.sql.trees import QUERY_WORDS

_WORD = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`|@?\w+|\S""",
    re.DOTALL,
)
_NAME = 3
"""Words of a table's name: schema, dot, name."""


class Word(NamedTuple):
    """A word or sign of a query.

    Args:
        text: As two spellings of one name have it: in lower case, without quotes.
        start: Offset of its first character.
    """

    text: str
    start: int


def find_place(place: QueryPlace, models: Iterable[Model]) -> SourceLocation | None:
    """Find a place of a rendered query in a model's file.

    Args:
        place: The place.
        models: The model whose query it is, then those whose queries are inlined in it.

    Returns:
        File, line and column; None where the offending words stand in none of the files.
    """
    offset = place.offset if place.offset is not None else _column_offset(place)
    words = query_words(place.query)
    first = next((i for i, w in enumerate(words) if offset is not None and w.start >= offset), None)
    if first is None or offset is None:
        return None
    end = offset + len(place.words)
    count = sum(word.start < end for word in words[first:]) or 1
    candidates = list(models)
    texts = [word.text for word in words]
    whole = [(first, count)]
    ends = [(first + count - length, length) for length in range(count - 1, _NAME - 1, -1)]
    begins = [(first, length) for length in range(count - 1, 0, -1)]
    # A part of the words proves little: it is looked for in the model's own file alone. A table's
    # name is one without its catalog there.
    for spans, among in ((whole, candidates), (ends, candidates[:1]), (begins, candidates[:1])):
        for model in among:
            begin, until = query_range(model)
            own = [word for word in query_words(model.source[:until]) if word.start >= begin]
            found = _counterpart(texts, spans, own)
            if found is not None:
                return SourceText(model.location.path, model.source).location(found.start)
    return None


def query_words(text: str) -> list[Word]:
    """Split a query into words, without its comments."""
    return [
        Word(match[0].strip("`").lower(), match.start())
        for match in _WORD.finditer(text)
        if not match[0].startswith(("--", "/*"))
    ]


def query_range(model: Model) -> tuple[int, int]:
    """Return where a model's query begins and ends in its file's text, as far as that is known."""
    source = SourceText(model.location.path, model.source)
    try:
        blocks = split_blocks(source, "spark")
    except ProjectError:
        blocks = []
    for block in blocks:
        if source.location(block.header.start).line != model.location.line:
            continue
        queries = [one for one in block.statements if one.first.startswith(QUERY_WORDS)]
        statements = queries or list(block.statements)
        if statements:
            return _with_views(source, block, statements[0]), statements[0].end
    return _offset_of_line(model.source, model.location.line or 1), len(model.source)


def _with_views(source: SourceText, block: Block, query: Statement) -> int:
    """Return where a query begins, with the temporary views before it that are parts of it."""
    for one in block.statements:
        if one.start >= query.start:
            break
        text = SourceText(source.path, source.text[one.start : one.end])
        if temporary_view(text) is not None:
            return one.start
    return query.start


def query_start(model: Model) -> SourceLocation:
    """Return the first line of a model's query, or the model's own where it has none."""
    if model.query is None or not model.source:
        return model.location
    begin, _ = query_range(model)
    return SourceLocation(
        model.location.path, SourceText(model.location.path, model.source).location(begin).line
    )


def audit_place(model: Model, audit: Audit | None) -> SourceLocation:
    """Return the line in which a model's header calls an audit, or the model's own."""
    line = model.location.line or 1
    if audit is None:
        return model.location
    source = SourceText(model.location.path, model.source)
    try:
        for token in scan(source, _offset_of_line(model.source, line)):
            if token.is_word(audit.name.upper()):
                return SourceLocation(source.path, source.location(token.start).line)
    except ProjectError:  # It is no SQL file.
        pass
    return model.location


def _column_offset(place: QueryPlace) -> int | None:
    """Return where a query gives an output column its name."""
    wanted = (place.column or "").lower()
    try:
        tree = read_query(place.query).tree
    except SqlglotError:
        return None
    for projection in tree.selects if isinstance(tree, exp.Query) else ():
        if projection.alias_or_name.lower() == wanted:
            named = projection.args.get("alias") or projection.this
            start = named.meta.get("start") if isinstance(named, exp.Expression) else None
            return int(start) if start is not None else None
    return None


def _offset_of_line(text: str, line: int) -> int:
    return sum(map(len, text.splitlines(keepends=True)[: line - 1]))


def _counterpart(
    texts: Sequence[str], spans: Iterable[tuple[int, int]], own: Sequence[Word]
) -> Word | None:
    """Find words among a file's, by the first of some (begin, length) that stands there.

    Where it stands there several times, the words around it decide.
    """
    theirs = [word.text for word in own]
    for first, length in spans:
        wanted = texts[first : first + length]
        places = [i for i in range(len(theirs)) if theirs[i : i + length] == wanted]
        if len(places) > 1:
            aligned = _aligned(texts, first, theirs)
            places = [place for place in places if place == aligned]
        if places:
            return own[places[0]]
    return None


def _aligned(texts: Sequence[str], first: int, theirs: Sequence[str]) -> int | None:
    for begin, other, size in SequenceMatcher(None, texts, theirs).get_matching_blocks():
        if begin <= first < begin + size:
            return other + first - begin
    return None
