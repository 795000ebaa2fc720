"""Fills that compute only the rows of changed keys: keys whose input rows changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vde_dagster.base.names import quote, string_literal
from vde_dagster.planning.engine_tasks import ChangedKeys
from vde_dagster.spark.session.failures import cause_line, is_spark_failure
from vde_dagster.spark.strategies.base import Write
from vde_dagster.spark.strategies.computed_rows import ComputedRows, compute_once, write_size

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_MOST_VALUES = 200
"""Maximum number of keys that a condition lists; Iceberg skips files by at most 200 values."""
_MOST_LITERALS = 3 * _MOST_VALUES
"""Maximum number of values in all columns. Analyzing more takes longer than reading files."""
_MOST_BROADCAST = 16 * 2**20
"""Maximum size of keys in bytes for which joins send all keys to each executor."""
_BROADCASTS = "spark.sql.autoBroadcastJoinThreshold"
_LONGEST_TEXT = 1_000
"""Maximum length of a value that becomes part of a query as a bound."""
_LISTED_TYPES = ("tinyint", "smallint", "int", "bigint", "decimal", "date", "string")
"""Types whose values can be part of a query as text, if `_is_exact` holds."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the greatest value of a key column, as Spark SQL.

    Args:
        least, greatest: None if all values are NULL.
    """

    least: str | None
    greatest: str | None
    has_null: bool

    def contain(self, column: str) -> str:
        """Write the condition that a column's value is within these bounds."""
        options = [f"{column} IS NULL"] if self.has_null else []
        if self.least is not None:
            options.append(f"{column} BETWEEN {self.least} AND {self.greatest}")
        return f"({' OR '.join(options) or 'false'})"


@dataclass(frozen=True, slots=True)
class KeysView:
    """A temporary view of the keys to compute, with the table's column names.

    Args:
        bounds: Bounds of the columns, in place of `values` if there are many keys.
        values: Spark SQL of each column's values, None for NULL. Only columns with a type in
            `_LISTED_TYPES` are included. Empty if there are many keys.
        is_empty: Whether the view certainly has no keys.
    """

    name: str
    columns: tuple[str, ...]
    values: Mapping[str, frozenset[str | None]]
    bounds: Mapping[str, Bounds]
    is_empty: bool = False

    @property
    def is_listed(self) -> bool:
        """Whether the key is one column with listed values. Then `may_be_in` is exact."""
        return len(self.columns) == len(self.values) == 1

    def may_be_in(self, side: str) -> str:
        """Write a condition for skipping files: it is true for every row with one of the keys."""
        parts = [known.contain(f"{side}.{quote(name)}") for name, known in self.bounds.items()]
        for name, values in self.values.items():
            column, listed = f"{side}.{quote(name)}", sorted(one for one in values if one)
            options = [f"{column} IN ({', '.join(listed)})"] if listed else []
            options += [f"{column} IS NULL"] if None in values else []
            parts.append(f"({' OR '.join(options) or 'false'})")
        return " AND ".join(parts) or "true"

    def is_in(self, side: str) -> str:
        """Write the condition that a row of `side` has one of the keys. NULL equals NULL."""
        if self.is_listed:
            return self.may_be_in(side)
        same = write_equal("vde_keys", side, self.columns)
        exact = f"EXISTS (SELECT 1 FROM {self.name} AS vde_keys WHERE {same})"
        return f"{self.may_be_in(side)} AND {exact}"


def write_equal(left: str, right: str, names: Sequence[str]) -> str:
    """Write the condition that columns of two relations are equal. NULL equals NULL."""
    return " AND ".join(f"{left}.{quote(name)} <=> {right}.{quote(name)}" for name in names)


@contextmanager
def changed_keys(write: Write) -> Iterator[KeysView | None]:
    """Yield the keys to compute, or None if all rows must be computed."""
    changed = write.task.changed
    if not isinstance(changed, ChangedKeys):
        yield None
        return
    try:
        rows = compute_once(_read_keys(write, changed))
    # The keys' query evaluates expressions also for rows that the model's query removes first.
    except Exception as error:
        if not is_spark_failure(error):
            raise
        reason = cause_line(error)
        write.why_all.append(f"its changed keys cannot be computed: {reason}")
        write.notes.append(
            f"all rows are computed, because computing the changed keys failed: {reason}"
        )
        yield None
        return
    with keys_view(write, rows) as keys:
        yield keys


