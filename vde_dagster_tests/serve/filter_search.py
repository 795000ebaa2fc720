"""Random filters on a table of every type, and what DuckDB says of each.

The table has files with statistics and without, rows of NULL alone, partitions of NULL, NaN, dates
that Python does not know, and a column that was an INT and is a BIGINT.
"""

from __future__ import annotations

import random
import struct
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from pyiceberg import transforms, types
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import write_file
from pyiceberg.schema import Schema
from pyiceberg.table import Table, WriteTask
from pyiceberg.typedef import Record

from vde_dagster.lakehouse.rows.bind_filter import bind_filter
from vde_dagster.lakehouse.rows.filter_values import to_days
from vde_dagster.lakehouse.rows.row_filters import parse_filter
from vde_dagster.lakehouse.rows.scan import scan_rows

INNER = types.StructType(
    types.NestedField(101, "a", types.IntegerType()),
    types.NestedField(102, "t", types.StringType()),
)
COLUMNS: dict[str, tuple[types.IcebergType, str]] = {
    "n": (types.LongType(), "BIGINT"),
    "i": (types.IntegerType(), "INTEGER"),
    "l": (types.LongType(), "BIGINT"),
    "wide": (types.LongType(), "BIGINT"),
    "f": (types.FloatType(), "FLOAT"),
    "d": (types.DoubleType(), "DOUBLE"),
    "m": (types.DecimalType(9, 2), "DECIMAL(9, 2)"),
    "big": (types.DecimalType(38, 6), "DECIMAL(38, 6)"),
    "s": (types.StringType(), "VARCHAR"),
    "b": (types.BinaryType(), "BLOB"),
    "u": (types.UUIDType(), "UUID"),
    "flag": (types.BooleanType(), "BOOLEAN"),
    "day": (types.DateType(), "DATE"),
    "far": (types.DateType(), "DATE"),
    "moment": (types.TimestampType(), "TIMESTAMP"),
    "instant": (types.TimestamptzType(), "TIMESTAMPTZ"),
    "clock": (types.TimeType(), "TIME"),
    "st": (INNER, "STRUCT(a INTEGER, t VARCHAR)"),
    "li": (types.ListType(103, types.IntegerType(), False), "INTEGER[]"),
    "ma": (
        types.MapType(104, types.StringType(), 105, types.IntegerType(), False),
        "MAP(VARCHAR, INTEGER)",
    ),
}
_NAN = float("nan")
_UUIDS = [uuid.UUID(int=number) for number in (0, 7, 2**127, 2**128 - 1)]
_TEXTS = ["", "a", "ab", "a_", "a%", "a\\", "ä", "abc\ndef", "B", "b", "𝄞x", "it's", "7"]
_BYTES = [b"", b"\x00", b"\x00\xff", b"a", b"\xff\xff"]
_DAYS = [
    *((1970, "01-01"), (1969, "12-30"), (0, "02-29"), (10_000, "01-01"), (9_999, "12-31")),
    *((-44, "03-15"), (1, "01-01"), (-44, "03-16"), (200_000, "01-01"), (1970, "01-03")),
]
_FIRST = datetime(1969, 12, 30, 22)
_SINGLE = struct.Struct("f")


def _single(value: float) -> float:
    return float(_SINGLE.unpack(_SINGLE.pack(value))[0])


def _value(name: str, some: random.Random) -> Any:
    if some.random() < 0.2:
        return None
    if name in ("i", "wide"):
        return some.choice([0, 1, 7, 8, -3, 2**31 - 1, -(2**31), some.randint(-20, 20)])
    if name == "l":
        return some.choice([0, 7, 8, -1, 2**63 - 1, -(2**63), 2**53 + 1, some.randint(-20, 20)])
    if name in ("f", "d"):
        inf = float("inf")
        found = some.choice([_NAN, _NAN, 0.0, -0.0, 0.1, 7.5, -2.25, inf, -inf, 1e30, 16777217.0])
        return _single(found) if name == "f" else found
    if name == "m":
        return Decimal(some.choice([0, 1, 750, -725, 999_999_999, some.randint(-999, 999)])) / 100
    if name == "big":
        return Decimal(some.choice(["0.000001", "-7.5", "99999999999999999999999999999999.999999"]))
    if name == "day":
        return date(1970, 1, 1) + timedelta(some.randint(-5, 5))
    if name == "far":
        return some.choice([to_days(*one) for one in ((0, 2, 29), (10_000, 1, 1), (-44, 3, 15))])
    if name in ("moment", "instant"):
        at = _FIRST + timedelta(
            hours=some.randint(0, 96), microseconds=some.choice([0, 1, 999_999])
        )
        return at if name == "moment" else at.replace(tzinfo=timezone.utc)
    if name == "clock":
        return some.choice([time(0), time(6, 30), time(23, 59, 59, 999_999)])
    if name == "st":
        return {"a": some.choice([None, 1, 7]), "t": some.choice([None, "x", "y"])}
    if name == "li":
        return some.choice([[], [1], [None]])
    if name == "ma":
        return some.choice([[], [("k", 1)], [("k", None)]])
    choices: dict[str, list[Any]] = {"s": _TEXTS, "b": _BYTES, "flag": [True, False]}
    return some.choice(choices[name]) if name in choices else some.choice(_UUIDS).bytes


