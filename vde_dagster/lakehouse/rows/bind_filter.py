"""Conditions resolved against a table: tests of its rows, and filters for skipping files.

Rows are tested here, with Arrow and SQL's three-valued logic. PyIceberg is used only to skip files
that have no matching row. It receives only values that its types represent exactly.
"""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import expressions, types
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, BooleanExpression
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from vde_dagster.errors import UsageError
from vde_dagster.lakehouse.rows import filter_values, row_filters

_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_COMPARE = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_ICEBERG: dict[str, Any] = {  # these constructors accept more than their annotations declare
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


@dataclass(frozen=True, slots=True)
class RowTest:
    """A filter for the rows of one table.

    Args:
        of: Returns, for each row, true if the row fulfills the condition, otherwise false or NULL.
        files: A condition for skipping files: it is true for all matching rows, and may be true for
            other rows.
        columns: The table's columns in the condition.
    """

    of: Callable[[pa.Table], Any]
    files: BooleanExpression
    columns: tuple[str, ...] = ()

    def rows(self, rows: pa.Table) -> pa.Table:
        return rows.filter(pc.fill_null(self.of(rows), False))


def bind_filter(condition: row_filters.Condition, schema: Schema, whose: str) -> RowTest:
    """Convert a parsed condition to a filter for a table's rows and files.

    Raises:
        UsageError: A column does not exist, or a value does not fit the column's type.
    """
    try:
        return _bound(condition, schema, negated=False)
    except ValueError as error:
        names = [field.name for field in schema.fields]
        raise UsageError(
            f"{whose} does not fit this model: {error}",
            hint=f"the model's columns are {', '.join(names)}",
        ) from error


def not_before(schema: Schema, column: str, last: pa.Scalar, descending: bool) -> BooleanExpression:
    """Build a filter that skips files if all their rows sort before the last row of a page."""
    if not last.is_valid:
        return _is_null(column)  # type: ignore[no-any-return]
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
    """A column or nested field; `path` is the column's name, then the names of nested fields."""

    path: tuple[str, ...]
    type: types.IcebergType

    @property
    def dotted_name(self) -> str:
        return ".".join(self.path)

    def test(self, judge: Callable[[Any], Any], files: Any = _not_null, *values: Any) -> RowTest:
        """Return a row test of the column's values.

        Args:
            judge: Returns whether each value fulfills the condition.
            files: Creates PyIceberg's condition for skipping files, from the name and `values`.
        """
        # PyIceberg's statistics must be for this very field, and for all of its values.
        plain = isinstance(self.type, types.PrimitiveType) and "." not in self.dotted_name
        known = files(self.dotted_name, *values) if plain else AlwaysTrue()
        return RowTest(lambda rows: judge(self._values(rows)), known, self.path[:1])

    def _values(self, rows: pa.Table) -> Any:
        found = rows[self.path[0]]
        for name in self.path[1:]:
            found = pc.struct_field(found, name)
        return found if found.type == self.arrow else found.cast(self.arrow)

    @property
    def arrow(self) -> pa.DataType:
        if isinstance(self.type, (types.UUIDType, types.FixedType)):
            return pa.large_binary()
        return schema_to_pyarrow(self.type, include_field_ids=False)


def _always(value: bool) -> RowTest:
    return RowTest(
        lambda rows: pa.chunked_array([pa.repeat(value, rows.num_rows)]),
        AlwaysTrue() if value else AlwaysFalse(),
    )


def _constant(column: _Column, value: bool) -> RowTest:
    return column.test(pc.is_valid) if value else _always(False)


def _joined(parts: Sequence[RowTest], either: bool) -> RowTest:
    kleene = pc.or_kleene if either else pc.and_kleene
    join: Any = expressions.Or if either else expressions.And
    return RowTest(
        lambda rows: reduce(kleene, (part.of(rows) for part in parts)),
        join(*(part.files for part in parts)),
        tuple(dict.fromkeys(name for part in parts for name in part.columns)),
    )


def _bound(condition: row_filters.Condition, schema: Schema, *, negated: bool) -> RowTest:
    if isinstance(condition, row_filters.Not):
        return _bound(condition.part, schema, negated=not negated)
    if isinstance(condition, row_filters.Always):
        return _always(condition.value != negated)
    if isinstance(condition, row_filters.Both):
        parts = [_bound(part, schema, negated=negated) for part in condition.parts]
        return _joined(parts, condition.either != negated)
    column = _column(schema, condition.column)
    if isinstance(condition, row_filters.Is):
        if not condition.nan:
            return column.test(pc.is_valid) if negated else column.test(pc.is_null, _is_null)
        if not _is_floating(column):
            raise ValueError(f"{column.dotted_name} is of type {column.type}, which has no NaN")
        # NULL is not NaN, as for Spark's isnan and Iceberg's own predicate.
        if not negated:
            return column.test(_is_nan)
        return column.test(lambda values: pc.invert(_is_nan(values)), lambda _: AlwaysTrue())
    try:
        if isinstance(condition, row_filters.Comparison):
            sign = _OPPOSITE[condition.sign] if negated else condition.sign
            return _compared(column, sign, condition.value)
        if isinstance(condition, row_filters.Among):
            return _among(column, condition.values, negated)
        return _formed(column, condition, negated)
    except _Unlike as error:
        raise ValueError(f"{column.dotted_name} is of type {column.type}, and {error}") from None


class _Unlike(Exception):
    """A value does not fit a column's type."""


def _column(schema: Schema, names: Sequence[str]) -> _Column:
    fields, type_ = schema.fields, None
    path: list[str] = []
    for name in names:
        found = [one for one in fields if one.name == name] or [
            one for one in fields if one.name.lower() == name.lower()
        ]
        if len(found) != 1:
            wanted = f"'{'.'.join((*path, name))}'"
            # The message lists no columns, because some tokens may not see them.
            raise ValueError(
                f"{wanted} matches more than one column, in different cases"
                if found
                else f"the column {wanted} does not exist"
            )
        path.append(found[0].name)
        type_ = found[0].field_type
        fields = type_.fields if isinstance(type_, types.StructType) else ()
    assert type_ is not None
    return _Column(tuple(path), type_)


def _is_floating(column: _Column) -> bool:
    return isinstance(column.type, (types.FloatType, types.DoubleType))


def _is_number(values: Any) -> Any:
    return pc.invert(pc.is_nan(values))


def _is_nan(values: Any) -> Any:
    return pc.fill_null(pc.is_nan(values), False)


def _compared(column: _Column, sign: str, value: row_filters.Value) -> RowTest:
    if _is_floating(column):
        return _floating(column, sign, value)
    if sign in ("=", "!="):
        same = _exactly(column, value)
        return _constant(column, sign == "!=") if same is None else _ordered(column, sign, *same)
    bounds = filter_values.bounds(column.type)
    if bounds is None:
        return _ordered(column, sign, *_value(column, value))
    exact = _to_column_units(column.type, value)
    units = filter_values.floored(exact)
    there = bounds[0] <= units <= bounds[1]
    if units != exact or not there:
        # Between two representable values, or beyond all: compare with the greatest one below.
        sign = "<=" if sign in ("<", "<=") else ">"
        if not there:
            return _constant(column, (units > bounds[1]) == (sign == "<="))
    return _ordered(column, sign, *_from_units(column, int(units)))


def _ordered(column: _Column, sign: str, value: pa.Scalar, for_files: Any) -> RowTest:
    """Return a test that compares a column with a value; `for_files` is the value for PyIceberg."""
    compare = _COMPARE[sign]
    if for_files is None or sign == "!=":
        return column.test(lambda values: compare(values, value))
    return column.test(lambda values: compare(values, value), _ICEBERG[sign], for_files)


def _exactly(column: _Column, value: row_filters.Value) -> tuple[pa.Scalar, Any] | None:
    bounds = filter_values.bounds(column.type)
    if bounds is None:
        return _value(column, value)
    exact = _to_column_units(column.type, value)
    units = filter_values.floored(exact)
    there = units == exact and bounds[0] <= units <= bounds[1]
    return _from_units(column, int(units)) if there else None


def _from_units(column: _Column, units: int) -> tuple[pa.Scalar, Any]:
    return filter_values.scalar(column.arrow, units), filter_values.literal(column.type, units)


def _to_column_units(type_: types.IcebergType, value: row_filters.Value) -> Decimal:
    try:
        return filter_values.to_column_units(type_, value)
    except ValueError as error:
        raise _Unlike(f"{_written(value)} is {error}") from None


def _floating(column: _Column, sign: str, value: row_filters.Value) -> RowTest:
    """Return a test that compares a float column with a value. NaN is above all numbers."""
    named = value.strip().lower() if isinstance(value, str) else ""
    if named == "nan":
        by_sign = {"=": pc.is_nan, ">=": pc.is_nan, "!=": _is_number, "<": _is_number}
        return column.test(by_sign[sign]) if sign in by_sign else _constant(column, sign == "<=")
    if re.fullmatch(r"[+-]?inf(inity)?", named):
        return _among_numbers(column, sign, float(named))
    try:
        exact = filter_values.number(value)
    except ValueError as error:
        raise _Unlike(f"{_written(value)} is {error}") from None
    greatest = pa.scalar(float(exact), pa.float64()).cast(column.arrow, safe=False)
    found = float(greatest.as_py())
    if not math.isinf(found):
        return _among_numbers(column, sign, found)
    # Beyond the type's range: all finite values are on one side, infinity on the other.
    if sign in ("=", "!="):
        return _constant(column, sign == "!=")
    beyond = {"<": "<", "<=": "<", ">": ">=", ">=": ">="}
    short = {"<": "<=", "<=": "<=", ">": ">", ">=": ">"}
    return _among_numbers(column, (beyond if found > 0 else short)[sign], found)


def _among_numbers(column: _Column, sign: str, value: float) -> RowTest:
    compare, number = _COMPARE[sign], pa.scalar(value, column.arrow)
    if sign in (">", ">="):
        return column.test(lambda values: pc.or_kleene(compare(values, number), pc.is_nan(values)))
    return column.test(lambda values: compare(values, number))


def _value(column: _Column, value: row_filters.Value) -> tuple[pa.Scalar, Any]:
    type_, arrow = column.type, column.arrow
    if isinstance(type_, types.StringType):
        if isinstance(value, str):
            return pa.scalar(value, arrow), value
        raise _Unlike(f"{_written(value)} is not a text: write '{_written(value)}'")
    if isinstance(type_, types.BooleanType):
        if isinstance(value, str) and value.lower() in ("true", "false"):
            value = value.lower() == "true"
        if isinstance(value, bool):
            return pa.scalar(value, arrow), None
        raise _Unlike(f"{_written(value)} is neither true nor false")
    if isinstance(type_, types.UUIDType):
        try:
            return pa.scalar(uuid.UUID(value).bytes, arrow), None  # type: ignore[arg-type]
        except (ValueError, AttributeError, TypeError):
            raise _Unlike(f"{_written(value)} is not a UUID") from None
    if isinstance(type_, (types.BinaryType, types.FixedType)):
        if not isinstance(value, bytes):
            raise _Unlike(f"{_written(value)} is not bytes, such as X'00ff'")
        return pa.scalar(value, arrow), None
    raise _Unlike("supports only IS NULL")


def _among(column: _Column, values: Sequence[row_filters.Value], negated: bool) -> RowTest:
    if _is_floating(column):
        tests = [_floating(column, "!=" if negated else "=", value) for value in values]
        return tests[0] if len(tests) == 1 else _joined(tests, not negated)
    known = [one for value in values if (one := _exactly(column, value)) is not None]
    if not known:
        return _constant(column, negated)
    listed = pa.concat_arrays([pa.repeat(value, 1) for value, _ in known])
    told = tuple(one for _, one in known if one is not None)
    if negated:
        return column.test(
            lambda values: pc.and_(
                pc.is_valid(values), pc.invert(pc.is_in(values, value_set=listed))
            )
        )
    tell = len(told) == len(known) <= _MOST_LISTED
    files = (_in, told) if tell else (_not_null,)
    return column.test(lambda values: pc.is_in(values, value_set=listed), *files)


def _formed(column: _Column, like: row_filters.Like, negated: bool) -> RowTest:
    if not isinstance(column.type, types.StringType):
        raise _Unlike("LIKE needs texts")
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
    form = rf"(?s)\A{''.join(parts)}\z"
    if negated:
        return column.test(lambda values: pc.invert(pc.match_substring_regex(values, form)))
    files = (_starts_with, begins) if begins else (_not_null,)
    return column.test(lambda values: pc.match_substring_regex(values, form), *files)


def _written(value: row_filters.Value) -> str:
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return f"'{value}'" if isinstance(value, str) else str(value).lower()
