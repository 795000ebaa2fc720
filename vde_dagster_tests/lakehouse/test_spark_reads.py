"""Real Spark, PyIceberg and DuckDB read what publications wrote without Spark."""

from __future__ import annotations

import importlib.metadata
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from vde_dagster.base.names import quote
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.maintenance.janitor import clean
from vde_dagster.lakehouse.metadata.commit_summaries import TABLE_KEY
from vde_dagster.lakehouse.publishing.commit import read_table
from vde_dagster.lakehouse.publishing.pins import pinned_tables
from vde_dagster.lakehouse.publishing.publication import FastForward, Publication
from vde_dagster.planning.engine_tasks import ViewDefinition
from vde_dagster.planning.environments.environment import Environment, HeldState
from vde_dagster.planning.tables.pinned_reads import pinned_select
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.spark.engine import SparkEngine
from vde_dagster.state.retention import Retention
from vde_dagster.state.store import StateStore
from vde_dagster_tests.state.builders import environment, table, view

pytestmark = pytest.mark.spark


class Scene:
    """A lakehouse that a Spark session reads, with an environment of its own per test."""

    def __init__(self, engine: SparkEngine) -> None:
        self.session = engine.session
        url = engine.settings.state_url
        assert url is not None
        self.store = StateStore.open(url)
        self.lakehouse = Lakehouse(self.store, "lakehouse", str(engine.settings.warehouse))
        self.name = f"t{uuid.uuid4().hex[:10]}"
        self.lakehouse.catalog.create_namespaces({self.physical: {}})
        self.version = 0

    @property
    def physical(self) -> str:
        return f"physical_{self.name}"

    def value(self) -> Environment:
        return environment(self.name, at=self.store.database.clock.now())

    def publish(self, *views: ViewDefinition, **more: Any) -> None:
        made = Publication(self.value(), self.version, views, **more)
        self.version = self.lakehouse.publish(made).version

    def view(self, name: str, sql: str, **more: Any) -> ViewDefinition:
        return view(name, sql, namespace=self.name, **more)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.session.sql(sql).collect()]

    def table(self, name: str, columns: str = "a INT") -> PhysicalTable:
        made = table(name)
        made = replace(made, ref=replace(made.ref, namespace=self.physical))
        self.store.tables.ensure(replace(made, fill_version=uuid.uuid4().hex))
        location = self.lakehouse.table_location(made.ref, made.id)
        self.session.sql(
            f"CREATE TABLE lakehouse.{made.ref} ({columns}) USING iceberg LOCATION '{location}' "
            f"TBLPROPERTIES ('{TABLE_KEY}' = '{made.id}')"
        )
        self.store.tables.mark_created(made, [])
        return made


@pytest.fixture
def scene(spark_engine: SparkEngine) -> Iterator[Scene]:
    made = Scene(spark_engine)
    yield made
    made.store.close()


TYPES = """x INT, `a,b` STRING, `q``t` STRUCT<a: INT, `we ird`: ARRAY<DECIMAL(10,2)>>,
    m MAP<STRING, TIMESTAMP_NTZ>, d DATE, ts TIMESTAMP, bin BINARY, f FLOAT, g DOUBLE,
    ok BOOLEAN, l BIGINT"""


def test_every_type_and_any_name_is_read_by_spark(scene: Scene) -> None:
    made = scene.table("t", TYPES)
    scene.session.sql(f"INSERT INTO lakehouse.{made.ref} (x, `a,b`) VALUES (1, 'one')")
    columns = scene.lakehouse.relation_columns(made.ref)
    selected = ", ".join(quote(name) for name, _, _ in columns)
    sql = f"SELECT {selected} FROM `lakehouse`.{made.ref}"
    names = ["select", "we`ird", 'do"uble', "it's", "ünï✓", "dot.ted", "per%cent", "n" * 200]
    scene.publish(*(scene.view(name, sql, columns=columns, trino=None) for name in names))
    for name in names:
        (row,) = scene.rows(f"SELECT * FROM lakehouse.{scene.name}.{quote(name)}")
        assert row[:2] == (1, "one")
    described = scene.rows(f"DESCRIBE lakehouse.{scene.name}.`select`")
    assert [row[0] for row in described][: len(columns)] == [name for name, _, _ in columns]


