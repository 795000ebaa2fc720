"""Reading a query in Spark's dialect: its tokens, and the tree that they make."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from vde_dagster.sql.precedence import with_brackets
from vde_dagster.sql.spark_tokens import MARK, as_written
from vde_dagster.sql.trees import untranslated

DOUBT = "vde_doubt"
"""Key in a tree's `meta`: why the query has to be opaque though there is a tree."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A query as it was read.

    Args:
        tree: Calls are `exp.Anonymous`, literals are text as written, and identifiers know their
            offsets in `meta`. It is for understanding; no SQL is written from it.
    """

    text: str
    tokens: list[Token]
    tree: exp.Expr


def name_of_call(e: exp.Expr) -> str:
    """Return the lower-case name of a call as it was written; "" for anything else."""
    return e.name.rstrip(MARK).lower() if isinstance(e, exp.Anonymous) else ""


def read_statements(text: str) -> tuple[list[Token], list[exp.Expr | None]]:
    """Read a text of statements: its tokens, and trees; None for an empty statement.

    Raises:
        ParseError, TokenError: SQLGlot cannot read it.
    """
    dialect = untranslated("spark")
    tokens = dialect.tokenize(text)
    made = as_written(text, tokens)
    doubt = made.doubt
    bracketed = with_brackets(made.tokens)
    try:
        trees = parsed(dialect, bracketed or made.tokens, text)
    except ParseError:
        if bracketed is None or bracketed is made.tokens:
            raise
        trees = parsed(dialect, made.tokens, text)
        bracketed = None
    lateral = any(token.token_type == TokenType.LATERAL for token in tokens)
    if doubt is None and lateral and any(map(_lacks_condition, trees)):
        doubt = _WITHOUT_ON
    if bracketed is None:
        doubt = doubt or "how its operators are grouped"
    if doubt is not None:
        for tree in trees:
            if tree is not None:
                tree.meta[DOUBT] = doubt
    return tokens, trees


def parsed(dialect: Dialect, tokens: list[Token], text: str) -> list[exp.Expr | None]:
    """The trees of a text's statements.

    Raises:
        ParseError: SQLGlot cannot read it, or stumbles over it.
    """
    try:
        return dialect.parser().parse(tokens, text)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise ParseError(f"SQLGlot cannot read it: {error}") from error


def read_query(text: str) -> Reading:
    """Read one query.

    Raises:
        ParseError, TokenError: SQLGlot cannot read it, or it is several statements.
    """
    tokens, trees = read_statements(text)
    statements = [t for t in trees if t is not None and not isinstance(t, exp.Semicolon)]
    if len(statements) != 1:
        raise ParseError(f"The query must be one statement, not {len(statements)}.")
    return Reading(text, tokens, statements[0])


_WITHOUT_ON = "LEFT JOIN LATERAL without ON"


def _lacks_condition(tree: exp.Expr | None) -> bool:
    """Whether a query has an outer join to LATERAL without ON.

    SQLGlot writes ON TRUE behind it, when all else of the join has been read.
    """
    return tree is not None and any(
        isinstance(join.this, exp.Lateral)
        and (join.side == "LEFT" or join.kind == "OUTER")
        and list(join.args)[-1] == "on"
        for join in tree.find_all(exp.Join)
    )


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
    """Whether SQLGlot is known to take a Spark query for another one."""
    dialect = untranslated("spark")
    tokens = dialect.tokenize(text)
    for token, following in pairwise(tokens):
        name = token.text.lower()
        called = following.token_type == TokenType.L_PAREN
        if called and name in _FUNCTIONS:
            return True
        if called and name in ("date_trunc", "trunc"):
            arguments = text[token.end + 1 : text.find(")", token.end + 1)].lower()
            if not any(f"'{unit}'" in arguments for unit in _UNITS):
                return True
        strings = token.token_type == following.token_type == TokenType.STRING
        if strings and following.start == token.end + 1:
            return True  # '' within a string is a quote in Spark 4.
        if token.token_type == TokenType.TIME:
            return True
    made = as_written(text, tokens)
    return made.doubt is not None or with_brackets(made.tokens) is not made.tokens
