"""A kind that reads its parent commit by commit, in three modules of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from vde_dagster.errors import ProjectError
from vde_dagster.execution.apply.table_branches import Target
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.planning.table_contents import InputState
from vde_dagster.planning.tables.pinned_reads import CommitRange, Input, KeptCommit, range_since
from vde_dagster.project.loading.loader import load_project
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.daily_runs import DailyRuns
from vde_dagster_tests.kinds.own_kinds import forget_kinds, know_kinds
from vde_dagster_tests.projects import ProjectFolder

FILES = {
    "models/log.sql": """
        MODEL (name marts.log, kind APPENDED (parents raw.events));
        SELECT id, upper(kind) AS kind FROM raw.events WHERE id > 0
    """,
    "models/through.sql": """
        MODEL (name marts.through, kind APPENDED (parents marts.log));
        SELECT id FROM marts.log
    """,
}
BOTH = """
    MODEL (name marts.both, kind APPENDED (parents (raw.events, raw.more)));
    SELECT id FROM raw.events UNION ALL SELECT id FROM raw.more
"""


@pytest.fixture(autouse=True)
def kind() -> Iterator[None]:
    know_kinds()
    yield
    forget_kinds()


def commit(number: int, *, appends: bool = True, quiet: bool = False) -> KeptCommit:
    return KeptCommit(number, number - 1 or None, quiet, False, appends)


@pytest.mark.parametrize(
    ("line", "since", "found"),
    [
        ([], None, CommitRange(None, None)),
        ([commit(1)], None, CommitRange(None, 1)),
        ([commit(3), commit(2), commit(1)], 1, CommitRange(1, 3)),
        ([commit(2), commit(1)], 2, CommitRange(2, 2)),
        ([commit(3, appends=False, quiet=True), commit(2), commit(1)], 1, CommitRange(1, 3)),
        ([commit(3), commit(2, appends=False), commit(1)], 1, CommitRange(None, 3)),
        ([commit(3), commit(2)], 1, CommitRange(None, 3)),
        ([commit(3), commit(2), commit(1, appends=False)], 1, CommitRange(1, 3)),
    ],
)
def test_what_is_read_goes_on_from_what_was_read_while_rows_only_came(
    line: list[KeptCommit], since: int | None, found: CommitRange
) -> None:
    assert range_since(line, since) == found


def test_the_parent_has_to_be_a_table_that_the_query_reads(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path, FILES)
    folder.edit("models/log.sql", "parents raw.events", "parents raw.evnts")
    with pytest.raises(ProjectError, match=r"reads commits of raw.evnts, but its query does not"):
        build_snapshots(load_project(folder.root).models, lambda name: None, warnings=[])
    folder.edit("models/log.sql", "parents raw.evnts", "parents raw.events")
    folder.edit("models/log.sql", "APPENDED (parents raw.events)", "VIEW")
    with pytest.raises(ProjectError, match=r"commits of marts.log, which has no table"):
        build_snapshots(load_project(folder.root).models, lambda name: None, warnings=[])


class World(DailyRuns):
    """A project over an external Iceberg table, run day by day."""

    def ids(self, model: str = "marts.log") -> list[int]:
        """The ids in production."""
        rows = self.workspace.query("prod", f"SELECT id FROM {model}").rows
        return sorted(row[0] for row in rows)


@pytest.fixture
def world(spark_engine: SparkEngine, tmp_path: Path) -> Iterator[World]:
    made = World(
        tmp_path / "project",
        FILES,
        "CREATE TABLE lakehouse.raw.events (id INT, kind STRING) USING iceberg",
        "INSERT INTO lakehouse.raw.events VALUES (1, 'a'), (2, 'b')",
    )
    yield made
    made.workspace.close()


@pytest.mark.spark
def test_each_commit_is_read_once_and_a_change_reads_everything_anew(world: World) -> None:
    assert world.ids() == world.ids("marts.through") == [1, 2]
    world.sql("INSERT INTO lakehouse.raw.events VALUES (3, 'c'), (0, 'none')")
    world.sql("INSERT INTO lakehouse.raw.events VALUES (4, 'd')")
    assert world.run() == {"marts.log": 2, "marts.through": 2}
    assert world.run() == {"marts.log": None, "marts.through": None}
    world.sql("CALL lakehouse.system.rewrite_data_files(table => 'raw.events')")
    world.sql("INSERT INTO lakehouse.raw.events VALUES (5, 'e')")
    assert world.run() == {"marts.log": 1, "marts.through": 1}
    assert world.ids() == world.ids("marts.through") == [1, 2, 3, 4, 5]

    world.sql("DELETE FROM lakehouse.raw.events WHERE id = 2")
    assert world.run() == {"marts.log": 4, "marts.through": 4}
    world.sql("INSERT INTO lakehouse.raw.events VALUES (6, 'f')")
    assert world.run() == {"marts.log": 1, "marts.through": 1}
    assert world.ids() == world.ids("marts.through") == [1, 3, 4, 5, 6]


@pytest.mark.spark
def test_rows_that_come_while_it_is_filled_are_read_by_the_next_fill_only(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = world.workspace.engine()
    fill = engine.fill
    late = itertools.count(100)

    def filling(task: object) -> object:
        world.sql(f"INSERT INTO lakehouse.raw.events VALUES ({next(late)}, 'late')")
        return fill(task)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "fill", filling)
    world.sql("INSERT INTO lakehouse.raw.events VALUES (3, 'c')")
    assert world.run()["marts.log"] == 1
    monkeypatch.setattr(engine, "fill", fill)
    assert world.run()["marts.log"] == 2
    assert world.ids() == world.ids("marts.through") == [1, 2, 3, 100, 101]


@pytest.mark.spark
def test_a_fill_that_was_not_recorded_adds_nothing_twice(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    world.sql("INSERT INTO lakehouse.raw.events VALUES (3, 'c')")
    with monkeypatch.context() as patch:
        patch.setattr(Target, "record", die)
        with pytest.raises(KeyboardInterrupt):
            world.run()
    world.sql("INSERT INTO lakehouse.raw.events VALUES (4, 'd')")
    world.run()
    world.run()
    assert world.ids() == world.ids("marts.through") == [1, 2, 3, 4]


@pytest.mark.spark
def test_a_fill_records_how_it_read_each_parent_and_from_which_commit_to_which(
    world: World,
) -> None:
    def last(model: str) -> InputState:
        (found,) = world.inputs(model).values()
        return found

    first = last("marts.log")
    assert (first.how, first.since) == (Input.BY_COMMITS, None)
    world.sql("INSERT INTO lakehouse.raw.events VALUES (3, 'c')")
    world.run()
    second = last("marts.log")
    assert (second.how, second.since) == (Input.BY_COMMITS, first.read_id)
    assert second.read_id != first.read_id
    world.run()
    assert last("marts.log") == second
    world.sql("DELETE FROM lakehouse.raw.events WHERE id = 2")
    world.run()
    assert (last("marts.log").since, last("marts.through").since) == (None, None)


@pytest.mark.spark
def test_of_two_parents_each_goes_on_from_its_own_commit_and_both_begin_anew_together(
    world: World,
) -> None:
    world.sql("CREATE TABLE lakehouse.raw.more (id INT, kind STRING) USING iceberg")
    world.sql("INSERT INTO lakehouse.raw.more VALUES (10, 'x'), (11, 'y')")
    world.folder.write("models/both.sql", BOTH)
    world.publish()
    assert world.ids("marts.both") == [1, 2, 10, 11]
    world.sql("INSERT INTO lakehouse.raw.more VALUES (12, 'z')")
    assert world.run()["marts.both"] == 1
    world.sql("INSERT INTO lakehouse.raw.events VALUES (3, 'c')")
    assert world.run()["marts.both"] == 1
    world.sql("DELETE FROM lakehouse.raw.more WHERE id = 10")
    assert world.run()["marts.both"] == 5
    assert world.ids("marts.both") == [1, 2, 3, 11, 12]
