"""Spark, PyIceberg and DuckDB read every kind of model through a real server, Spark views too."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from vde_dagster.execution.workspace import Workspace
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.execution.conftest import open_workspace
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.serve.served_process import Served, serving, vde
from vde_dagster_tests.serve.test_duckdb import attach as attach_duck
from vde_dagster_tests.serve.test_duckdb import duck

pytestmark = [pytest.mark.spark, pytest.mark.server]
__all__ = ["duck", "open_workspace"]

FILES = {
    "models/seeded.sql": """
        MODEL (name raw.seeded, kind SEED (path '../seeds/seeded.csv'),
          columns (id INT, word STRING, day DATE));
    """,
    "seeds/seeded.csv": "id,word,day\n1,a,2024-01-01\n2,,2024-01-02\n3,ü,2024-01-02\n",
    "models/whole.sql": """
        MODEL (name marts.whole, kind FULL, partitioned_by (day));
        SELECT id, word, day, CAST(id AS DECIMAL(10, 2)) AS amount FROM raw.seeded
    """,
    "models/daily.sql": """
        MODEL (name marts.daily, start '2024-01-01',
          kind INCREMENTAL_BY_TIME_RANGE (time_column day));
        SELECT day, count(*) AS n FROM raw.seeded WHERE day BETWEEN @start_date AND @end_date
        GROUP BY day
    """,
    "models/keyed.sql": """
        MODEL (name marts.keyed, kind INCREMENTAL_BY_UNIQUE_KEY (unique_key id));
        SELECT id, word FROM raw.seeded
    """,
    "models/lives.sql": """
        MODEL (name marts.lives, kind SCD_TYPE_2_BY_COLUMN (unique_key id, columns [word]));
        SELECT id, word FROM raw.seeded
    """,
    "models/hidden.sql": """
        MODEL (name marts.hidden, kind EMBEDDED); SELECT id, day FROM raw.seeded WHERE id > 1
    """,
    "models/parts.sql": """
        MODEL (name marts.parts, kind INCREMENTAL_BY_PARTITION, partitioned_by (day),
          start '2024-01-01');
        SELECT id, day FROM raw.seeded WHERE day BETWEEN @start_date AND @end_date
    """,
    "models/added.sql": """
        MODEL (name marts.added, kind INCREMENTAL_UNMANAGED, start '2024-01-01');
        SELECT id, day FROM raw.seeded WHERE day BETWEEN @start_date AND @end_date
    """,
    "models/timed.sql": """
        MODEL (name marts.timed, kind SCD_TYPE_2_BY_TIME (unique_key id, updated_at_name at));
        SELECT id, word, CAST(day AS TIMESTAMP) AS at FROM raw.seeded
    """,
    "models/kept.sql": """
        MODEL (name marts.kept, kind CUSTOM (materialization 'whole'));
        SELECT id, word, day FROM raw.seeded
    """,
    "materializations/whole.py": """
        from pyspark.sql import functions as f

        from vde_dagster import materialization


        @materialization("whole")
        def write(rows, target):
            target.writer(rows).overwrite(f.lit(True))
    """,
    "models/coded.py": """
        from vde_dagster import model


        @model("marts.coded", columns={"day": "DATE", "n": "BIGINT"}, depends_on=["raw.seeded"])
        def execute(context, start, end, execution_time, **more):
            seeded = context.resolve_table("raw.seeded")
            return context.spark.sql(f"SELECT day, count(*) AS n FROM {seeded} GROUP BY day")
    """,
    "external_models.yaml": """
        - name: lake.rates
          columns: {rate: int, day: date}
    """,
    "models/rated.sql": """
        MODEL (name marts.rated, kind FULL); SELECT max(rate) AS rate FROM lake.rates
    """,
    "models/picked.sql": """
        MODEL (name marts.picked, kind VIEW); SELECT word, id AS number FROM raw.seeded
    """,
    "models/seen.sql": """
        MODEL (name marts.seen, kind VIEW);
        SELECT h.day, count(*) AS n, max(w.word) AS word
        FROM marts.hidden AS h JOIN marts.whole AS w USING (id) GROUP BY h.day
    """,
    "models/seen_again.sql": """
        MODEL (name marts.seen_again, kind VIEW); SELECT day, n FROM marts.seen WHERE n > 1
    """,
}
EXTERNAL = "lake.rates"
TABLES = (
    *("raw.seeded", "marts.whole", "marts.daily", "marts.keyed", "marts.lives", "marts.timed"),
    *("marts.parts", "marts.added", "marts.picked", "marts.kept", "marts.coded", "marts.rated"),
    EXTERNAL,
)
VIEWS = ("marts.seen", "marts.seen_again")
Open = Callable[[ProjectFolder], Workspace]


def attach(engine: SparkEngine, server: Served, warehouse: str, name: str, **more: str) -> Any:
    """Give a session a catalog; return the session."""
    session = engine.session.newSession()
    prefix = f"spark.sql.catalog.{name}"
    session.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
    options = {"type": "rest", "uri": server.url, "warehouse": warehouse, **more}
    for key, text in options.items():
        session.conf.set(f"{prefix}.{key}", text)
    return session


def rows(found: Any) -> list[tuple[Any, ...]]:
    """Return rows in an order, with instants in UTC: PySpark has them without a zone."""
    return sorted((tuple(map(_in_utc, row)) for row in found), key=repr)


def _in_utc(value: Any) -> Any:
    return value.astimezone(timezone.utc) if isinstance(value, datetime) else value


@pytest.mark.turns(16, "Spark elsewhere")
def test_engines_read_what_vde_query_reads(
    tmp_path: Path,
    open_workspace: Open,
    spark_engine: SparkEngine,
    duck: duckdb.DuckDBPyConnection,
) -> None:
    folder = ProjectFolder(tmp_path / "shop", FILES)
    expected: dict[tuple[int, str], tuple[Any, ...]] = {}

    def publish() -> None:
        workspace = open_workspace(folder)
        now = datetime(2024, 1, 4, 12, tzinfo=timezone.utc)
        done = workspace.apply(workspace.plan("prod", now=now))
        assert done.environment is not None
        for model in (*TABLES, *VIEWS):
            shown = f"lakehouse.{model}" if model == EXTERNAL else model
            found = workspace.query("prod", f"SELECT * FROM {shown}")
            names = [name for name, _ in found.columns]
            expected[done.environment.version, model] = (names, rows(found.rows))

    session = open_workspace(folder).engine().session  # type: ignore[attr-defined]
    session.sql("CREATE NAMESPACE IF NOT EXISTS lakehouse.lake")
    session.sql(
        "CREATE OR REPLACE TABLE lakehouse.lake.rates USING iceberg PARTITIONED BY (day) AS "
        "SELECT * FROM VALUES (1, DATE '2024-01-01'), (2, DATE '2024-01-02') AS v(rate, day)"
    )
    publish()
    folder.edit("seeds/seeded.csv", "1,a,2024-01-01\n", "1,z,2024-01-01\n4,d,2024-01-03\n")
    # A column renamed, the column of the partitions dropped, the others in another order.
    folder.edit(
        "models/whole.sql",
        "SELECT id, word, day, CAST(id AS DECIMAL(10, 2)) AS amount",
        "SELECT CAST(id AS DECIMAL(10, 2)) AS sum, word, id",
    )
    folder.edit("models/whole.sql", ", partitioned_by (day)", "")
    folder.edit("models/kept.sql", "SELECT id, word, day", "SELECT day AS at, id")
    publish()
    # Another name of a column, which is in the table once.
    folder.edit("models/parts.sql", "SELECT id, day", "SELECT id, day, id AS also")
    publish()
    with serving(folder.root) as server:
        for version in (1, 2, 3):
            name = f"served{version}"
            session = attach(spark_engine, server, f"prod@{version}", name)
            attach_duck(duck, server, f"prod@{version}", name)
            catalog = load_catalog("c", type="rest", uri=server.url, warehouse=f"prod@{version}")
            for model in (*TABLES, *VIEWS):
                names, wanted = expected[version, model]
                frame = session.sql(f"SELECT * FROM {name}.{model}")
                assert frame.columns == names, (version, model)
                assert rows(frame.collect()) == wanted, (version, model)
                if model in TABLES:
                    told = server.ask(f"/data/prod@{version}/{model}?format=arrow&limit=10000")
                    page = pa.ipc.open_stream(told.body).read_all()
                    assert page.column_names == names
                    assert rows(row.values() for row in page.to_pylist()) == wanted
                if model in TABLES and (version, model) != (3, "marts.parts"):
                    table = catalog.load_table(model).scan().to_arrow()
                    assert table.column_names == names
                    assert rows(row.values() for row in table.to_pylist()) == wanted
                    other = duck.sql(f"SELECT * FROM {name}.{model}").fetch_arrow_table()
                    assert other.column_names == names
                    assert rows(row.values() for row in other.to_pylist()) == wanted
            listed = {row.viewName for row in session.sql(f"SHOW VIEWS IN {name}.marts").collect()}
            assert {"seen", "seen_again"} <= listed
            assert ("parts" in listed) == (version == 3)
            joined = session.sql(
                f"SELECT count(*) FROM {name}.marts.whole JOIN {name}.marts.seen USING (word)"
            )
            assert joined.collect()[0][0] >= 1
            for refused in (
                f"DELETE FROM {name}.marts.whole",
                f"DROP TABLE {name}.marts.whole PURGE",
                f"CREATE TABLE {name}.marts.more (a INT) USING iceberg",
                f"CREATE OR REPLACE VIEW {name}.marts.seen AS SELECT 1 AS a",
            ):
                with pytest.raises(
                    Exception, match=r"(?i)not support|read-only|unsupported|server"
                ):
                    session.sql(refused)
            assert (
                rows(session.sql(f"SELECT * FROM {name}.marts.whole").collect())
                == (expected[version, "marts.whole"][1])
            )
    token = vde("token", "create", "prod", root=folder.root)["token"]
    with serving(folder.root) as server:
        session = attach(spark_engine, server, "prod", "named", token=token)
        assert session.table("named.marts.whole").count() == len(expected[3, "marts.whole"][1])
        assert rows(session.table("named.marts.seen").collect()) == expected[3, "marts.seen"][1]
        with pytest.raises(Exception, match="NotAuthorized"):
            attach(spark_engine, server, "prod", "unnamed").table("unnamed.marts.whole").count()
