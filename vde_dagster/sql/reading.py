from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from sqlglot import exp
from sqlglot.dialects.databricks import Databricks
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError
from sqlglot.expressions import Expr, Identifier, Literal, Table
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from vde_dagster.base.names import quote, string_literal
from vde_dagster.sql.grammar.precedence import add_spark_brackets
from vde_dagster.sql.grammar.tokens import MARK, join_type_words, keep_written_text
from vde_dagster.sql.trees import plain_dialect

_MISREAD_FIELDS = {TokenType.SELECT, TokenType.NOT}
"""Keywords that may name a field of a struct, but that SQLGlot reads as part of an expression."""
DOUBT = "vde_doubt"
"""Key in a tree's `meta` for the reason why the query must be opaque although it has a tree."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A query's tokens and syntax tree.

    Args:
        tree: The syntax tree, for analysis only. Calls are `exp.Anonymous`, literals have the
            author's text, and identifiers have their offsets in `meta`.
    """

    text: str
    tokens: list[Token]
    tree: exp.Expr

    @property
    def with_clause(self) -> str:
        """The WITH clause that the query begins with, or "" without such a clause."""
        return self.text[: end_of_with(self.tokens)]

    @property
    def tables(self) -> list[exp.Table]:
        """The tables that the query reads: no CTEs, table functions, hints or parameters."""
        return list(find_tables_read(self.tree))


def end_of_with(tokens: list[Token]) -> int:
    """Return the offset after the WITH clause that a query begins with, or 0 if it has none."""
    if not tokens or tokens[0].token_type != TokenType.WITH:
        return 0
    depth = 0
    for index, token in enumerate(tokens[:-1]):
        kind = token.token_type
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
        following = tokens[index + 1].token_type
        closed = kind == TokenType.R_PAREN and depth == 0
        if closed and following not in (TokenType.COMMA, TokenType.ALIAS):
            return int(token.end) + 1
    return 0


def call_name(e: exp.Expr) -> str:
    """Return a call's name in lower case, without resolving synonyms, or "" for other nodes."""
    return e.name.rstrip(MARK).lower() if isinstance(e, exp.Anonymous) else ""


def is_star(e: exp.Expr) -> bool:
    """Return whether an expression is `*`, `t.*` or `s.*`; false for a subquery with a star."""
    return isinstance(e, exp.Star | exp.Column | exp.Dot) and bool(e.is_star)


def read_statements(text: str) -> tuple[list[Token], list[exp.Expr | None]]:
    """Parse a text, and return its tokens and the tree of each statement (None if empty).

    Raises:
        ParseError, TokenError: SQLGlot cannot read the text.
    """
    dialect = plain_dialect("spark")
    tokens = dialect.tokenize(text)
    made = keep_written_text(text, tokens)
    doubt = made.doubt
    bracketed = add_spark_brackets(made.tokens)
    try:
        trees = parse_tokens(dialect, bracketed or made.tokens, text)
    except ParseError:
        if bracketed is None or bracketed is made.tokens:
            raise
        trees = parse_tokens(dialect, made.tokens, text)
        bracketed = None
    lateral = "LATERAL" in text.upper()
    if doubt is None and lateral and any(map(_lacks_condition, trees)):
        doubt = _WITHOUT_ON
    if bracketed is None:
        doubt = doubt or "how its operators are grouped"
    if doubt is not None:
        for tree in trees:
            if tree is not None:
                tree.meta[DOUBT] = doubt
    return tokens, trees


def parse_tokens(
    dialect: Dialect, tokens: list[Token], text: str, into: Any = None, **options: Any
) -> list[exp.Expr | None]:
    """Parse tokens to the trees of their statements. Raise ParseError if SQLGlot fails."""
    parser, tokens = dialect.parser(**options), _bracket_literals(tokens)
    try:
        return parser.parse(tokens, text) if into is None else parser.parse_into(into, tokens, text)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise ParseError(f"SQLGlot cannot read the text: {error}") from error


def read_query(text: str) -> Reading:
    """Parse a text of one query.

    Raises:
        ParseError, TokenError: SQLGlot cannot read the text, or it is not exactly one statement.
    """
    tokens, trees = read_statements(text)
    statements = [t for t in trees if t is not None and not isinstance(t, exp.Semicolon)]
    if len(statements) != 1:
        raise ParseError(f"The query must be one statement, not {len(statements)}.")
    return Reading(text, tokens, statements[0])


