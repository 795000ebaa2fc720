"""Helpers for SQLGlot: parsing with positions of syntax errors, and canonical texts.

The supported range is ``sqlglot>=30.12,<31``. `sql.reading` parses a query and keeps its original
text.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError, TokenError
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from vde_dagster.semantics import spark_functions
from vde_dagster.semantics.errors import SemanticError
from vde_dagster.sql.reading import call_name, read_query
from vde_dagster.sql.trees import plain_dialect

_STRINGS = {
    TokenType.STRING,
    TokenType.RAW_STRING,
    TokenType.HEX_STRING,
    TokenType.BIT_STRING,
    TokenType.BYTE_STRING,
    TokenType.HEREDOC_STRING,
    TokenType.NATIONAL_STRING,
    TokenType.UNICODE_STRING,
}


_BEFORE_NAMES = (TokenType.DOT, TokenType.COLON)


def parse(query: str) -> exp.Expr:
    """Parse one statement.

    Raises:
        SemanticError: The text is not valid SQL, or not exactly one statement.
    """
    try:
        return read_query(query).tree
    except ParseError as error:
        first: dict[str, Any] = error.errors[0] if error.errors else {}
        line, column = first.get("line"), first.get("col")
        highlight = first.get("highlight") or ""
        if column is not None:
            column = max(1, column - max(len(highlight), 1) + 1)
        what = str(first.get("description") or error).splitlines()[0].rstrip(".")
        where = f" at line {line}, column {column}" if line is not None else ""
        near = f", near '{highlight}'" if highlight else ""
        raise SemanticError(
            f"The query cannot be parsed{where}{near}: {what}.", line=line, column=column
        ) from None
    except TokenError as error:
        raise SemanticError(f"The query cannot be parsed: {error}") from None


def called_function(e: exp.Expr) -> str:
    """Return a called function's lower-case name with synonyms resolved, or "" for other nodes."""
    name = call_name(e)
    return spark_functions.ALIASES.get(name, name)


def canonical_text(query: str) -> str:
    """Return a query's text in one format, without comments, and with lower-case keywords."""
    try:
        tokens = plain_dialect("spark").tokenize(query)
    except SqlglotError:
        return " ".join(query.split())
    out: list[str] = []
    begin, casts, last = 0, [False], None
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        kind, behind = token.token_type, following.token_type if following is not None else None
        before = last.token_type if last is not None else None
        if kind == TokenType.L_PAREN:
            casts.append(last is not None and last.text.upper() in ("CAST", "TRY_CAST"))
        elif kind == TokenType.R_PAREN and len(casts) > 1:
            casts.pop()
        if kind in _STRINGS:
            if last is not None and before in _STRINGS and last.end + 1 == token.start:
                out.pop()  # In Spark, `'O''Brien'` is one string, and `'O' 'Brien'` are two.
            else:
                begin = token.start
            written = query[begin : token.end + 1]
            plain = written[0] == '"' and not set(written[1:-1]) & set("\"'\\")
            out.append(f"'{written[1:-1]}'" if plain else written)
        elif kind == TokenType.IDENTIFIER:
            name = token.text.replace("`", "``")
            out.append(f"`{name}`")
        elif kind == TokenType.VAR:
            # Names keep their case, because they can be a struct's fields or a map's keys.
            out.append(token.text.lower() if behind == TokenType.L_PAREN else token.text)
        elif kind != TokenType.HINT:
            # Spark allows most keywords as names: `m.Date`, `struct(a AS Date)`.
            aliases = before == TokenType.ALIAS and not casts[-1]
            names = aliases or before in _BEFORE_NAMES or behind == TokenType.COLON
            out.append(token.text if names else token.text.lower())
        last = token
    while out and out[-1] == ";":
        out.pop()
    return " ".join(out)


@lru_cache(maxsize=4096)
def data_type(text: str) -> exp.DataType | None:
    """Parse a Spark SQL type; return None if the text or type is not supported."""
    # SQLGlot drops the collation of a type, so that different types would have equal texts.
    if not text or text.upper() == "UNKNOWN" or "COLLATE" in text.upper():
        return None
    try:
        return exp.DataType.build(text, dialect="spark", udt=True)
    except SqlglotError:
        return None


