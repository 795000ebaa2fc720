"""Rewrites of forms that SQLGlot accepts in Spark SQL but Spark does not.

Only forms with an exact equivalent in Spark are rewritten, in the query's text. All other forms are
mistakes, which are reported when the project is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from vde_dagster.sql.edits import Edit
from vde_dagster.sql.query_text import CLAUSE_WORDS
from vde_dagster.sql.scanner import CLOSING, OPENING, Token, split_top_level

_TYPES = {
    **dict.fromkeys(("TEXT", "VARCHAR", "NVARCHAR", "CHAR", "UUID", "CLOB"), "STRING"),
    "BOOL": "BOOLEAN",
    "INT2": "SMALLINT",
    "INT4": "INT",
    "INT8": "BIGINT",
    "FLOAT4": "FLOAT",
    "FLOAT8": "DOUBLE",
    "DATETIME": "TIMESTAMP",
    "TIMESTAMPTZ": "TIMESTAMP",
    **dict.fromkeys(("BYTEA", "BYTES", "BLOB", "VARBINARY"), "BINARY"),
}
"""Synonyms of Spark's types; Spark accepts some of them with a length in brackets."""
_MAYBE = re.compile(
    rf"(?:::|\bAS)\s*(?:{'|'.join(_TYPES)}|DOUBLE\s+PRECISION)\b|(?:^|[\s,(=\[])\["
    r"|\bEXCLUDE\b|\b(?:IGNORE|RESPECT)\s+NULLS\b|\bMATERIALIZED\b|\bFETCH\b"
    r"|\b(?:ANY|SOME|ALL)\s*\(|\bDISTINCT\s+ON\b|\b(?:ASOF|POSITIONAL)\s+(?:LEFT\s+)?JOIN\b"
    r"|,\s*(?:--[^\n]*(?:\n\s*|\Z)|/\*(?:[^*]|\*(?!/))*\*/\s*)*(?:\b(?:FROM|WHERE|GROUP|HAVING|ORDER|UNION)\b|\)|\Z)"
    r"|\bSIMILAR\s+TO\b|\bUSING\s+SAMPLE\b|\b(?!OVER\b)\w+\s*\([^()]*\bORDER\s+BY\b",
    re.IGNORECASE,
)
_WORDS = ("EXCLUDE", "NULLS", "MATERIALIZED", "FETCH", "ASOF", "POSITIONAL", "SIMILAR", "SAMPLE")
_SIGNS = tuple(
    map(
        re.compile,
        (
            rf"AS\s*(?:{'|'.join(_TYPES)}|DOUBLE)",
            *(r"ANY\s*\(", r"SOME\s*\(", r"ALL\s*\(", r"DISTINCT\s+ON"),
            r",\s*(?:--|/\*|FROM|WHERE|GROUP|HAVING|ORDER|UNION|\)|\Z)",
        ),
    )
)
"""Patterns for texts in upper case. `re` finds them fast, because they begin with fixed texts."""
_ORDER = re.compile(r"ORDER\s+BY")
_REFUSED = {
    ("ASOF", "JOIN"): "Spark has no ASOF JOIN",
    ("POSITIONAL", "JOIN"): "Spark has no POSITIONAL JOIN",
    ("SIMILAR", "TO"): "Spark has no SIMILAR TO",
    ("USING", "SAMPLE"): "Spark has no USING SAMPLE",
}
_HINTS = {
    "ASOF": "join on the range, and keep the newest row with QUALIFY ROW_NUMBER() … = 1",
    "POSITIONAL": "join on ROW_NUMBER() of both sides",
    "SIMILAR": "write RLIKE with a regular expression",
    "USING": "write TABLESAMPLE (10 PERCENT)",
}
_NO_CALL = CLAUSE_WORDS | {"OVER", "GROUP", "AS", "MATERIALIZED", "ORDER", "WINDOW", "LATERAL"}
_AFTER_LIST = frozenset({"FROM", "WHERE", "HAVING", "UNION"})
_AFTER_KEYS = frozenset({("GROUP", "BY"), ("ORDER", "BY")})
_TAIL = frozenset(
    {"ORDER", "LIMIT", "OFFSET", "SORT", "CLUSTER", "DISTRIBUTE", "UNION", "EXCEPT", "INTERSECT"}
    | {"MINUS", "WINDOW", "FETCH"}
)