@contextmanager
def keys_view(write: Write, rows: ComputedRows) -> Iterator[KeysView]:
    """Yield a temporary view of distinct keys, with the table's column names."""
    values, bounds, frame = _list_values(write, rows), dict[str, Bounds](), rows.frame
    is_empty = rows.count == 0
    if not values and not is_empty:
        bounds, size = _summarize(write, frame)
        # Spark does not know the size of computed rows, and would shuffle the table to join them.
        if size is not None and size <= _MOST_BROADCAST and _may_broadcast(write):
            frame = frame.hint("broadcast")
    with write.source(frame) as name:
        yield KeysView(name, tuple(frame.columns), values, bounds, is_empty)


def select_rows(write: Write, keys: KeysView | None) -> DataFrame:
    """Return the model's rows with the given keys, by default all rows."""
    if keys is None:
        return write.frame
    from pyspark.sql import functions

    rows = write.frame.alias("vde_rows").where(keys.may_be_in("vde_rows"))
    if keys.is_listed:
        return rows
    listed = write.session.table(keys.name).alias("vde_keys")
    on = functions.expr(write_equal("vde_rows", "vde_keys", keys.columns))
    return rows.join(listed, on, "left_semi")


def _read_keys(write: Write, changed: ChangedKeys) -> DataFrame:
    names = [write.physical_name(name) for name in changed.key]
    listed = (f"CAST(k{n} AS {write.types[at]}) AS {quote(at)}" for n, at in enumerate(names))
    return write.session.sql(changed.query).selectExpr(*listed).distinct()


def _may_broadcast(write: Write) -> bool:
    return not str(write.session.conf.get(_BROADCASTS)).startswith("-")


def _listed_columns(write: Write, keys: DataFrame) -> list[str]:
    return [name for name in keys.columns if write.types[name].partition("(")[0] in _LISTED_TYPES]


def _list_values(write: Write, keys: ComputedRows) -> dict[str, frozenset[str | None]]:
    if keys.count is None or keys.count > _MOST_VALUES:
        return {}
    listed = _listed_columns(write, keys.frame)
    listed = listed[: max(_MOST_LITERALS // max(keys.count, 1), 1)]
    if not listed:
        return {}
    texts = [f"CAST({quote(name)} AS STRING)" for name in listed]
    exact = [_is_exact(name, write.types[name]) for name in listed]
    rows = keys.frame.selectExpr(*map("IF({1}, {0}, NULL)".format, texts, exact), *exact).collect()
    return {
        name: frozenset(_literal(row[number], write.types[name]) for row in rows)
        for number, name in enumerate(listed)
        if all(row[len(listed) + number] for row in rows)
    }


def _is_exact(name: str, type_: str) -> str:
    """Write the condition that a value does not change when it is converted to text and back."""
    if type_ == "string":
        return f"coalesce(is_valid_utf8({quote(name)}), true)"
    return f"TRY_CAST(CAST({quote(name)} AS STRING) AS {type_}) <=> {quote(name)}"


def _literal(text: str | None, type_: str) -> str | None:
    return None if text is None else f"CAST({string_literal(text)} AS {type_})"


def _summarize(write: Write, keys: DataFrame) -> tuple[dict[str, Bounds], int | None]:
    """Return the bounds of key columns, and the size of the keys in bytes, if known."""
    listed = _listed_columns(write, keys)
    facts = [write_size({name: write.types[name] for name in keys.columns})]
    for name in listed:
        exact, own = _is_exact(name, write.types[name]), quote(name)
        facts += (f"CAST({take}(IF({exact}, {own}, NULL)) AS STRING)" for take in ("min", "max"))
        facts += (f"coalesce(bool_or({is_}), false)" for is_ in (f"{own} IS NULL", f"NOT {exact}"))
    size, *found = keys.selectExpr(*facts).collect()[0]
    bounds = {}
    for number, name in enumerate(listed):
        least, greatest, has_null, is_inexact = found[4 * number : 4 * number + 4]
        if is_inexact or max(len(least or ""), len(greatest or "")) > _LONGEST_TEXT:
            continue
        type_ = write.types[name]
        bounds[name] = Bounds(_literal(least, type_), _literal(greatest, type_), has_null)
    return bounds, size
