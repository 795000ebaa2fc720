"""Conditions on the rows of one table: which rows fulfil one, and which files may have such rows.

Rows are judged here, on Arrow and by SQL's logic of three values. PyIceberg is only told what lets
it leave files out, in values that its types have exactly; it has the last word on no row.
"""

from __future__ import annotations

import math
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import expressions, types
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, BooleanExpression
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from vde_dagster.errors import UsageError
from vde_dagster.plugins.serve import filter_values
from vde_dagster.plugins.serve.row_filters import (
    Always,
    Among,
    Both,
    Comparison,
    Condition,
    Is,
    Like,
    Not,
    Value,
)

_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_COMPARE = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_ICEBERG: dict[str, Any] = {  # whose constructors take more than their annotations say
    "=": expressions.EqualTo,
    "<": expressions.LessThan,
    "<=": expressions.LessThanOrEqual,
    ">": expressions.GreaterThan,
    ">=": expressions.GreaterThanOrEqual,
}
_in: Any = expressions.In
_is_null: Any = expressions.IsNull
_not_null: Any = expressions.NotNull
_starts_with: Any = expressions.StartsWith
_MOST_LISTED = 200


class RowTest(ABC):
    """A condition on rows of one table."""

    @abstractmethod
    def of(self, rows: pa.Table) -> Any:
        """Return for every row true, false, or NULL where that is not known."""

    @abstractmethod
    def files(self) -> BooleanExpression:
        """Return a condition that every row fulfils that fulfils this one, and perhaps others."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The table's columns that it is about."""

    def rows(self, rows: pa.Table) -> pa.Table:
        """Return those rows that fulfil it."""
        return rows.filter(pc.fill_null(self.of(rows), False))


def bind_filter(condition: Condition, schema: Schema, whose: str) -> RowTest:
    """Return a condition as one on the rows of a table.

    Raises:
        UsageError: It names a column that is none, or compares one with what its type has not.
    """
    try:
        return _bound(condition, schema, negated=False)
    except ValueError as error:
        names = [field.name for field in schema.fields]
        raise UsageError(
            f"{whose} does not fit this model: {error}", hint=f"its columns are {', '.join(names)}"
        ) from error


def not_before(schema: Schema, column: str, last: pa.Scalar, descending: bool) -> BooleanExpression:
    """Return a condition that rows behind a sorted page's last one fulfil, to leave files out."""
    if not last.is_valid:
        found: BooleanExpression = _is_null(column)
        return found
    type_ = schema.find_field(column).field_type
    value: Any = None
    if filter_values.bounds(type_) is not None and not pa.types.is_decimal(last.type):
        held = pa.int32() if last.type.bit_width == 32 else pa.int64()
        value = filter_values.literal(type_, last.cast(held).as_py())
    elif isinstance(type_, types.StringType):
        value = last.as_py()
    if value is None or "." in column:
        return AlwaysTrue()
    return expressions.Or(_ICEBERG["<=" if descending else ">="](column, value), _is_null(column))


@dataclass(frozen=True, slots=True)
class _Column:
    """A column, or a field within one.

    Args:
        path: The names of the table's column and of the fields in it.
    """

    path: tuple[str, ...]
    type: types.IcebergType

    @property
    def said(self) -> str:
        return ".".join(self.path)

    def of(self, rows: pa.Table) -> Any:
        found = rows[self.path[0]]
        for name in self.path[1:]:
            found = pc.struct_field(found, name)
        return found if found.type == self.arrow else found.cast(self.arrow)

    @property
    def arrow(self) -> pa.DataType:
        """Its type in Arrow, in which it is compared."""
        if isinstance(self.type, (types.UUIDType, types.FixedType)):
            return pa.large_binary()
        return schema_to_pyarrow(self.type, include_field_ids=False)

    @property
    def tells_files(self) -> bool:
        """Whether what PyIceberg knows of files is about it, and is about all of its values."""
        plain = isinstance(self.type, types.PrimitiveType) and len(self.path) == 1
        return plain and "." not in self.path[0]