class NoSparkForm(Exception):
    """The query has a form without an equivalent in Spark."""

    def __init__(self, offset: int, message: str, hint: str) -> None:
        super().__init__(message)
        self.offset = offset
        self.hint = hint


def find_rewrites(text: str) -> list[Edit]:
    """Return edits that turn a query into valid Spark SQL.

    Raises:
        NoSparkForm: A form of the query has no equivalent in Spark.
    """
    if not _may_need_edits(text) or _MAYBE.search(text) is None:
        return []
    tokens = Token.split(text)
    _refuse_unsupported(tokens)
    forms = (
        _rewrite_exclude,
        _move_nulls,
        _rewrite_type,
        _rewrite_array,
        _rewrite_fetch,
        _remove_materialized,
        _remove_comma,
        _rewrite_any,
    )
    edits: list[Edit] = []
    for index in range(len(tokens)):
        for form in forms:
            edits += form(tokens, index)
        edits += _rewrite_distinct_on(text, tokens, index)
    return edits


def _may_need_edits(text: str) -> bool:
    # This check is much cheaper than the match itself.
    if not text.isascii() or "[" in text or "::" in text:
        return True
    upper = text.upper()
    if any(word in upper for word in _WORDS) or any(sign.search(upper) for sign in _SIGNS):
        return True
    for order in _ORDER.finditer(upper):
        bracket = upper.rfind("(", 0, order.start())
        if bracket > upper.rfind(")", 0, order.start()):
            before = upper[:bracket].rstrip()
            if not before.endswith((" OVER", ")OVER", "\nOVER")):
                return True
    return False


def _word(tokens: list[Token], index: int) -> str:
    if not 0 <= index < len(tokens):
        return ""
    return tokens[index].text.upper() if tokens[index].kind in ("word", "punct") else "?"


def _closing_index(tokens: list[Token], opening: int) -> int:
    depth = 0
    for index in range(opening, len(tokens)):
        if tokens[index].kind == "punct":
            depth += (tokens[index].text in OPENING) - (tokens[index].text in CLOSING)
        if depth == 0:
            return index
    return len(tokens) - 1


def _refuse_unsupported(tokens: list[Token]) -> None:
    opened: list[int] = []
    for index, token in enumerate(tokens):
        if token.kind == "punct" and token.text in OPENING:
            opened.append(index)
        elif token.kind == "punct" and token.text in CLOSING and opened:
            opened.pop()
        pair = (_word(tokens, index), _word(tokens, index + 1))
        if pair == ("ASOF", "LEFT"):
            pair = ("ASOF", _word(tokens, index + 2))
        if pair in _REFUSED:
            raise NoSparkForm(token.start, _REFUSED[pair], _HINTS[pair[0]])
        if pair == ("ORDER", "BY") and opened and _is_call_without_query(tokens, opened[-1], index):
            name = tokens[opened[-1] - 1].text
            raise NoSparkForm(
                token.start,
                f"Spark has no ORDER BY inside {name}(…)",
                f"write {name}(…) WITHIN GROUP (ORDER BY …) where Spark has it, or "
                "SORT_ARRAY over ARRAY_AGG",
            )


def _is_call_without_query(tokens: list[Token], opening: int, order: int) -> bool:
    name = tokens[opening - 1] if opening else None
    called = name is not None and name.kind == "word" and name.text.upper() not in _NO_CALL
    inside = (_word(tokens, index) for index in range(opening, order))
    return called and not any(word in ("SELECT", "PARTITION", "FROM") for word in inside)


