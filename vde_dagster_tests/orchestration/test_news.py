"""What others do reaches Dagster by itself: each thing once, whoever dies in between."""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import dagster as dg
import pytest
from sqlalchemy import event as sqlalchemy_event

from vde_dagster.base.names import ModelName
from vde_dagster.base.times import parse_instant
from vde_dagster.errors import VdeError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration import vde_definitions
from vde_dagster.orchestration.events import consumer, records
from vde_dagster.orchestration.events.consumer import OutboxCursor, OutboxForwarder, forward_outbox
from vde_dagster.orchestration.events.records import Projected, run_origin
from vde_dagster.orchestration.events.sync import Comparison, sync
from vde_dagster.orchestration.models.catalog import AssetCatalog, build_catalog, check_names
from vde_dagster.orchestration.models.live import load_live
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster.orchestration.names import SHORT
from vde_dagster.orchestration.resource import lend
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.plan.plan_options import PlanOptions
from vde_dagster.state.db.effects import NoEffects
from vde_dagster.state.db.outbox import OutboxRecord
from vde_dagster.state.fills.fills import FillRecord
from vde_dagster.state.store import StateStore
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.faults import Fault, FaultInjector, ProcessKilled
from vde_dagster_tests.orchestration.conftest import NOW, partitions_of, reds, run_job
from vde_dagster_tests.projects import ProjectFolder

FILES = {
    "models/daily.sql": """
        MODEL (name db.daily, kind INCREMENTAL_BY_TIME_RANGE (time_column day, batch_size 1),
          start '2024-01-01', end '2024-01-03', audits (not_null(columns := (n))));
        SELECT 1 AS n, CAST('2024-01-01' AS DATE) AS day
    """,
    "models/last.sql": "MODEL (name db.last, kind FULL); SELECT max(n) AS n FROM db.daily",
    "models/shown.sql": "MODEL (name db.shown, kind VIEW); SELECT n FROM db.last",
}
ASSETS = ("db/daily", "db/last", "db/shown", "vde/environment", "vde/plan", "vde/apply")
LAST = "models/last.sql"
CHECK = dg.AssetCheckKey(dg.AssetKey(["db", "daily"]), "not_null_columns_n")


@pytest.fixture
def engine() -> FakeSpark:
    return FakeSpark()


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "project", FILES)


@pytest.fixture
def outside(folder: ProjectFolder, engine: FakeSpark) -> Iterator[Workspace]:
    """The project as the command line has it open."""
    workspace = open_fake(folder.root, engine)
    yield workspace
    workspace.close()


def tick(
    folder: ProjectFolder, instance: dg.DagsterInstance, cursor: str | None = None
) -> str | None:
    """Let the sensor look; return the new cursor, or None when nothing was new."""
    log = logging.getLogger("vde")
    found = forward_outbox(folder.root, instance, cursor, VdeTranslator(folder.root), log)
    return found if isinstance(found, str) else None


def must(found: str | None) -> str:
    assert found is not None
    return found


def events_of(instance: dg.DagsterInstance, asset: str) -> list[dg.AssetMaterialization]:
    records = instance.fetch_materializations(dg.AssetKey(asset.split("/")), limit=999).records
    found = [record.asset_materialization for record in reversed(records)]
    return [event for event in found if event is not None]


def observations_of(instance: dg.DagsterInstance, asset: str) -> list[dg.AssetObservation]:
    records = instance.fetch_observations(dg.AssetKey(asset.split("/")), limit=999).records
    found = [record.asset_observation for record in reversed(records)]
    return [event for event in found if event is not None]


def evaluations(instance: dg.DagsterInstance) -> list[dg.AssetCheckEvaluation]:
    history = instance.event_log_storage.get_asset_check_execution_history(CHECK, limit=99)
    found = [record.evaluation for record in reversed(history)]
    return [event for event in found if isinstance(event, dg.AssetCheckEvaluation)]


