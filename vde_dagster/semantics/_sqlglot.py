"""Every use of SQLGlot that is not its stable expression classes stands here.

The supported range is ``sqlglot>=30.12,<31``. Query text becomes a tree (by a dialect of
`project.dialects`, which keeps the time formats that the author wrote), trees become canonical
text, and expressions whose columns have types get theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError, TokenError
from sqlglot.optimizer.annotate_types import TypeAnnotator
from sqlglot.schema import MappingSchema
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from vde_dagster.project.dialects import as_written
from vde_dagster.semantics.errors import SemanticError

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


def parse(query: str, dialect: str) -> exp.Expr:
    """Parse one statement.

    Raises:
        SemanticError: It is not valid SQL, or not exactly one statement.
    """
    try:
        trees = [tree for tree in as_written(dialect).parse(query) if tree is not None]
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
    if len(trees) != 1:
        raise SemanticError(f"The query must be one statement, not {len(trees)}.")
    return trees[0]


def canonical_text(query: str | exp.Expr, dialect: str = "spark", *, exact: bool = False) -> str:
    """The text without formatting, comments and the case of keywords and names.

    Args:
        query: Text, or a tree.
        dialect: Whose lexical rules hold.
        exact: Keep the case of names where it can be data (as names of struct fields), for a
            definition that is compared by its text alone.
    """
    text = query if isinstance(query, str) else query.sql(dialect=dialect, comments=False)
    try:
        tokens = Dialect.get_or_raise(dialect).tokenize(text)
    except SqlglotError:
        return " ".join(text.split())
    out: list[str] = []
    exact = exact and any(token.text.lower() == "struct" for token in tokens)
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        kind = token.token_type
        if kind in _STRINGS:
            prefix = "" if kind == TokenType.STRING else kind.name
            body = token.text.replace("\\", "\\\\").replace("'", "\\'")
            out.append(f"{prefix}'{body}'")
        elif kind == TokenType.IDENTIFIER:
            name = token.text.replace("`", "``")
            out.append(f"`{name if exact else name.lower()}`")
        elif kind == TokenType.VAR and exact:
            called = following is not None and following.token_type == TokenType.L_PAREN
            out.append(token.text.lower() if called else token.text)
        elif kind != TokenType.HINT:
            out.append(token.text.lower())
    while out and out[-1] == ";":
        out.pop()
    return " ".join(out)


@lru_cache(maxsize=4096)
def data_type(text: str, dialect: str) -> exp.DataType | None:
    """The type that a text names, or None if it is not understood."""
    if not text or text.upper() == "UNKNOWN":
        return None
    try:
        return exp.DataType.build(text, dialect=dialect, udt=True)
    except SqlglotError:
        return None


def type_text(kind: exp.DataType | None, dialect: str) -> str:
    """A type as SQL, or UNKNOWN."""
    if kind is None or kind.this in (exp.DType.UNKNOWN, exp.DType.NULL):
        return "UNKNOWN" if kind is None or kind.this == exp.DType.UNKNOWN else "VOID"
    return type_sql(kind, dialect)


def type_sql(kind: exp.Expr, dialect: str) -> str:
    """A type as SQL; the text of the common ones is made once."""
    if type(kind) is exp.DataType and isinstance(kind.this, exp.DType):
        parameters = tuple(_literal_parameters(kind))
        if None not in parameters:
            return _plain_type_sql(kind.this, parameters, dialect)
    return kind.sql(dialect=dialect)


def _literal_parameters(kind: exp.DataType) -> Iterator[str | None]:
    """The numbers in brackets behind a type's name; None where there is anything else."""
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
def _plain_type_sql(kind: Any, parameters: tuple[str, ...], dialect: str) -> str:
    made = [exp.DataTypeParam(this=exp.Literal.number(text)) for text in parameters]
    return exp.DataType(this=kind, expressions=made or None).sql(dialect=dialect)


_INTEGRAL = {exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT}
_NOT_ONE_TO_ONE = {exp.DType.UNKNOWN, exp.DType.NULL, exp.DType.CHAR, exp.DType.NCHAR}


def compare_one_to_one(left: exp.DataType | None, right: exp.DataType | None) -> bool:
    """Whether an equality between the types holds for at most one value of either side."""
    if left is None or right is None:
        return False
    if left.this in _NOT_ONE_TO_ONE or right.this in _NOT_ONE_TO_ONE:
        return False
    if left.this in _INTEGRAL and right.this in _INTEGRAL:
        return True
    return bool(left == right)


class Types:
    """Gives types to the expressions of one query, from the types set on its columns."""

    __slots__ = ("_annotator",)

    def __init__(self, dialect: str) -> None:
        self._annotator = TypeAnnotator(_empty_schema(dialect), overwrite_types=False)

    def annotate(self, expression: exp.Expr) -> exp.DataType | None:
        """The type of an expression, or None; it may fail only by knowing nothing."""
        try:
            self._annotator.annotate(expression, annotate_scope=False)
        except Exception:
            return None
        kind: exp.DataType | None = expression.type
        return kind


@lru_cache(maxsize=16)
def _empty_schema(dialect: str) -> MappingSchema:
    return MappingSchema(dialect=dialect)