def _rewrite_exclude(tokens: list[Token], index: int) -> Iterator[Edit]:
    """Rewrite `* EXCLUDE (a)` as `* EXCEPT (a)`."""
    token = tokens[index]
    if _word(tokens, index) != "EXCLUDE" or _word(tokens, index - 1) != "*":
        return
    yield Edit(token.start, token.end, "EXCEPT")
    if _word(tokens, index + 1) != "(":
        column = tokens[index + 1]
        yield Edit(column.start, column.end, f"({column.text})")


def _move_nulls(tokens: list[Token], index: int) -> Iterator[Edit]:
    """Rewrite `f(a IGNORE NULLS)` as `f(a) IGNORE NULLS`."""
    words = (_word(tokens, index), _word(tokens, index + 1), _word(tokens, index + 2))
    if words[0] in ("IGNORE", "RESPECT") and words[1:] == ("NULLS", ")"):
        before, bracket = tokens[index - 1], tokens[index + 2]
        yield Edit(before.end, bracket.start, "")
        yield Edit(bracket.end, bracket.end, f" {words[0]} NULLS")


def _rewrite_type(tokens: list[Token], index: int) -> Iterator[Edit]:
    """Rewrite type names, for example `a::text` as `a::STRING`."""
    token = tokens[index]
    meant = _TYPES.get(_word(tokens, index))
    before, behind = _word(tokens, index - 1), _word(tokens, index + 1)
    in_cast = before == "AS" and behind == ")" and _is_cast(tokens, index)
    if meant is not None and behind != "(" and (before == "::" or in_cast):
        yield Edit(token.start, token.end, meant)
    is_double = (_word(tokens, index), behind) == ("DOUBLE", "PRECISION")
    if is_double and (before == "::" or (before == "AS" and _is_cast(tokens, index))):
        yield Edit(token.start, tokens[index + 1].end, "DOUBLE")


def _is_cast(tokens: list[Token], index: int) -> bool:
    depth = 0
    while index > 0:
        index -= 1
        text = tokens[index].text if tokens[index].kind == "punct" else ""
        depth += (text == ")") - (text == "(")
        if depth < 0:
            return _word(tokens, index - 1) in ("CAST", "TRY_CAST")
    return False


def _rewrite_array(tokens: list[Token], index: int) -> Iterator[Edit]:
    if _word(tokens, index) != "[":
        return
    before = tokens[index - 1] if index else None
    if before is not None:
        is_value = before.kind in ("quoted", "string") or before.text in (")", "]")
        is_name = before.kind == "word" and before.text.upper() not in CLAUSE_WORDS
        if is_value or is_name:
            return
    close = tokens[_closing_index(tokens, index)]
    yield Edit(tokens[index].start, tokens[index].end, "ARRAY(")
    yield Edit(close.start, close.end, ")")


def _rewrite_fetch(tokens: list[Token], index: int) -> Iterator[Edit]:
    """Rewrite `FETCH FIRST 5 ROWS ONLY` as `LIMIT 5`."""
    if _word(tokens, index) == "FETCH" and _word(tokens, index + 1) in ("FIRST", "NEXT"):
        is_number = index + 2 < len(tokens) and tokens[index + 2].kind == "number"
        count = tokens[index + 2].text if is_number else "1"
        last = index + 2 + is_number
        if _word(tokens, last) in ("ROW", "ROWS") and _word(tokens, last + 1) == "ONLY":
            yield Edit(tokens[index].start, tokens[last + 1].end, f"LIMIT {count}")


def _remove_materialized(tokens: list[Token], index: int) -> Iterator[Edit]:
    """Remove MATERIALIZED and NOT MATERIALIZED from a CTE."""
    # These words do not affect rows.
    if _word(tokens, index) != "MATERIALIZED" or _word(tokens, index + 1) != "(":
        return
    first = index - 1 if _word(tokens, index - 1) == "NOT" else index
    if _word(tokens, first - 1) == "AS":
        yield Edit(tokens[first].start, tokens[index].end, "")