def test_renamed_columns_comments_and_history_are_seen(scene: Scene) -> None:
    made = scene.table("t")
    sql = f"SELECT a AS `Neu er` FROM lakehouse.{made.ref}"
    scene.publish(scene.view("v", sql, columns=[("Neu er", "INT", "it's new")]))
    scene.publish(scene.view("v", f"{sql} WHERE a > 0", columns=[("Neu er", "INT", "it's new")]))
    described = scene.rows(f"DESCRIBE lakehouse.{scene.name}.v")
    assert described[0] == ("Neu er", "int", "it's new")
    properties = dict(scene.rows(f"SHOW TBLPROPERTIES lakehouse.{scene.name}.v"))
    assert properties["vde.snapshot"] == "s1"


def test_a_view_of_a_pinned_state_reads_it_whatever_becomes_of_the_table(scene: Scene) -> None:
    """Columns keep their names, values and types, as snapshots are read with their own schema."""
    made = scene.table("t", "a INT, b STRING, c INT, day DATE")
    name = f"lakehouse.{made.ref}"
    scene.session.sql(f"ALTER TABLE {name} ADD PARTITION FIELD day")
    scene.session.sql(f"INSERT INTO {name} VALUES (1, 'one', 10, DATE '2024-01-01')")
    scene.session.sql(f"ALTER TABLE {name} ADD COLUMN late STRING")
    (pin,) = scene.rows(f"SELECT snapshot_id FROM {name}.snapshots")
    metadata = read_table(scene.lakehouse, made.ref).metadata
    held = HeldState(pin[0], int(metadata["current-schema-id"]))
    pinned = pinned_tables(scene.lakehouse, {"t": (made.ref, held)})["t"]
    columns = [("x", "a"), ("b", "b"), ("c", "c"), ("late", "late")]
    types = [(out, pinned.columns[physical], None) for out, physical in columns]
    sql = pinned_select(f"`lakehouse`.{made.ref}", pinned, columns)
    over = f"WITH w AS (SELECT v.x, n.c FROM ({sql}) AS v JOIN ({sql}) AS n ON v.x = n.x)"
    total = [("x", "INT", None), ("c", "BIGINT", None)]
    scene.publish(
        scene.view("v", sql, columns=types),
        scene.view("total", f"{over} SELECT x, sum(c) AS c FROM w GROUP BY x", columns=total),
    )
    for change in (
        "RENAME COLUMN a TO renamed",
        "DROP COLUMN c",
        "ADD COLUMN c STRING",
        "ADD COLUMN a INT",
        "ALTER COLUMN renamed TYPE BIGINT",
        "DROP PARTITION FIELD day",
    ):
        scene.session.sql(f"ALTER TABLE {name} {change}")
    scene.session.sql(f"DELETE FROM {name}")
    scene.session.sql(f"INSERT INTO {name} (renamed, b, c, a) VALUES (5000000000, 'two', 'new', 7)")
    assert scene.rows(f"SELECT * FROM lakehouse.{scene.name}.v") == [(1, "one", 10, None)]
    assert scene.rows(f"SELECT * FROM lakehouse.{scene.name}.total") == [(1, 10)]
    described = scene.rows(f"DESCRIBE lakehouse.{scene.name}.v")
    assert [row[1] for row in described] == ["int", "string", "int", "string"]


def test_stray_replacement_by_spark_is_refused(scene: Scene) -> None:
    scene.publish(scene.view("v", "SELECT 1 AS a"))
    with pytest.raises(Exception, match="drop"):
        scene.session.sql(f"CREATE OR REPLACE VIEW lakehouse.{scene.name}.v AS SELECT 2 AS a")
    assert scene.rows(f"SELECT * FROM lakehouse.{scene.name}.v") == [(1,)]


