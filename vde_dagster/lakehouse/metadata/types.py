"""Conversion of column types between Spark SQL and the JSON form of Iceberg's specification.

Source: https://iceberg.apache.org/spec/#primitive-types and Iceberg's type mapping for Spark.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

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
    # A column that is NULL in every row: any type will do, and text is the widest.
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
    """Convert a Spark SQL type to Iceberg's JSON form.

    Args:
        next_id: Returns the next field id; called once for each nested field.

    Raises:
        ExecutionError: Iceberg does not support the type.
    """
    simple = _TO_ICEBERG.get(type_sql.lower())
    if simple is not None:
        return simple
    parser = _Parser(type_sql, next_id)
    parsed = parser.type()
    return parsed if not parser.tokens else parser.fail()


class _Parser:
    def __init__(self, sql: str, next_id: Callable[[], int]) -> None:
        self._sql, self._next_id = sql, next_id
        found = list(_TOKEN.finditer(sql))
        self.tokens = [one[one.lastgroup or 0] for one in reversed(found)]
        if "".join(one[0] for one in found) != sql.rstrip():
            self.fail()

    def fail(self) -> NoReturn:
        raise ExecutionError(
            f"the type '{self._sql}' is not supported in an Iceberg view or table",
            hint="cast the column to a type of Iceberg (intervals, for example, to strings)",
        )

    def _take(self, mark: str = "") -> str:
        token = self.tokens.pop() if self.tokens else ""
        if not token or (token != mark if mark else token in "<>(),:"):
            self.fail()
        return token

    def _accept(self, word: str) -> bool:
        found = bool(self.tokens) and self.tokens[-1].lower() == word
        if found:
            self.tokens.pop()
        return found

    def type(self) -> Any:
        name = self._take().lower()
        if name in ("decimal", "numeric", "dec"):
            return self._decimal()
        if name in ("array", "map", "struct"):
            self._take("<")
            nested = {"array": self._array, "map": self._map, "struct": self._struct}[name]()
            self._take(">")
            return nested
        if name not in _TO_ICEBERG:
            self.fail()
        if name in ("varchar", "char", "character") and self._accept("("):
            self._take()
            self._take(")")
        if name == "string" and self._accept("collate"):
            self._take()
        return _TO_ICEBERG[name]

    def _decimal(self) -> str:
        precision, scale = "10", "0"
        if self._accept("("):
            precision = self._take()
            if self._accept(","):
                scale = self._take()
            self._take(")")
        if not (precision.isdigit() and scale.isdigit()):
            self.fail()
        return f"decimal({precision}, {scale})"

    def _array(self) -> dict[str, Any]:
        own = {"type": "list", "element-id": self._next_id()}
        return {**own, "element": self.type(), "element-required": False}

    def _map(self) -> dict[str, Any]:
        key_id, value_id = self._next_id(), self._next_id()
        key = {"type": "map", "key-id": key_id, "key": self.type()}
        self._take(",")
        return {**key, "value-id": value_id, "value": self.type(), "value-required": False}

    def _struct(self) -> dict[str, Any]:
        fields: list[dict[str, Any]] = []
        while self.tokens and self.tokens[-1] != ">":
            if fields:
                self._take(",")
            fields.append(self._field())
        return {"type": "struct", "fields": fields}

    def _field(self) -> dict[str, Any]:
        name = self._take()
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        self._accept(":")
        field: dict[str, Any] = {"id": self._next_id(), "name": name, "required": False}
        field["type"] = self.type()
        if self._accept("not"):
            self._accept("null")
        if self._accept("comment"):
            field["doc"] = _unquote(self._take())
        return field


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)|''", lambda match: match.group(1) or "'", text[1:-1])


def iceberg_to_spark(kind: Any) -> str:
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


def build_schema(
    columns: Iterable[tuple[str, str, str | None]], ids: Iterator[int] | None = None
) -> dict[str, Any]:
    """Build an Iceberg schema from the name, Spark SQL type and description of each column.

    Columns get the first ids of `ids`, and nested fields the next ones. By default, ids start at 0.
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
