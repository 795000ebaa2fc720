"""Types of columns as Iceberg stores them: which are equal, and which can be widened in place."""

from __future__ import annotations

import re

_SAME = {
    **dict.fromkeys(("TINYINT", "BYTE", "SMALLINT", "SHORT", "INTEGER"), "INT"),
    **dict.fromkeys(("VARCHAR", "CHAR", "CHARACTER"), "STRING"),
    **dict.fromkeys(("NUMERIC", "DEC"), "DECIMAL"),
    "LONG": "BIGINT",
    "REAL": "FLOAT",
    "TIMESTAMP_LTZ": "TIMESTAMP",
    "BOOL": "BOOLEAN",
}
"""Types that Iceberg stores as another type, and synonyms of types."""
_WIDER = frozenset({("INT", "BIGINT"), ("FLOAT", "DOUBLE")})
_WORD = re.compile(r"[A-Z_]\w*\b(?!:)")
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_NARROW = re.compile(r"\b(INT|FLOAT|DECIMAL)\b")


def iceberg_type(type_: str) -> str:
    """Write a Spark SQL type as Iceberg stores it, such as `STRING` for `VARCHAR(10)`."""
    # Synonyms of a type become equal.
    text = re.sub(r"\s+", "", type_.upper())
    text = re.sub(r"(VARCHAR|CHAR|CHARACTER)\(\d+\)", "STRING", text)
    text = _WORD.sub(lambda word: _SAME.get(word.group(), word.group()), text)
    text = re.sub(r"DECIMAL\((\d+)\)", r"DECIMAL(\1,0)", text)
    return re.sub(r"DECIMAL(?!\()", "DECIMAL(10,0)", text)


def same_type(one: str, other: str) -> bool:
    """Return whether Iceberg stores two Spark SQL types as the same type."""
    return iceberg_type(one) == iceberg_type(other)


def widens(was: str, becomes: str) -> bool:
    """Return whether a change is from INT to BIGINT, FLOAT to DOUBLE, or to a larger DECIMAL."""
    before, after = iceberg_type(was), iceberg_type(becomes)
    if (before, after) in _WIDER:
        return True
    narrow, wide = _DECIMAL.fullmatch(before), _DECIMAL.fullmatch(after)
    if narrow is None or wide is None:
        return False
    whole, scale = int(narrow[1]) - int(narrow[2]), int(narrow[2])
    return int(wide[1]) - int(wide[2]) >= whole and int(wide[2]) >= scale


def widens_in_place(was: str, becomes: str) -> bool:
    """Return whether Iceberg can change a column's type without rewriting files.

    Source: https://iceberg.apache.org/spec/#schema-evolution.
    """
    if not widens(was, becomes):
        return False
    narrow, wide = _DECIMAL.fullmatch(iceberg_type(was)), _DECIMAL.fullmatch(iceberg_type(becomes))
    return narrow is None or wide is None or narrow[2] == wide[2]


def may_widen(type_: str) -> bool:
    """Return whether Iceberg could change a type to a wider one without rewriting files."""
    return _NARROW.search(iceberg_type(type_)) is not None
