"""A disk that fails or is full while something is published, with the kernel's own answers."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from vde_dagster.base.failures import is_no_space
from vde_dagster.cli.errors import report
from vde_dagster.errors import ExecutionError, StoreError
from vde_dagster.lakehouse.io import files
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.publishing.publication import Publication
from vde_dagster.spark.session.failures import execution_error
from vde_dagster.state.store import StateStore
from vde_dagster_tests.state.builders import environment, view

Syncfs = Callable[[int], int]


def answering(code: int) -> Syncfs:
    """A `syncfs` in C's manner: -1, with the reason in errno."""

    def call(descriptor: int) -> int:
        os.fstat(descriptor)
        ctypes.set_errno(code)
        return -1

    made: Syncfs = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, use_errno=True)(call)
    return made


def publish(lakehouse: Lakehouse, sql: str, base: int) -> int:
    views = (view("a", sql),)
    return lakehouse.publish(Publication(environment("prod"), base, views)).version


def files_of(lakehouse_folder: Path) -> set[Path]:
    return set(lakehouse_folder.rglob("*.json"))


@pytest.mark.parametrize("backend", ["sqlite"])
@pytest.mark.parametrize(
    ("code", "told"),
    [(errno.EIO, "could not be written: .*Input/output"), (errno.ENOSPC, "no space left for the")],
)
def test_a_flush_that_fails_is_no_publication(
    code: int,
    told: str,
    lakehouse: Lakehouse,
    store: StateStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert publish(lakehouse, "SELECT 1 AS a", 0) == 1
    before = files_of(tmp_path / "warehouse"), lakehouse.published_views("prod")
    monkeypatch.setattr(files, "_syncfs", lambda: answering(code))
    with pytest.raises(ExecutionError, match=told):
        publish(lakehouse, "SELECT 2 AS a", 1)
    head = store.environments.get("prod")
    assert head is not None
    assert head.version == 1
    assert (files_of(tmp_path / "warehouse"), lakehouse.published_views("prod")) == before
    monkeypatch.undo()
    assert publish(lakehouse, "SELECT 2 AS a", 1) == 2


@pytest.mark.parametrize("backend", ["sqlite"])
def test_a_kernel_without_syncfs_flushes_everything(
    lakehouse: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[bool] = []
    monkeypatch.setattr(files, "_syncfs", lambda: answering(errno.ENOSYS))
    monkeypatch.setattr(os, "sync", lambda: flushed.append(True))
    assert publish(lakehouse, "SELECT 1 AS a", 0) == 1
    assert flushed


@pytest.mark.parametrize("backend", ["sqlite"])
def test_a_state_without_space_is_said_as_that(lakehouse: Lakehouse, store: StateStore) -> None:
    assert publish(lakehouse, "SELECT 1 AS a", 0) == 1
    with store.database.engine.connect() as conn:
        pages = conn.exec_driver_sql("PRAGMA page_count").scalar()
        conn.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    def publish_on() -> None:
        for number in range(2, 2_000):
            publish(lakehouse, f"SELECT {number} AS a", number - 1)

    with pytest.raises(StoreError, match=r"has no space left: .*free space for the"):
        publish_on()


class Thrown(Exception):
    """An exception as PySpark's client of Spark Connect raises it."""

    def getStackTrace(self) -> str:
        return (
            "org.apache.spark.SparkException\n\tat a.b.C(C.scala:1)\n"
            "Caused by: java.io.IOException: No space left on device\n\tat d.e.F(F.java:2)"
        )


def test_space_that_is_missing_is_known_wherever_it_is_met(
    capsys: pytest.CaptureFixture[str],
) -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/data/x")
    wrapped = RuntimeError("writing failed")
    wrapped.__cause__ = full
    sqlite = OperationalError("INSERT …", {}, Exception("database or disk is full"))
    for error in (full, wrapped, sqlite):
        assert is_no_space(error)
        assert report(error, as_json=False, debug=False) == 1
        told = capsys.readouterr().err
        assert told.startswith("error: no space left: ")
        assert "hint: free space" in told
    assert not is_no_space(OSError(errno.EIO, "Input/output error"))
    spark = execution_error(Thrown("Job aborted"), "marts.sales")
    assert spark.message == "marts.sales failed: IOException: No space left on device"
    assert spark.hint is not None
    assert spark.hint.startswith("free space")