def parse_plain(
    text: str, dialect: str | Dialect = "spark", into: Any = None, **options: Any
) -> exp.Expr:
    """Parse an expression or the first statement of a text into SQLGlot's own classes.

    For Spark, operators are grouped as in Spark, and a doubled quote within a string is one quote.

    Args:
        into: The class to parse into; see SQLGlot's `parse_one`.

    Raises:
        ParseError, TokenError: SQLGlot cannot read the text, or it has no statement.
    """
    for tree in _plain_trees(text, dialect, into, **options):
        if tree is not None:
            return tree
    raise ParseError(f"No expression was parsed from '{text}'")


def parse_plain_statements(text: str, dialect: str | Dialect = "spark") -> list[exp.Expr]:
    """Parse every non-empty statement of a text, by the rules of `parse_plain`."""
    return [tree for tree in _plain_trees(text, dialect) if tree is not None]


def parse_type(text: str, dialect: str = "spark") -> exp.DataType:
    """Parse a type. A nested VOID becomes NULL; a field's comment may have doubled quotes.

    Raises:
        ParseError, TokenError, ValueError, TypeError: SQLGlot cannot read the text.

    >>> parse_type("struct<select: int, name: string>").sql("spark")
    'STRUCT<`select`: INT, name: STRING>'
    >>> parse_type("timestamp without time zone").sql("spark")
    'TIMESTAMP_NTZ'
    """
    if dialect == "spark" and "without" in text.lower():
        for token in reversed(join_type_words(text, plain_dialect(dialect).tokenize(text))):
            if token.token_type == TokenType.TIMESTAMPNTZ:
                text = f"{text[: token.start]}{token.text}{text[token.end + 1 :]}"
    if dialect != "spark" or not ("<" in text or "''" in text or '""' in text):
        return exp.DataType.build(text, dialect=dialect)
    tokens = _join_doubled_quotes(text, plain_dialect(dialect).tokenize(text))
    for number in range(len(tokens) - 1, 0, -1):
        token, following = tokens[number], tokens[number + 1 : number + 2]
        written = None
        if token.token_type == TokenType.STRING:
            written = string_literal(token.text)
        elif token.token_type in _MISREAD_FIELDS and tokens[number - 1].text in ("<", ","):
            written = quote(token.text)
        elif token.text.lower() == "void" and following and following[0].text in (">", ","):
            written = "NULL"
        if written is not None:
            text = f"{text[: token.start]}{written}{text[token.end + 1 :]}"
    found = exp.DataType.build(text, dialect=dialect)
    nested = (one for one in found.find_all(exp.DataType) if one.args.get("nested"))
    if sum(len(one.expressions) for one in nested) != _count_parts(tokens):
        raise ParseError(f"SQLGlot cannot read a part of the type '{text}'.")
    return found


def _count_parts(tokens: list[Token]) -> int:
    """Count a type's parts: fields of structs, elements of arrays, keys and values of maps."""
    parts = brackets = 0
    for token in tokens:
        brackets += (token.text == "(") - (token.text == ")")
        parts += token.text == "<" or (token.text == "," and not brackets)
    return parts


def _plain_trees(
    text: str, dialect: str | Dialect, into: Any = None, **options: Any
) -> list[exp.Expr | None]:
    chosen = Dialect.get_or_raise(dialect)
    tokens = chosen.tokenize(text)
    if isinstance(chosen, Spark) and not isinstance(chosen, Databricks):
        # SQLGlot's parser alone would read `'C''1'` as `'C1'`.
        tokens = _join_doubled_quotes(text, join_type_words(text, tokens))
        tokens = add_spark_brackets(tokens) or tokens
    return parse_tokens(chosen, tokens, text, into, **options)


def _join_doubled_quotes(text: str, tokens: list[Token]) -> list[Token]:
    """Read adjacent strings in the same quotes as one string: `'it''s'` is the text `it's`."""
    joined: list[Token] = []
    for token in tokens:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.token_type == token.token_type == TokenType.STRING
            and last.end + 1 == token.start
            and text[last.end] == text[token.start]
        ):
            last.text += text[token.start] + token.text
            last.end = token.end
        else:
            joined.append(token)
    return joined


