"""Changes SQLGlot's tokens, so that its parser keeps Spark SQL in its original words.

SQLGlot's parser maps different functions, units, formats and literals to the same class. To prevent
this, every call gets a name that the parser does not have, so that it becomes an `exp.Anonymous`.
Every literal keeps its text with its quotes. Special syntax of functions (`EXTRACT(DAY FROM d)`)
becomes a plain call. The parser cannot be subclassed instead, because its classes are compiled.

The rules follow Spark's grammar (`SqlBaseParser.g4` and `SqlBaseLexer.g4` of Spark 4.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from vde_dagster.sql.grammar.literals import UNITS

T = TokenType

_STRINGS = frozenset({T.STRING, T.RAW_STRING})
_PREFIXED = frozenset({T.HEX_STRING, T.BIT_STRING, T.BYTE_STRING, T.NATIONAL_STRING})
GENERIC = frozenset({T.ARRAY, T.MAP, T.STRUCT})
"""Types with parameters between `<` and `>`."""
COMPARISONS = frozenset({T.EQ, T.NEQ, T.NULLSAFE_EQ, T.LT, T.LTE, T.GT, T.GTE})
OPERATORS = COMPARISONS | {
    *(T.STAR, T.SLASH, T.MOD, T.DIV, T.PLUS, T.DASH, T.DPIPE, T.DQMARK, T.AMP, T.CARET, T.PIPE),
    *(T.DCOLON, T.L_BRACKET, T.DOT, T.COLON),
}
"""Tokens that may occur between two values, or after a value."""

PIPES = "the operator |>"
"""Doubt about queries with pipes: SQLGlot drops parts of them, and applies WHERE before LIMIT."""

MARK = "\ue000"
"""Suffix of names of functions that SQLGlot's parser knows: a private-use character."""


def make_token(token: Token, kind: TokenType, text: str) -> Token:
    """Create a token at the position of another token."""
    return Token(kind, text, token.line, token.col, token.start, token.end)


def type_end(tokens: Sequence[Token], index: int) -> int:
    """Return the index of the first token after a type such as `ARRAY<INT>`.

    A single word that is not a type, such as a column `array`, counts as one token.
    """
    depth = 0
    for end in range(index + 1, len(tokens)):
        kind = tokens[end].token_type
        depth += (kind == T.LT) - (kind == T.GT)
        if depth == 0:
            return end + 1
    return index + 1


def _change(token: Token, kind: TokenType, text: str) -> None:
    token.token_type = kind
    token.text = text


_CHECKED = (
    _STRINGS
    | _PREFIXED
    | GENERIC
    | {*(T.NUMBER, T.INTERVAL, T.GT, T.COLON, T.COLLATE, T.UNKNOWN, T.PLUS)}
)
_CHECKED_BEFORE = _STRINGS | {T.L_PAREN}
"""Tokens that need a check, and tokens that cause a check of the token before them."""
_BEFORE_SIGN = COMPARISONS | {
    *(T.STAR, T.SLASH, T.MOD, T.DIV, T.PLUS, T.DASH, T.DPIPE, T.AMP, T.CARET, T.PIPE, T.TILDE),
    *(T.PIPE_SLASH, T.L_BRACKET, T.NOT, T.BETWEEN, T.LIKE, T.PARTITION_BY, T.CASE),
    *(T.ILIKE, T.RLIKE, T.FROM, T.DQMARK, T.ARROW, T.FARROW, T.HINT, T.VALUES),
}
"""Further tokens after which a plus is a sign."""
_CALLED = [T.VAR, T.L_PAREN]


class WrittenTokens(NamedTuple):
    """Tokens for SQLGlot's parser, with offsets in the original text.

    Args:
        doubt: Syntax that the tokens cannot represent, so the query is compared as text; or None.
    """

    tokens: list[Token]
    doubt: str | None


def keep_written_text(text: str, tokens: Iterable[Token]) -> WrittenTokens:
    """Convert SQLGlot's tokens in place to tokens that keep the original text."""
    return _TokenRewriter(text, join_type_words(text, list(tokens))).read()


_NO_ZONE = ["TIMESTAMP", "WITHOUT", "TIME", "ZONE"]


