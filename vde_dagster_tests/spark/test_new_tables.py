"""A table that begins with a branch is the one that Spark's statement makes, in one commit."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from typing import Any

import pytest

from vde_dagster.errors import ConflictError
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.table import PhysicalTable, TableRef
from vde_dagster.project.kinds import Full, IncrementalByTimeRange, Kind
from vde_dagster.spark import SparkEngine
from vde_dagster.spark.iceberg import load_table
from vde_dagster_tests.spark.tasks import make_snapshot, make_table

pytestmark = [pytest.mark.spark]

COLUMNS = {
    "id": "bigint",
    "we`ird, näme": "varchar(10)",
    "amount": "decimal(10,2)",
    "at": "timestamp",
    "wall": "timestamp_ntz",
    "nested": "struct<a: array<struct<b: int, c: map<string, double>>>, `d e`: date>",
    "raw": "binary",
}


def metadata_of(engine: SparkEngine, table: PhysicalTable) -> dict[str, Any]:
    location = (
        load_table(engine.session, "lakehouse", table.ref)
        ._handle.operations()
        .current()
        .metadataFileLocation()
    )
    with open(str(location).removeprefix("file:"), encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


def make(
    engine: SparkEngine, snapshot: Snapshot, branch: str | None, **changes: Any
) -> PhysicalTable:
    table = replace(make_table(snapshot), **changes)
    types = tuple((c.name, str(c.type)) for c in snapshot.columns)
    engine.create_table(table, snapshot, types, branch=branch)
    return table


def new_ref() -> TableRef:
    return TableRef(f"new_{uuid.uuid4().hex}", "a.b`c")


def test_it_has_the_same_schema_layout_and_properties(spark_engine: SparkEngine) -> None:
    snapshot = make_snapshot(
        Full(),
        COLUMNS,
        description='it\'s "all" \\ here',
        column_descriptions={"id": "the \"key\" \\ 'it'"},
        table_properties=(("write.format.default", "orc"), ("it's", "x\\y")),
    )
    made = [
        metadata_of(spark_engine, make(spark_engine, snapshot, branch, ref=new_ref()))
        for branch in (None, "plan_1")
    ]
    assert [sorted(one["refs"]) for one in made] == [[], ["plan_1"]]
    assert made[1]["current-snapshot-id"] == -1
    locations = [one.pop("location") for one in made]
    assert all(location.startswith("file:/") for location in locations)
    for one in made:
        one["properties"].pop("owner", None)
        one["properties"].pop("vde.table")
        for key in ("table-uuid", "last-updated-ms", "metadata-log", "refs", "snapshots"):
            one.pop(key, None)
        one.pop("last-sequence-number")
    assert made[0] == made[1]
    assert made[0]["properties"]["comment"] == 'it\'s "all" \\ here'


@pytest.mark.parametrize(
    ("kind", "model"),
    [(IncrementalByTimeRange("at"), {}), (Full(), {"clustered_by": ("id",)})],
)
def test_a_table_with_a_layout_is_left_to_spark(
    spark_engine: SparkEngine, kind: Kind, model: dict[str, Any]
) -> None:
    snapshot = make_snapshot(kind, {"id": "bigint", "at": "timestamp"}, **model)
    made = metadata_of(spark_engine, make(spark_engine, snapshot, "plan_1", ref=new_ref()))
    assert made["refs"] == {}
    assert made["partition-specs"][-1]["fields"] or made["default-sort-order-id"] == 1


def test_creating_it_twice_keeps_the_first_and_a_stranger_is_a_conflict(
    spark_engine: SparkEngine,
) -> None:
    snapshot = make_snapshot(Full(), {"id": "bigint"})
    first = make(spark_engine, snapshot, "plan_1", ref=new_ref())
    before = metadata_of(spark_engine, first)
    spark_engine.create_table(first, snapshot, (("id", "bigint"),), branch="plan_2")
    assert metadata_of(spark_engine, first) == before
    with pytest.raises(ConflictError, match="another table"):
        make(spark_engine, snapshot, "plan_1", ref=first.ref)