def _literal(name: str, some: random.Random) -> tuple[str, str]:
    """Return a value as this server reads it, and as DuckDB does."""
    if name in ("n", "i", "l", "wide"):
        text = some.choice(
            [
                *("7", "7.5", "-3", "8.0", "5", "0.000001", "6.999999", "-1e0", "9007199254740993"),
                *("2147483647", "2147483648", "-2147483648.5", "9223372036854775807"),
                *("9223372036854775807.5", "9999999999999999999", "-9223372036854775808"),
                "-9999999999999999999",
            ]
        )
        return text, text.replace("e0", "")
    if name in ("m", "big"):
        text = some.choice(["7.5", "-7.25", "7.255", "0", "9999999.99", "10000000", "0.000001"])
        return text, text
    if name in ("f", "d"):
        text = some.choice(
            [
                *("0", "0.1", "7.5", "-2.25", "7", "16777217", "16777216.5", "0.3", "-0.0"),
                *("'NaN'", "'inf'", "'-inf'", "1000000000000000000000000000000"),
            ]
        )
        return text, f"CAST({text} AS {COLUMNS[name][1]})"
    if name == "s":
        text = "'" + some.choice([*_TEXTS, "zz", "a'"]).replace("'", "''") + "'"
        return text, text
    if name == "b":
        found = some.choice([*_BYTES, b"zz"])
        return f"X'{found.hex()}'", f"from_hex('{found.hex()}')"
    if name == "u":
        text = f"'{some.choice([*_UUIDS, uuid.UUID(int=8)])}'"
        return text, f"CAST({text} AS UUID)"
    if name == "flag":
        text = some.choice(["true", "false", "TRUE"])
        return text, text
    if name in ("day", "far"):
        year, rest = some.choice(_DAYS)
        shown = f"{year:04}-{rest}" if year > 0 else f"{1 - year:04}-{rest} (BC)"
        return f"'{year:05}-{rest}'" if year < 0 else f"'{year:04}-{rest}'", f"DATE '{shown}'"
    if name in ("moment", "instant"):
        at = _FIRST + timedelta(hours=some.randint(0, 96), microseconds=some.choice([0, 1]))
        kind = COLUMNS[name][1]
        if name == "moment":
            text = at.isoformat(some.choice("T "))
            return f"'{text}'", f"CAST('{text}' AS {kind})"
        ahead = some.choice([0, 2, -5])
        shown = at.replace(tzinfo=timezone.utc).astimezone(timezone(timedelta(hours=ahead)))
        text = shown.isoformat().replace("+00:00", some.choice(["Z", "+00:00", ""]))
        return f"'{text}'", f"CAST('{at}+00' AS {kind})"
    text = some.choice(["'00:00:00'", "'06:30'", "'23:59:59.999999'", "'12:00:00'"])
    return text, f"CAST({text.replace('30', '30:00').replace(':00:00:00', ':00:00')} AS TIME)"


_PATTERNS = ["a%", "a_", "a", "%", "_", "", "%b%", r"a\_", r"a\%", "ä", "_x", r"a\\", "abc%", "a%f"]