def join_type_words(text: str, tokens: list[Token]) -> list[Token]:
    """Join the words `TIMESTAMP WITHOUT TIME ZONE`, which SQLGlot would read as `TIMESTAMP`."""
    if "without" not in text.lower():
        return tokens
    made: list[Token] = []
    for token in tokens:
        made.append(token)
        if [word.text.upper() for word in made[-4:]] == _NO_ZONE:
            joined = make_token(made[-4], T.TIMESTAMPNTZ, "TIMESTAMP_NTZ")
            joined.end = token.end
            made[-4:] = [joined]
    return made


class _TokenRewriter:
    def __init__(self, text: str, tokens: list[Token]) -> None:
        self._text = text
        self._in = tokens
        self._kinds: list[TokenType | None] = [token.token_type for token in tokens]
        self._kinds.append(None)
        self._out: list[Token] = []
        self._doubt: str | None = None
        self._calls = CallRenamer(tokens)

    def read(self) -> WrittenTokens:
        tokens, kinds, out, text = self._in, self._kinds, self._out, self._text
        calls, changes = self._calls, self._calls.changes
        index, size = 0, len(tokens)
        while index < size:
            token, kind, following = tokens[index], kinds[index], kinds[index + 1]
            if kind not in _CHECKED and following not in _CHECKED_BEFORE and not changes:
                out.append(token)
                index += 1
                continue
            if kind in _STRINGS:
                index, written = _string_run(text, tokens, index)
                _change(token, T.STRING, written)
                out.append(token)
                continue
            change = changes.get(index)
            if change is not None:
                change(token)
                if token.token_type != T.SPACE:
                    out.append(token)
            elif kind == T.NUMBER:
                token.text = text[token.start : token.end + 1]
                out.append(token)
                while index + 1 < size and tokens[index + 1].start <= token.end:
                    index += 1  # A number such as 1L is three tokens in one place.
            elif kind in _PREFIXED:
                out += _prefixed_literal(text, token)
            elif kind == T.PLUS:
                out.append(self._replace_plus(token))
            elif following == T.L_PAREN:
                calls.rename_call(index)
                out.append(token)
            elif following in _STRINGS and token.text.upper() in _LITERAL_TYPES:
                index, written = _string_run(text, tokens, index + 1)
                out += _literal_call(token, token.text.lower(), written)
                continue
            elif kind == T.INTERVAL:
                index, made = _interval_literal(text, tokens, index)
                out += made
                continue
            elif kind == T.GT and following == T.GT:
                index = self._replace_shift(index)
                continue
            elif kind == T.COLON:
                index = self._replace_path(index)
                continue
            elif following == T.LT and kind in GENERIC:
                end = type_end(tokens, index)
                out += tokens[index:end]
                index = end
                continue
            else:
                self._keep_token(token, kind)
            index += 1
        doubt = PIPES if T.PIPE_GT in kinds else self._doubt or calls.doubt
        return WrittenTokens(out, doubt)

    def _keep_token(self, token: Token, kind: TokenType | None) -> None:
        if kind == T.COLLATE:
            self._doubt = "COLLATE"
        elif kind == T.UNKNOWN:
            before = [t.token_type for t in self._out[-2:]]
            if before[-1:] == [T.IS] or before == [T.IS, T.NOT]:
                _change(token, T.STRING, "UNKNOWN")
        self._out.append(token)

    def _replace_plus(self, token: Token) -> Token:
        """Replace a unary plus with the token of the operator `|/`."""
        before = [None, None, None, *(one.token_type for one in self._out[-3:])]
        named = before[-2] is T.DOT  # A keyword as a name, as in `m.from + 1`.
        signs = not named and (before[-1] in _BEFORE_OPERAND or before[-1] in _BEFORE_SIGN)
        # `SELECT ALL +x` and `count(ALL +x)`.
        signs |= before[-1] is T.ALL and (before[-2] is T.SELECT or before[-3:-1] == _CALLED)
        # SQLGlot would drop the plus, and Spark has no `|/`, so the token can represent only a
        # plus. The plus has a meaning: `+x` converts texts and NULL to DOUBLE, and `+1` is neither
        # a position in ORDER BY nor a literal for the precision of DECIMAL arithmetic.
        return make_token(token, T.PIPE_SLASH, "+") if signs else token

    def _replace_shift(self, index: int) -> int:
        """Replace the operator `>>>`, which SQLGlot cannot read, with the token `??`."""
        run = self._in[index : index + 3]
        if [t.token_type for t in run] == [T.GT] * 3 and run[2].end == run[0].start + 2:
            self._out.append(make_token(run[0], T.DQMARK, "??"))
            return index + 3
        self._out.append(self._in[index])
        return index + 1

    def _replace_path(self, index: int) -> int:
        """Rewrite `v:a.b[0]`, a path in a VARIANT, as `v[':a.b[0]']`."""
        tokens, end = self._in, index + 1
        kinds = [token.token_type for token in self._out[-2:]]
        value = kinds[:1] == [T.DCOLON] or (
            bool(kinds) and kinds[-1] in (T.VAR, T.IDENTIFIER, T.R_PAREN, T.R_BRACKET)
        )
        if not value or end >= len(tokens):
            self._out.append(tokens[index])
            return index + 1
        while end < len(tokens):
            kind = tokens[end].token_type
            if kind == T.L_BRACKET:
                while end < len(tokens) and tokens[end].token_type != T.R_BRACKET:
                    end += 1
                end += 1
            elif kind == T.DOT or tokens[end - 1].token_type in (T.DOT, T.COLON):
                end += 1
            else:
                break
        path = "".join(self._text[token.start : token.end + 1] for token in tokens[index:end])
        self._out += [
            make_token(tokens[index], T.L_BRACKET, "["),
            make_token(tokens[index], T.STRING, path),
            make_token(tokens[index], T.R_BRACKET, "]"),
        ]
        return end


