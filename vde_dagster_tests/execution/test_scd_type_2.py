"""A project with a dimension that keeps every version of a row, from day to day, on real Spark."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError, VdeError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.reasons import Reason, ReasonCode
from vde_dagster.project.kinds import ScdType2ByTime
from vde_dagster.spark.tables.iceberg import IcebergTable
from vde_dagster_tests.execution.workers import ShiftedClock
from vde_dagster_tests.faults import Fault, FaultInjector, ProcessKilled
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.spark.scd_reference import History, Row, query, states

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_engine")]

NAME = ModelName("marts", "customers")
KIND = ScdType2ByTime(("id", "part"), time_data_type="TIMESTAMP_NTZ", invalidate_hard_deletes=True)
FILES = {
    "external_models.yaml": """
        - name: crm.customers
          columns: {id: int, part: string, v: int, w: string, updated_at: timestamp_ntz}
    """,
    "models/customers.sql": """
        MODEL (name marts.customers, start '2024-01-01', cron '@daily',
          kind SCD_TYPE_2_BY_TIME (
            unique_key (id, part), time_data_type TIMESTAMP_NTZ, invalidate_hard_deletes true,
            forward_only false),
          audits (unique_combination_of_columns(columns := (id, part, valid_to))));
        SELECT id, part, v, w, updated_at FROM crm.customers
    """,
    "models/current.sql": """
        MODEL (name marts.current, kind VIEW);
        SELECT id, part, v FROM marts.customers WHERE valid_to IS NULL
    """,
}


class World:
    """A project, what its source says, and what its history should be."""

    def __init__(self, folder: ProjectFolder) -> None:
        self.folder = folder
        self.history = History(KIND)
        self.source: list[Row] = []

    def process(self, effects: FaultInjector | None = None) -> Workspace:
        """Start a process; one that is to die is behind, so that its leases end for the next."""
        if effects is None:
            return Workspace.open(self.folder.root)
        clock = ShiftedClock(timedelta(minutes=-10))
        return Workspace.open(self.folder.root, clock=clock, effects=effects)

    def says(self, rows: list[Row]) -> None:
        """Let the source say something else."""
        self.source = rows
        with self.process() as workspace:
            session = workspace.engine().session  # type: ignore[attr-defined]
            session.sql("CREATE NAMESPACE IF NOT EXISTS lakehouse.crm")
            session.sql(f"CREATE OR REPLACE TABLE lakehouse.crm.customers AS {query(rows)}")

    def rows(self, workspace: Workspace) -> list[tuple[Any, ...]]:
        """What production shows."""
        return sorted(workspace.query("prod", "SELECT * FROM marts.customers").rows, key=str)

    def check(self, workspace: Workspace, now: datetime) -> None:
        """Take what the source says into the history that should be, and compare."""
        self.history.load(self.source, now.replace(tzinfo=None))
        assert self.rows(workspace) == self.history.rows()
        current = "SELECT count(*) FROM marts.current"
        open_ones = [row for row in self.history.rows() if row[-1] is None]
        assert workspace.query("prod", current).rows == ((len(open_ones),),)


@pytest.fixture
def world(tmp_path: Any) -> World:
    return World(ProjectFolder(tmp_path / "project", FILES))


def noon(day: int) -> datetime:
    """The instant of a day's run: the day before is due."""
    return datetime(2024, 1, 2, 12, tzinfo=timezone.utc) + timedelta(days=day)


def ranges(workspace: Workspace, now: datetime) -> list[str]:
    """What a run would fill."""
    plan = workspace.plans.due("prod", now=now, save=False)
    (model,) = [model for model in plan.models if model.name == NAME]
    return [f"{i.start:%m-%d} {i.end:%m-%d}" for i in model.intervals]


