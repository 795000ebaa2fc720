"""Clients join two tables while publications go on: none sees rows of two publications."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.serve.served_process import Served, serving
from vde_dagster_tests.serve.shops import publish, run
from vde_dagster_tests.serve.test_pyiceberg import connect

pytestmark = pytest.mark.server
READERS = 4
DAYS = range(4, 9)
FILES = {
    f"models/{name}.sql": f"""
        MODEL (name marts.{name}, start '2024-01-01',
          kind INCREMENTAL_BY_TIME_RANGE (time_column day));
        SELECT CAST(@end_ds AS DATE) AS day, 1 AS n
    """
    for name in ("left", "right")
}
"""Every run adds the same rows to both."""


def rows(server: Served, warehouse: str) -> tuple[int, int]:
    """Count the rows of both tables in one session."""
    catalog = connect(server, warehouse)
    left, right = (
        catalog.load_table(f"marts.{name}").scan().to_arrow().num_rows for name in ("left", "right")
    )
    return left, right


def test_no_session_reads_two_publications(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path / "shop", FILES)
    publish(folder)
    seen: list[tuple[int, int]] = []
    errors: list[BaseException] = []
    ended = threading.Event()

    def read(server: Served) -> None:
        try:
            while not ended.is_set():
                seen.append(rows(server, "prod"))
        except BaseException as error:
            errors.append(error)

    with serving(folder.root) as server:
        readers = [threading.Thread(target=read, args=(server,)) for _ in range(READERS)]
        for reader in readers:
            reader.start()
        try:
            for day in DAYS:
                shown = len(seen)
                run(folder, day)
                while len(seen) < shown + 2 * READERS and not errors:
                    time.sleep(0.01)  # All of them read what was published, however slowly.
        finally:
            ended.set()
            for reader in readers:
                reader.join()
        assert not errors
        assert all(left == right for left, right in seen), seen
        assert len(set(seen)) >= len(DAYS), "readers went on while publications did"
        assert rows(server, "prod") == (len(DAYS) + 1, len(DAYS) + 1)


def test_a_live_session_may_so_the_comparison_can_tell(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path / "shop", FILES)
    publish(folder)
    with serving(folder.root) as server:
        found = {}
        for warehouse in ("prod+live", "prod"):
            catalog = connect(server, warehouse)
            left = catalog.load_table("marts.left").scan().to_arrow().num_rows
            run(folder, 4 + len(found))
            right = catalog.load_table("marts.right").scan().to_arrow().num_rows
            found[warehouse] = right - left
        assert found == {"prod+live": 1, "prod": 0}
