"""How this package groups operators, in the canonical form of `spark_grouping`."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import SqlglotError

from vde_dagster.sql.reading import DOUBT, read_query

_SYMBOLS: dict[type, str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "DIV",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
    exp.Coalesce: ">>>",
    exp.EQ: "=",
    exp.NullSafeEQ: "<=>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.Like: "LIKE",
    exp.ILike: "ILIKE",
    exp.RegexpLike: "RLIKE",
}
_CHAINS: dict[type, str] = {exp.And: " AND ", exp.Or: " OR ", exp.DPipe: " || "}


def our_grouping(text: str) -> str | None:
    """Return how an expression is read; "" where that is left open, None where it is refused."""
    try:
        tree = read_query(f"SELECT ({text}) AS x").tree
    except SqlglotError:
        return None
    return "" if DOUBT in tree.meta else _show(tree.selects[0].this)


def canonical(shown: str) -> str:
    """Take out what is one thing for both: a plus that does nothing, and NOT of IS NULL."""
    before = None
    while before != shown:
        before = shown
        shown = _without_plus(shown)
        for word in ("NULL", "UNKNOWN"):
            shown = _with_outer_not(shown, f" IS NOT {word})", f" IS {word}))")
    return shown


def _with_outer_not(shown: str, end: str, new: str) -> str:
    """Write `(x IS NOT NULL)` as `(NOT (x IS NULL))`."""
    at = shown.find(end)
    if at < 0:
        return shown
    depth, start = 1, at
    while depth:
        start -= 1
        depth += (shown[start] == ")") - (shown[start] == "(")
    return f"{shown[:start]}(NOT {shown[start:at]}{new}{shown[at + len(end) :]}"


def _without_plus(shown: str) -> str:
    at = shown.find("(+ ")
    if at < 0:
        return shown
    depth = 0
    for end in range(at, len(shown)):
        depth += (shown[end] == "(") - (shown[end] == ")")
        if depth == 0:
            return shown[:at] + shown[at + 3 : end] + shown[end + 1 :]
    return shown


def _show(e: exp.Expr) -> str:
    if e.args.get("negate"):
        plain = e.copy()
        plain.set("negate", None)
        if isinstance(e.expression, exp.Any | exp.All):
            return _patterns(plain, negated=True)
        return f"(NOT {_show(plain)})"
    if e.__class__ in _CHAINS:
        return f"({_CHAINS[e.__class__].join(_chain(e, e.__class__))})"
    if isinstance(e, exp.Like | exp.ILike) and isinstance(e.expression, exp.Any | exp.All):
        return _patterns(e, negated=False)
    symbol = _SYMBOLS.get(e.__class__)
    if symbol is not None:
        right = e.expressions[0] if isinstance(e, exp.Coalesce) else e.expression
        return f"({_show(e.this)} {symbol} {_show(right)})"
    match e:
        case exp.Paren() | exp.Escape():
            return _show(e.this)
        case exp.Column():
            return ".".join(part.name for part in e.parts)
        case exp.NEQ():
            return f"(NOT ({_show(e.this)} = {_show(e.expression)}))"
        case exp.NullSafeNEQ():
            return f"(NOT ({_show(e.this)} <=> {_show(e.expression)}))"
        case exp.Not():
            return f"(NOT {_show(e.this)})"
        case exp.Neg():
            return f"(- {_show(e.this)})"
        case exp.Sqrt():  # The sign, which is read as an operator that Spark has not.
            return f"(+ {_show(e.this)})"
        case exp.BitwiseNot():
            return f"(~ {_show(e.this)})"
        case exp.Is():
            return _is(e)
        case exp.Between():
            parts = (e.this, e.args["low"], e.args["high"])
            return f"between({', '.join(_show(part) for part in parts)})"
        case exp.In():
            return f"({_show(e.this)} IN ({', '.join(_show(x) for x in e.expressions)}))"
        case exp.Cast():
            return f"CAST({_show(e.this)} AS {e.to.sql('spark')})"
        case exp.Bracket():
            key = e.expressions[0]
            text = key.name if isinstance(key, exp.Literal) else f"[{_show(key)}]"
            return f"{_show(e.this)}{text}"
        case exp.Dot():
            return f"{_show(e.this)}[{e.expression.name}]"
    return e.name or repr(e)


def _is(e: exp.Is) -> str:
    this = _show(e.this)
    if isinstance(e.expression, exp.Boolean):
        return f"({this} <=> {str(e.expression.this).lower()})"
    word = "NULL" if isinstance(e.expression, exp.Null) else e.expression.name
    return f"({this} IS {word})"


def _chain(e: exp.Expr, kind: type) -> list[str]:
    e = e.unnest()
    if isinstance(e, kind):
        return [*_chain(e.this, kind), *_chain(e.expression, kind)]
    if not isinstance(e, exp.Like | exp.ILike):
        return [_show(e)]
    joined = {exp.Any: exp.Or, exp.All: exp.And}.get(e.expression.__class__)
    return _each_pattern(e) if kind is joined else [_show(e)]


def _patterns(e: exp.Expr, *, negated: bool) -> str:
    """Show LIKE ANY and LIKE ALL as Spark reads them: one LIKE per pattern."""
    each = _each_pattern(e, negated=negated)
    return f"({(' OR ' if isinstance(e.expression, exp.Any) else ' AND ').join(each)})"


def _each_pattern(e: exp.Expr, *, negated: bool | None = None) -> list[str]:
    negated = bool(e.args.get("negate")) if negated is None else negated
    symbol = "LIKE" if isinstance(e, exp.Like) else "ILIKE"
    inner = e.expression.this.unnest()
    patterns = inner.expressions if isinstance(inner, exp.Tuple) else [inner]
    one = f"({_show(e.this)} {symbol} {{}})"
    each = [one.format(_show(pattern)) for pattern in patterns]
    return [f"(NOT {text})" for text in each] if negated else each