def seen(instance: dg.DagsterInstance) -> dict[str, object]:
    """What Dagster shows, with how often each thing was written."""

    def name(event: dg.AssetMaterialization) -> tuple[str | None, str | None]:
        return event.partition, (event.tags or {}).get("dagster/data_version")

    return {
        **{asset: Counter(map(name, events_of(instance, asset))) for asset in ASSETS},
        "checks": len(evaluations(instance)),
        "observations": [len(observations_of(instance, asset)) for asset in ASSETS],
        "environments": set(instance.get_dynamic_partitions(str(SHORT.environments.name))),
        "plans": set(instance.get_dynamic_partitions(str(SHORT.plans.name))),
    }


def test_a_project_that_was_applied_before_opens_complete(
    folder: ProjectFolder, outside: Workspace, instance: dg.DagsterInstance
) -> None:
    plan = outside.apply(outside.plan("prod")).plan
    cursor = must(tick(folder, instance))
    assert len(partitions_of(instance, "db/daily")) == 3
    assert len(partitions_of(instance, "db/last")) == len(partitions_of(instance, "db/shown")) == 1
    assert partitions_of(instance, "vde/environment") == {"prod"}
    assert partitions_of(instance, "vde/plan") == partitions_of(instance, "vde/apply") == {plan.id}
    (check,) = evaluations(instance)
    assert check.passed
    assert check.metadata["vde/plan"].value == plan.id
    assert check.metadata["vde/environment"].value == "prod"
    assert len(cursor) < 120
    assert tick(folder, instance, cursor) is None
    with Workspace.open(folder.root) as workspace:
        assert sync(workspace, instance).is_empty


def test_an_apply_of_the_command_line_is_told_as_if_dagster_had_done_it(
    folder: ProjectFolder, outside: Workspace, instance: dg.DagsterInstance
) -> None:
    cursor = must(tick(folder, instance))
    plan = outside.apply(outside.plan("prod")).plan
    cursor = must(tick(folder, instance, cursor))
    assert tick(folder, instance, cursor) is None

    with dg.DagsterInstance.ephemeral() as twin:
        again = ProjectFolder(folder.root.parent / "twin", FILES)
        own = open_fake(again.root)
        with lend(own):
            run_job(again, twin, "vde_plan_and_apply", {"environment": "prod"}, op="plan_and_apply")
        own.close()
        left_out = {"vde/fill_seconds", "vde/table", "vde/iceberg_snapshot_id", "vde/plan"}
        for asset in ("db/daily", "db/last", "db/shown"):
            told, done = events_of(instance, asset), events_of(twin, asset)
            assert [e.partition for e in told] == [e.partition for e in done], asset
            for one, other in zip(told, done, strict=True):
                assert one.metadata.keys() == other.metadata.keys(), asset
                for name in one.metadata.keys() - left_out:
                    assert one.metadata[name] == other.metadata[name], name
                assert (one.tags or {}).keys() == (other.tags or {}).keys(), asset
        (told_check,), (done_check,) = evaluations(instance), evaluations(twin)
        assert told_check.metadata.keys() == done_check.metadata.keys()
        for asset in ("vde/environment", "vde/plan", "vde/apply"):
            told, done = events_of(instance, asset), events_of(twin, asset)
            assert [one.metadata.keys() for one in told] == [one.metadata.keys() for one in done]
            # The page of a plan is written again when it is published: by whom, and when.
            assert len(told) == (2 if asset == "vde/plan" else 1)
        assert seen(twin)["checks"] == seen(instance)["checks"]
    first = events_of(instance, "db/daily")[0]
    assert first.metadata["dagster/partition_row_count"].value == 10
    assert first.metadata["vde/bytes"].value == 100
    assert first.metadata["vde/fill_intervals"].value == 1
    assert (first.tags or {})["vde/plan"] == plan.id
    pointer = "dagster/input_event_pointer/db/daily"
    (last,) = events_of(instance, "db/last")
    newest = instance.fetch_materializations(dg.AssetKey(["db", "daily"]), limit=1).records[0]
    assert int((last.tags or {})[pointer]) >= newest.storage_id


