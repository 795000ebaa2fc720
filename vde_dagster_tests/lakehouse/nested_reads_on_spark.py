"""A search: nested tables that Spark wrote, read without it and by it.

Each seed is a table of format 2 or 3, as Parquet or ORC, with rows of two schemas and deletes as
positions or deletion vectors.
"""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.rows.scan import narrowed, scan_rows
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.lakehouse.nested_reads import Nested
from vde_dagster_tests.lakehouse.pyiceberg_tables import pyiceberg_catalog


@dataclass(frozen=True, slots=True)
class Compared:
    """Values that were compared, and those that differ, as texts."""

    values: int
    wrong: list[str]


def compare_seed(engine: SparkEngine, lakehouse: Lakehouse, seed: int, columns: int) -> Compared:
    """Write a table of a seed by Spark, and compare both ways of reading it."""
    catalog = pyiceberg_catalog(lakehouse)
    namespace = f"nested_{uuid.uuid4().hex[:10]}"
    lakehouse.catalog.create_namespaces({namespace: {}})
    some = random.Random(seed)
    nested = Nested(some)
    format_ = some.choice(("parquet", "parquet", "orc"))
    version = some.choice(("2", "3"))
    made = catalog.create_table(
        (namespace, "t"),
        nested.schema(columns),
        properties={
            "write.format.default": format_,
            "write.delete.mode": "merge-on-read",
        },
    )
    name = f"lakehouse.{namespace}.t"
    earlier = made.schema()
    # PyIceberg writes no tables of format 3.
    engine.session.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('format-version' = '{version}')")
    _append(engine, name, earlier, nested, 0)
    later = nested.later(earlier)
    _change_schema(engine, name, later)
    _append(engine, name, later, nested, 100)
    engine.session.sql(f"DELETE FROM {name} WHERE id % 5 = 2")
    told = f"seed {seed}, format {version}, {format_}"
    read = catalog.load_table((namespace, "t"))
    return _compare(engine, read, name, told)


def _append(engine: SparkEngine, name: str, schema: Schema, nested: Nested, first: int) -> None:
    types_ = schema_to_pyarrow(schema, include_field_ids=False)
    rows = pa.Table.from_pylist(nested.rows(schema, first, 12), schema=types_)
    # One file, so that deletes are of a part of it.
    engine.session.createDataFrame(rows).coalesce(1).writeTo(name).append()


def _change_schema(engine: SparkEngine, name: str, later: Schema) -> None:
    """Give a table another schema in one commit, whatever differs."""
    session: Any = engine.session
    iceberg = session._jvm.org.apache.iceberg
    operations = iceberg.spark.Spark3Util.loadIcebergTable(
        session._jsparkSession, name
    ).operations()
    base = operations.current()
    schema = iceberg.SchemaParser.fromJson(later.model_dump_json())
    operations.commit(base, base.updateSchema(schema))
    session.sql(f"REFRESH TABLE {name}")


def _compare(engine: SparkEngine, table: Table, name: str, told: str) -> Compared:
    schema = table.schema()
    by_spark = engine.session.sql(f"SELECT * FROM {name} ORDER BY id").toArrow().to_pylist()
    wanted = narrowed(schema.as_arrow(), [field.name for field in schema.fields])
    found: list[dict[str, Any]] = []
    for rows in scan_rows(table, wanted, (), AlwaysTrue()):
        found += rows.to_pylist()
    found.sort(key=lambda row: row["id"])
    if [row["id"] for row in found] != [row["id"] for row in by_spark]:
        return Compared(0, [f"{told}: other rows"])
    wrong = [
        f"{told}, {column} of {schema.find_field(column).field_type}: {ours[column]!r} is "
        f"{theirs[column]!r} in Spark"
        for ours, theirs in zip(found, by_spark, strict=True)
        for column in ours
        if ours[column] != theirs[column]
    ]
    return Compared(len(found) * len(schema.fields), wrong)
