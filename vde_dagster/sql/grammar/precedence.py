"""Adds brackets around operators that SQLGlot's parser would group differently than Spark.

In Spark `&` binds tighter than `^`, and `^` tighter than `|`; `||` binds like `+`. Comparisons are
one level, below all of these and above LIKE, IN, BETWEEN and IS. The expression `-1::string` casts
the number -1 (`valueExpression` and `predicate` in `SqlBaseParser.g4` of Spark 4.1). In SQLGlot,
all bit operators and `||` have one level, comparisons have two, and LIKE and similar predicates
bind tighter than comparisons.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from vde_dagster.sql.grammar.tokens import COMPARISONS, GENERIC, type_end

T = TokenType
_LEVELS = {
    **dict.fromkeys((T.STAR, T.SLASH, T.MOD, T.DIV), 6),
    **dict.fromkeys((T.PLUS, T.DASH, T.DPIPE), 5),
    T.DQMARK: 4,
    T.AMP: 3,
    T.CARET: 2,
    T.PIPE: 1,
    **dict.fromkeys(COMPARISONS, 0),
}
_SHIFT = 4
_SQLGLOT_LEVELS = {
    **dict.fromkeys((T.STAR, T.SLASH, T.MOD, T.DIV), 5),
    **dict.fromkeys((T.PLUS, T.DASH), 4),
    **dict.fromkeys((T.DPIPE, T.DQMARK, T.AMP, T.CARET, T.PIPE), 3),
    **dict.fromkeys((T.LT, T.LTE, T.GT, T.GTE), 1),
    **dict.fromkeys((T.EQ, T.NEQ, T.NULLSAFE_EQ), 0),
}
"""Precedence levels of SQLGlot's parser; operators of one level group from the left."""
_SQLGLOT_SHIFT = 3
_NO_OPERATOR = 9
"""A level that binds tighter than any operator."""
_MOST_BRACKETS = 200
"""Maximum number of pairs of brackets to add to a query."""
_SPECIAL = frozenset({T.AMP, T.PIPE, T.CARET, T.DQMARK, T.DPIPE})
_PREDICATES = frozenset({T.LIKE, T.ILIKE, T.RLIKE, T.IN, T.BETWEEN, T.IS})
_SIGNS = frozenset({T.DASH, T.PLUS, T.PIPE_SLASH, T.TILDE})
_SUFFIXES = frozenset({T.DCOLON, T.L_BRACKET})
_ENDS = (
    _PREDICATES
    | {T.COMMA, T.AND, T.OR, T.NOT, T.ESCAPE, T.WHEN, T.THEN, T.ELSE, T.SELECT, T.FROM, T.WHERE}
    | {T.GROUP_BY, T.HAVING, T.QUALIFY, T.ORDER_BY, T.SORT_BY, T.CLUSTER_BY, T.DISTRIBUTE_BY}
    | {T.LIMIT, T.OFFSET, T.UNION, T.EXCEPT, T.INTERSECT, T.JOIN, T.ON, T.USING, T.ALIAS, T.ASC}
    | {T.DESC, T.PARTITION_BY, T.HINT, T.ROWS, T.LATERAL, T.WITH, T.DISTINCT, T.ARROW, T.FARROW}
    | {T.WINDOW, T.VALUES, T.PIPE_GT, T.SEMICOLON, T.CROSS, T.INNER, T.OUTER, T.NATURAL}
    | {T.GROUPING_SETS, T.PIVOT, T.UNPIVOT, T.TABLE_SAMPLE, T.ALL}
)
"""Tokens that end an expression of values and operators."""
_OPENING = frozenset({T.L_PAREN, T.L_BRACKET, T.CASE})
_CLOSING = frozenset({T.R_PAREN, T.R_BRACKET, T.END})


@dataclass(slots=True)
class _Run:
    """An expression of operands and operators that is being read.

    Args:
        operators: (index, number of tokens, precedence level) of each binary operator.
        predicate: Whether a predicate such as LIKE precedes or follows the expression.
        between: Whether the next AND belongs to a BETWEEN.
    """

    start: int
    operators: list[tuple[int, int, int]] = field(default_factory=list)
    predicate: bool = False
    between: bool = False
    signs: list[int] = field(default_factory=list)


def add_spark_brackets(tokens: list[Token]) -> list[Token] | None:
    """Add brackets to tokens, so that SQLGlot groups the tokens as Spark does.

    Return `tokens` itself if no brackets are needed, or None if too many are needed.
    """
    kinds = {token.token_type for token in tokens}
    compared = bool(kinds & COMPARISONS) and bool(kinds & _PREDICATES)
    if not (
        kinds & _SPECIAL
        or compared
        or (T.DASH in kinds and kinds & _SUFFIXES)
        or _may_repeat_operators(tokens, kinds)
    ):
        return tokens
    return _Bracketer(tokens).result()


def _may_repeat_operators(tokens: list[Token], kinds: set[TokenType]) -> bool:
    """Return whether an expression may have two comparison or shift operators in sequence."""
    if not kinds & COMPARISONS:
        return False
    last = -1
    for token in tokens:
        kind = token.token_type
        if kind in COMPARISONS:
            if last >= 0:
                return True
            last = 0
        elif kind in _ENDS:
            last = -1
    return False