_NO_CALL_BEHIND = frozenset(
    {T.ALIAS, T.WITH, T.RECURSIVE, T.VAR, T.IDENTIFIER, T.R_PAREN, T.DCOLON}
)
"""Tokens before a name with brackets that is not a call: `AS t(a, b)`, `x::DECIMAL(9, 2)`."""
_BEFORE_OPERAND = frozenset(
    {T.L_PAREN, T.COMMA, T.SELECT, T.WHERE, T.ON, T.HAVING, T.QUALIFY, T.WHEN, T.THEN, T.ELSE}
    | {T.AND, T.OR, T.EQ, T.NEQ, T.LT, T.LTE, T.GT, T.GTE, T.GROUP_BY, T.ORDER_BY, T.DISTINCT}
)
"""Tokens that no operator follows, so that `AND(a, b)` after them is a call."""
_QUANTIFIERS = frozenset({"ANY", "SOME", "ALL"})
_OPERATORS = frozenset({"AND", "OR", "LIKE", "ILIKE", "RLIKE", "DIV"})
_QUERIES = frozenset({T.SELECT, T.WITH, T.FROM, T.VALUES, T.TABLE})
WITH_UNIT = frozenset(
    {"timestampadd", "dateadd", "date_add", "timestampdiff", "datediff", "date_diff", "timediff"}
)
"""Functions whose first of three arguments is a unit, written as a plain word."""
_KEYWORDS = {
    # What stands for a comma in a call's brackets, outside of inner ones.
    "EXTRACT": ("FROM",),
    "TRIM": ("FROM",),
    "SUBSTRING": ("FROM", "FOR"),
    "SUBSTR": ("FROM", "FOR"),
    "OVERLAY": ("PLACING", "FROM", "FOR"),
    "POSITION": ("IN",),
}
_SIDES = frozenset({"BOTH", "LEADING", "TRAILING"})
_UNCHANGED = frozenset({"CAST", "TRY_CAST"})


@lru_cache(maxsize=1)
def _functions_with_syntax() -> frozenset[str]:
    """Return the functions that have a class or special syntax in SQLGlot's Spark parser."""
    from sqlglot.parsers.spark import SparkParser

    names = {*SparkParser.FUNCTIONS, *SparkParser.FUNCTION_PARSERS}
    names |= {*SparkParser.NO_PAREN_FUNCTION_PARSERS, "STRUCT", "ARRAY", "MAP", "INTERVAL"}
    return frozenset(names - _UNCHANGED - {"CASE", "VALUES"})


