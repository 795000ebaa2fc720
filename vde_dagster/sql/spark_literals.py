"""Literals as their text: strings, numbers with a type before them, intervals."""

from __future__ import annotations

from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from vde_dagster.sql.token_kinds import MARK, STRINGS, like

T = TokenType
LITERAL_TYPES = frozenset({"DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "X"})
"""Words that make a literal of the string behind them."""
_UNITS = frozenset(
    f"{unit}{plural}"
    for unit in (
        *("NANOSECOND", "MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK"),
        *("MONTH", "YEAR"),
    )
    for plural in ("", "S")
)


def string_run(text: str, tokens: list[Token], index: int) -> tuple[int, str]:
    """Read a run of strings, which Spark takes for one; `''` in a string is no border.

    Args:
        text: The query.
        tokens: Its tokens.
        index: Where the run begins.

    Returns:
        The index behind it, and its text with all quotes.
    """
    first = tokens[index]
    last = first
    pieces: list[str] = []
    begin = first.start
    end = index + 1
    while end < len(tokens) and tokens[end].token_type in STRINGS:
        following = tokens[end]
        if following.start != last.end + 1:
            pieces.append(text[begin : last.end + 1])
            begin = following.start
        last = following
        end += 1
    pieces.append(text[begin : last.end + 1])
    return end, " ".join(_single_quoted(piece) for piece in pieces)


def literal_call(token: Token, name: str, text: str) -> list[Token]:
    """Write a literal as a call with its text: `DATE '2020-01-01'`, `INTERVAL 1 DAY`.

    Args:
        token: In whose place it stands.
        name: Its type.
        text: Its text.
    """
    return [
        like(token, T.VAR, f"{name} literal{MARK}"),
        like(token, T.L_PAREN, "("),
        like(token, T.STRING, text),
        like(token, T.R_PAREN, ")"),
    ]


def prefixed_literal(text: str, token: Token) -> list[Token]:
    """Read `X'1F'`, which is the same as `X '1F'`."""
    written = text[token.start : token.end + 1]
    if "'" not in written and '"' not in written:
        return [like(token, T.VAR, written)]  # 0x1F, which is a name in Spark.
    begin = min(written.find(quote) for quote in "'\"" if quote in written)
    return literal_call(token, written[:begin].lower(), _single_quoted(written[begin:]))


def interval_literal(text: str, tokens: list[Token], index: int) -> tuple[int, list[Token]]:
    """Read an interval: values with units, or one value from a unit to another.

    Its values are literals in Spark, never expressions. Anything else is a column's name.

    Returns:
        The index behind it, and what stands for it.
    """
    pieces: list[str] = []
    end, size = index + 1, len(tokens)
    while end < size:
        begin = end
        sign = ""
        if tokens[end].token_type in (T.DASH, T.PLUS):
            sign, end = tokens[end].text, end + 1
        if end < size and tokens[end].token_type in STRINGS:
            end, value = string_run(text, tokens, end)
        elif end < size and tokens[end].token_type == T.NUMBER:
            value, end = tokens[end].text, end + 1
        else:
            end = begin
            break
        unit = tokens[end].text.upper() if end < size else ""
        if unit not in _UNITS:
            if not pieces and value[0] in "'\"rR" and not sign:
                pieces = [value]  # INTERVAL '1 day 2 hours'
            else:
                end = begin
            break
        pieces += [sign + value, unit]
        end += 1
    if not pieces:
        return index + 1, [tokens[index]]
    span = [token.text.upper() for token in tokens[end : end + 2]]
    if span[:1] == ["TO"] and span[-1] in _UNITS:
        pieces += span
        end += 2
    return end, literal_call(tokens[index], "interval", " ".join(pieces))


def _single_quoted(piece: str) -> str:
    """Write a plain string in double quotes in single ones; any other stays as it is."""
    if piece[0] == '"' and "'" not in piece and "\\" not in piece and '"' not in piece[1:-1]:
        return f"'{piece[1:-1]}'"
    return piece
