"""Finds the place in the author's query for a place in the query sent to Spark.

In the query sent to Spark, subqueries replace table names, values replace variables, and filters
replace QUALIFY. All other words are the author's, so the two texts are compared word by word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

from vde_dagster.sql.scanner import Token

_NAME = 3
"""Number of words of a table's name: schema, dot, name."""


def find_in_query(
    query: str, sent: str, start: int, end: int, *, whole: bool = False
) -> int | None:
    """Find words of the query sent to Spark in the author's query; return their offset there.

    Return None if the author's query does not have these words, or their place is ambiguous.

    Args:
        start, end: Offsets of the words in `sent`. If equal, the next word is used.
        whole: Find all words; by default, some of them suffice.
    """
    words, own = _words(sent), _words(query)
    first = next((i for i, word in enumerate(words) if word.start >= start), None)
    if first is None:
        return None
    count = sum(word.start < end for word in words[first:]) or 1
    spans = [(first, count)]
    if not whole:
        # A table's name is one without its catalog in the query.
        spans += [(first + count - length, length) for length in range(count - 1, _NAME - 1, -1)]
        spans += [(first, length) for length in range(count - 1, 0, -1)]
    found = _find([word.text for word in words], spans, own)
    return None if found is None else own[found].start


def _words(text: str) -> list[Token]:
    return [token._replace(text=token.text.strip("`").lower()) for token in Token.split(text)]


def _find(texts: Sequence[str], spans: Iterable[tuple[int, int]], own: list[Token]) -> int | None:
    """Return the index in `own` of the first span of words that occurs there, or None.

    If `own` has the words of a span several times, the words around the span decide.

    Args:
        texts: Words of the query sent to Spark.
        spans: (first index, length) in `texts`.
        own: Words of the author's query.
    """
    theirs = [word.text for word in own]
    for first, length in spans:
        wanted = texts[first : first + length]
        places = [i for i in range(len(theirs)) if theirs[i : i + length] == wanted]
        if len(places) > 1:
            aligned = _align(texts, first, theirs)
            places = [place for place in places if place == aligned]
        if places:
            return places[0]
    return None


def _align(texts: Sequence[str], first: int, theirs: Sequence[str]) -> int | None:
    for begin, other, size in SequenceMatcher(None, texts, theirs).get_matching_blocks():
        if begin <= first < begin + size:
            return other + first - begin
    return None
