"""What a run skips, what it records of that, and what it may not believe; without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from vde_dagster.base.names import ModelName
from vde_dagster.cli.applying import result_json
from vde_dagster.errors import AuditFailedError
from vde_dagster.execution.events import Event, IntervalFilled
from vde_dagster.lakehouse.publishing.new_table import NewTable
from vde_dagster.planning.engine_tasks import FillResult, FillTask
from vde_dagster.planning.reasons import Reason, ReasonCode
from vde_dagster.planning.tables.table import PhysicalTable, TableRef
from vde_dagster.reports.plan import plan_report
from vde_dagster.terminal.reports import show_report, show_summary
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.projects import ProjectFolder

FIRST = datetime(2024, 1, 3, 12, tzinfo=timezone.utc)
DAY = timedelta(days=1)
EXTERNAL = TableRef("ext", "rates")
FILES = {
    "models/raw/orders.sql": """
        MODEL (name raw.orders, kind SEED (path '../../seeds/orders.csv'), columns (id INT));
    """,
    "models/db/whole.sql": "MODEL (name db.whole, kind FULL); SELECT id + 1 AS id FROM raw.orders",
    "models/db/below.sql": "MODEL (name db.below, kind FULL); SELECT id * 2 AS id FROM db.whole",
    "models/db/always.sql": """
        MODEL (name db.always, kind FULL, skip_unchanged false,
          audits (not_null(columns := (id))));
        SELECT id + 3 AS id FROM raw.orders
    """,
    "models/db/rated.sql": """
        MODEL (name db.rated, kind FULL);
        SELECT id FROM ext.rates
    """,
    "models/db/coded.py": """
        from vde_dagster import model

        @model("db.coded", kind="FULL", columns={"id": "INT"})
        def coded(context, **rest):
            return context.table("raw.orders")
    """,
    "models/db/declared.py": """
        from vde_dagster import model

        @model("db.declared", kind="FULL", columns={"id": "INT"}, skip_unchanged=True)
        def declared(context, **rest):
            return context.table("raw.orders")
    """,
    "seeds/orders.csv": "id\n1\n",
}
SKIPPED = {"db.whole", "db.below", "db.rated", "db.declared"}
ALWAYS = {"db.always", "db.coded"}


class Engine(FakeSpark):
    """An engine that can die behind a commit, or let others write before one."""

    def __init__(self) -> None:
        super().__init__()
        self.dies_behind: str | None = None
        self.others_write = False

    def fill(self, task: FillTask) -> FillResult:
        """Commit a range, and perhaps die."""
        if self.others_write and str(task.snapshot.name) == "db.rated":
            self.write_rates()
        result = super().fill(task)
        if self.dies_behind == str(task.snapshot.name):
            self.dies_behind = None
            raise KeyboardInterrupt
        return result

    def write_rates(self) -> None:
        """Write a metadata file of the external table that says what the last one said."""
        location = self.lakehouse.metadata_location(EXTERNAL)
        metadata = self.lakehouse.table_metadata(EXTERNAL)
        newer = {**metadata, "last-updated-ms": metadata["last-updated-ms"] + 1}
        self._commit(EXTERNAL, location, newer, "engine.fill")


class World:
    """A project that is run day by day."""

    def __init__(self, root: Path) -> None:
        self.engine = Engine()
        self.workspace = open_fake(ProjectFolder(root, FILES).root, self.engine)
        lakehouse = self.workspace.lakehouse
        lakehouse.catalog.create_namespaces({"ext": {}})
        location = f"{lakehouse.warehouse}/ext/rates"
        lakehouse.create_table(NewTable(EXTERNAL, [("id", "INT", None)], location, {}))
        self.now = FIRST
        self.workspace.apply(self.workspace.plan("prod", now=FIRST))

    def run(self, *, full: bool = False) -> tuple[set[str], set[str]]:
        """Run the next day; return what was computed and what was skipped."""
        self.now += DAY
        events: list[Event] = []
        plan = self.workspace.plans.due("prod", now=self.now, full=full)
        self.workspace.apply(plan, on_event=events.append)
        filled = [event for event in events if isinstance(event, IntervalFilled)]
        skipped = {str(event.snapshot.name) for event in filled if event.skipped}
        return {str(event.snapshot.name) for event in filled} - skipped, skipped

    def table(self, name: str) -> PhysicalTable:
        """The table that production shows of a model."""
        shown = self.workspace.store.environments.get("prod")
        assert shown is not None
        entry = shown.entries[ModelName.parse(name)]
        return self.workspace.store.tables.get(str(entry.table_id))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "project")
    yield made
    made.workspace.close()


def test_run_skips_what_has_nothing_new_and_says_of_the_rest_why_not(world: World) -> None:
    plan = world.workspace.plans.due("prod", now=FIRST + DAY)
    said = {str(model.name): model for model in plan.builds}
    assert {name for name, model in said.items() if model.skips} == SKIPPED
    assert said["db.always"].always == Reason(ReasonCode.NEVER_SKIPPED)
    assert said["db.coded"].always == Reason(ReasonCode.PYTHON)
    assert world.run() == (ALWAYS, SKIPPED)
    assert world.run(full=True) == (SKIPPED | ALWAYS, set())


def test_result_of_a_run_says_what_was_skipped_why_and_what_that_saved(world: World) -> None:
    plan = world.workspace.plans.due("prod", now=FIRST + DAY)
    console = Console(file=StringIO(), width=200)
    show_report(console, plan_report(plan, {}))
    show_summary(console, plan_report(plan))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "skips 4 models, which saves 0.4 kB" in shown
    assert "db.whole  unchanged  skipped, its inputs have not changed since 2" in shown
    assert "skips     4 models" in shown
    result = world.workspace.apply(plan)
    said = result_json(result)["skipped"]
    assert {one["model"] for one in said} == SKIPPED
    (whole,) = (one for one in said if one["model"] == "db.whole")
    assert whole["why"].startswith("its inputs have not changed since 2")
    assert whole["saved_bytes"] == 100
    assert whole["saved_seconds"] == 0.0


def test_skipped_slot_counts_as_filled_with_the_rows_of_the_last_fill(world: World) -> None:
    before = world.workspace.lakehouse.table_metadata(world.table("db.whole").ref)
    world.run()
    world.run()
    table = world.table("db.whole")
    assert table.intervals.ranges[-1].end == datetime(2024, 1, 5, tzinfo=timezone.utc)
    assert world.workspace.lakehouse.table_metadata(table.ref) == before
    newest, older, first = world.workspace.store.fills.log(table.id)
    assert newest.iceberg_snapshot_id == older.iceberg_snapshot_id == first.iceberg_snapshot_id
    assert newest.rows == first.rows
    skipped = newest.facts.skipped
    assert skipped is not None
    assert skipped.since == first.recorded_at
    assert (skipped.seconds, skipped.bytes) == (first.seconds, first.bytes)
    assert first.facts.skipped is None
    assert world.workspace.plans.due("prod", now=world.now).is_empty


def test_every_fill_remembers_which_iceberg_snapshots_it_read(world: World) -> None:
    parent, child = world.table("db.whole"), world.table("db.below")
    facts = world.workspace.store.fills.latest([child.id])[child.id].facts
    assert facts.inputs is not None
    assert set(facts.inputs) == {parent.id}
    head = world.workspace.lakehouse.main_snapshot(parent.ref)
    assert facts.inputs[parent.id].read_id == head
    rated = world.table("db.rated").id
    inputs = world.workspace.store.fills.latest([rated])[rated].facts.inputs
    assert inputs is not None
    assert set(inputs) == {"ext.rates"}


def test_skipped_slots_wait_for_the_publication_like_rows(world: World) -> None:
    world.engine.failing_audits.add("db.always")
    table = world.table("db.whole")
    plan = world.workspace.plans.due("prod", now=FIRST + DAY)
    with pytest.raises(AuditFailedError):
        world.workspace.apply(plan)
    assert world.table("db.whole").intervals == table.intervals
    assert any(
        item.facts is not None and item.facts.skipped is not None
        for item in world.workspace.store.pending.for_plan(plan.id)
    )
    world.engine.failing_audits.clear()
    world.workspace.apply(plan)
    assert world.table("db.whole").intervals != table.intervals
    assert world.workspace.store.pending.for_plan(plan.id) == []


def test_fill_that_a_dead_process_left_is_believed_only_to_be_there(world: World) -> None:
    world.engine.dies_behind = "db.whole"
    world.now += DAY
    plan = world.workspace.plans.due("prod", now=world.now, full=True)
    with pytest.raises(KeyboardInterrupt):
        world.workspace.apply(plan)
    events: list[Event] = []
    world.workspace.apply(plan, on_event=events.append)
    taken = [e for e in events if isinstance(e, IntervalFilled) and e.recovered]
    assert [str(event.snapshot.name) for event in taken] == ["db.whole"]
    last = world.workspace.store.fills.latest([world.table("db.whole").id])
    (found,) = last.values()
    assert found.facts.inputs is None
    assert found.facts.output is None
    computed, _ = world.run()
    assert {"db.whole", "db.below"} <= computed, "what it read is not known, nor what it wrote"
    assert world.run() == (ALWAYS, SKIPPED)


def test_fill_during_which_others_wrote_is_not_built_upon(world: World) -> None:
    world.engine.others_write = True
    world.run(full=True)
    world.engine.others_write = False
    computed, _ = world.run()
    assert "db.rated" in computed
    assert "db.rated" in world.run()[1]


def test_backfill_that_somebody_asks_for_is_never_skipped(world: World) -> None:
    from vde_dagster.planning.intervals.interval import IntervalSet

    shown = world.workspace.store.environments.get("prod")
    assert shown is not None
    entry = shown.entries[ModelName.parse("db.whole")]
    events: list[Event] = []
    last = IntervalSet(world.table("db.whole").intervals.ranges[-1:])
    plan = world.workspace.plans.backfill(entry.snapshot_id, last, restate=True)
    world.workspace.apply(plan, on_event=events.append)
    filled = [event for event in events if isinstance(event, IntervalFilled)]
    assert {str(event.snapshot.name) for event in filled} == {"db.whole", "db.below"}
    assert not any(event.skipped for event in filled)


def test_models_that_share_a_table_are_both_skipped_and_save_it_once(tmp_path: Path) -> None:
    twin = FILES["models/db/whole.sql"].replace("db.whole", "db.twin")
    folder = ProjectFolder(tmp_path / "project", {**FILES, "models/db/twin.sql": twin})
    folder.remove("models/db/rated.sql")
    with open_fake(folder.root, Engine()) as workspace:
        workspace.apply(workspace.plan("prod", now=FIRST))
        plan = workspace.plans.due("prod", now=FIRST + DAY)
        expected = SKIPPED - {"db.rated"} | {"db.twin"}
        planned = {str(model.name): model.skips for model in plan.builds if model.skips}
        assert set(planned) == expected
        result = workspace.apply(plan)
        skipped = {str(name): one for name, one in result.skipped.items()}
        assert set(skipped) == expected
        for said in (planned, skipped):
            assert sorted((said["db.whole"].bytes or 0, said["db.twin"].bytes or 0)) == [0, 100]
