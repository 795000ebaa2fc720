"""Fills that compute only the rows of keys that the changes of inputs affect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vde_dagster.base.names import quote, string_literal
from vde_dagster.planning.engine_tasks import ChangedKeys
from vde_dagster.spark.strategies.base import Write
from vde_dagster.spark.strategies.computed_rows import ComputedRows, compute_once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_MOST_VALUES = 200
"""Maximum number of keys that a condition lists; Iceberg skips files by at most 200 values."""
_MOST_LITERALS = 3 * _MOST_VALUES
"""Maximum number of values in all columns; more take longer to analyze than files to read."""
_LISTED_TYPES = ("tinyint", "smallint", "int", "bigint", "decimal", "date", "string")
"""Types whose values are the same after a conversion to text and back."""


@dataclass(frozen=True, slots=True)
class KeysView:
    """A temporary view of the keys to compute, with the table's column names.

    Args:
        values: The values as Spark SQL by column, None for NULL. Columns of types outside
            `_LISTED_TYPES` are missing. Empty if there are many keys.
        is_empty: Whether the view has no keys, if their number is known.
    """

    name: str
    columns: tuple[str, ...]
    values: Mapping[str, frozenset[str | None]]
    is_empty: bool = False

    @property
    def is_listed(self) -> bool:
        """Whether the key is one column with listed values, so that `may_be_in` is exact."""
        # If it is, `may_be_in` is exact.
        return len(self.columns) == len(self.values) == 1

    def may_be_in(self, side: str) -> str:
        """Write a condition on single columns that is true for each row with one of the keys.

        Iceberg skips files without a row that meets the condition.
        """
        # Iceberg skips files without a row that meets the condition.
        parts = []
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
    from pyspark.errors import PySparkException

    changed = write.task.changed
    if not isinstance(changed, ChangedKeys):
        yield None
        return
    with ExitStack() as stack:
        try:
            rows = stack.enter_context(compute_once(_read_keys(write, changed)))
        # The keys' query evaluates expressions also for rows that the model's query removes first.
        except PySparkException as error:
            reason = str(error).partition("\n")[0]
            write.why_all.append(f"its changed keys cannot be computed: {reason}")
            write.notes.append(f"all rows are computed, as its changed keys cannot be: {reason}")
            keys = None
        else:
            keys = stack.enter_context(keys_view(write, rows))
        yield keys


@contextmanager
def keys_view(write: Write, rows: ComputedRows) -> Iterator[KeysView]:
    """Yield a temporary view of distinct keys, with the table's column names."""
    with write.source(rows.frame) as name:
        values = _list_values(write, rows)
        yield KeysView(name, tuple(rows.frame.columns), values, is_empty=rows.count == 0)


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


def _list_values(write: Write, keys: ComputedRows) -> dict[str, frozenset[str | None]]:
    if keys.count is None or keys.count > _MOST_VALUES:
        return {}
    names = keys.frame.columns
    listed = [name for name in names if write.types[name].partition("(")[0] in _LISTED_TYPES]
    listed = listed[: max(_MOST_LITERALS // max(keys.count, 1), 1)]
    if not listed:
        return {}
    texts = (f"CAST({quote(name)} AS STRING)" for name in listed)
    rows = keys.frame.selectExpr(*texts).collect()
    return {
        name: frozenset(
            None
            if row[number] is None
            else f"CAST({string_literal(row[number])} AS {write.types[name]})"
            for row in rows
        )
        for number, name in enumerate(listed)
    }
