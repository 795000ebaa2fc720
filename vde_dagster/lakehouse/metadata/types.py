"""Column types: Spark SQL text ↔ the JSON form of Iceberg's table and view specification.

Source: https://iceberg.apache.org/spec/#primitive-types and Iceberg's type mapping for Spark.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from vde_dagster.base.names import quote
from vde_dagster.errors import ExecutionError

_TO_ICEBERG = {
    "boolean": "boolean",
    "tinyint": "int",
    "byte": "int",
    "smallint": "int",
    "short": "int",
    "int": "int",
    "integer": "int",
    "bigint": "long",
    "long": "long",
    "float": "float",
    "real": "float",
    "double": "double",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ltz": "timestamptz",
    "timestamp_ntz": "timestamp",
    "string": "string",
    "varchar": "string",
    "char": "string",
    "character": "string",
    "binary": "binary",
    "variant": "variant",
    # A column that is NULL in every row: readers can use any type, and text is the widest.
    "void": "string",
    "null": "string",
}

_TO_SPARK = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "time": "STRING",
    "timestamp": "TIMESTAMP_NTZ",
    "timestamptz": "TIMESTAMP",
    "timestamp_ns": "TIMESTAMP_NTZ",
    "timestamptz_ns": "TIMESTAMP",
    "string": "STRING",
    "uuid": "STRING",
    "binary": "BINARY",
    "variant": "VARIANT",
    "unknown": "VOID",
}

_TOKEN = re.compile(
    r"\s*(?:(?P<quoted>`(?:[^`]|``)*`)|(?P<text>'(?:[^'\\]|\\.|'')*')"
    r"|(?P<word>[^\W\d]\w*|\d+)|(?P<mark>[<>(),:]))"
)


def spark_to_iceberg(type_sql: str, next_id: Callable[[], int]) -> Any:
    """Read a Spark SQL type and return Iceberg's JSON form.

    Args:
        next_id: Gives field ids to nested fields, in depth-first order.

    Raises:
        ExecutionError: Iceberg has no such type.
    """
    simple = _TO_ICEBERG.get(type_sql.lower())
    if simple is not None:
        return simple
    parser = _Parser(type_sql, next_id)
    parsed = parser.type()
    if parser.token is not None:
        parser.fail()
    return parsed


class _Parser:
    """A recursive-descent parser of Spark's type syntax."""

    def __init__(self, sql: str, next_id: Callable[[], int]) -> None:
        self._sql = sql
        self._next_id = next_id
        self._position = 0
        self.token: str | None = None
        self._advance()

    def fail(self) -> None:
        raise ExecutionError(
            f"the type '{self._sql}' cannot be kept in an Iceberg view or table",
            hint="cast the column to a type that Iceberg has (intervals, for example, to strings)",
        )

    def _advance(self) -> str | None:
        before = self.token
        match = _TOKEN.match(self._sql, self._position)
        if match is None:
            if self._sql[self._position :].strip():
                self.fail()
            self.token = None
            return before
        self._position = match.end()
        self.token = match.group(match.lastgroup or 0)
        return before

    def _expect(self, mark: str) -> None:
        if self.token != mark:
            self.fail()
        self._advance()

    def _accept(self, word: str) -> bool:
        if self.token is not None and self.token.lower() == word:
            self._advance()
            return True
        return False

    def type(self) -> Any:
        name = (self._advance() or "").lower()
        if name in ("decimal", "numeric", "dec"):
            return self._decimal()
        if name == "array":
            return self._array()
        if name == "map":
            return self._map()
        if name == "struct":
            return self._struct()
        if name not in _TO_ICEBERG:
            self.fail()
        if name in ("varchar", "char", "character") and self._accept("("):
            self._advance()
            self._expect(")")
        if name == "string" and self._accept("collate"):
            self._advance()
        return _TO_ICEBERG[name]

    def _decimal(self) -> str:
        precision, scale = "10", "0"
        if self._accept("("):
            precision = self._advance() or ""
            if self._accept(","):
                scale = self._advance() or ""
            self._expect(")")
        if not (precision.isdigit() and scale.isdigit()):
            self.fail()
        return f"decimal({precision}, {scale})"

    def _array(self) -> dict[str, Any]:
        self._expect("<")
        field_id = self._next_id()
        element = self.type()
        self._expect(">")
        return {
            "type": "list",
            "element-id": field_id,
            "element": element,
            "element-required": False,
        }

    def _map(self) -> dict[str, Any]:
        self._expect("<")
        key_id, value_id = self._next_id(), self._next_id()
        key = self.type()
        self._expect(",")
        value = self.type()
        self._expect(">")
        return {
            "type": "map",
            "key-id": key_id,
            "key": key,
            "value-id": value_id,
            "value": value,
            "value-required": False,
        }

    def _struct(self) -> dict[str, Any]:
        self._expect("<")
        fields: list[dict[str, Any]] = []
        while self.token != ">":
            if fields:
                self._expect(",")
            fields.append(self._field())
        self._advance()
        return {"type": "struct", "fields": fields}

    def _field(self) -> dict[str, Any]:
        if self.token is None or self.token in "<>(),:":
            self.fail()
        name = self._advance() or ""
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        self._accept(":")
        field: dict[str, Any] = {"id": self._next_id(), "name": name, "required": False}
        field["type"] = self.type()
        if self._accept("not"):
            self._accept("null")
        if self._accept("comment"):
            field["doc"] = _unquote(self._advance() or "")
        return field


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)|''", lambda match: match.group(1) or "'", text[1:-1])


def iceberg_to_spark(kind: Any) -> str:
    """Write a type in Iceberg's JSON form as Spark SQL."""
    if isinstance(kind, str):
        if kind in _TO_SPARK:
            return _TO_SPARK[kind]
        if kind.startswith("decimal"):
            return kind.replace(" ", "").upper()
        if kind.startswith("fixed"):
            return "BINARY"
    elif kind["type"] == "list":
        return f"ARRAY<{iceberg_to_spark(kind['element'])}>"
    elif kind["type"] == "map":
        return f"MAP<{iceberg_to_spark(kind['key'])}, {iceberg_to_spark(kind['value'])}>"
    elif kind["type"] == "struct":
        fields = ", ".join(
            f"{_spark_name(field['name'])}: {iceberg_to_spark(field['type'])}"
            for field in kind["fields"]
        )
        return f"STRUCT<{fields}>"
    raise ExecutionError(f"Spark cannot read the Iceberg type '{kind}'")


def _spark_name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else quote(name)


def schema_of(
    columns: Iterable[tuple[str, str, str | None]], ids: Iterator[int] | None = None
) -> dict[str, Any]:
    """Build an Iceberg schema from (name, Spark SQL type, description) columns.

    Columns get the next ids, then nested fields; from 0, as Java counts in views, by default.
    """
    listed = list(columns)
    ids = itertools.count() if ids is None else ids
    numbers = list(itertools.islice(ids, len(listed)))
    fields: list[dict[str, Any]] = []
    for number, (name, type_sql, doc) in zip(numbers, listed, strict=True):
        field: dict[str, Any] = {"id": number, "name": name, "required": False}
        try:
            field["type"] = spark_to_iceberg(type_sql, ids.__next__)
        except ExecutionError as error:
            raise ExecutionError(f"column '{name}': {error.message}", hint=error.hint) from error
        if doc:
            field["doc"] = doc
        fields.append(field)
    return {"type": "struct", "schema-id": 0, "fields": fields}