def test_a_fill_that_counts_only_behind_its_publication_is_told(
    folder: ProjectFolder, outside: Workspace, instance: dg.DagsterInstance
) -> None:
    plan = outside.apply(outside.plan("prod")).plan
    cursor = must(tick(folder, instance))
    (table,) = (model.table for model in plan.models if str(model.name) == "db.daily")
    assert table is not None
    day = Interval(parse_instant("2024-01-03"), parse_instant("2024-01-04"))
    outside.store.fills.record(FillRecord(table.id, day, plan.id, 77, 1))
    cursor = must(tick(folder, instance, cursor))
    *others, newest = events_of(instance, "db/daily")
    assert newest.partition == f"{table.version}|2024-01-03"
    assert (newest.tags or {})["dagster/data_version"] == f"{table.version}@77"
    assert len(others) == 3
    assert tick(folder, instance, cursor) is None


def test_plans_rollbacks_drops_and_other_environments_are_told(
    folder: ProjectFolder, outside: Workspace, instance: dg.DagsterInstance
) -> None:
    cursor = must(tick(folder, instance))
    outside.apply(outside.plan("prod"))
    outside.apply(outside.plan("dev"))
    folder.edit(LAST, "max", "min")
    outside.reload()
    outside.apply(outside.plan("prod"))
    outside.environments.rollback("prod")
    folder.edit(LAST, "min", "sum")
    outside.reload()
    waiting = outside.plan("prod", author="anna")
    cursor = must(tick(folder, instance, cursor))
    versions = [
        (event.partition, event.metadata["vde/version"].value)
        for event in events_of(instance, "vde/environment")
    ]
    assert versions == [("prod", 1), ("dev", 1), ("prod", 2), ("prod", 3)]
    plans = set(instance.get_dynamic_partitions(str(SHORT.plans.name)))
    assert plans - partitions_of(instance, "vde/apply") == {waiting.id}
    assert plans == partitions_of(instance, "vde/plan")
    # The check follows what production shows; a rollback shows what was there before.
    assert all(check.metadata["vde/environment"].value == "prod" for check in evaluations(instance))

    outside.store.plans.reject(waiting.id, "anna", "not now")
    cursor = must(tick(folder, instance, cursor))
    assert waiting.id not in set(instance.get_dynamic_partitions(str(SHORT.plans.name)))
    assert partitions_of(instance, "vde/reject") == {waiting.id}

    outside.environments.drop("dev")
    outside.maintenance.janitor()
    must(tick(folder, instance, cursor))
    assert set(instance.get_dynamic_partitions(str(SHORT.environments.name))) == {"prod"}


def test_what_a_run_of_dagster_did_is_not_told_again(
    folder: ProjectFolder, outside: Workspace, instance: dg.DagsterInstance
) -> None:
    cursor = must(tick(folder, instance))
    with lend(outside):
        run_job(
            folder, instance, "vde_plan_and_apply", {"environment": "prod"}, op="plan_and_apply"
        )
        folder.edit(LAST, "max", "min")
        outside.reload()
        run_job(
            folder,
            instance,
            "vde_plan_and_apply",
            {"environment": "prod", "accept_breaks": True},
            op="plan_and_apply",
        )
        config = {"environment": "prod", "version": 1}
        run_job(folder, instance, "vde_rollback", config, op="rollback")
    before = seen(instance)
    cursor = must(tick(folder, instance, cursor))
    assert seen(instance) == before
    assert tick(folder, instance, cursor) is None
    with Workspace.open(folder.root) as workspace:
        assert sync(workspace, instance).is_empty
    # Another instance has none of it.
    with dg.DagsterInstance.ephemeral() as other:
        must(tick(folder, other))
        (shown,) = partitions_of(other, "db/last")
        assert shown in partitions_of(instance, "db/last")


