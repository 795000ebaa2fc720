"""Digests of the rows that a fill writes, computed by Spark in the job that writes them.

The digest of some columns adds up two 64-bit hashes of every row, each in two halves so that no sum
overflows before two billion rows. `xxhash64` ignores NULLs and the boundaries between arrays, so
these are hashed along with the values.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import quote
from vde_dagster.planning.environments.resolver import Columns
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.table_contents import Output, Tile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType


_LOW = 0xFFFFFFFF
_HASHABLE = frozenset(
    {
        "boolean",
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "date",
        "timestamp",
        "timestamp_ntz",
        "binary",
        "string",
    }
)
_WAIT_SECONDS = 10.0


@dataclass(slots=True)
class Digester:
    """Computes a hash over the rows of each range while Spark writes them.

    Args:
        sets: The sets of columns to digest.
        tiles: The range of each digest, and the condition for its rows; None selects all rows.
        whole: Whether the write replaces all rows of the table.
        types: Spark SQL types of the written columns, if known beforehand.
    """

    sets: tuple[Columns, ...]
    tiles: tuple[tuple[Interval, str | None], ...]
    whole: bool
    types: Mapping[str, str] = field(default_factory=dict)
    _observation: Any = field(default=None, init=False)

    def watch(self, frame: DataFrame) -> DataFrame:
        """Return a frame of the same rows that computes digests while Spark evaluates it."""
        from pyspark.errors import AnalysisException
        from pyspark.sql import Observation, functions

        self._observation = None
        nested = any("<" in type_ for type_ in self.types.values())
        known = self.types if self.types and not nested else _column_types(frame)
        expressions = self._expressions(known)
        if expressions is None:
            return frame
        observation = Observation()
        try:
            watched = frame.observe(observation, *map(functions.expr, expressions))
        except AnalysisException:
            return frame  # A type cannot be hashed; the rows are written all the same.
        self._observation = observation
        return watched

    def result(self, rows: int | None) -> Output | None:
        """Return the digests of the written rows.

        Return None if the digests are unknown, or the number of rows is not `rows`.
        """
        if self._observation is None:
            return None
        values = _observed_values(self._observation)
        return self._output(values, rows) if values is not None else None

    def read(self, frame: DataFrame, rows: int | None) -> Output | None:
        """Evaluate a frame, and return the digests of its rows.

        Return None if a type cannot be hashed, or the number of rows is not `rows`.
        """
        from pyspark.sql import functions

        expressions = self._expressions(_column_types(frame))
        if expressions is None:
            return None
        (row,) = frame.agg(*map(functions.expr, expressions)).collect()
        return self._output(list(row), rows)

    def _expressions(self, types: Mapping[str, DataType | str]) -> list[str] | None:
        hashes = []
        for columns in self.sets:
            names = sorted(types) if columns is None else columns
            made = _row_hashes({name: types[name] for name in names if name in types})
            if made is None or len(names) != len(set(names) & set(types)):
                return None
            hashes.append(made)
        out = []
        for _, condition in self.tiles:
            out.append("count(1)" if condition is None else f"count_if({condition})")
            for value in chain.from_iterable(hashes):
                for half in (f"({value}) & {_LOW}L", f"shiftrightunsigned({value}, 32)"):
                    some = half if condition is None else f"IF({condition}, {half}, NULL)"
                    out.append(f"try_sum({some})")
        return [f"{text} AS c{number}" for number, text in enumerate(out)]

    def _output(self, values: Sequence[int | None], rows: int | None) -> Output | None:
        width = 1 + 4 * len(self.sets)
        made: list[Tile] = []
        for place, (interval, _) in enumerate(self.tiles):
            count, *sums = values[place * width : (place + 1) * width]
            if count is None or (count and None in sums):
                return None
            digests = tuple(
                ":".join([str(count), *(f"{part or 0:x}" for part in sums[at : at + 4])])
                for at in range(0, len(sums), 4)
            )
            made.append(Tile(interval, count, digests))
        if rows is not None and sum(tile.rows for tile in made) != rows:
            return None
        return Output(self.sets, tuple(made), self.whole)


def _column_types(frame: DataFrame) -> dict[str, DataType]:
    return {item.name: item.dataType for item in frame.schema.fields}


def _row_hashes(types: Mapping[str, DataType | str]) -> tuple[str, str] | None:
    """Write two hashes of a row with different seeds; None if a type cannot be hashed."""
    parts = [_hash_arguments(quote(name), type_, 0) for name, type_ in types.items()]
    if None in parts:
        return None
    first, second = (", ".join([seed, *filter(None, parts)]) for seed in "01")
    return f"xxhash64({first})", f"xxhash64({second})"


def _hash_arguments(value: str, type_: DataType | str, depth: int) -> str | None:
    """Write the hash function's arguments for a value; None if its type cannot be hashed.

    `type_` may be the type's name if no type is nested in it.
    """
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(type_, ArrayType):
        item = f"x{depth}"
        inner = _hash_arguments(item, type_.elementType, depth + 1)
        return inner and f"size({value}), transform({value}, {item} -> xxhash64({inner}))"
    if isinstance(type_, MapType):
        entry = StructType().add("key", type_.keyType).add("value", type_.valueType)
        return _hash_arguments(f"map_entries({value})", ArrayType(entry), depth)
    if isinstance(type_, StructType):
        fields = [
            _hash_arguments(f"{value}.{quote(part.name)}", part.dataType, depth)
            for part in type_.fields
        ]
        return None if None in fields else ", ".join([f"isnull({value})", *filter(None, fields)])
    name = type_ if isinstance(type_, str) else type_.simpleString()
    if name in ("double", "float"):
        # Both zeros have one hash, but not one text.
        return f"isnull({value}), {value}, {value} = 0 AND CAST({value} AS STRING) LIKE '-%'"
    if name in _HASHABLE or name.startswith("decimal("):
        return f"isnull({value}), {value}"
    return None


def _observed_values(observation: Any) -> list[int | None] | None:
    if not hasattr(observation, "_jo"):  # Spark Connect sends them with the action's response.
        values = observation.get
        return [values[f"c{number}"] for number in range(len(values))] or None
    # Spark has the values a moment after the action.
    end = time.monotonic() + _WAIT_SECONDS
    while True:
        found = observation._jo.getRowOrEmpty()  # Itself waits a tenth of a second.
        if found.isDefined():
            text = str(found.get().mkString(","))
            return [None if part == "null" else int(part) for part in text.split(",")]
        if time.monotonic() > end:
            return None
