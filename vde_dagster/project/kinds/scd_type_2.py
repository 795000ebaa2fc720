"""SCD_TYPE_2_BY_TIME and SCD_TYPE_2_BY_COLUMN: tables that keep every version of a row."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from vde_dagster.base.names import quote
from vde_dagster.project.kinds.base import AddedColumn, Kind, Property, no_column
from vde_dagster.sql.expressions import in_spark, read_expression

if TYPE_CHECKING:
    from vde_dagster.project.property_value import Value


_WORD = re.compile(r"[^\W\d]\w*")
_QUOTED = re.compile(r"`(?:[^`]|``)+`")


def read_key(value: Value) -> tuple[str, ...]:
    """Read the property `unique_key`: columns, and Spark SQL expressions over columns."""
    parts = []
    for item in value.items():
        text = item.raw
        try:
            if len(item.tokens) == 1 and text[:1] in "'\"":
                # SQLMesh's Python models and headers quote columns this way.
                text = quote_key_column(item.text())
            elif key_column(text) is None:
                text = in_spark(text, item.dialect, item.trusted)
            named = columns_in(text)
        except ValueError as error:
            raise item.error(
                f"'{text}' in '{value.name}' is neither a column nor an expression: {error}",
                "write columns, or Spark SQL expressions over them: (id, COALESCE(part, ''))",
            ) from None
        if not named:
            raise item.error(
                f"'{text}' in '{value.name}' names no column",
                "use at least one column of the query",
            )
        parts.append(text)
    if not parts:
        raise no_column(value)
    return tuple(parts)


def quote_key_column(column: str) -> str:
    """Return a column as a part of a key, in back quotes if its name needs them."""
    return column if _WORD.fullmatch(column) else quote(column)


def key_column(part: str) -> str | None:
    """Return the column if a part of a key is a column, or None if it is an expression."""
    if _WORD.fullmatch(part):
        return part
    return part[1:-1].replace("``", "`") if _QUOTED.fullmatch(part) else None


@lru_cache(maxsize=4096)
def columns_in(part: str) -> tuple[str, ...]:
    """Return the columns in a part of a key: one column, or an expression such as `LOWER(email)`.

    Raises:
        ValueError: The part is not an expression over the columns of one row.
    """
    column = key_column(part)
    return (column,) if column is not None else read_expression(part).columns


def key_columns_in(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns in all parts of a key, each once."""
    found: dict[str, str] = {}
    for part in parts:
        for column in columns_in(part):
            found.setdefault(column.lower(), column)
    return tuple(found.values())


ALL = ("*",)
"""Value of `columns` for all columns of the query."""

_TYPES = {"TIMESTAMP_LTZ": "TIMESTAMP", "TIMESTAMPTZ": "TIMESTAMP"} | {
    name: name for name in ("TIMESTAMP", "TIMESTAMP_NTZ", "DATE")
}
_NAMES = {"type": "string"}


class ScdType2(Kind):
    """Common base of `SCD_TYPE_2_BY_TIME` and `SCD_TYPE_2_BY_COLUMN`.

    Attributes:
        unique_key: Columns and expressions that identify the versions of a row; NULLs are equal.
        valid_from_name: Added column with the start of a version.
        valid_to_name: Added column with the end of a version; NULL for the current version.
        time_data_type: Spark SQL type of these two columns.
        invalidate_hard_deletes: Whether a version ends when the query no longer returns its key.
        updated_at_name: Column with the time of a row's last update, or None.
        as_dbt: Whether versions start and end as in dbt's snapshots: each new or changed row of the
            query starts a version at its `updated_at` or now, and NULL keys are never equal.
        deleted_name: Added column that is `True` in records of deletions; empty for no such column.
        refresh: With `changes`, a fill compares only the keys affected by changes of the inputs.
    """

    __slots__ = ()

    unique_key: tuple[str, ...]
    valid_from_name: str
    valid_to_name: str
    time_data_type: str
    invalidate_hard_deletes: bool
    updated_at_name: str | None
    as_dbt: bool
    deleted_name: str
    refresh: str

    @classmethod
    def from_properties(cls, given: Mapping[str, Any]) -> Kind:
        if given.get("refresh") == "changes":
            for part in given["unique_key"]:
                if key_column(part) is None:
                    raise ValueError(f"'refresh changes' requires columns as the key, not '{part}'")
            if given.get("batch_size"):
                raise ValueError("'refresh changes' and batch_size cannot be combined")
        return cls(**given)

    by_intervals = True
    in_order = True
    restates_whole = True
    changes_in_place = True

    @property
    def key_columns(self) -> tuple[str, ...]:
        return key_columns_in(self.unique_key)

    def expression_queries(self, table: str) -> Mapping[str, str]:
        parts = [part for part in self.unique_key if key_column(part) is None]
        return {"unique_key": f"SELECT {', '.join(parts)} FROM {table}"} if parts else {}

    @property
    def compared(self) -> tuple[str, ...] | None:
        """The columns whose changes start a version, or None if only a new update time does so."""
        return None

    @property
    def dates_first_load(self) -> bool:
        """Whether versions of the first load start at the load or update time, not in 1970."""
        raise NotImplementedError

    @property
    def added_columns(self) -> tuple[AddedColumn, ...]:
        return (
            AddedColumn(self.valid_from_name, self.time_data_type, "Start of the row's validity"),
            AddedColumn(self.valid_to_name, self.time_data_type, "End of validity; NULL: current"),
            *([AddedColumn(self.deleted_name, "STRING")] if self.deleted_name else []),
        )

    @property
    def fixed(self) -> tuple[str, ...]:
        updated = (self.updated_at_name,) if self.updated_at_name else ()
        return (*self.unique_key, *updated, self.valid_from_name, self.valid_to_name)