class _Bracketer:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._before: dict[int, list[Token]] = {}
        self._behind: dict[int, list[Token]] = {}
        self._brackets = 0

    def result(self) -> list[Token] | None:
        tokens = self._tokens
        stack: list[_Run] = []
        run = _Run(0)
        index, size = 0, len(tokens)
        while index < size:
            kind = tokens[index].token_type
            width = 1
            if kind in _OPENING:
                stack.append(run)
                run = _Run(index + 1)
            elif kind in _CLOSING:
                self._finish(run, index)
                run = stack.pop() if stack else _Run(index + 1)
            elif kind in _ENDS:
                run = self._start_next(run, index, kind)
            elif kind in GENERIC and self._kind(index + 1) == T.LT:
                width = type_end(tokens, index) - index
            elif kind in _LEVELS and self._is_binary(run, index):
                level = _LEVELS[kind]
                if kind in (T.LT, T.GT) and self._kind(index + 1) == kind:
                    level, width = _SHIFT, 2
                run.operators.append((index, width, level))
            elif kind == T.DASH:
                run.signs.append(index)
            index += width
        self._finish(run, size)
        if not self._brackets:
            return tokens
        if self._brackets > _MOST_BRACKETS:
            return None
        out: list[Token] = []
        for index, token in enumerate(tokens):
            out += self._before.get(index, ())
            out.append(token)
            out += self._behind.get(index, ())
        return out

    def _kind(self, index: int) -> TokenType | None:
        return self._tokens[index].token_type if index < len(self._tokens) else None

    def _is_binary(self, run: _Run, index: int) -> bool:
        """Return whether an operator such as `-` or `*` has an operand on its left."""
        if index == run.start:
            return False
        if run.operators and sum(run.operators[-1][:2]) == index:
            return False
        before = self._tokens[index - 1].token_type
        if before == T.TILDE or (run.signs and run.signs[-1] == index - 1):
            return False
        return before not in _ENDS and before not in (T.DOT, T.PLUS, T.PIPE_SLASH)

    def _start_next(self, run: _Run, index: int, kind: TokenType) -> _Run:
        """End the expression before a word or comma, and return the next expression."""
        following = _Run(index + 1)
        if kind in _PREDICATES:
            run.predicate = following.predicate = True
            following.between = kind == T.BETWEEN
        elif kind == T.NOT:
            run.predicate = run.predicate or self._kind(index + 1) in _PREDICATES
            following.between, following.predicate = run.between, False
        elif kind == T.AND and run.between:
            following.predicate = True
        self._finish(run, index)
        return following

    def _finish(self, run: _Run, end: int) -> None:
        for sign in run.signs:
            if self._kind(sign + 1) == T.NUMBER and self._kind(sign + 2) in _SUFFIXES:
                self._bracket(sign, sign + 2)
        operators = run.operators
        if not operators or (len(operators) == 1 and not run.predicate):
            return
        last = sum(operators[-1][:2])
        end = self._operand_end(last, end)
        self._group(run.start, end, operators)
        if run.predicate and any(level == 0 for _, _, level in operators):
            self._bracket(run.start, end)

    def _group(self, start: int, end: int, operators: list[tuple[int, int, int]]) -> None:
        """Put brackets around operands that SQLGlot would group differently than Spark."""
        operands = [(start, operators[0][0], _NO_OPERATOR)]
        waiting: list[tuple[int, int]] = []  # levels here and there
        for number, (index, width, level) in enumerate(operators):
            sqlglot_level = (
                _SQLGLOT_SHIFT if width == 2 else _SQLGLOT_LEVELS[self._tokens[index].token_type]
            )
            while waiting and waiting[-1][0] >= level:
                self._join(operands, waiting)
            waiting.append((level, sqlglot_level))
            behind = operators[number + 1][0] if number + 1 < len(operators) else end
            operands.append((index + width, behind, _NO_OPERATOR))
        while waiting:
            self._join(operands, waiting)

    def _join(self, operands: list[tuple[int, int, int]], waiting: list[tuple[int, int]]) -> None:
        _, sqlglot_level = waiting.pop()
        right_start, right_end, right = operands.pop()
        left_start, left_end, left = operands.pop()
        if left < sqlglot_level:
            self._bracket(left_start, left_end)
        if right <= sqlglot_level:
            self._bracket(right_start, right_end)
        operands.append((left_start, right_end, sqlglot_level))

    def _operand_end(self, start: int, limit: int) -> int:
        index = start
        while self._kind(index) in _SIGNS:
            index += 1
        index = self._closing_index(index) if self._kind(index) in _OPENING else index + 1
        if self._kind(index - 1) == T.PARAMETER:
            index += 1
        while index < limit:
            kind, word = self._kind(index), self._tokens[index].text.upper()
            if kind in (T.L_PAREN, T.L_BRACKET):
                index = self._closing_index(index)
            elif kind == T.DCOLON:
                index += 1
                generic = self._kind(index) in GENERIC and self._kind(index + 1) == T.LT
                index = type_end(self._tokens, index) if generic else index + 1
            elif kind == T.DOT or word in ("OVER", "WITHIN", "IGNORE", "RESPECT"):
                index += 2
            elif word == "FILTER" and self._kind(index + 1) == T.L_PAREN:
                index += 1
            else:
                break
            if word == "OVER" and self._kind(index - 1) == T.L_PAREN:
                index -= 1
        return min(index, limit)

    def _closing_index(self, index: int) -> int:
        depth = 0
        for end in range(index, len(self._tokens)):
            kind = self._kind(end)
            depth += (kind in _OPENING) - (kind in _CLOSING)
            if depth == 0:
                return end + 1
        return len(self._tokens)

    def _bracket(self, start: int, end: int) -> None:
        """Put brackets around a range of tokens. Inner brackets must be added first."""
        self._brackets += 1
        if self._brackets > _MOST_BRACKETS:
            return
        first, last = self._tokens[start], self._tokens[end - 1]
        opening = Token(T.L_PAREN, "(", first.line, first.col, first.start, first.start)
        closing = Token(T.R_PAREN, ")", last.line, last.col, last.end, last.end)
        self._before.setdefault(start, []).insert(0, opening)
        self._behind.setdefault(end - 1, []).append(closing)