def test_a_history_goes_on_over_pauses_edits_and_rollbacks(world: World) -> None:
    first, second, third, fourth, fifth = states(7, 5, 12)
    world.says(first)
    with world.process() as workspace:
        workspace.apply(workspace.plan("prod", now=noon(0)))
        world.check(workspace, noon(0))
        world.says(second)
        # After a pause what is so now is taken in once, with the time of this run.
        assert ranges(workspace, noon(4)) == ["01-02 01-06"]
        workspace.apply(workspace.plans.due("prod", now=noon(4)))
        world.check(workspace, noon(4))
        assert ranges(workspace, noon(4)) == []
        with pytest.raises(UsageError, match="its restatement is disabled"):
            workspace.plan("prod", now=noon(4), restate=(str(NAME),))

    before = world.history.rows()
    world.says(third)
    world.folder.edit("models/customers.sql", "w, updated_at", "w, updated_at, v + 1 AS more")
    with world.process() as workspace:
        plan = workspace.plan("prod", now=noon(5))
        (model,) = [model for model in plan.models if model.name == NAME]
        assert Reason(ReasonCode.HISTORY_RESTARTS) in model.reasons
        workspace.apply(plan)
        anew = History(KIND)
        anew.load(third, noon(5).replace(tzinfo=None))
        shown = "SELECT * EXCEPT (more) FROM marts.customers WHERE more <=> v + 1"
        assert sorted(workspace.query("prod", shown).rows, key=str) == anew.rows()

        workspace.environments.rollback("prod")
        assert world.rows(workspace) == before
        world.says(fourth)
        workspace.apply(workspace.plans.due("prod", now=noon(6)))
        world.check(workspace, noon(6))

    # In place, the history goes on: what is there has not the new column.
    with world.process() as workspace:
        workspace.apply(workspace.plan("prod", now=noon(6), forward_only=True))
        world.says(fifth)
        workspace.apply(workspace.plans.due("prod", now=noon(7)))
        world.history.load(fifth, noon(7).replace(tzinfo=None))
        shown = "SELECT * EXCEPT (more) FROM marts.customers"
        assert sorted(workspace.query("prod", shown).rows, key=str) == world.history.rows()
        new = "SELECT count(*) FROM marts.customers WHERE more = v + 1"
        assert workspace.query("prod", new).rows[0][0] > 0


Kill = Callable[[pytest.MonkeyPatch], None]


def killed_in(method: str, *, after: bool) -> Kill:
    """Die in a method of the table's own API, at its first call."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        real = getattr(IcebergTable, method)

        def dying(self: IcebergTable, *arguments: Any) -> Any:
            if after:
                real(self, *arguments)
            # What stands for SIGKILL lets no handler remove anything.
            monkeypatch.setattr(IcebergTable, "drop_branch", lambda self, branch: None)
            raise ProcessKilled(method)

        monkeypatch.setattr(IcebergTable, method, dying)

    return patch


IN_SPARK = {
    "after Iceberg's commit of the first load": killed_in("fast_forward", after=True),
    "before the work begins": killed_in("branch_at", after=True),
    "after the MERGE, before it is in place": killed_in("fast_forward", after=False),
    "after Iceberg's commit": killed_in("fast_forward", after=True),
}
IN_STATE = ("state.record_pending.commit", "publish.commit")


def test_whoever_is_killed_another_finishes_and_nothing_is_doubled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = states(11, len(IN_SPARK) + len(IN_STATE), 12)
    for day, (name, kill) in enumerate(IN_SPARK.items()):
        world.says(next(made))
        with world.process(FaultInjector(in_process=True)) as workspace:
            make = workspace.plans.due if day else workspace.plan
            plan = make("prod", now=noon(day))
            with monkeypatch.context() as patched:
                kill(patched)
                with suppress(ProcessKilled, VdeError):
                    workspace.apply(plan, concurrency=1)
            if day:
                assert world.rows(workspace) == world.history.rows(), name
        finish(world, plan.id, noon(day), name)
    for day, point in enumerate(IN_STATE, len(IN_SPARK)):
        world.says(next(made))
        effects = FaultInjector(Fault(point), in_process=True)
        with world.process(effects) as workspace:
            plan = workspace.plans.due("prod", now=noon(day))
            with suppress(ProcessKilled, VdeError):
                workspace.apply(plan, concurrency=1)
            assert effects.fired
        finish(world, plan.id, noon(day), point)


def finish(world: World, plan_id: str, now: datetime, where: str) -> None:
    """Let another process apply the same plan, and look at what is there then."""
    with world.process() as workspace:
        workspace.apply(workspace.store.plans.load(plan_id))
        world.check(workspace, now)
        assert ranges(workspace, now) == [], where
        (table,) = [
            table
            for table in workspace.store.ledger.tables()
            if table.ref.name.startswith("customers")
        ]
        refs = workspace.lakehouse.table_metadata(table.ref)["refs"]
        # What a dead process put together beside the table is left to the janitor.
        assert [ref for ref in refs if not ref.endswith("_scratch")] == ["main"], where