class CallRenamer:
    """Renames calls in the tokens of a query, so that SQLGlot does not convert them.

    Attributes:
        changes: Python functions that change a later token, by the token's index.
        doubt: Syntax that the tokens cannot represent, or None.
    """

    def __init__(self, tokens: list[Token]) -> None:
        self.changes: dict[int, Callable[[Token], None]] = {}
        self.doubt: str | None = None
        self._in = tokens
        self._known = _functions_with_syntax()
        self._closing: dict[int, int] | None = None

    def rename_call(self, index: int) -> None:
        """Rename a called function by the index of its name, which a bracket follows."""
        token = self._in[index]
        kind, name = token.token_type, token.text.upper()
        if kind == T.GROUPING_SETS or name in ("ROLLUP", "CUBE"):
            before = self._in[index - 1].token_type if index else None
            if kind == T.GROUPING_SETS and before not in (T.GROUP_BY, T.COMMA, T.L_PAREN):
                self.doubt = "GROUP BY … GROUPING SETS without a comma"
            return
        if name in _QUANTIFIERS and self._in[index - 1].token_type in (T.LIKE, T.ILIKE):
            end = self._end_of_bracket(index + 1) + 1
            if end < len(self._in) and self._in[end].token_type in OPERATORS:
                self.doubt = "an operator after LIKE ANY"
        # `WINDOW w AS (…)` has a name between the word and the bracket.
        known = name in self._known or kind == T.WINDOW or name.lower() in WITH_UNIT
        if not known or (index and self._is_not_a_call(index, name)):
            return
        if kind != T.IDENTIFIER:
            token.token_type = T.VAR
        token.text = token.text + MARK
        if name in _KEYWORDS:
            self._plain_arguments(index, token, name)
        elif name.lower() in WITH_UNIT:
            self._unit_argument(index)

    def _is_not_a_call(self, index: int, name: str) -> bool:
        before = self._in[index - 1]
        kind = before.token_type
        if kind in _NO_CALL_BEHIND and before.text.upper() not in ("OUTER", "VIEW"):
            return True
        behind = self._in[index + 2].token_type if index + 2 < len(self._in) else None
        if name in _QUANTIFIERS:
            return kind in (T.LIKE, T.ILIKE) or behind in _QUERIES
        if name == "EXISTS":
            return behind in _QUERIES
        if name == "REPLACE":
            return kind == T.STAR
        if name in _OPERATORS:
            if kind == T.NOT and index > 1:
                kind = self._in[index - 2].token_type
            return kind not in _BEFORE_OPERAND
        if name in ("TRANSFORM", "MAP", "REDUCE") and kind == T.SELECT:
            end = self._end_of_bracket(index + 1) + 1
            return end < len(self._in) and self._in[end].text.upper() == "USING"
        if kind == T.COMMA:
            # A further name of WITH: f (a, b) AS (SELECT …)
            end = self._end_of_bracket(index + 1)
            kinds = [t.token_type for t in self._in[end + 1 : end + 4]]
            return kinds[:2] == [T.ALIAS, T.L_PAREN] and kinds[-1] in _QUERIES
        return False

    def _end_of_bracket(self, opening: int) -> int:
        if self._closing is None:
            self._closing = {}
            stack: list[int] = []
            for index, token in enumerate(self._in):
                kind = token.token_type
                if kind is T.L_PAREN:
                    stack.append(index)
                elif kind is T.R_PAREN and stack:
                    self._closing[stack.pop()] = index
        return self._closing.get(opening, len(self._in) - 1)

    def _top_level(self, index: int) -> list[int]:
        """Return the indexes of tokens in a call's brackets, without tokens in inner brackets."""
        found = []
        at, end = index + 2, self._end_of_bracket(index + 1)
        while at < end:
            found.append(at)
            if self._in[at].token_type == T.L_PAREN:
                at = self._end_of_bracket(at)
            at += 1
        return found

    def _plain_arguments(self, index: int, token: Token, name: str) -> None:
        inside = self._top_level(index)
        words = _KEYWORDS[name]
        borders = [i for i in inside if self._in[i].text.upper() in words]
        if not borders:
            return
        first = self._in[inside[0]]
        if name == "EXTRACT":
            self.changes[inside[0]] = _as_string
        elif name == "TRIM":
            side = first.text.upper()
            token.text = f"trim {side.lower() if side in _SIDES else 'both'}{MARK}"
            if side in _SIDES:
                self.changes[inside[0]] = _remove
                if borders[0] == inside[1]:  # TRIM(BOTH FROM s)
                    self.changes[borders.pop(0)] = _remove
        for border in borders:
            self.changes[border] = lambda token: _change(token, T.COMMA, ",")

    def _unit_argument(self, index: int) -> None:
        inside = self._top_level(index)
        commas = [i for i in inside if self._in[i].token_type == T.COMMA]
        if len(commas) == 2 and commas[0] == index + 3 and self._in[index + 2].text.isidentifier():
            self.changes[index + 2] = _as_string


