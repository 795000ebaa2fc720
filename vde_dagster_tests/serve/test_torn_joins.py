"""DuckDB and Spark join three tables while publications go on: none sees two publications.

Runs add a row to all of them, and an edit swaps all tables for others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.serve.served_process import Served, serving
from vde_dagster_tests.serve.shops import publish, run
from vde_dagster_tests.serve.spark_reader import spark_reader
from vde_dagster_tests.serve.test_duckdb import attach, duck

pytestmark = pytest.mark.server
__all__ = ["duck"]

DAYED = """
    MODEL (name marts.{}, start '2024-01-01',
      kind INCREMENTAL_BY_TIME_RANGE (time_column day));
    SELECT CAST(@end_ds AS DATE) AS day, 1 AS made
"""
FILES = {
    **{f"models/{name}.sql": DAYED.format(name) for name in ("left", "right")},
    "models/top.sql": """
        MODEL (name marts.top, kind FULL, cron '@daily');
        SELECT count(*) AS days, max(made) AS made FROM marts.left
    """,
}
JOINED = """
    SELECT count(*), count(l.day), count(r.day), max(t.days), max(l.made), max(r.made), max(t.made)
    FROM {}.marts.`left` AS l FULL JOIN {}.marts.`right` AS r ON l.day = r.day
    CROSS JOIN {}.marts.top AS t
"""
Seen = tuple[tuple[int, ...], tuple[int, ...]]
"""What a session read, and what it read again at its end."""


def whole(seen: Seen) -> bool:
    """Say whether a session read one publication."""
    first, again = seen
    days, made = set(first[:4]), set(first[4:])
    return len(days) == len(made) == 1 and first == again


def publish_often(folder: ProjectFolder) -> None:
    """Publish days, then other tables, then days again."""
    for day in (4, 5):
        run(folder, day)
    for name in ("left", "right"):
        folder.edit(f"models/{name}.sql", "1 AS made", "2 AS made")
    publish(folder, 5)
    for day in (6, 7):
        run(folder, day)


@contextmanager
def reading(session: Callable[[], Seen], seen: list[Seen]) -> Iterator[None]:
    """Begin sessions, one after another, in a thread; its errors are raised at the end."""
    ended, errors = threading.Event(), []

    def read() -> None:
        try:
            while not ended.is_set():
                seen.append(session())
        except BaseException as error:
            errors.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield
    finally:
        ended.set()
        reader.join()
    assert not errors, errors


def duck_session(connection: duckdb.DuckDBPyConnection, server: Served, warehouse: str) -> Seen:
    """Join in DuckDB, twice."""
    attach(connection, server, warehouse, "p")
    sql = JOINED.replace("{}", "p").replace("`", '"')
    found = [connection.sql(sql).fetchone() for _ in range(2)]
    connection.execute("DETACH p")
    return found[0], found[1]  # type: ignore[return-value]


def check(seen: list[Seen], last: Seen, states: int) -> None:
    """Make sure that sessions read whole publications, and several of them."""
    assert all(map(whole, seen)), [one for one in seen if not whole(one)]
    assert len(set(seen)) >= states, "sessions went on while publications did"
    assert last == ((3, 3, 3, 3, 2, 2, 2),) * 2


def test_duckdb_joins_tables_of_one_publication(
    tmp_path: Path, duck: duckdb.DuckDBPyConnection
) -> None:
    folder = ProjectFolder(tmp_path / "shop", FILES)
    publish(folder)
    seen: list[Seen] = []
    with serving(folder.root, "--log", str(tmp_path / "log")) as server:
        others = [duck.cursor() for _ in range(2)]
        with reading(lambda: duck_session(others[0], server, "prod"), seen):
            publish_often(folder)
        check(seen, duck_session(others[1], server, "prod"), states=3)
        assert duck_session(others[1], server, "prod@1")[0] == (1, 1, 1, 1, 1, 1, 1)


@pytest.mark.turns(16, "Spark elsewhere")
@pytest.mark.spark
def test_spark_joins_tables_of_one_publication(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path / "shop", FILES)
    publish(folder)
    seen: list[Seen] = []
    with (
        serving(folder.root, "--log", str(tmp_path / "log")) as server,
        spark_reader(server.url, tmp_path) as reader,
    ):

        def session() -> Seen:
            first, again = reader.rows("prod", JOINED, JOINED)
            return tuple(first[0]), tuple(again[0])

        assert whole(session())
        with reading(session, seen):
            publish_often(folder)
        # A session takes Spark as long as several publications.
        check(seen, session(), states=2)


def test_a_session_that_mixes_publications_is_told_apart() -> None:
    one, other = (2, 2, 2, 2, 1, 1, 1), (3, 3, 3, 3, 1, 1, 1)
    assert whole((one, one))
    for torn in ((3, 2, 3, 2, 1, 1, 1), (2, 2, 2, 2, 1, 1, 2), (2, 2, 2, 3, 1, 1, 1)):
        assert not whole((torn, torn))
    assert not whole((one, other))
