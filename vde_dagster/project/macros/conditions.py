"""Conditions of macros: constant expressions (`@IF`), and clauses with conditions (`@WHERE`).

Constants are computed as in SQLMesh, which runs them as Python: `7 / 2` is 3.5, and NULL counts as
false. A word without quotes is a text. As in SQLMesh (sqlmesh_macros.md, "SQL clause operators"), a
clause whose condition is false is omitted up to the next clause.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vde_dagster.errors import shortened
from vde_dagster.sql.scanner import CLOSING, OPENING, Token

if TYPE_CHECKING:
    from sqlglot import exp


class NotConstantError(Exception):
    """An expression's value is unknown until the query runs."""


_OPERATORS: dict[str, Callable[..., Any]] = {
    "not": operator.not_,
    "neg": operator.neg,
    "add": operator.add,
    "sub": operator.sub,
    "mul": lambda a, b: _product(a, b),
    "mod": lambda a, b: _require_number(a) % _require_number(b),
    "pow": lambda a, b: _power(a, b),
    "intdiv": operator.floordiv,
    "eq": operator.eq,
    "neq": operator.ne,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
    "between": lambda value, low, high: low <= value <= high,
    "like": lambda text, pattern: _is_like(text, pattern),
    "ilike": lambda text, pattern: _is_like(text.lower(), pattern.lower()),
    "dpipe": lambda a, b: f"{a}{b}",
    "lower": lambda text: text.lower(),
    "upper": lambda text: text.upper(),
    "length": len,
    "trim": lambda text: text.strip(),
    "abs": abs,
    "round": lambda value, digits=0: round(value, max(min(digits, _MOST_DIGITS), -_MOST_DIGITS)),
    "concat": lambda *texts: "".join(map(str, texts)),
    "greatest": max,
    "least": min,
}


def evaluate_constant(tree: exp.Expr) -> Any:
    """Evaluate an expression that reads no table, such as `1 + 1`; NULL gives None.

    Raises:
        NotConstantError: The expression has no value before the query runs.
    """
    from sqlglot import exp

    if isinstance(tree, exp.Literal):
        return tree.this if tree.is_string else _number(tree.this)
    if isinstance(tree, exp.Boolean):
        return bool(tree.this)
    if isinstance(tree, exp.Null):
        return None
    if isinstance(tree, exp.Paren):
        return evaluate_constant(tree.this)
    if isinstance(tree, exp.Identifier | exp.Var) or (
        isinstance(tree, exp.Column) and not tree.table
    ):
        return tree.name
    if isinstance(tree, exp.Array | exp.Tuple):
        return [evaluate_constant(item) for item in tree.expressions]
    # Operators and functions that treat NULL specially.
    if isinstance(tree, exp.And):
        sides = [evaluate_constant(tree.left), evaluate_constant(tree.right)]
        if any(side is False for side in sides):
            return False
        return None if None in sides else all(sides)
    if isinstance(tree, exp.Or):
        sides = [evaluate_constant(tree.left), evaluate_constant(tree.right)]
        if any(sides):
            return True
        return None if None in sides else False
    if isinstance(tree, exp.Is):
        left, right = evaluate_constant(tree.this), evaluate_constant(tree.expression)
        return left is right if right is None else left == right
    if isinstance(tree, exp.Coalesce):
        values = [evaluate_constant(item) for item in (tree.this, *tree.expressions)]
        return next((value for value in values if value is not None), None)
    return _evaluate_case(tree) if isinstance(tree, exp.Case | exp.If) else _evaluate_operator(tree)


def _evaluate_case(tree: exp.Expr) -> Any:
    from sqlglot import exp

    branches = tree.args["ifs"] if isinstance(tree, exp.Case) else [tree]
    subject = tree.this if isinstance(tree, exp.Case) else None
    for branch in branches:
        held = evaluate_constant(branch.this)
        if (evaluate_constant(subject) == held) if subject is not None else held:
            return evaluate_constant(branch.args["true"])
    other = tree.args.get("default") or tree.args.get("false")
    return evaluate_constant(other) if other is not None else None