def _leaf(some: random.Random) -> tuple[str, str]:
    name = some.choice(list(COLUMNS))
    own = theirs = name
    if name == "st" and some.random() < 0.7:
        name, own, theirs = some.choice([("i", "st.a", "st.a"), ("s", "st.t", "st.t")])
    nested = name in ("st", "li", "ma")
    form = some.choice(["compare", "compare", "among", "null", "between", "like", "mirror", "nan"])
    shown = own.upper() if some.random() < 0.1 else own
    negated = some.choice(["", "NOT "])
    if nested or form == "null" or (form == "nan" and name not in ("f", "d")):
        return f"{shown} IS {negated}NULL", f"{theirs} IS {negated}NULL"
    if form == "nan":
        return f"{shown} IS {negated}NaN", f"{negated}coalesce(isnan({theirs}), false)"
    if form == "like" and name == "s":
        pattern = some.choice(_PATTERNS)
        return (
            f"{shown} {negated}LIKE '{pattern}'",
            f"{theirs} {negated}LIKE '{pattern}' ESCAPE '\\'",
        )
    if name in ("n", "i", "l", "wide") and COLUMNS.get(own, ("", ""))[1] != "DOUBLE":
        # DuckDB would read some of these numbers as floating-point ones.
        theirs = f"CAST({theirs} AS DECIMAL(38, 8))"
    if form == "among":
        values = [_literal(name, some) for _ in range(some.randint(1, 4))]
        left, right = (", ".join(value[side] for value in values) for side in (0, 1))
        return f"{shown} {negated}IN ({left})", f"{theirs} {negated}IN ({right})"
    low, high = _literal(name, some), _literal(name, some)
    if form == "between":
        return (
            f"{shown} {negated}BETWEEN {low[0]} AND {high[0]}",
            f"{theirs} {negated}BETWEEN {low[1]} AND {high[1]}",
        )
    sign = some.choice(["=", "==", "!=", "<>", "<", "<=", ">", ">="])
    if form == "mirror":
        return f"{low[0]} {sign} {shown}", f"{low[1]} {sign} {theirs}"
    return f"{shown}{sign}{low[0]}", f"{theirs} {sign} {low[1]}"


def random_filter(some: random.Random, depth: int = 3) -> tuple[str, str]:
    """Return a condition as this server reads it, and as DuckDB does."""
    form = some.choice(["leaf", "leaf", "and", "or", "not"]) if depth else "leaf"
    if form == "leaf":
        if some.random() < 0.03:
            return ("true", "true") if some.random() < 0.5 else ("FALSE", "FALSE")
        return _leaf(some)
    if form == "not":
        own, theirs = random_filter(some, depth - 1)
        return f"NOT ({own})", f"NOT ({theirs})"
    parts = [random_filter(some, depth - 1) for _ in range(2)]
    join = f" {form.upper()} "
    return f"({parts[0][0]}){join}({parts[1][0]})", f"({parts[0][1]}){join}({parts[1][1]})"


_FIELDS = {name: number for number, name in enumerate(COLUMNS, 1)}
_SPECS: list[list[tuple[str, Any]]] = [
    [],
    [("flag", transforms.IdentityTransform()), ("moment", transforms.YearTransform())],
    [("l", transforms.BucketTransform(3))],
    [("s", transforms.TruncateTransform(1))],
    [("i", transforms.TruncateTransform(16))],
    [("day", transforms.IdentityTransform())],
    [("m", transforms.TruncateTransform(1_000))],
    [("instant", transforms.DayTransform())],
]


@dataclass(frozen=True)
class Searched:
    """A table, and the same rows in DuckDB.

    Args:
        table: The table.
        duck: DuckDB with the table `rows`.
    """

    table: Table
    duck: duckdb.DuckDBPyConnection

    def ours(self, text: str) -> list[int]:
        """Return the numbers of the rows that a filter lets through."""
        test = bind_filter(parse_filter(text), self.table.schema(), "the filter")
        wanted = pa.schema([("n", pa.int64())])
        found = scan_rows(self.table, wanted, [test], AlwaysTrue())
        return sorted(number for rows in found for number in rows["n"].to_pylist())

    def theirs(self, condition: str) -> list[int]:
        """Return those that DuckDB lets through."""
        asked = self.duck.execute(f"SELECT n FROM rows WHERE {condition} ORDER BY n")
        return [number for (number,) in asked.fetchall()]


