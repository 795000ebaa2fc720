"""Types between Spark SQL and Iceberg."""

from __future__ import annotations

import itertools

import pytest

from vde_dagster.errors import ExecutionError
from vde_dagster.lakehouse.metadata.types import build_schema, iceberg_to_spark, spark_to_iceberg

ROUND_TRIPS = [
    "BOOLEAN",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DATE",
    "TIMESTAMP",
    "TIMESTAMP_NTZ",
    "STRING",
    "BINARY",
    "DECIMAL(38,18)",
    "ARRAY<INT>",
    "MAP<STRING, ARRAY<DOUBLE>>",
    "STRUCT<a: INT, b: STRUCT<c: DATE, `it's ``odd`` €`: STRING>>",
    "ARRAY<MAP<STRING, STRUCT<x: DECIMAL(10,2)>>>",
    "STRUCT<>",
]


@pytest.mark.parametrize("sql", ROUND_TRIPS)
def test_type_survives_the_way_there_and_back(sql: str) -> None:
    parsed = spark_to_iceberg(sql, itertools.count(1).__next__)
    assert iceberg_to_spark(parsed) == sql
    assert spark_to_iceberg(sql.lower(), itertools.count(1).__next__) is not None


@pytest.mark.parametrize(
    ("sql", "iceberg"),
    [
        ("tinyint", "int"),
        ("smallint", "int"),
        ("varchar(10)", "string"),
        ("char( 3 )", "string"),
        ("string collate UTF8_LCASE", "string"),
        ("decimal", "decimal(10, 0)"),
        ("timestamp_ltz", "timestamptz"),
        ("void", "string"),
    ],
)
def test_narrow_types_become_what_iceberg_has(sql: str, iceberg: str) -> None:
    assert spark_to_iceberg(sql, itertools.count().__next__) == iceberg


def test_struct_fields_keep_comments_and_quotes() -> None:
    sql = r"struct<a: int not null comment 'it\'s', `b``c` string comment 'x''y'>"
    parsed = spark_to_iceberg(sql, itertools.count(5).__next__)
    assert [(f["id"], f["name"], f.get("doc")) for f in parsed["fields"]] == [
        (5, "a", "it's"),
        (6, "b`c", "x'y"),
    ]


@pytest.mark.parametrize("sql", ["interval day", "geometry", "array<int", "struct<a>", "int)", ""])
def test_type_that_iceberg_lacks_is_one_clear_error(sql: str) -> None:
    with pytest.raises(ExecutionError, match="is not supported"):
        spark_to_iceberg(sql, itertools.count().__next__)


def test_ids_are_unique_and_columns_come_first() -> None:
    schema = build_schema([("a", "ARRAY<STRUCT<x: INT>>", None), ("b", "INT", "the b")])
    text = str(schema)
    assert [field["id"] for field in schema["fields"]] == [0, 1]
    assert schema["fields"][0]["type"]["element-id"] == 2
    assert schema["fields"][0]["type"]["element"]["fields"][0]["id"] == 3
    assert "the b" in text
