"""A project with state and warehouse as an earlier commit left them, kept as a zip.

Paths stand in databases, in JSON, in Avro and in compressed columns. So the kept ones have a
length that temporary folders are padded to, and are exchanged byte by byte; Avro is kept without
compression, or its lengths, which Iceberg keeps, would change.

Run as a program it makes the zip, with whatever commit of the package it is run with:
`python earlier_warehouse.py FOLDER ZIP`.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable
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
    keep(folder, str(folder), archive)


def keep(folder: Path, old: str, archive: Path) -> None:
    """Put a folder into a zip, with its path exchanged for the kept one."""
    unpack_avro(folder)
    exchange(folder, old, KEPT)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as kept:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "cache" not in path.parts and path.suffix != ".log":
                kept.write(path, path.relative_to(folder))


def unpack_avro(folder: Path) -> None:
    """Write manifests and lists of them without compression.

    A list's entry begins with a manifest's path and its length, which becomes another one.
    Source: https://avro.apache.org/docs/1.12.0/specification/#object-container-files
    """
    lengths = {}
    for manifest in sorted(folder.rglob("*-m*.avro")):
        _rewrite(manifest, lambda block: block)
        lengths[manifest.name.encode()] = manifest.stat().st_size
    for listing in sorted(folder.rglob("snap-*.avro")):

        def with_lengths(block: bytes) -> bytes:
            for name, length in lengths.items():
                at = block.find(name)
                if at >= 0:
                    begin = at + len(name)
                    _, end = _long(block, begin)
                    block = block[:begin] + _as_long(length) + block[end:]
            return block

        _rewrite(listing, with_lengths)


def _rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    content = path.read_bytes()
    head = content.index(b"avro.codec") + len(b"avro.codec")
    size, begin = _long(content, head)
    codec = content[begin : begin + size]
    assert codec in (b"deflate", b"null")
    # The metadata is a map: blocks of pairs, of which one of no pairs is the last.
    at = _end_of_map(content)
    sync = content[at : at + 16]
    out = content[:head] + _as_long(4) + b"null" + content[begin + size : at] + sync
    at += 16
    while at < len(content):
        count, at = _long(content, at)
        size, at = _long(content, at)
        block = content[at : at + size]
        block = change(zlib.decompress(block, -15) if codec == b"deflate" else block)
        out += _as_long(count) + _as_long(len(block)) + block + sync
        at += size + 16
    path.write_bytes(out)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def _end_of_map(content: bytes) -> int:
    at = 4
    while True:
        count, at = _long(content, at)
        if count == 0:
            return at
        if count < 0:
            _, at = _long(content, at)
        for _ in range(2 * abs(count)):
            size, at = _long(content, at)
            at += size


def _long(content: bytes, at: int) -> tuple[int, int]:
    """Read a number as Avro writes it; return it and where it ends."""
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def _as_long(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


if __name__ == "__main__":
    make(padded_folder(Path(sys.argv[1])), Path(sys.argv[2]))