def make_tables(folder: Path, seed: int, count: int) -> Iterator[Searched]:
    """Make tables of the same columns, each partitioned in another way, the first not at all."""
    catalog = SqlCatalog("search", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
    catalog.create_namespace("s")
    others = random.Random(seed).sample(_SPECS[1:], min(count, len(_SPECS)) - 1)
    for number, parts in enumerate([_SPECS[0], *others]):
        yield _make_table(catalog, f"t{number}", parts, random.Random(f"{seed} {number}"))


def _make_table(catalog: SqlCatalog, name: str, parts: list[Any], some: random.Random) -> Searched:
    first = {**COLUMNS, "wide": (types.IntegerType(), "INTEGER")}
    schema = Schema(
        *(types.NestedField(_FIELDS[one], one, kind) for one, (kind, _) in first.items())
    )
    # PyIceberg writes no statistics of dates that Python does not know.
    table = catalog.create_table(
        ("s", name), schema, properties={"write.metadata.metrics.column.far": "none"}
    )
    with table.update_spec() as update:
        for one, transform in parts:
            update.add_field(one, transform, f"part_{one}")
    whole = []
    for part in range(3):
        if part == 1:
            with table.update_schema() as change:
                change.update_column("wide", types.LongType())
        if part == 1 and some.random() < 0.5:
            table.transaction().set_properties(
                {"write.metadata.metrics.default": "none"}
            ).commit_transaction()
        rows = [
            {one: None if part == 2 else _value(one, some) for one in COLUMNS}
            for _ in range(2 if part == 2 else 30)
        ]
        for at, row in enumerate(rows, 30 * part):
            row["n"] = at
        arrow = table.schema().as_arrow()
        arrays = [_array([row[one] for row in rows], arrow.field(one)) for one in COLUMNS]
        batch = pa.Table.from_arrays(arrays, schema=arrow)
        _append(table, batch, parts)
        whole.append(batch)
    duck = duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'")
    found = pa.concat_tables(whole, promote_options="permissive")
    index = found.schema.get_field_index("u")
    plain = pa.array([str(uuid.UUID(bytes=one)) if one else None for one in _bytes(found["u"])])
    found = found.set_column(index, "u", plain)
    duck.register("arrow_rows", found)
    casts = ", ".join(f"CAST({one} AS {kind}) AS {one}" for one, (_, kind) in COLUMNS.items())
    duck.execute(f"CREATE TABLE rows AS SELECT {casts} FROM arrow_rows")
    return Searched(catalog.load_table(("s", name)), duck)


@dataclass(frozen=True)
class _Partition:
    partition: Record

    def to_path(self) -> str:
        return uuid.uuid4().hex


def _append(table: Table, rows: pa.Table, parts: list[tuple[str, Any]]) -> None:
    """Append rows as files by partitions, as PyIceberg does by values alone."""
    keys = []
    for name, transform in parts:
        change = transform.transform(COLUMNS[name][0])
        keys.append([None if one is None else change(one) for one in _inner(rows[name])])
    grouped: dict[tuple[Any, ...], list[int]] = {}
    for number in range(rows.num_rows):
        grouped.setdefault(tuple(key[number] for key in keys), []).append(number)
    tasks = []
    for number, (key, numbers) in enumerate(grouped.items()):
        batches = rows.take(numbers).combine_chunks().to_batches()
        partition: Any = _Partition(Record(*key)) if parts else None
        tasks.append(WriteTask(uuid.uuid4(), number, table.schema(), batches, None, partition))
    with table.transaction() as change, change.update_snapshot().fast_append() as added:
        for file in write_file(table.io, table.metadata, iter(tasks)):
            added.append_data_file(file)


def _inner(column: pa.ChunkedArray) -> list[Any]:
    """Return values as Iceberg's transforms take them."""
    type_ = column.type
    if isinstance(type_, pa.BaseExtensionType):
        return _bytes(column)
    if pa.types.is_date(type_):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(type_):
        column = column.cast(pa.int64())
    found: list[Any] = column.to_pylist()
    return found


def _array(values: list[Any], field: pa.Field) -> pa.Array:
    if pa.types.is_date(field.type):
        plain = [
            one if one is None or isinstance(one, int) else (one - date(1970, 1, 1)).days
            for one in values
        ]
        return pa.array(plain, pa.int32()).cast(field.type)
    if isinstance(field.type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(field.type, pa.array(values, field.type.storage_type))
    return pa.array(values, field.type)


def _bytes(column: pa.ChunkedArray) -> list[bytes | None]:
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.cast(column.type.storage_type)
    found: list[bytes | None] = column.to_pylist()
    return found


def search(folder: Path, seed: int, count: int, tables: int) -> list[str]:
    """Compare some filters on some tables with DuckDB, and return those that differ or fail."""
    some = random.Random(seed)
    made = list(make_tables(folder, seed, tables))
    wrong = []
    for number in range(count):
        own, theirs = random_filter(some)
        table = made[number % len(made)]
        expected = table.theirs(theirs)
        try:
            found: Any = table.ours(own)
        except Exception as error:  # whatever it is, the filter is right
            found = repr(error)
        if found != expected:
            wrong.append(f"{own}\n  DuckDB: {theirs}\n  {expected}, and here {found}")
    return wrong
