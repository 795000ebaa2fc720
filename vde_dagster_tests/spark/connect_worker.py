"""A process on Spark Connect, which no process with a JVM of its own can be: `python -m … ROOT`.

It does what a session without a JVM does otherwise, and fails where that ends otherwise.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.base.times import parse_instant
from vde_dagster.errors import ExecutionError, UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.engine_tasks import AuditTask
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.spark.engine import SparkEngine
from vde_dagster.spark.session.failures import cause_line, has_java_cause
from vde_dagster.spark.tables.digests import Digester
from vde_dagster.spark.tables.iceberg import IcebergTable
from vde_dagster_tests.execution.change_copies import follow_everywhere

LONG = "SELECT count(*) FROM range(1000000000000) WHERE sqrt(id) * rand() < 0"


def audit(plan_id: str, query: str) -> AuditTask:
    """A query on behalf of a plan."""
    return AuditTask(plan_id, ModelName("m", "x"), "it", query, True, day())


def day() -> Interval:
    """A day."""
    start = parse_instant("2024-01-01")
    return Interval(start, start + timedelta(days=1))


def main(root: Path) -> None:
    """Look at tables, digests, mistakes and cancelling, in a project that was applied."""
    with Workspace.open(root) as workspace:
        engine = workspace.engine()
        assert isinstance(engine, SparkEngine)
        session: Any = engine.session
        table = empty_table(workspace, session)
        branches_of_a_table_without_rows(table)
        commits_and_branches(session, table)
        digests_are_taken(session)
        mistakes_are_told(workspace, engine)
        causes_are_told(session)
        a_day_in_a_file_of_three_is_replaced(workspace)
        assert follow_everywhere(workspace, "m.daily").total() == 4
        cancelling_stops_what_runs(engine)


def empty_table(workspace: Workspace, session: Any) -> IcebergTable:
    """Make a table, and load it."""
    session.sql("CREATE NAMESPACE IF NOT EXISTS lakehouse.lab")
    session.sql(
        "CREATE TABLE lakehouse.lab.t (id INT, d DATE) USING iceberg "
        "PARTITIONED BY (days(d), bucket(4, id))"
    )
    table = IcebergTable(session, "lakehouse", TableRef("lab", "t"), workspace.lakehouse)
    assert table.types() == {"id": "int", "d": "date"}
    assert [field[1:] for field in table.partition_fields()] == [("day", "d"), ("bucket[4]", "id")]
    return table


def branches_of_a_table_without_rows(table: IcebergTable) -> None:
    """An empty table's branch has an empty beginning."""
    assert table.head(None) is None
    table.ensure_branch("early")
    table.ensure_branch("early")
    assert table.has_branch("early")
    assert not table.was_filled("early")
    table.drop_branch("early")
    table.drop_branch("early")
    assert not table.has_branch("early")


def commits_and_branches(session: Any, table: IcebergTable) -> None:
    """Branches move forward only, and commits are found by what they say of themselves."""

    def add(number: int, branch: str = "main") -> int:
        frame = session.sql(f"SELECT {number} AS id, DATE'2024-01-01' AS d")
        writer = frame.writeTo(f"lakehouse.lab.t.branch_{branch}")
        writer.option("snapshot-property.vde.fill", f"n{number}").append()
        table.refresh()
        head = table.head(branch)
        assert head is not None
        return head

    first = add(1)
    assert table.was_filled(None)
    table.ensure_branch("a")
    table.branch_at("b", "a")
    two, three = add(2, "a"), add(3, "b")
    assert table.parent(two) == table.parent(three) == first
    found = table.find_commit("a", {"vde.fill": "n2"})
    assert found is not None
    assert (found.snapshot_id, found.added_records) == (two, 1)
    assert table.find_commit("b", {"vde.fill": "n2"}) is None
    assert table.find_commit("a", {"vde.fill": "n1"}, limit=1) is None
    assert table.summary(two)["vde.fill"] == "n2"
    assert table.cherry_pick("a", "main") == two
    assert not table.fast_forward(None, "b")
    assert table.cherry_pick("b", "main") is None
    assert table.head(None) == two
    table.roll_back(first)  # Others wrote since.
    assert table.head(None) == two
    table.roll_back(two)
    assert table.head(None) == first
    table.roll_back(first)
    assert session.table("lakehouse.lab.t").count() == 0


def digests_are_taken(session: Any) -> None:
    """The rows that are written are known by the same digests as when they are read again."""
    rows = session.sql("SELECT CAST(id AS INT) AS id, DATE'2024-01-01' AS d FROM range(5)")
    digester = Digester((None, ("id",)), ((day(), None), (day(), "id < 2")), whole=True)
    digester.watch(rows).writeTo("lakehouse.lab.t").append()
    seen = digester.result(7)
    assert seen is not None
    assert [tile.rows for tile in seen.tiles] == [5, 2]
    assert seen == digester.read(session.table("lakehouse.lab.t"), 7)
    assert digester.result(6) is None


def mistakes_are_told(workspace: Workspace, engine: SparkEngine) -> None:
    """Errors of the server come as one line, with their place."""
    with pytest.raises(UsageError) as named:
        workspace.query("prod", "SELECT nothing FROM m.total")
    assert "nothing" in named.value.message
    assert "\n" not in named.value.message
    with pytest.raises(ExecutionError, match="DIVIDE_BY_ZERO") as failed:
        engine.audit(audit("p", "SELECT 1 / 0 AS x"))
    assert failed.value.hint is not None


def causes_are_told(session: Any) -> None:
    """What Java threw is known by its class, which decides what is tried again."""
    with pytest.raises(Exception, match="unknown snapshot") as raised:
        session.sql("CALL lakehouse.system.set_current_snapshot('lab.t', 123)").collect()
    assert has_java_cause(raised.value, "ValidationException")
    assert not has_java_cause(raised.value, "CommitFailedException")
    assert cause_line(raised.value).startswith("ValidationException: Cannot roll back to unknown")


def a_day_in_a_file_of_three_is_replaced(workspace: Workspace) -> None:
    """What Iceberg cannot delete by whole files is deleted and added by statements."""
    before = workspace.queries.read("prod", "m.daily").sort_by("day")
    second, third = parse_instant("2024-01-02"), parse_instant("2024-01-03")
    workspace.apply(workspace.plan("prod", restate=("m.daily",), start=second, end=third))
    assert workspace.queries.read("prod", "m.daily").sort_by("day") == before
    assert before.num_rows == 3


def cancelling_stops_what_runs(engine: SparkEngine) -> None:
    """A plan's work ends soon after it was cancelled, in sessions of its own too."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            engine.audit(audit("cancelled", LONG))
        except ExecutionError as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    time.sleep(5)
    assert thread.is_alive()
    assert engine.cancel("cancelled", wait_seconds=60)
    thread.join(60)
    assert "was canceled" in str(raised[0])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)