def test_a_run_that_works_is_left_alone_and_looked_through_when_it_died(
    folder: ProjectFolder, outside: Workspace, instance: dg.DagsterInstance
) -> None:
    cursor = must(tick(folder, instance))
    run = dg.DagsterRun(job_name="vde_apply_job", status=dg.DagsterRunStatus.STARTED)
    instance.add_run(run)
    outside.work_for(run_origin(instance, run.run_id))
    plan = outside.plan("prod")
    instance.add_dynamic_partitions(str(SHORT.plans.name), [plan.id])
    outside.apply(plan)
    outside.work_for("")
    nothing = seen(instance)
    cursor = must(tick(folder, instance, cursor))
    assert seen(instance) == nothing
    assert run.run_id in OutboxCursor.parse(cursor).runs  # type: ignore[union-attr]

    # Somebody else's work waits for nobody.
    outside.apply(outside.plan("dev"))
    cursor = must(tick(folder, instance, cursor))
    assert partitions_of(instance, "vde/environment") == {"dev"}
    assert tick(folder, instance, cursor) is None

    instance.report_run_failed(instance.get_run_by_id(run.run_id))
    cursor = must(tick(folder, instance, cursor))
    assert len(partitions_of(instance, "db/daily")) == 3
    assert partitions_of(instance, "vde/environment") == {"prod", "dev"}
    assert plan.id in partitions_of(instance, "vde/apply")
    assert OutboxCursor.parse(cursor).runs == {}  # type: ignore[union-attr]
    assert tick(folder, instance, cursor) is None


def test_a_plan_that_was_not_published_does_not_turn_the_published_model_red(
    folder: ProjectFolder, outside: Workspace, engine: FakeSpark, instance: dg.DagsterInstance
) -> None:
    outside.apply(outside.plan("prod"))
    cursor = must(tick(folder, instance))
    folder.edit("models/daily.sql", "1 AS n", "2 AS n")
    outside.reload()
    engine.failing_audits.add("db.daily")
    plan = outside.plan("dev", author="anna")
    with pytest.raises(VdeError):
        outside.apply(plan)
    cursor = must(tick(folder, instance, cursor))
    (check,) = evaluations(instance)
    assert check.passed
    (found,) = observations_of(instance, "db/daily")
    version = plan.models[0].table
    assert version is not None
    assert found.partition == f"{version.version}|2024-01-01"
    assert found.description == "dev: 1 audit found failing rows, so nothing was published"
    assert found.metadata["vde/published"].value is False
    assert found.metadata["vde/plan"].value == plan.id
    assert found.metadata["vde/environment"].value == "dev"
    assert found.metadata["vde/failed_rows"].value == 1
    assert plan.id in set(instance.get_dynamic_partitions(str(SHORT.plans.name)))
    (failed,) = observations_of(instance, "vde/apply")
    assert failed.partition == plan.id
    # The plan, and the partition that the audit has rejected, are red, by a run that says why.
    assert reds(instance, "vde/apply", [plan.id]) == {plan.id}
    assert reds(instance, "db/daily", [found.partition, "x"]) == {found.partition}
    (run,) = instance.get_runs()
    told = [entry.message for entry in instance.all_logs(run.run_id)]
    assert any(said.startswith("outside this Dagster instance, applying the plan") for said in told)
    assert tick(folder, instance, cursor) is None
    assert len(instance.get_runs()) == 1


def test_an_audit_that_blocks_is_red_on_the_plan_and_on_the_day_that_it_rejected(
    folder: ProjectFolder, outside: Workspace, engine: FakeSpark, instance: dg.DagsterInstance
) -> None:
    """As a plan is approved in Dagster; what the command line applies is told as that, above."""
    plan = outside.plan("prod", author="anna")
    instance.add_dynamic_partitions(str(SHORT.plans.name), [plan.id])
    engine.failing_audits.add("db.daily")
    with lend(outside):
        job = run_job(folder, instance, "vde_apply_job", partition=plan.id, raise_on_error=False)
    assert not job.success
    version = next(one.table for one in plan.models if one.name.name == "daily")
    assert version is not None
    days = [f"{version.version}|2024-01-0{day}" for day in (1, 2, 3)]
    assert reds(instance, "db/daily", days) == {days[0]}
    assert reds(instance, "vde/apply", [plan.id]) == {plan.id}
    assert outside.store.environments.get("prod") is None


