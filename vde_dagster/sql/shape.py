"""The outline of a query's text: its WITH clause, and line breaks for people."""

from __future__ import annotations

from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from vde_dagster.sql.dialects import untranslated

T = TokenType
_CLAUSES = frozenset(
    {T.SELECT, T.FROM, T.WHERE, T.GROUP_BY, T.HAVING, T.QUALIFY, T.WINDOW, T.ORDER_BY, T.SORT_BY}
    | {T.CLUSTER_BY, T.DISTRIBUTE_BY, T.LIMIT, T.OFFSET, T.UNION, T.EXCEPT, T.INTERSECT, T.LATERAL}
)
_JOINS = frozenset({T.JOIN, T.LEFT, T.RIGHT, T.FULL, T.INNER, T.CROSS, T.NATURAL, T.SEMI, T.ANTI})
_MODIFIERS = frozenset({T.LEFT, T.RIGHT, T.FULL, T.INNER, T.CROSS, T.NATURAL, T.OUTER})
_QUERIES = frozenset({T.SELECT, T.WITH, T.FROM, T.VALUES})


def with_clause(text: str) -> str | None:
    """Return the WITH clause that a query begins with, or None.

    Args:
        text: Spark SQL.
    """
    tokens = untranslated("spark").tokenize(text)
    if not tokens or tokens[0].token_type != T.WITH:
        return None
    depth = 0
    for index, token in enumerate(tokens[:-1]):
        depth += (token.token_type == T.L_PAREN) - (token.token_type == T.R_PAREN)
        closed = token.token_type == T.R_PAREN and depth == 0
        if closed and tokens[index + 1].token_type not in (T.COMMA, T.ALIAS):
            return str(text[: token.end + 1])
    return None


def broken_into_lines(text: str) -> str:
    """Return a query with every clause in a line of its own, its words unchanged.

    Args:
        text: Spark SQL in one line.
    """
    tokens = untranslated("spark").tokenize(text)
    out: list[str] = []
    indents: list[int] = []
    done = depth = 0
    for index, token in enumerate(tokens):
        if token.start < done:
            continue  # A number such as 1L is three tokens in one place.
        kind = token.token_type
        before = text[done : token.start]
        if kind == T.R_PAREN and indents:
            own = indents.pop()
            if own:
                depth -= own
                before = "\n" + "  " * depth
        elif index and not _in_call(indents) and _breaks(tokens, index):
            before = "\n" + "  " * depth
        out += [before, text[token.start : token.end + 1]]
        done = token.end + 1
        if kind == T.L_PAREN:
            following = tokens[index + 1].token_type if index + 1 < len(tokens) else None
            own = int(following in _QUERIES)
            indents.append(own)
            if own:
                depth += 1
                out.append("\n" + "  " * depth)
                done = tokens[index + 1].start
    return "".join([*out, text[done:]])


def _in_call(indents: list[int]) -> bool:
    """Whether the innermost bracket is not that of a query: OVER (ORDER BY …), f(…)."""
    return bool(indents) and not indents[-1]


def _breaks(tokens: list[Token], index: int) -> bool:
    kind, before = tokens[index].token_type, tokens[index - 1].token_type
    if kind in _JOINS:
        following = tokens[index + 1].token_type if index + 1 < len(tokens) else None
        return before not in _JOINS | _MODIFIERS and following != T.L_PAREN
    if kind == T.LATERAL:
        return before not in (T.COMMA, *_JOINS)
    return kind in _CLAUSES and before != T.L_PAREN
