"""Formatting of a Spark query on one line, in the author's words and without comments.

Tokens stay as written, while SQLGlot's generator would replace words, such as `nvl` by `COALESCE`.
Queries that differ only in their formatting get the same text.

>>> from sqlglot import tokenize
>>> text = "select  nvl(a,0)AS b -- or nothing"
>>> to_one_line(text, tokenize(text, read="spark"), {}, ()).text
'select nvl(a, 0) AS b'
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING

from vde_dagster.sql.edits import Expanded
from vde_dagster.sql.trees import has_placeholder, restore_parameter_text

if TYPE_CHECKING:
    from sqlglot.tokens import Token  # type: ignore[attr-defined]

_SIGN = "sign -"
_NO_BLANK_AFTER = frozenset(["", "(", "[", ".", "::", _SIGN])
_NO_BLANK_BEFORE = frozenset([",", ")", "[", "]", "::"])
_WORDS = """
ALL AND ANTI ANY AS BETWEEN BY CASE CROSS CUBE DISTINCT DIV ELSE EXCEPT EXISTS FILTER FROM FULL
HAVING IN INNER INTERSECT JOIN LATERAL LEFT LIKE LIMIT MINUS NOT OFFSET ON OR OUTER OVER PIVOT RIGHT
RLIKE ROLLUP SELECT SEMI SETS SOME TABLESAMPLE THEN UNION UNPIVOT USING VALUES WHEN WHERE WITHIN
"""
CLAUSE_WORDS = frozenset(_WORDS.split())
"""Words after which `(` does not begin the arguments of a call, and `-` is a sign."""
_KEEP_SPACING = frozenset("${}@:?!~\\")
"""Signs whose meaning may depend on their neighbors."""


def to_one_line(
    text: str, tokens: Iterable[Token], prefixes: Mapping[int, str], qualifiers: Container[int]
) -> Expanded:
    """Write a query's tokens on one line, with time variables as `@name`.

    Args:
        text: The query, with placeholders for its time variables.
        prefixes: Text to put before a token, by the token's offset.
        qualifiers: Offsets of tokens to leave out; the dot after each token is left out, too.
    """
    out: list[str] = []
    runs: list[tuple[int, int]] = []
    before, end, left_out, length, shift = "", -1, False, 0, -1
    has_parameters = has_placeholder(text)
    for token in tokens:
        start = token.start
        if start <= end:
            continue  # A number such as 1L is three tokens in one place.
        adjacent, end = start == end + 1, token.end
        if left_out or start in qualifiers:
            left_out = not left_out
            continue
        piece = text[start : end + 1]
        blank = before not in _NO_BLANK_AFTER
        if piece in _NO_BLANK_BEFORE:
            blank = False
        elif piece.isidentifier():
            if has_parameters and piece.startswith("__"):
                piece = restore_parameter_text(piece)
        elif piece == "(":
            called = before.isidentifier() and before.upper() not in CLAUSE_WORDS
            blank = blank and not (called or before[-1:] == "`")
        elif piece == ".":
            blank = blank and not _is_value(before)  # Numbers such as .5 begin with it.
        elif piece == "-":
            blank = blank or before == _SIGN  # Two of them would begin a comment.
        else:
            if len(piece) > 2 and not set(piece) & {"'", '"'} and piece[0] != "`":
                piece = " ".join(piece.split())  # An operator, hint or keyword.
            if adjacent and piece[0] in "'\"" and before[-1:] == piece[0]:
                blank = False
        if blank and adjacent:
            shifts = piece == before and piece in ("<", ">")  # They may be parts of one operator.
            blank = not (piece in _KEEP_SPACING or before in _KEEP_SPACING or shifts)
        if blank:
            out.append(" ")
            length += 1
        if start in prefixes:
            runs.append((length, ~start))
            out.append(prefixes[start])
            length += len(prefixes[start])
        if start - length != shift:
            runs.append((length, start))
            shift = start - length
        out.append(piece)
        length += len(piece)
        before = _SIGN if piece == "-" and not _is_value(before) else piece
    return Expanded("".join(out), tuple(runs))


def _is_value(token: str) -> bool:
    """Return whether a token may end a value, so that a minus after it is a subtraction."""
    if token[-1:].isalnum() or token[-1:] == "_":
        return token.rsplit(None, 1)[-1].upper() not in CLAUSE_WORDS
    return token[-1:] in (")", "]", "}", "'", '"', "`", ".") and token != "."