@pytest.mark.parametrize("how", ["command line", "dagster"])
def test_a_day_that_fails_stays_failing_when_the_next_one_passes(
    folder: ProjectFolder,
    outside: Workspace,
    engine: FakeSpark,
    instance: dg.DagsterInstance,
    how: str,
) -> None:
    folder.edit("models/daily.sql", "columns := (n)", "columns := (n), blocking := false")
    cursor = must(tick(folder, instance))
    engine.failing_audits.add("db.daily")
    if how == "dagster":
        with lend(outside):
            config = {"environment": "prod", "end": "2024-01-02"}
            run_job(folder, instance, "vde_plan_and_apply", config, op="plan_and_apply")
            engine.failing_audits.clear()
            run_job(folder, instance, "vde_run", {"environment": "prod"}, op="run")
    else:
        outside.apply(outside.plan("prod", end=parse_instant("2024-01-03")))
        cursor = must(tick(folder, instance, cursor))
        engine.failing_audits.clear()
        outside.apply(outside.plans.due("prod"))
        cursor = must(tick(folder, instance, cursor))
    audits = load(outside).live.models[ModelName("db", "daily")].snapshot.model.audits
    (name,) = check_names(audits).values()
    key = dg.AssetCheckKey(CHECK.asset_key, name)
    history = instance.event_log_storage.get_asset_check_execution_history(key, limit=9)
    newest, first = [record.evaluation for record in history]
    assert newest is not None
    assert first is not None
    assert (newest.passed, first.passed) == (False, False)
    assert newest.severity == dg.AssetCheckSeverity.WARN
    assert newest.metadata["vde/failed_rows"].value == 2
    assert "2024-01-03" in str(newest.metadata["vde/partition"].value)
    assert newest.target_materialization_data is not None
    assert str(newest.description) == "2 rows fail in 2024-01-01 … 2024-01-02"


def load(workspace: Workspace) -> AssetCatalog:
    return build_catalog(load_live(workspace, NOW), VdeTranslator(workspace.root), NOW)