def _as_string(token: Token) -> None:
    if token.token_type not in _STRINGS:
        _change(token, T.STRING, token.text.lower())


def _remove(token: Token) -> None:
    token.token_type = T.SPACE


_LITERAL_TYPES = frozenset({"DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "X"})
"""Words that turn the following string into a typed literal."""


def _string_run(text: str, tokens: list[Token], index: int) -> tuple[int, str]:
    """Read adjacent strings as one string, as Spark does.

    Return the index after the strings, and their text with all quotes.
    """
    first = tokens[index]
    last = first
    pieces: list[str] = []
    begin = first.start
    end = index + 1
    while end < len(tokens) and tokens[end].token_type in _STRINGS:
        following = tokens[end]
        if following.start != last.end + 1:
            pieces.append(text[begin : last.end + 1])
            begin = following.start
        last = following
        end += 1
    pieces.append(text[begin : last.end + 1])
    return end, " ".join(_single_quoted(piece) for piece in pieces)


def _literal_call(token: Token, name: str, text: str) -> list[Token]:
    return [
        make_token(token, T.VAR, f"{name} literal{MARK}"),
        make_token(token, T.L_PAREN, "("),
        make_token(token, T.STRING, text),
        make_token(token, T.R_PAREN, ")"),
    ]


def _prefixed_literal(text: str, token: Token) -> list[Token]:
    written = text[token.start : token.end + 1]
    if "'" not in written and '"' not in written:
        return [make_token(token, T.VAR, written)]  # 0x1F, which is a name in Spark.
    begin = min(written.find(quote) for quote in "'\"" if quote in written)
    return _literal_call(token, written[:begin].lower(), _single_quoted(written[begin:]))


def _interval_literal(text: str, tokens: list[Token], index: int) -> tuple[int, list[Token]]:
    """Read an interval, such as `INTERVAL 1 DAY 2 HOURS` or `INTERVAL '1-2' YEAR TO MONTH`.

    Return the index after the interval, and the tokens that replace it.
    """
    # If no literal follows, INTERVAL is a column's name.
    pieces: list[str] = []
    end, size = index + 1, len(tokens)
    while end < size:
        begin = end
        sign = ""
        if tokens[end].token_type in (T.DASH, T.PLUS):
            sign, end = tokens[end].text, end + 1
        if end < size and tokens[end].token_type in _STRINGS:
            end, value = _string_run(text, tokens, end)
        elif end < size and tokens[end].token_type == T.NUMBER:
            value, end = tokens[end].text, end + 1
        else:
            end = begin
            break
        unit = tokens[end].text.upper() if end < size else ""
        if unit not in UNITS:
            if not pieces and value[0] in "'\"rR" and not sign:
                pieces = [value]  # INTERVAL '1 day 2 hours'
            else:
                end = begin
            break
        pieces += [sign + value, unit.removesuffix("S")]
        end += 1
    if not pieces:
        return index + 1, [tokens[index]]
    span = [token.text.upper() for token in tokens[end : end + 2]]
    if span[:1] == ["TO"] and span[-1] in UNITS:
        pieces += span
        end += 2
    return end, _literal_call(tokens[index], "interval", " ".join(pieces))


def _single_quoted(piece: str) -> str:
    if piece[0] == '"' and "'" not in piece and "\\" not in piece and '"' not in piece[1:-1]:
        return f"'{piece[1:-1]}'"
    return piece
