"""Readers during publications: nothing is ever missing, and nobody sees half of one."""

from __future__ import annotations

import re
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.execution.look import look
from vde_dagster_tests.lakehouse.oracle import load
from vde_dagster_tests.projects import SHOP, ProjectFolder

EVERY_SECONDS = 0.05
APPLIES = 20
FULL = "kind FULL, description 'One row per customer'"
AS_VIEW = "kind VIEW, description 'One row per customer'"
INCREMENTAL = (
    "kind INCREMENTAL_BY_UNIQUE_KEY (unique_key customer), description 'One row per customer'"
)
CUSTOMERS = "models/marts/customers.sql"
READ = """
    SELECT (SELECT publication_id FROM vde_environments e JOIN vde_environment_versions v
              ON v.environment = e.environment AND v.version = e.version
              WHERE e.environment = 'prod'),
      table_namespace || '.' || table_name, metadata_location, iceberg_type
    FROM iceberg_tables
"""


class Reader(threading.Thread):
    """Reads all views and tables again and again, as plain SQL and JSON.

    Args:
        database: The SQLite file.
    """

    def __init__(self, database: Path) -> None:
        super().__init__(daemon=True)
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.error: BaseException | None = None
        self._database = database
        self._stopped = threading.Event()

    def run(self) -> None:
        """Read until told to stop, or until something is wrong."""
        try:
            while not self._stopped.wait(EVERY_SECONDS):
                self.read()
        except BaseException as error:
            self.error = error

    def read(self) -> None:
        """Read the pointers in one statement, then every file that they name."""
        with closing(sqlite3.connect(self._database, timeout=30)) as conn:
            rows = conn.execute(READ).fetchall()
        metadata = {name: (kind, load(location)) for _, name, location, kind in rows}
        tables = {name for name, (kind, _) in metadata.items() if kind == "TABLE"}
        views = {name: view_sql(data) for name, (kind, data) in metadata.items() if kind == "VIEW"}
        for sql in views.values():
            read = {f"{a}.{b}" for a, b in look_tables(sql)}
            assert read <= tables, f"a view reads {read - tables}, which is missing"
        if rows and rows[0][0] is not None:
            assert views
            self.seen.append((rows[0][0], views))

    def stop(self) -> None:
        """Stop, and raise what went wrong."""
        self._stopped.set()
        self.join()
        if self.error is not None:
            raise self.error


def view_sql(metadata: dict[str, Any]) -> str:
    current = metadata["current-version-id"]
    (version,) = [v for v in metadata["versions"] if v["version-id"] == current]
    (sql,) = [r["sql"] for r in version["representations"] if r["dialect"] == "spark"]
    return str(sql)


def look_tables(sql: str) -> list[tuple[str, str]]:
    return re.findall(r"`\w+`\.`(vde__[^`]+)`\.`([^`]+)`", sql)


def change(number: int) -> Callable[[ProjectFolder], None]:
    """Name the changes: rows, columns, kinds, and a view that others read."""

    def edit(folder: ProjectFolder) -> None:
        text = SHOP[CUSTOMERS]
        kinds = [FULL, AS_VIEW, INCREMENTAL]
        changed = text.replace(FULL, kinds[number % 3])
        changed = changed.replace("sum(amount)", f"{number} + sum(amount)")
        if number % 4 == 1:
            changed = changed.replace("AS revenue", "AS revenue, max(day) AS last_day")
        folder.write(CUSTOMERS, changed)
        status = "cancelled" if number % 5 else "lost"
        folder.write(
            "models/staging/orders.sql",
            SHOP["models/staging/orders.sql"].replace("<> 'cancelled'", f"<> '{status}'"),
        )

    return edit


def test_a_reader_never_misses_anything_nor_sees_half_a_publication(
    tmp_path: Path, empty_database: Path
) -> None:
    folder = ProjectFolder(tmp_path / "shop", SHOP)
    database = folder.root / ".vde" / "vde.db"
    database.parent.mkdir()
    shutil.copy(empty_database, database)
    reader = Reader(database)
    published: dict[str, dict[str, str]] = {}
    reader.start()
    for number in range(APPLIES):
        change(number)(folder)
        workspace = open_fake(folder.root)
        assert workspace.apply(workspace.plan("prod"), concurrency=2).published
        workspace.close()
        seen = look(f"sqlite:///{database}")
        published[seen.environments["prod"][1]] = seen.views
        time.sleep(EVERY_SECONDS)
    reader.stop()
    order = list(published)
    read = [publication for publication, _ in reader.seen]
    assert len(set(read)) > APPLIES / 2, "the reader was too slow to say anything"
    assert sorted(read, key=order.index) == read
    for publication, views in reader.seen:
        assert views == published[publication]


def plain_session(session: Any) -> Any:
    """Another session on the same JVM, which knows the catalog and nothing else of this package."""
    plain = session.newSession()
    for key, value in session.conf.getAll.items():
        if key.startswith("spark.sql.catalog."):
            plain.conf.set(key, value)
    return plain


@pytest.mark.spark
def test_a_spark_session_that_saw_a_new_view_sees_no_old_one_after_it(
    shop: ProjectFolder, open_workspace: Callable[[ProjectFolder], Any], spark_engine: object
) -> None:
    workspace = open_workspace(shop)
    workspace.apply(workspace.plan("prod"))
    catalog = workspace.settings.catalog
    session = plain_session(workspace.engine().session)
    read: list[tuple[str, int]] = []
    failed: list[BaseException] = []
    stopped = threading.Event()

    def loop() -> None:
        try:
            while not stopped.is_set():
                for view in ("marts.customers", "marts.top"):
                    frame = session.sql(f"SELECT CAST(max(revenue) AS INT) FROM {catalog}.{view}")
                    read.append((view, frame.collect()[0][0]))
        except BaseException as error:
            failed.append(error)

    reader = threading.Thread(target=loop, daemon=True)
    reader.start()
    for factor in (2, 3):
        before = "sum(amount)" if factor == 2 else f"sum(amount) * {factor - 1}"
        shop.edit(CUSTOMERS, before, f"sum(amount) * {factor}")
        changed = open_workspace(shop)
        changed.apply(changed.plan("prod"))
        passed = len(read) + 4
        while len(read) < passed and reader.is_alive():
            time.sleep(EVERY_SECONDS)
    stopped.set()
    reader.join(60)
    assert failed == []
    values = [value for _, value in read]
    assert set(values) == {20, 40, 60}
    assert sorted(values) == values