def type_text(kind: exp.DataType | None) -> str:
    if kind is None or kind.this in (exp.DType.UNKNOWN, exp.DType.NULL):
        return "UNKNOWN" if kind is None or kind.this == exp.DType.UNKNOWN else "VOID"
    return type_sql(kind)


def type_key(kind: exp.Expr) -> str:
    """Return a text that identifies a type: types that Spark distinguishes have different texts."""
    # SQLGlot writes some different types as the same text, such as TIME and TIMESTAMP.
    if isinstance(kind, exp.DataType) and isinstance(kind.this, exp.DType):
        inner = [type_key(item) for item in kind.expressions]
        if kind.this == exp.DType.DECIMAL:
            inner = inner + [("10", "0")[i] for i in range(len(inner), 2)]
        others = [f"{k}={v}" for k, v in kind.args.items() if v and k not in _TYPE_ARGS]
        return " ".join([f"{kind.this.name}<{', '.join(inner)}>", *others])
    if isinstance(kind, exp.ColumnDef):
        inner = [type_key(item) for item in [kind.args["kind"], *kind.args.get("constraints", [])]]
        return f"{kind.name}: {' '.join(inner)}"
    return kind.sql(dialect="spark")


_TYPE_ARGS = ("this", "expressions", "nested")


_NESTED = (exp.DType.ARRAY, exp.DType.MAP, exp.DType.STRUCT)


def type_sql(kind: exp.Expr) -> str:
    if type(kind) is exp.DataType and kind.this == exp.DType.TIME:
        return f"TIME({kind.expressions[0].name if kind.expressions else 6})"
    if type(kind) is exp.DataType and isinstance(kind.this, exp.DType):
        parameters = tuple(_literal_parameters(kind))
        if None not in parameters:
            return _plain_type_sql(kind.this, parameters)
        if kind.this in _NESTED and any(
            t.this == exp.DType.TIME for t in kind.find_all(exp.DataType)
        ):
            return f"{kind.this.name}<{', '.join(map(type_sql, kind.expressions))}>"
    if type(kind) is exp.ColumnDef and kind.args.get("kind") and not kind.args.get("constraints"):
        return f"{kind.this.sql(dialect='spark')}: {type_sql(kind.args['kind'])}"
    return kind.sql(dialect="spark")


def _literal_parameters(kind: exp.DataType) -> Iterator[str | None]:
    """Yield the numbers in a type such as `DECIMAL(10, 2)`, and None for each other parameter."""
    for key, value in kind.args.items():
        if key == "expressions":
            for item in value or ():
                number = item.args.get("this") if type(item) is exp.DataTypeParam else None
                if type(number) is exp.Literal and not item.args.get("expression"):
                    yield None if number.is_string else number.name
                else:
                    yield None
        elif key != "this" and value:
            yield None


@lru_cache(maxsize=512)
def _plain_type_sql(kind: Any, parameters: tuple[str, ...]) -> str:
    made = [exp.DataTypeParam(this=exp.Literal.number(text)) for text in parameters]
    return exp.DataType(this=kind, expressions=made or None).sql(dialect="spark")


_INTEGRAL = {exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT}
_NOT_ONE_TO_ONE = {exp.DType.UNKNOWN, exp.DType.NULL, exp.DType.CHAR, exp.DType.NCHAR}


def is_injective_equality(left: exp.DataType | None, right: exp.DataType | None) -> bool:
    """Return whether a value of either type equals at most one value of the other type.

    This is false for STRING and INT: `'1'` and `'01'` both equal the INT 1.
    """
    if left is None or right is None:
        return False
    if left.this in _NOT_ONE_TO_ONE or right.this in _NOT_ONE_TO_ONE:
        return False
    if left.this in _INTEGRAL and right.this in _INTEGRAL:
        return True
    return bool(left == right)