@dataclass(frozen=True, slots=True)
class _Constant(RowTest):
    value: bool

    def of(self, rows: pa.Table) -> Any:
        return pa.chunked_array([pa.repeat(self.value, rows.num_rows)])

    def files(self) -> BooleanExpression:
        return AlwaysTrue() if self.value else AlwaysFalse()

    @property
    def columns(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class _Parts(RowTest):
    parts: tuple[RowTest, ...]
    either: bool

    def of(self, rows: pa.Table) -> Any:
        join = pc.or_kleene if self.either else pc.and_kleene
        found = self.parts[0].of(rows)
        for part in self.parts[1:]:
            found = join(found, part.of(rows))
        return found

    def files(self) -> BooleanExpression:
        join: Any = expressions.Or if self.either else expressions.And
        return join(*(part.files() for part in self.parts))  # type: ignore[no-any-return]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for part in self.parts for name in part.columns))


@dataclass(frozen=True, slots=True)
class _OfColumn(RowTest):
    column: _Column

    @property
    def columns(self) -> tuple[str, ...]:
        return self.column.path[:1]

    def files(self) -> BooleanExpression:
        return self._files() if self.column.tells_files else AlwaysTrue()

    def _files(self) -> BooleanExpression:
        return self._has_values()

    def _has_values(self) -> BooleanExpression:
        found: BooleanExpression = _not_null(self.column.path[0])
        return found


@dataclass(frozen=True, slots=True)
class _Known(_OfColumn):
    """The same of every value, and not known of NULL."""

    value: bool

    def of(self, rows: pa.Table) -> Any:
        values = self.column.of(rows)
        null = pa.scalar(None, pa.bool_())
        return pc.if_else(pc.is_valid(values), pa.scalar(self.value), null)

    def _files(self) -> BooleanExpression:
        return self._has_values() if self.value else AlwaysFalse()


@dataclass(frozen=True, slots=True)
class _Null(_OfColumn):
    negated: bool

    def of(self, rows: pa.Table) -> Any:
        return (pc.is_valid if self.negated else pc.is_null)(self.column.of(rows))

    def _files(self) -> BooleanExpression:
        found: BooleanExpression = (_not_null if self.negated else _is_null)(self.column.path[0])
        return found


@dataclass(frozen=True, slots=True)
class _Compared(_OfColumn):
    """Compared with a value that the column's type has.

    Args:
        value: The value, in the column's Arrow type.
        told: The value as PyIceberg takes it, or None where it is not told.
    """

    sign: str
    value: pa.Scalar
    told: Any

    def of(self, rows: pa.Table) -> Any:
        return _COMPARE[self.sign](self.column.of(rows), self.value)

    def _files(self) -> BooleanExpression:
        if self.told is None or self.sign == "!=":
            return self._has_values()
        found: BooleanExpression = _ICEBERG[self.sign](self.column.path[0], self.told)
        return found


@dataclass(frozen=True, slots=True)
class _Floating(_OfColumn):
    """Compared with a floating-point number; NaN is equal to itself and above all others."""

    sign: str
    value: float

    def of(self, rows: pa.Table) -> Any:
        values = self.column.of(rows)
        nan = pc.is_nan(values)
        if math.isnan(self.value):
            if self.sign in ("=", ">="):
                return nan
            if self.sign in ("!=", "<"):
                return pc.invert(nan)
            return _Known(self.column, self.sign == "<=").of(rows)
        found = _COMPARE[self.sign](values, pa.scalar(self.value, values.type))
        return pc.or_kleene(found, nan) if self.sign in (">", ">=") else found


@dataclass(frozen=True, slots=True)
class _Listed(_OfColumn):
    """One of some values that the column's type has, or none of them."""

    values: tuple[pa.Scalar, ...]
    told: tuple[Any, ...]
    negated: bool

    def of(self, rows: pa.Table) -> Any:
        values = self.column.of(rows)
        listed = pa.concat_arrays([pa.repeat(one, 1) for one in self.values])
        found = pc.is_in(values, value_set=listed)
        found = pc.invert(found) if self.negated else found
        return pc.if_else(pc.is_valid(values), found, pa.scalar(None, pa.bool_()))

    def _files(self) -> BooleanExpression:
        told = all(one is not None for one in self.told) and len(self.told) <= _MOST_LISTED
        if self.negated or not told:
            return self._has_values()
        found: BooleanExpression = _in(self.column.path[0], self.told)
        return found


@dataclass(frozen=True, slots=True)
class _NotANumber(_OfColumn):
    negated: bool

    def of(self, rows: pa.Table) -> Any:
        found = pc.is_nan(self.column.of(rows))
        return pc.invert(found) if self.negated else found


@dataclass(frozen=True, slots=True)
class _Formed(_OfColumn):
    """A text of a form, or of none such.

    Args:
        begins: What every such text begins with.
        negated: Whether those are meant that have another form.
    """

    expression: str
    begins: str
    negated: bool

    def of(self, rows: pa.Table) -> Any:
        found = pc.match_substring_regex(self.column.of(rows), self.expression)
        return pc.invert(found) if self.negated else found

    def _files(self) -> BooleanExpression:
        if self.negated or not self.begins:
            return self._has_values()
        found: BooleanExpression = _starts_with(self.column.path[0], self.begins)
        return found


def _bound(condition: Condition, schema: Schema, *, negated: bool) -> RowTest:
    if isinstance(condition, Not):
        return _bound(condition.part, schema, negated=not negated)
    if isinstance(condition, Always):
        return _Constant(condition.value != negated)
    if isinstance(condition, Both):
        parts = tuple(_bound(part, schema, negated=negated) for part in condition.parts)
        return _Parts(parts, condition.either != negated)
    column = _column(schema, condition.column)
    if isinstance(condition, Is):
        if not condition.nan:
            return _Null(column, negated)
        if not isinstance(column.type, (types.FloatType, types.DoubleType)):
            raise ValueError(f"{column.said} is of type {column.type}, which has no NaN")
        return _NotANumber(column, negated)
    try:
        if isinstance(condition, Comparison):
            sign = _OPPOSITE[condition.sign] if negated else condition.sign
            return _compared(column, sign, condition.value)
        if isinstance(condition, Among):
            return _among(column, condition.values, negated)
        return _formed(column, condition, negated)
    except _Unlike as error:
        raise ValueError(f"{column.said} is of type {column.type}, and {error}") from None


class _Unlike(Exception):
    """A value is none of a column's type; the text says what it is not."""


def _column(schema: Schema, names: Sequence[str]) -> _Column:
    fields, type_ = schema.fields, None
    path: list[str] = []
    for name in names:
        found = [one for one in fields if one.name == name] or [
            one for one in fields if one.name.lower() == name.lower()
        ]
        if len(found) != 1:
            said = f"'{'.'.join((*path, name))}'"
            # Without names of columns, of which some tokens are told none.
            raise ValueError(
                f"{said} is more than one column, in other cases"
                if found
                else f"there is no column {said}"
            )
        path.append(found[0].name)
        type_ = found[0].field_type
        fields = type_.fields if isinstance(type_, types.StructType) else ()
    assert type_ is not None
    return _Column(tuple(path), type_)


def _compared(column: _Column, sign: str, value: Value) -> RowTest:
    type_ = column.type
    bounds = filter_values.bounds(type_)
    if bounds is None:
        if isinstance(type_, (types.FloatType, types.DoubleType)):
            return _floating(column, sign, value)
        made, told = _value(column, value)
        return _Compared(column, sign, made, told)
    lowest, highest = bounds
    exact = _whole(type_, value)
    units = filter_values.floored(exact)
    there = lowest <= units <= highest
    if sign in ("=", "!="):
        if not there or units != exact:
            return _Known(column, sign == "!=")
    elif units != exact or not there:
        # Between two values, or beyond all: as of the greatest one below.
        sign = "<=" if sign in ("<", "<=") else ">"
        if not there:
            return _Known(column, (units > highest) == (sign == "<="))
    return _Compared(
        column,
        sign,
        filter_values.scalar(column.arrow, int(units)),
        filter_values.literal(type_, int(units)),
    )


def _whole(type_: types.IcebergType, value: Value) -> Decimal:
    try:
        return filter_values.whole(type_, value)
    except ValueError as error:
        raise _Unlike(f"{_said(value)} is {error}") from None


def _floating(column: _Column, sign: str, value: Value) -> RowTest:
    single = isinstance(column.type, types.FloatType)
    named = value.strip().lower() if isinstance(value, str) else ""
    if re.fullmatch(r"nan|[+-]?inf(inity)?", named):
        return _Floating(column, sign, float(named))
    try:
        exact = filter_values.number(value)
    except ValueError as error:
        raise _Unlike(f"{_said(value)} is {error}") from None
    greatest = pa.scalar(float(exact), pa.float64()).cast(
        pa.float32() if single else pa.float64(), safe=False
    )
    found = float(greatest.as_py())
    if not math.isinf(found):
        return _Floating(column, sign, found)
    # No number of the type is as far from zero: all are on one side of it, infinity on the other.
    if sign in ("=", "!="):
        return _Known(column, sign == "!=")
    beyond = {"<": "<", "<=": "<", ">": ">=", ">=": ">="}
    short = {"<": "<=", "<=": "<=", ">": ">", ">=": ">"}
    return _Floating(column, (beyond if found > 0 else short)[sign], found)


def _value(column: _Column, value: Value) -> tuple[pa.Scalar, Any]:
    """Return a value in a column's Arrow type, and as PyIceberg takes it."""
    type_, arrow = column.type, column.arrow
    if isinstance(type_, types.StringType):
        if isinstance(value, str):
            return pa.scalar(value, arrow), value
        raise _Unlike(f"{_said(value)} is no text: write it as '{_said(value)}'")
    if isinstance(type_, types.BooleanType):
        if isinstance(value, str) and value.lower() in ("true", "false"):
            value = value.lower() == "true"
        if isinstance(value, bool):
            return pa.scalar(value, arrow), None
        raise _Unlike(f"{_said(value)} is neither true nor false")
    if isinstance(type_, types.UUIDType):
        try:
            return pa.scalar(uuid.UUID(value).bytes, arrow), None  # type: ignore[arg-type]
        except (ValueError, AttributeError, TypeError):
            raise _Unlike(f"{_said(value)} is no UUID") from None
    if isinstance(type_, (types.BinaryType, types.FixedType)):
        if not isinstance(value, bytes):
            raise _Unlike(f"{_said(value)} is no bytes, such as X'00ff'")
        return pa.scalar(value, arrow), None
    raise _Unlike("is only asked for IS NULL")


def _among(column: _Column, values: Sequence[Value], negated: bool) -> RowTest:
    tests = [_compared(column, "=", value) for value in values]
    plain = [test for test in tests if isinstance(test, _Compared)]
    if any(not isinstance(test, (_Compared, _Known)) for test in tests):
        signs = [_compared(column, "!=" if negated else "=", value) for value in values]
        return signs[0] if len(signs) == 1 else _Parts(tuple(signs), not negated)
    if not plain:
        return _Known(column, negated)
    listed = tuple(test.value for test in plain)
    return _Listed(column, listed, tuple(test.told for test in plain), negated)


def _formed(column: _Column, like: Like, negated: bool) -> RowTest:
    if not isinstance(column.type, types.StringType):
        raise _Unlike("LIKE is of texts")
    parts: list[str] = []
    begins, whole = "", True
    for found in re.finditer(r"\\([%_\\])|(.)", like.pattern, re.DOTALL):
        sign = found[1] or found[2]
        if found[1] is None and sign in "%_":
            parts.append(".*" if sign == "%" else ".")
            whole = False
            continue
        parts.append(f"\\x{{{ord(sign):x}}}")
        begins += sign if whole else ""
    return _Formed(column, rf"(?s)\A{''.join(parts)}\z", begins, negated)


def _said(value: Value) -> str:
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return f"'{value}'" if isinstance(value, str) else str(value).lower()
