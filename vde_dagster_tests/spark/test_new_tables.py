"""A table that the lakehouse makes is the one that Spark's statement makes, with a branch."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.errors import ConflictError
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.planning.engine_tasks import FillTask
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PhysicalTable, TableRef
from vde_dagster.project.kinds import Full, IncrementalByTimeRange, Kind
from vde_dagster.spark.engine import SparkEngine
from vde_dagster.spark.models import create_table
from vde_dagster.spark.tables.columns import spark_type
from vde_dagster.spark.tables.iceberg import IcebergTable
from vde_dagster.state.store import StateStore
from vde_dagster_tests.conftest import small_spark
from vde_dagster_tests.spark.tasks import days, make_snapshot, make_table

pytestmark = [pytest.mark.spark]

COLUMNS = {
    "id": "bigint",
    "we`ird, näme": "varchar(10)",
    "amount": "decimal(10,2)",
    "at": "timestamp",
    "wall": "timestamp_ntz",
    "nested": "struct<a: array<struct<b: int, c: map<string, double>>>, `d e`: date>",
    "raw": "binary",
    "small": "tinyint",
    "short": "smallint",
    "yes": "boolean",
    "real": "float",
    "day": "date",
}


@dataclasses.dataclass
class Engines:
    """An engine and its catalog."""

    lakehouse: Lakehouse
    ours: SparkEngine

    def metadata(self, table: PhysicalTable) -> dict[str, Any]:
        """Read a table's metadata file."""
        return self.lakehouse.table_metadata(table.ref)


@pytest.fixture
def engines(spark_engine: SparkEngine, tmp_path: Path) -> Iterator[Engines]:
    """They share the JVM of `spark_engine`."""
    settings = small_spark(tmp_path)
    store = StateStore.open(settings.state_url)
    lakehouse = Lakehouse(store, settings.catalog, settings.warehouse)
    made = Engines(lakehouse, SparkEngine(settings, lakehouse=lakehouse))
    yield made
    made.ours.close()
    store.close()


def make(
    engine: SparkEngine, snapshot: Snapshot, branch: str | None, **changes: Any
) -> PhysicalTable:
    table = replace(make_table(snapshot), **changes)
    types = tuple((c.name, str(c.type)) for c in snapshot.columns)
    engine.create_table(table, snapshot, types, branch=branch)
    return table


def new_ref() -> TableRef:
    return TableRef(f"new_{uuid.uuid4().hex}", "a.b`c")


def ids_in(value: Any) -> list[int]:
    """Collect the ids of all fields, at any depth."""
    if isinstance(value, list):
        return [number for item in value for number in ids_in(item)]
    if not isinstance(value, dict):
        return []
    own = [value[key] for key in ("id", "element-id", "key-id", "value-id") if key in value]
    return [*own, *(number for item in value.values() for number in ids_in(item))]


def without_ids(value: Any) -> Any:
    """Nested fields may be numbered in any order."""
    if isinstance(value, list):
        return [without_ids(item) for item in value]
    if isinstance(value, dict):
        own = ("id", "element-id", "key-id", "value-id")
        return {key: without_ids(item) for key, item in value.items() if key not in own}
    return value


