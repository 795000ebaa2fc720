"""A project with state and warehouse as an earlier commit left them, kept as a zip.

Paths stand in databases, in JSON, in Avro and in compressed columns. So the kept ones have a
length that temporary folders are padded to, and are exchanged byte by byte.

Run as a program it makes the zip, with whatever commit of the package it is run with:
`python earlier_warehouse.py FOLDER ZIP`.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import zipfile
import zlib
from pathlib import Path

LENGTH = 120
KEPT = "/" + "k" * (LENGTH - 1)

FILES = {
    "pyproject.toml": """
        [tool.vde.spark.config]
        "spark.driver.memory" = "1500m"
        "spark.sql.shuffle.partitions" = "2"
    """,
    "models/raw/orders.sql": """
        MODEL (name raw.orders, kind SEED (path '../../seeds/orders.csv'),
          columns (id INT, customer INT, amount DOUBLE, status STRING, day DATE));
    """,
    "models/staging/orders.sql": """
        MODEL (name staging.orders, kind VIEW);
        SELECT id, customer, amount, day FROM raw.orders WHERE status <> 'cancelled'
    """,
    "models/staging/inlined.sql": """
        MODEL (name staging.inlined, kind EMBEDDED);
        SELECT customer, day, amount FROM staging.orders
    """,
    "models/marts/daily.sql": """
        MODEL (name marts.daily, start '2024-01-01', end '2024-01-05', cron '@daily',
          kind INCREMENTAL_BY_TIME_RANGE (time_column day, lookback 1, batch_size 2),
          audits (not_null(columns := (day, revenue))));
        SELECT day, count(*) AS orders, sum(amount) AS revenue
        FROM staging.orders WHERE day BETWEEN @start_date AND @end_date GROUP BY day
    """,
    "models/marts/newest.sql": """
        MODEL (name marts.newest, start '2024-01-01', end '2024-01-05', cron '@daily',
          kind INCREMENTAL_BY_UNIQUE_KEY (unique_key customer));
        SELECT customer, day, amount FROM staging.inlined
        WHERE day BETWEEN @start_date AND @end_date
    """,
    "models/marts/customers.sql": """
        MODEL (name marts.customers, kind FULL, audits (unique_values(columns := (customer))));
        SELECT customer, sum(amount) AS revenue FROM staging.orders GROUP BY customer
    """,
    "models/marts/code.py": """
        from vde_dagster import model


        @model("marts.code", kind="FULL", columns={"customer": "INT", "twice": "DOUBLE"})
        def execute(context, start, end, execution_time):
            return context.sql("SELECT customer, revenue * 2 AS twice FROM marts.customers")
    """,
    "seeds/orders.csv": """
        id,customer,amount,status,day
        1,10,5.0,paid,2024-01-01
        2,11,7.5,paid,2024-01-01
        3,10,2.5,cancelled,2024-01-02
        4,12,20.0,paid,2024-01-03
        5,10,1.0,paid,2024-01-05
    """,
}


def padded_folder(base: Path) -> Path:
    """Make a folder whose path has the length of the kept one."""
    missing = LENGTH - len(str(base)) - 1
    if missing < 1:
        base = Path(tempfile.mkdtemp())
        missing = LENGTH - len(str(base)) - 1
    folder = base / ("p" * missing)
    folder.mkdir()
    return folder


def unpack(archive: Path, folder: Path) -> None:
    """Put what was kept into a folder of the right length."""
    with zipfile.ZipFile(archive) as kept:
        kept.extractall(folder)
    exchange(folder, KEPT, str(folder))


def exchange(folder: Path, old: str, new: str) -> None:
    """Exchange a path in all files below a folder."""
    assert len(old) == len(new) == LENGTH
    before, after = old.encode(), new.encode()
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        if path.suffix == ".db":
            _exchange_blobs(path, before, after)
        content = path.read_bytes()
        if before in content:
            path.write_bytes(content.replace(before, after))
            crc = path.with_name(f".{path.name}.crc")
            crc.unlink(missing_ok=True)


def _exchange_blobs(path: Path, before: bytes, after: bytes) -> None:
    with sqlite3.connect(path) as db:
        tables = [
            name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'")
        ]
        for table in tables:
            columns = [row[1] for row in db.execute(f"PRAGMA table_info('{table}')")]
            for column in columns:
                rows = db.execute(
                    f'SELECT rowid, "{column}" FROM "{table}" WHERE typeof("{column}") = \'blob\''
                ).fetchall()
                for rowid, value in rows:
                    changed = zlib.compress(zlib.decompress(value).replace(before, after))
                    db.execute(
                        f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', (changed, rowid)
                    )
    db.close()


def make(folder: Path, archive: Path) -> None:
    """Build production twice and `dev` once, and keep everything."""
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster_tests.projects import ProjectFolder

    project = ProjectFolder(folder, FILES)
    with Workspace.open(folder) as workspace:
        workspace.apply(workspace.plan("prod"))
        project.edit("models/marts/customers.sql", "sum(amount)", "sum(amount) + 1")
        workspace.reload()
        workspace.apply(workspace.plan("dev"))
        workspace.apply(workspace.plan("prod"))
    with sqlite3.connect(folder / ".vde" / "vde.db") as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("VACUUM")
    exchange(folder, str(folder), KEPT)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as kept:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "cache" not in path.parts and path.suffix != ".log":
                kept.write(path, path.relative_to(folder))


if __name__ == "__main__":
    make(padded_folder(Path(sys.argv[1])), Path(sys.argv[2]))