def _evaluate_operator(tree: exp.Expr) -> Any:
    from sqlglot import exp

    arguments = [
        evaluate_constant(child)
        for child in tree.iter_expressions()
        if not isinstance(child, exp.DataType)
    ]
    try:
        if isinstance(tree, exp.In):
            value, *items = arguments
            return None if value is None else value in items
        if None in arguments:
            return None
        if isinstance(tree, exp.Div):
            quotient = arguments[0] / arguments[1]
            return int(quotient) if tree.args.get("typed") else quotient
        if isinstance(tree, exp.Cast):
            return _cast(arguments[0], tree.to)
        if tree.key in _OPERATORS:
            return _OPERATORS[tree.key](*arguments)
    except (TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise NotConstantError(tree.sql()) from error
    raise NotConstantError(tree.sql())


def _cast(value: Any, target: exp.DataType) -> Any:
    from sqlglot import exp

    if target.is_type(*exp.DataType.TEXT_TYPES):
        return str(value)
    if target.is_type(*exp.DataType.INTEGER_TYPES):
        return int(value)
    if target.is_type(*exp.DataType.FLOAT_TYPES, *exp.DataType.REAL_TYPES):
        return float(value)
    if target.is_type("boolean"):
        return value if isinstance(value, bool) else str(value).lower() in ("true", "t", "1", "yes")
    raise NotConstantError(f"a cast to {target.sql()}")


def _is_like(text: str, pattern: str) -> bool:
    if len(text) * len(pattern) > _MOST_COMPARED:
        raise ValueError("the text and its pattern are too long")
    first, *others = [_literal_part(part) for part in pattern.split("%")]
    if not others:
        return first.fullmatch(text) is not None
    found = first.match(text)
    for part in others[:-1]:  # Match each part as far left as possible.
        found = found and part.search(text, found.end())
    ends = re.compile(f"(?s:{others[-1].pattern})\\Z").search(text, found.end()) if found else None
    return ends is not None


def _literal_part(part: str) -> re.Pattern[str]:
    return re.compile("".join("." if s == "_" else re.escape(s) for s in part), re.DOTALL)


def _number(text: str) -> int | float:
    try:
        return int(text) if text.isdecimal() else float(text)
    except ValueError as error:  # It has thousands of digits.
        raise NotConstantError(shortened(text, 60)) from error


def _require_number(value: Any) -> Any:
    if not isinstance(value, int | float):
        raise TypeError("a text cannot be an operand of %")
    return value


def _product(a: Any, b: Any) -> Any:
    for many, count in ((a, b), (b, a)):
        if isinstance(many, str | list) and len(many) * max(int(count), 0) > _MOST_SIGNS:
            raise ValueError("the text is too long")
    return _bounded(a * b)


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int):
        _bounded(1 << min(base.bit_length() * max(exponent, 1), _MOST_BITS + 1))
    return base**exponent


def _bounded(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise ValueError("the number is too large")
    return value


_MOST_SIGNS = 100_000
_MOST_COMPARED = 10_000_000
_MOST_DIGITS = 300
_MOST_BITS = 4_096


CLAUSES = {
    "with": "WITH",
    "join": "JOIN",
    "where": "WHERE",
    "group_by": "GROUP BY",
    "having": "HAVING",
    "order_by": "ORDER BY",
    "limit": "LIMIT",
}

_SETS = frozenset({"UNION", "EXCEPT", "INTERSECT", "MINUS"})
_TAIL = _SETS | {"ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "FETCH", "WINDOW"}
_HEAD = _TAIL | {"WHERE", "GROUP", "HAVING", "QUALIFY"}
_JOINS = frozenset(
    {"JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "NATURAL", "LATERAL", "SEMI", "ANTI"}
)
_ENDS: dict[str, frozenset[str]] = {
    "with": frozenset({"SELECT", "FROM", "VALUES", "INSERT", "MERGE", "TABLE"}),
    "join": _HEAD | _JOINS,
    "where": _HEAD - {"WHERE"},
    "group_by": _TAIL | {"HAVING", "QUALIFY"},
    "having": _TAIL | {"QUALIFY"},
    "order_by": _TAIL - {"ORDER"},
    "limit": _SETS | {"OFFSET"},
}
SIDES = re.compile(
    r"\b(?:(?:LEFT|RIGHT|FULL|INNER|OUTER|CROSS|NATURAL|SEMI|ANTI)\s+)+$", re.IGNORECASE
)
"""Matches the kind of a join at the end of the text before `JOIN`."""


def clause_end(tokens: list[Token], clause: str, end: int) -> int:
    """Return the offset where a clause ends: at the next clause, or at the end of the text.

    `tokens` follow the macro's call, without comments; `clause` is one of `CLAUSES`.
    """
    depth = 0
    for index, token in enumerate(tokens):
        if token.kind == "punct":
            depth += (token.text in OPENING) - (token.text in CLOSING)
        if depth < 0 or (depth == 0 and _ends(tokens, index, clause)):
            return token.start
    return end


def _ends(tokens: list[Token], index: int, clause: str) -> bool:
    token = tokens[index]
    before = tokens[index - 1].text if index else ""
    behind = tokens[index + 1] if index + 1 < len(tokens) else None
    if token.text == "@":
        return behind is not None and behind.text.lower() in CLAUSES
    if token.kind == "word" and token.text.upper() in _ENDS[clause]:
        # `left(a, 1)` is a function, and `t.limit` a column.
        is_call = token.text.upper() in ("LEFT", "RIGHT") and behind and behind.text == "("
        return before != "." and not is_call
    return token.text == ";" or (token.text == "," and clause == "join")