def _read_time_type(value: Value) -> str:
    text = value.text().upper()
    if text not in _TYPES:
        raise value.error(
            f"'{value.text()}' is not a type for instants", "use TIMESTAMP, TIMESTAMP_NTZ or DATE"
        )
    return _TYPES[text]


def _read_compared_columns(value: Value) -> tuple[str, ...]:
    columns = tuple(text.strip('`"') for text in value.texts())
    if not columns:
        raise value.error("property 'columns' names no column", "write columns *, or (a, b)")
    if "*" in columns and columns != ALL:
        raise value.error("'*' cannot be combined with columns", "write columns *, or only columns")
    return columns


def _read_column_name(value: Value) -> str:
    name = value.identifier().strip('`"')
    if not name or name.isdigit():
        raise value.error(f"'{name}' is not a column name", f"write {value.name} name")
    return name


_KEY = Property(
    "unique_key",
    read_key,
    {"type": ["string", "array"], "items": {"type": "string"}},
    required=True,
    names_columns=True,
)
_COLUMNS = replace(_KEY, name="columns", read=_read_compared_columns)


def _column_property(name: str) -> Property:
    return Property(name, _read_column_name, _NAMES, names_columns=True)


_SHARED = (
    _column_property("valid_from_name"),
    _column_property("valid_to_name"),
    Property("time_data_type", _read_time_type, _NAMES),
    Property.flag("invalidate_hard_deletes"),
    Kind.REFRESH,
    Kind.BATCH_SIZE,
    Property.flag("disable_restatement"),
    *Kind.IN_PLACE,
)


@dataclass(frozen=True, slots=True)
class ScdType2ByTime(ScdType2):
    """A table with one row per version of a key.

    A newer update time starts a version. With `updated_at_as_valid_from`, versions of the first
    load start at the row's update time, not in 1970.
    """

    unique_key: tuple[str, ...]
    updated_at_name: str = "updated_at"
    updated_at_as_valid_from: bool = False
    valid_from_name: str = "valid_from"
    valid_to_name: str = "valid_to"
    time_data_type: str = "TIMESTAMP"
    invalidate_hard_deletes: bool = False
    batch_size: int | None = None
    disable_restatement: bool = True
    forward_only: bool = True
    on_destructive_change: str = "error"
    on_additive_change: str = "allow"
    as_dbt: bool = Kind.later(False)
    deleted_name: str = Kind.later("")
    refresh: str = Kind.later("whole")
    name: Literal["SCD_TYPE_2_BY_TIME"] = "SCD_TYPE_2_BY_TIME"

    summary = "a row per version of a key; a newer `updated_at` ends the previous version"
    aliases = ("SCD_TYPE_2",)
    properties = (
        _KEY,
        _column_property("updated_at_name"),
        Property.flag("updated_at_as_valid_from"),
        *_SHARED,
    )

    @property
    def named_columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.key_columns, self.updated_at_name)))

    @property
    def dates_first_load(self) -> bool:
        return self.updated_at_as_valid_from


@dataclass(frozen=True, slots=True)
class ScdType2ByColumn(ScdType2):
    """A table with one row per version of a key.

    A change of a compared column starts a version, at `updated_at_name` or when it was detected.

    Args:
        columns: Output columns to compare, or `("*",)`.
        execution_time_as_valid_from: Whether versions of the first load start as later versions do,
            not in 1970.
    """

    unique_key: tuple[str, ...]
    columns: tuple[str, ...]
    execution_time_as_valid_from: bool = False
    updated_at_name: str | None = None
    valid_from_name: str = "valid_from"
    valid_to_name: str = "valid_to"
    time_data_type: str = "TIMESTAMP"
    invalidate_hard_deletes: bool = False
    batch_size: int | None = None
    disable_restatement: bool = True
    forward_only: bool = True
    on_destructive_change: str = "error"
    on_additive_change: str = "allow"
    as_dbt: bool = Kind.later(False)
    deleted_name: str = Kind.later("")
    refresh: str = Kind.later("whole")
    name: Literal["SCD_TYPE_2_BY_COLUMN"] = "SCD_TYPE_2_BY_COLUMN"

    summary = "a row per version of a key; a change of one of the columns ends the previous version"
    properties = (
        _KEY,
        _COLUMNS,
        Property.flag("execution_time_as_valid_from"),
        _column_property("updated_at_name"),
        *_SHARED,
    )

    @property
    def named_columns(self) -> tuple[str, ...]:
        compared = self.columns if self.columns != ALL else ()
        since = (self.updated_at_name,) if self.updated_at_name else ()
        return tuple(dict.fromkeys((*self.key_columns, *compared, *since)))

    @property
    def compared(self) -> tuple[str, ...]:
        return self.columns

    @property
    def dates_first_load(self) -> bool:
        return self.execution_time_as_valid_from