@pytest.mark.parametrize("branch", [None, "plan_1"])
def test_it_has_the_same_schema_layout_and_properties(
    engines: Engines, branch: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a table that is made by Spark's statement."""
    snapshot = make_snapshot(
        Full(),
        COLUMNS,
        description='it\'s "all" \\ here',
        column_descriptions={"id": "the \"key\" \\ 'it'"},
        table_properties=(("write.format.default", "orc"), ("it's", "x\\y")),
    )
    ours = engines.metadata(make(engines.ours, snapshot, branch, ref=new_ref()))
    monkeypatch.setattr(create_table._TableLayout, "is_plain", False)
    made = [engines.metadata(make(engines.ours, snapshot, branch, ref=new_ref())), ours]
    assert [sorted(one.pop("refs")) for one in made] == [[], [branch] if branch else []]
    for one in made:
        assert one.pop("location").startswith("file:/")
        one["properties"].pop("owner", None)
        one["properties"].pop("vde.table")
        for key in ("table-uuid", "last-updated-ms", "snapshots", "last-sequence-number"):
            one.pop(key)
        fields = one["schemas"][0]["fields"]
        assert [field["id"] for field in fields] == list(range(1, len(COLUMNS) + 1))
        assert sorted(ids_in(fields)) == list(range(1, one["last-column-id"] + 1))
        assert one["current-snapshot-id"] == -1
        one["schemas"] = without_ids(one["schemas"])
    assert made[0] == made[1]
    assert made[0]["properties"]["comment"] == 'it\'s "all" \\ here'


def test_every_type_is_written_and_read_in_it(engines: Engines) -> None:
    snapshot = make_snapshot(Full(), COLUMNS)
    table = make(engines.ours, snapshot, "plan_1", ref=new_ref())
    values = {
        "nested": "named_struct('a', array(named_struct('b', 1, 'c', map('x', 2.5D))), "
        "'d e', DATE '2024-02-29')",
        "raw": "X'00FF'",
        "at": "TIMESTAMP '2024-02-29 01:02:03'",
        "wall": "TIMESTAMP_NTZ '2024-02-29 01:02:03'",
        "day": "DATE '2024-02-29'",
        "yes": "TRUE",
    }
    selected = ", ".join(
        f"CAST({values.get(name, '1')} AS {type_}) AS `{name.replace('`', '``')}`"
        for name, type_ in COLUMNS.items()
    )
    query = f"SELECT {selected}"
    columns = tuple((c.name, c.name) for c in snapshot.columns)
    day = days(1, 2)
    task = FillTask("plan", snapshot, table, columns, day, query, {}, "plan_1", day.end)
    assert engines.ours.fill(task).rows == 1
    ref = ".".join(f"`{part.replace('`', '``')}`" for part in (table.ref.namespace, table.ref.name))
    read = f"SELECT * FROM `lakehouse`.{ref} VERSION AS OF 'plan_1'"
    assert engines.ours.query(read)[1] == engines.ours.query(query)[1]
    with_pyiceberg = engines.lakehouse.load_table(table.ref).scan().use_ref("plan_1").to_arrow()
    assert with_pyiceberg.num_rows == 1


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        (IncrementalByTimeRange("at"), {}),
        (Full(), {"clustered_by": ("id",)}),
        (Full(), {"table_properties": (("format-version", "3"),)}),
    ],
)
def test_a_table_with_a_layout_is_left_to_spark(
    engines: Engines, kind: Kind, model: dict[str, Any]
) -> None:
    snapshot = make_snapshot(kind, {"id": "bigint", "at": "timestamp"}, **model)
    made = engines.metadata(make(engines.ours, snapshot, "plan_1", ref=new_ref()))
    assert made["refs"] == {}
    sorted_by = made["default-sort-order-id"]
    assert made["partition-specs"][-1]["fields"] or sorted_by or made["format-version"] == 3


@pytest.mark.parametrize("first_by", ["ours", "plain"])
def test_creating_it_twice_keeps_the_first_and_a_stranger_is_a_conflict(
    engines: Engines, first_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = make_snapshot(Full(), {"id": "bigint"})
    with monkeypatch.context() as patch:
        if first_by == "plain":
            patch.setattr(create_table._TableLayout, "is_plain", False)
        first = make(engines.ours, snapshot, "plan_1", ref=new_ref())
    before = engines.metadata(first)
    engines.ours.create_table(first, snapshot, (("id", "bigint"),), branch="plan_2")
    assert engines.metadata(first) == before
    folder = Path(before["location"].removeprefix("file:")) / "metadata"
    files = [path for path in folder.iterdir() if not path.name.endswith(".crc")]
    assert len(files) == (2 if first_by == "ours" else 1), "nothing is left of the second try"
    with pytest.raises(ConflictError, match="another table"):
        make(engines.ours, snapshot, "plan_1", ref=first.ref)


@pytest.mark.parametrize("nested", [True, False])
def test_types_are_told_as_spark_reads_them(engines: Engines, nested: bool) -> None:
    columns = {name: type_ for name, type_ in COLUMNS.items() if nested or name != "nested"}
    table = make(engines.ours, make_snapshot(Full(), columns), None, ref=new_ref())
    session, catalog = engines.ours.session, engines.ours.settings.catalog
    fields = session.table(table.ref.quoted(catalog)).schema.fields
    told = IcebergTable(session, catalog, table.ref, engines.lakehouse).types()
    assert told == {field.name: spark_type(field.dataType) for field in fields}
    assert list(told) == list(columns)