def _remove_comma(tokens: list[Token], index: int) -> Iterator[Edit]:
    if _word(tokens, index) != ",":
        return
    word, behind = _word(tokens, index + 1), _word(tokens, index + 2)
    # The comma stays if the word after it may be a column's name.
    clause = word in _AFTER_LIST and behind not in (",", ".", "FROM", "AS", "")
    if clause or (word, behind) in _AFTER_KEYS or word in ("", ")"):
        yield Edit(tokens[index].start, tokens[index].end, "")


def _rewrite_any(tokens: list[Token], index: int) -> Iterator[Edit]:
    """Rewrite `a = ANY (SELECT …)` as `a IN (SELECT …)`, and `a <> ALL (…)` as `a NOT IN (…)`."""
    word = _word(tokens, index)
    is_query = _word(tokens, index + 1) == "(" and _word(tokens, index + 2) in ("SELECT", "WITH")
    if word not in ("ANY", "SOME", "ALL") or not is_query:
        return
    sign, first = "", index
    while first and tokens[first - 1].kind == "punct" and tokens[first - 1].text in "<>=!":
        first -= 1
        sign = tokens[first].text + sign
    if not sign:
        return  # UNION ALL (SELECT …)
    meant = "IN" if word != "ALL" and sign in ("=", "==") else None
    if word == "ALL" and sign in ("<>", "!="):
        meant = "NOT IN"
    if meant is None:
        raise NoSparkForm(
            tokens[first].start,
            f"Spark has no comparison with {word} (SELECT …)",
            "compare with (SELECT MIN(…) …) or (SELECT MAX(…) …), or write EXISTS",
        )
    yield Edit(tokens[first].start, tokens[index].end, meant)


def _rewrite_distinct_on(text: str, tokens: list[Token], index: int) -> Iterator[Edit]:
    words = (_word(tokens, index), _word(tokens, index + 1), _word(tokens, index + 2))
    if words != ("DISTINCT", "ON", "("):
        return
    close = _closing_index(tokens, index + 2)
    keys = text[tokens[index + 2].end : tokens[close].start]
    end = _clause_end(tokens, close + 1, _TAIL | {"QUALIFY"})
    if _word(tokens, end) == "QUALIFY":
        raise NoSparkForm(
            tokens[index].start,
            "Spark has no DISTINCT ON",
            "write QUALIFY ROW_NUMBER() OVER (PARTITION BY … ORDER BY …) = 1",
        )
    order, items = keys, split_top_level(tokens[index + 3 : close])
    if _word(tokens, end) == "ORDER":
        behind = _clause_end(tokens, end + 2, _TAIL)
        order = text[tokens[end + 2].start : tokens[behind - 1].end] or keys
        items += split_top_level(tokens[end + 2 : behind])
    if any(item and item[0].kind == "number" for item in items):
        what = "DISTINCT ON is not supported with positions of columns"
        raise NoSparkForm(tokens[index].start, what, "write the columns' names")
    window = f"ROW_NUMBER() OVER (PARTITION BY {keys} ORDER BY {order})"
    yield Edit(tokens[index].start, tokens[close].end, "")
    yield Edit(tokens[end - 1].end, tokens[end - 1].end, f" QUALIFY {window} = 1")


def _clause_end(tokens: list[Token], index: int, ends: frozenset[str]) -> int:
    """Return the index of the next token in `ends` outside brackets, or the query's end."""
    depth = 0
    while index < len(tokens):
        word = _word(tokens, index)
        depth += (word in OPENING) - (word in CLOSING)
        if depth < 0 or word == ";" or (depth == 0 and word in ends):
            break
        index += 1
    return index