@pytest.mark.proof
def test_a_tick_that_dies_anywhere_is_finished_by_the_next_and_tells_nothing_twice(
    folder: ProjectFolder,
    outside: Workspace,
    engine: FakeSpark,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = outside.store.outbox.number()
    outside.apply(outside.plan("prod"))
    folder.edit(LAST, "max", "min")
    outside.reload()
    outside.apply(outside.plan("prod"))
    outside.environments.rollback("prod")
    folder.edit("models/daily.sql", "1 AS n", "2 AS n")
    outside.reload()
    engine.failing_audits.add("db.daily")
    with pytest.raises(VdeError):
        outside.apply(outside.plan("dev"))
    outside.store.outbox.number()
    begin = OutboxCursor(start.store, start.newest)
    catalog, looks = load(outside), VdeTranslator(folder.root)
    monkeypatch.setattr(consumer, "recent_catalog", lambda *_: catalog)

    def tell(instance: dg.DagsterInstance, fault: Fault | None = None) -> list[str]:
        injector = FaultInjector(fault or Fault(), in_process=True)
        outside.store.database.effects = injector
        try:
            teller = OutboxForwarder(outside, instance, looks, logging.getLogger("vde"))
            teller.forward_since(begin)
        except ProcessKilled:
            assert injector.fired
        finally:
            outside.store.database.effects = NoEffects()
        return injector.passed

    with dg.DagsterInstance.ephemeral() as instance:
        points = Counter(tell(instance))
        whole = seen(instance)
        tell(instance)
        assert seen(instance) == whole
    assert points["dagster.event"] > 10
    for point, count in points.items():
        for number in range(1, count + 1, 3):
            with dg.DagsterInstance.ephemeral() as instance:
                tell(instance, Fault(point, "kill_after", number))
                tell(instance)
                assert seen(instance) == whole, (point, number)


def must_parse(text: str) -> OutboxCursor:
    found = OutboxCursor.parse(text)
    assert found is not None
    return found


def test_work_that_goes_beyond_a_ticks_time_is_gone_on_with(
    folder: ProjectFolder, outside: Workspace, instance: dg.DagsterInstance
) -> None:
    start = outside.store.outbox.number()
    outside.apply(outside.plan("prod"))
    outside.apply(outside.plan("dev"))
    newest = outside.store.outbox.number().newest
    looks, cursor, parts = VdeTranslator(folder.root), OutboxCursor(start.store, start.newest), []
    while cursor.number < newest:
        log = logging.getLogger("vde")
        cursor = OutboxForwarder(outside, instance, looks, log, 0.0).forward_since(cursor)
        cursor = must_parse(str(cursor))
        parts.append((cursor.number, cursor.part))
    assert len(parts) == len(set(parts)), "each tick finishes at least a part of a publication"
    assert len({part for _, part in parts if part}) > 3
    with dg.DagsterInstance.ephemeral() as other:
        OutboxForwarder(outside, other, looks, log).forward_since(
            OutboxCursor(start.store, start.newest)
        )
        assert seen(other) == seen(instance)


def test_a_tick_without_news_asks_a_few_questions_and_loads_no_project(
    folder: ProjectFolder,
    outside: Workspace,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outside.apply(outside.plan("prod"))
    cursor = must(tick(folder, instance))

    def never(*_: object) -> None:
        raise AssertionError("the project was loaded")

    monkeypatch.setattr(consumer, "recent_catalog", never)
    asked: list[str] = []
    opened = Workspace.open

    def counting(root: Path) -> Workspace:
        workspace = opened(root)
        engine = workspace.store.database.engine
        sqlalchemy_event.listen(
            engine, "before_cursor_execute", lambda *details: asked.append(str(details[2]))
        )
        return workspace

    monkeypatch.setattr(Workspace, "open", counting)
    assert tick(folder, instance, cursor) is None
    questions = [text for text in asked if text != "BEGIN"]
    assert len(questions) == 2
    assert all(text.startswith("SELECT") for text in questions)


@pytest.mark.parametrize("lost", ["nothing", "text", "another store", "forgotten news"])
def test_a_cursor_that_does_not_fit_means_to_compare_everything(
    folder: ProjectFolder, outside: Workspace, instance: dg.DagsterInstance, lost: str
) -> None:
    outside.apply(outside.plan("prod"))
    cursor = must(tick(folder, instance))
    outside.apply(outside.plan("dev"))
    values = json.loads(cursor)
    if lost == "another store":
        values["store"] = "f" * 32
    if lost == "forgotten news":
        values["number"] = 0
        values["number"] -= 5
    old = {"nothing": None, "text": "abc"}.get(lost, json.dumps(values))
    again = must(tick(folder, instance, old))
    assert partitions_of(instance, "vde/environment") == {"prod", "dev"}
    found = OutboxCursor.parse(again)
    assert found is not None
    assert found.number == outside.store.outbox.number().newest
    assert tick(folder, instance, again) is None


def test_pages_show_the_progress_of_recording_until_it_is_complete(
    folder: ProjectFolder,
    outside: Workspace,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def pages() -> set[str]:
        """Return the progress that the pages of models and of environments show."""
        graph = vde_definitions(folder.root).get_repository_def().asset_graph
        keys = [dg.AssetKey(asset.split("/")) for asset in ASSETS[:4]]
        found = (
            re.search(r"recorded [\d,]+ of [\d,]+", graph.get(k).description or "") for k in keys
        )
        return {match.group() if match else "" for match in found}

    assert pages() == {""}, "nothing is published"
    outside.apply(outside.plan("prod"))
    assert pages() == {"recorded 0 of 5"}
    monkeypatch.setattr("vde_dagster.orchestration.events.records.BATCH", 2)
    looks, log = VdeTranslator(folder.root), logging.getLogger("vde")
    told = forward_outbox(folder.root, instance, None, looks, log, budget_seconds=0)
    assert isinstance(told, str)
    assert pages() == {"recorded 2 of 5"}
    before = outside.store.outbox.last_remaining()
    cursor = must(tick(folder, instance, told))
    assert (before, outside.store.outbox.last_remaining()) == (3, 0)
    assert pages() == {""}

    # Work of another process while Dagster records: the next ticks record it.
    outside.apply(outside.plan("prod", PlanOptions(restate=("db.daily",))))
    outside.apply(outside.plan("dev"))
    assert pages() == {""}
    assert tick(folder, instance, cursor) is not None
    assert pages() == {""}


def test_a_comparison_of_everything_continues_with_the_next_tick_where_it_stopped(
    folder: ProjectFolder,
    outside: Workspace,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outside.apply(outside.plan("prod"))
    outside.apply(outside.plan("dev"))
    compared: list[str] = []
    model = Comparison.model

    def counted(own: Comparison, name: ModelName, *, wipe: bool) -> Iterator[Projected]:
        compared.append(str(name))
        yield from model(own, name, wipe=wipe)

    monkeypatch.setattr(Comparison, "model", counted)
    looks, log = VdeTranslator(folder.root), logging.getLogger("vde")
    cursor, ticks = None, 0
    while cursor is None or OutboxCursor.parse(cursor).compared is not None:  # type: ignore[union-attr]
        cursor = must(forward_outbox(folder.root, instance, cursor, looks, log, budget_seconds=0))
        ticks += 1
        if ticks == 2:  # work meanwhile is forwarded after the comparison
            outside.apply(outside.plan("prod", PlanOptions(restate=("db.last",))))
    # A step that used up the time is repeated once: its events may have been written in part.
    assert ticks > 5
    assert max(Counter(compared).values()) == 2
    assert tick(folder, instance, must(tick(folder, instance, cursor))) is None
    monkeypatch.undo()
    assert sync(outside, instance).is_empty


def test_a_comparison_asks_for_working_runs_once_while_the_state_is_the_same(
    outside: Workspace, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside.apply(outside.plan("prod"))
    outside.apply(outside.plan("dev"))
    asked: list[dg.DagsterInstance] = []
    own = records.working_runs

    def counted(instance: dg.DagsterInstance, store: StateStore) -> dict[str, list[OutboxRecord]]:
        asked.append(instance)
        return own(instance, store)

    monkeypatch.setattr(records, "working_runs", counted)
    assert not sync(outside, instance).is_empty
    assert len(asked) == 1


def test_ticks_of_two_daemons_at_once_write_each_event_once(
    folder: ProjectFolder, outside: Workspace, synchronous: dg.DagsterInstance
) -> None:
    cursor = must(tick(folder, synchronous))
    outside.apply(outside.plan("prod"))
    looks, log = VdeTranslator(folder.root), logging.getLogger("vde")
    both = Barrier(2)

    def forward() -> str | dg.SkipReason:
        both.wait(20)
        return forward_outbox(folder.root, synchronous, cursor, looks, log)

    with ThreadPoolExecutor(2) as pool:
        found = [job.result() for job in [pool.submit(forward) for _ in range(2)]]
    written = [text for text in found if isinstance(text, str)]
    assert written, found
    once = seen(synchronous)
    # A daemon that was paused continues with the cursor that it had.
    assert tick(folder, synchronous, cursor) is not None
    assert tick(folder, synchronous, written[0]) is None
    assert seen(synchronous) == once
    assert len(events_of(synchronous, "db/daily")) == 3


@pytest.mark.parametrize(("batch", "previews"), [(1, 1), (3, 0)])
def test_rows_are_shown_only_if_they_belong_to_the_partition(
    folder: ProjectFolder,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
    batch: int,
    previews: int,
) -> None:
    """The engine here makes all columns texts, which rows cannot be filtered by."""
    read: list[ModelName] = []

    def preview(*given: object) -> dict[str, object]:
        read.append(given[2].name)
        return {}

    monkeypatch.setattr("vde_dagster.orchestration.events.fills.preview", preview)
    folder.edit("models/daily.sql", "batch_size 1", f"batch_size {batch}")
    with open_fake(folder.root, FakeSpark()) as workspace:
        workspace.apply(workspace.plan("prod"))
        sync(workspace, instance)
    assert len(partitions_of(instance, "db/daily")) == 3
    assert read.count(ModelName("db", "daily")) == previews