def _bracket_literals(tokens: list[Token]) -> list[Token]:
    if not any(token.text == "::" for token in tokens):
        return tokens
    made: list[Token] = []
    for index, token in enumerate(tokens):
        # SQLGlot (30.30) would cast only the text.
        if token.token_type == TokenType.DCOLON and index > 1:
            kind, text = tokens[index - 2 : index]
            if text.token_type == TokenType.STRING and kind.token_type in _LITERAL_TYPES:
                opening = Token(TokenType.L_PAREN, "(", kind.line, kind.col, kind.start, kind.start)
                closing = Token(TokenType.R_PAREN, ")", text.line, text.col, text.end, text.end)
                made[-2:] = [opening, kind, text, closing]
        made.append(token)
    return made


_LITERAL_TYPES = frozenset(
    {TokenType.DATE, TokenType.TIME, TokenType.TIMESTAMP, TokenType.TIMESTAMPTZ}
    | {TokenType.TIMESTAMPLTZ, TokenType.TIMESTAMPNTZ, TokenType.DATETIME, TokenType.TIMETZ}
)
_WITHOUT_ON = "LEFT JOIN LATERAL without ON"


def _lacks_condition(tree: exp.Expr | None) -> bool:
    """Return whether an outer join to LATERAL has no ON, where SQLGlot would add ON TRUE."""
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
"""Functions that SQLGlot (30.30) writes as functions of another meaning."""
_UNITS = frozenset(
    {"year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond"}
    | {"microsecond"}
)


def is_misread(text: str) -> bool:
    """Return whether SQLGlot is known to misread a Spark query."""
    dialect = plain_dialect("spark")
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
    made = keep_written_text(text, tokens)
    return made.doubt is not None or add_spark_brackets(made.tokens) is not made.tokens


def find_tables_read(tree: exp.Expr) -> Iterator[exp.Table]:
    """Yield the tables that a query reads: no CTEs, table functions, hints or parameters."""
    withs = _CteResolver()
    for table in _tables(tree):
        if not isinstance(table.this, exp.Identifier) or not table.name:
            continue
        if table.find_ancestor(exp.Hint) is not None or withs.is_cte(table):
            continue
        yield table


def _tables(tree: exp.Expr) -> list[exp.Table]:
    # SQLGlot's walk visits all nodes and takes twice as long.
    ends = {Identifier, Literal, str, bool, type(None)}
    nodes = [tree]
    for node in nodes:
        for value in node.args.values():
            if value.__class__ is list:
                nodes += [item for item in value if isinstance(item, Expr)]
            elif value.__class__ not in ends and isinstance(value, Expr):
                nodes.append(value)
    return [node for node in nodes if isinstance(node, Table)]


class _CteResolver:
    def __init__(self) -> None:
        self._known: dict[int, tuple[dict[str, int], dict[int, int]]] = {}

    def is_cte(self, table: exp.Table) -> bool:
        if table.args.get("db"):
            return False
        name = table.name.lower()
        below: exp.Expr = table
        inside: exp.CTE | None = None
        node = table.parent
        while node is not None:
            if isinstance(node, exp.CTE):
                inside = node
            elif isinstance(node, exp.With):
                first, places = self._cte_places(node)
                place = first.get(name)
                # A CTE is visible to the query that owns the WITH, to later CTEs of this WITH, and
                # with RECURSIVE to itself.
                here = places[id(inside)] + bool(node.args.get("recursive"))
                if place is not None and place < here:
                    return True
            else:
                owned = node.args.get("with_")
                owner = owned if isinstance(owned, exp.With) and owned is not below else None
                if owner is not None and name in self._cte_places(owner)[0]:
                    return True
            below, node = node, node.parent
        return False

    def _cte_places(self, with_: exp.With) -> tuple[dict[str, int], dict[int, int]]:
        known = self._known.get(id(with_))
        if known is None:
            first: dict[str, int] = {}
            for place, cte in enumerate(with_.expressions):
                first.setdefault(cte.alias.lower(), place)
            places = {id(cte): place for place, cte in enumerate(with_.expressions)}
            known = self._known[id(with_)] = first, places
        return known
