"""What SQLGlot's own reading of Spark SQL gets wrong, for whoever translates by it."""

from __future__ import annotations

from itertools import pairwise

from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from vde_dagster.sql.dialects import untranslated
from vde_dagster.sql.precedence import with_brackets
from vde_dagster.sql.spark_tokens import as_written

_FUNCTIONS = frozenset(
    {"listagg", "string_agg", "to_char", "to_varchar", "percentile_cont", "percentile_disc"}
    | {"parse_json", "variant_get", "variant_explode", "localtimestamp", "get_json_object"}
)
"""Functions that SQLGlot (30.30) writes as others of another meaning."""
_UNITS = frozenset(
    {"year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond"}
    | {"microsecond"}
)


def is_misread(text: str) -> bool:
    """Whether SQLGlot is known to take a Spark query for another one.

    Args:
        text: Spark SQL.
    """
    dialect = untranslated("spark")
    tokens = dialect.tokenize(text)
    for token, following in pairwise(tokens):
        name = token.text.lower()
        called = following.token_type == TokenType.L_PAREN
        if called and name in _FUNCTIONS:
            return True
        if called and name in ("date_trunc", "trunc") and not _has_plain_unit(text, token.end + 1):
            return True
        strings = token.token_type == following.token_type == TokenType.STRING
        if strings and following.start == token.end + 1:
            return True  # '' within a string is a quote in Spark 4.
        if token.token_type == TokenType.TIME:
            return True
    made = as_written(text, tokens)
    return made.doubt is not None or with_brackets(made.tokens) is not made.tokens


def _has_plain_unit(text: str, bracket: int) -> bool:
    """Whether a unit in full stands in the call that begins at a bracket."""
    call = text[bracket : text.find(")", bracket)].lower()
    return any(f"'{unit}'" in call for unit in _UNITS)
