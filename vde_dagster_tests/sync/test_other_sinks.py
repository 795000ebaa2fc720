"""A sink of another distribution, with a transaction: its rows and its position move together."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from vde_dagster.errors import ExecutionError
from vde_dagster_tests.sync.world import Shop

pytestmark = pytest.mark.long

SINK = """
from contextlib import contextmanager
from pathlib import Path

import msgspec
import sqlalchemy as sa

from vde_dagster.api.errors import ExecutionError


class FileSink(msgspec.Struct, frozen=True):
    file: str

    @property
    def place(self):
        return self.file

    @contextmanager
    def open(self, workspace, sync, *, dry=False):
        engine = sa.create_engine(f"sqlite:///{self.file}", poolclass=sa.NullPool)
        with engine.connect() as conn:
            yield Rows(conn, Path(self.file).with_suffix(".fails"))
            conn.rollback() if dry else conn.commit()


class Rows:
    def __init__(self, conn, fails):
        self.conn, self.fails = conn, fails

    def transact(self, work, name):
        return work(self.conn)

    def begin(self, step):
        self.conn.execute(sa.text("CREATE TABLE IF NOT EXISTS sent (customer)"))

    def send(self, batch):
        if batch.number == "2" and self.fails.exists():
            raise ExecutionError("the disk is full", hint="make room")
        for row in batch.rows:
            self.conn.execute(sa.text("INSERT INTO sent VALUES (:customer)"), dict(row))
        return len(batch.rows)

    def end(self):
        return 0
"""


def test_a_failed_run_of_a_sink_with_a_transaction_leaves_nothing_and_the_next_sends_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vde_filesink.py").write_text(SINK)
    info = tmp_path / "vde_filesink-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vde-filesink\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[vde_dagster.sinks]\nfile = vde_filesink:FileSink\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    outside = tmp_path / "outside.db"
    shop = Shop(tmp_path / "shop")
    to = {"prod": {"file": str(outside)}}
    shop.define(sink="file", to=to, mode="append", key=None, batch=2)
    shop.publish()
    outside.with_suffix(".fails").touch()
    with pytest.raises(ExecutionError, match="the disk is full"):
        shop.sync()
    outside.with_suffix(".fails").unlink()
    assert shop.sync().sent == 4
    assert shop.sync().sent == 0
    with closing(sqlite3.connect(outside)) as db:
        sent = sorted(customer for (customer,) in db.execute("SELECT customer FROM sent"))
        positions = db.execute("SELECT version, pending FROM vde_sync_cursors").fetchall()
    assert sent == sorted(row["customer"] for row in shop.shown())
    assert positions == [(shop.version(), None)]