def test_branches_of_two_tables_move_together_and_take_commits_on_top(scene: Scene) -> None:
    tables = [scene.table(name) for name in ("one", "two")]
    for made in tables:
        scene.session.sql(f"INSERT INTO lakehouse.{made.ref} VALUES (1)")
        scene.session.sql(f"ALTER TABLE lakehouse.{made.ref} CREATE BRANCH vde_p1")
        scene.session.sql(f"INSERT INTO lakehouse.{made.ref}.branch_vde_p1 VALUES (2)")
        assert scene.rows(f"SELECT count(*) FROM lakehouse.{made.ref}") == [(1,)]
    scene.publish(fast_forwards=tuple(FastForward(m.ref, m.id, "vde_p1") for m in tables))
    for made in tables:
        assert scene.rows(f"SELECT count(*) FROM lakehouse.{made.ref}") == [(2,)]
        scene.session.sql(f"INSERT INTO lakehouse.{made.ref} VALUES (3)")
        refs = scene.rows(f"SELECT name FROM lakehouse.{made.ref}.refs")
        assert refs == [("main",)]
        arrow = scene.lakehouse.load_table(made.ref).scan().to_arrow()
        assert sorted(arrow["a"].to_pylist()) == [1, 2, 3]


def test_reader_every_50_ms_never_finds_a_view_missing_or_an_old_one_after_a_new_one(
    scene: Scene,
) -> None:
    names = [f"v{number}" for number in range(5)]
    columns = [("a", "INT", None)]

    def publish(number: int) -> None:
        scene.publish(*(scene.view(n, f"SELECT {number} AS a", columns=columns) for n in names))

    publish(0)
    stop = threading.Event()
    problems: list[str] = []
    reads: list[int] = []

    def read() -> None:
        newest = 0
        number = 0
        while not stop.is_set():
            name = names[number % len(names)]
            try:
                ((value,),) = scene.rows(f"SELECT a FROM lakehouse.{scene.name}.{name}")
            except Exception as error:
                problems.append(f"{name}: {error}")
                return
            if value < newest:
                problems.append(f"{name} shows {value} after {newest} was seen")
            newest = max(newest, value)
            number += 1
            reads.append(value)
            time.sleep(0.05)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(1, 25):
        publish(number)
        time.sleep(0.1)
    stop.set()
    reader.join()
    assert problems == []
    assert len(set(reads)) > 3, "the reader saw too little to prove anything"


def test_files_of_forgotten_snapshots_are_deleted_and_the_rest_is_read(scene: Scene) -> None:
    made = scene.table("t")
    for number in range(4):
        scene.session.sql(f"INSERT OVERWRITE lakehouse.{made.ref} VALUES ({number})")
    folder = Path(scene.lakehouse.table_location(made.ref, made.id).removeprefix("file://"))
    assert len(list(folder.rglob("*.parquet"))) == 4
    at_once = Retention(cap=0, cap_floor=0, grace=timedelta(0))
    for _ in range(2):
        report = clean(scene.lakehouse, at_once, timedelta(0))
        assert report.failures == ()
    assert len(list(folder.rglob("*.parquet"))) == 1
    assert scene.rows(f"SELECT a FROM lakehouse.{made.ref}") == [(3,)]
    scene.session.sql(f"INSERT INTO lakehouse.{made.ref} VALUES (9)")
    assert scene.rows(f"SELECT count(*) FROM lakehouse.{made.ref}") == [(2,)]


def test_duckdb_reads_a_table_that_was_fast_forwarded(scene: Scene) -> None:
    made = scene.table("t")
    scene.session.sql(f"INSERT INTO lakehouse.{made.ref} VALUES (1)")
    scene.session.sql(f"ALTER TABLE lakehouse.{made.ref} CREATE BRANCH vde_p1")
    scene.session.sql(f"INSERT INTO lakehouse.{made.ref}.branch_vde_p1 VALUES (2)")
    scene.publish(fast_forwards=(FastForward(made.ref, made.id, "vde_p1"),))
    location = scene.lakehouse.metadata_location(made.ref)
    assert location is not None
    packages = importlib.metadata.distribution("duckdb-ext-iceberg").locate_file("")
    with duckdb.connect() as conn:
        conn.execute("SET extension_directory = ?", [f"{packages}/duckdb_ext/extensions"])
        conn.execute("SET autoinstall_known_extensions = false")
        conn.execute("LOAD avro")
        conn.execute("LOAD iceberg")
        rows = conn.execute(f"SELECT a FROM iceberg_scan('{location}') ORDER BY a").fetchall()
    assert rows == [(1,), (2,)]
