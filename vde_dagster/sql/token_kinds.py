"""Kinds of tokens, and tokens in the place of others."""

from __future__ import annotations

from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

T = TokenType

STRINGS = frozenset({T.STRING, T.RAW_STRING})
PREFIXED = frozenset({T.HEX_STRING, T.BIT_STRING, T.BYTE_STRING, T.NATIONAL_STRING})
GENERIC = frozenset({T.ARRAY, T.MAP, T.STRUCT})
"""Types whose parameters stand between `<` and `>`."""
COMPARISONS = frozenset({T.EQ, T.NEQ, T.NULLSAFE_EQ, T.LT, T.LTE, T.GT, T.GTE})
OPERATORS = COMPARISONS | {
    *(T.STAR, T.SLASH, T.MOD, T.DIV, T.PLUS, T.DASH, T.DPIPE, T.DQMARK, T.AMP, T.CARET, T.PIPE),
    *(T.DCOLON, T.L_BRACKET, T.DOT, T.COLON),
}
"""What may stand between two values, or behind one."""

MARK = "\ue000"
"""Ends the names of functions that SQLGlot's parser knows: a character of the private use area."""


def like(token: Token, kind: TokenType, text: str) -> Token:
    """Make a token in the place of another."""
    return Token(kind, text, token.line, token.col, token.start, token.end)


def retext(token: Token, kind: TokenType, text: str) -> None:
    """Let a token be another one in its place."""
    token.token_type = kind
    token.text = text
