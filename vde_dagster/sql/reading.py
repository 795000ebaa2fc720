"""Reading a query in Spark's dialect: its tokens, and the tree that they make."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.tokens import Token  # type: ignore[attr-defined]

from vde_dagster.sql.dialects import untranslated
from vde_dagster.sql.lateral import WITHOUT_ON, lacks_condition
from vde_dagster.sql.precedence import with_brackets
from vde_dagster.sql.spark_tokens import as_written
from vde_dagster.sql.token_kinds import MARK

DOUBT = "vde_doubt"
"""Key in a tree's `meta`: why the query has to be opaque though there is a tree."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A query as it was read.

    Args:
        text: The query.
        tokens: Its tokens with their offsets.
        tree: Its tree: calls are `exp.Anonymous`, literals are text as written, and identifiers
            know their offsets in `meta`. It is for understanding; no SQL is written from it.
    """

    text: str
    tokens: list[Token]
    tree: exp.Expr


def name_of_call(e: exp.Expr) -> str:
    """Return the lower-case name of a call as it was written; "" for anything else."""
    return e.name.rstrip(MARK).lower() if isinstance(e, exp.Anonymous) else ""


def read_statements(text: str) -> tuple[list[Token], list[exp.Expr | None]]:
    """Read a text of statements.

    Returns:
        Tokens, whose offsets are those of the text, and the trees; None for an empty statement.

    Raises:
        ParseError, TokenError: SQLGlot cannot read it.
    """
    dialect = untranslated("spark")
    tokens = dialect.tokenize(text)
    made = as_written(text, tokens)
    doubt = made.doubt
    if doubt is None and lacks_condition(tokens):
        doubt = WITHOUT_ON
    bracketed = with_brackets(made.tokens)
    try:
        trees = dialect.parser().parse(bracketed or made.tokens, text)
    except ParseError:
        if bracketed is None or bracketed is made.tokens:
            raise
        trees = dialect.parser().parse(made.tokens, text)
        bracketed = None
    if bracketed is None:
        doubt = doubt or "how its operators are grouped"
    if doubt is not None:
        for tree in trees:
            if tree is not None:
                tree.meta[DOUBT] = doubt
    return tokens, trees


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
