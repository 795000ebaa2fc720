"""Statements before and after all else: in the plan, once an apply, and never half published."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from vde_dagster.errors import ExecutionError, ProjectError
from vde_dagster.execution.events import ApplyResult
from vde_dagster.reports.plan_json import plan_json
from vde_dagster.state.db.codec import dump_plan, load_stored_plan
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.faults import Fault, FaultInjector, ProcessKilled
from vde_dagster_tests.projects import ProjectFolder

CONFIG = """
model_defaults: {dialect: spark, start: 2024-01-01}
variables: {who: analysts}
before_all:
- CREATE TABLE IF NOT EXISTS audit.@{this_env}_log AS SELECT @runtime_stage AS stage, @start_ds AS d
- "@IF(@this_env = 'prod', SET a.b = 1)"
after_all:
- "@grants(); ANALYZE TABLE raw.orders COMPUTE STATISTICS"
"""
FILES = {
    "config.yaml": CONFIG,
    "models/orders.sql": """
        MODEL (name raw.orders, kind FULL);
        SELECT 1 AS id;
        ON_VIRTUAL_UPDATE_BEGIN;
        REFRESH TABLE @this_model;
        ON_VIRTUAL_UPDATE_END;
    """,
    "models/part.sql": "MODEL (name marts.part, kind EMBEDDED); SELECT id FROM raw.orders",
    "models/sums.sql": "MODEL (name marts.sums, kind VIEW); SELECT count(*) AS n FROM marts.part",
    "macros/grants.py": """
from vde_dagster import macro

@macro()
def grants(evaluator):
    return [
        f"GRANT USE ON SCHEMA {schema} TO {evaluator.var('who')}" for schema in evaluator.schemas
    ] + [f"GRANT SELECT ON VIEW {view} TO x" for view in evaluator.views]
""",
}
REFRESH = "REFRESH TABLE `lakehouse`.`raw__dev`.`orders`"
BEFORE = [
    "CREATE TABLE IF NOT EXISTS audit.dev_log AS SELECT 'before_all' AS stage, '2024-05-01' AS d"
]
AFTER = [
    "GRANT USE ON SCHEMA marts__dev TO analysts",
    "GRANT USE ON SCHEMA raw__dev TO analysts",
    "GRANT SELECT ON VIEW lakehouse.marts__dev.sums TO x",
    "GRANT SELECT ON VIEW lakehouse.raw__dev.orders TO x",
    "ANALYZE TABLE `lakehouse`.`raw__dev`.`orders` COMPUTE STATISTICS",
]
NOW_INSTANT = datetime(2024, 5, 2, 10, tzinfo=timezone.utc)


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "shop", FILES)


def apply(
    folder: ProjectFolder,
    engine: FakeSpark,
    environment: str = "dev",
    effects: FaultInjector | None = None,
) -> ApplyResult:
    workspace = open_fake(folder.root, engine, effects=effects)
    try:
        return workspace.apply(workspace.plan(environment, now=NOW_INSTANT))
    finally:
        workspace.close()


def test_they_run_around_everything_else_and_the_plan_shows_them_complete(
    folder: ProjectFolder,
) -> None:
    engine = FakeSpark()
    workspace = open_fake(folder.root, engine)
    plan = workspace.plan("dev", now=NOW_INSTANT)
    workspace.close()
    shown = plan_json(plan)
    assert (shown["before_all"], shown["after_all"]) == (BEFORE, AFTER)
    stored = load_stored_plan(dump_plan(plan)).plan
    assert (stored.statements, stored.other_statements) == (plan.statements, True)
    assert engine.session_statements == [], "planning runs none of them"

    assert apply(folder, engine).failed_statements == ()
    assert engine.session_statements == [*BEFORE, REFRESH, *AFTER]
    apply(folder, engine)
    assert len(engine.session_statements) == 7, "there was nothing to do"

    apply(folder, engine, "prod")
    assert "SET a.b = 1" in engine.session_statements


def test_other_statements_alone_make_a_plan(folder: ProjectFolder) -> None:
    engine = FakeSpark()
    apply(folder, engine)
    del engine.session_statements[:]
    folder.edit("config.yaml", "ANALYZE TABLE raw.orders", "ANALYZE TABLE marts.other")
    with open_fake(folder.root, engine) as workspace:
        rejected = workspace.plan("dev", now=NOW_INSTANT)
        workspace.plans.reject(rejected.id)
    folder.edit("config.yaml", "ANALYZE TABLE marts.other", "ANALYZE TABLE marts.sums")
    with open_fake(folder.root, engine) as workspace:
        plan = workspace.plan("dev", now=NOW_INSTANT)
        assert workspace.store.plans.find_rejected(rejected) == rejected.id
        assert workspace.store.plans.find_rejected(plan) is None
    assert apply(folder, engine).published
    assert engine.session_statements[-1].startswith("ANALYZE TABLE `lakehouse`.`marts__dev`.`sums`")
    assert not apply(folder, engine).published

    folder.write("config.yaml", "model_defaults: {dialect: spark, start: 2024-01-01}\n")
    del engine.session_statements[:]
    assert apply(folder, engine).published
    assert engine.session_statements == []


def test_a_run_takes_what_was_published(folder: ProjectFolder) -> None:
    folder.edit("models/orders.sql", "kind FULL", "kind FULL, cron '@hourly'")
    engine = FakeSpark()
    apply(folder, engine)
    folder.edit("config.yaml", "ANALYZE TABLE raw.orders", "ANALYZE TABLE marts.sums")
    del engine.session_statements[:]
    workspace = open_fake(folder.root, engine)
    plan = workspace.plans.due("dev", now=NOW_INSTANT + timedelta(days=1))
    assert not plan.is_empty
    workspace.apply(plan)
    workspace.close()
    assert engine.session_statements == [BEFORE[0].replace("05-01", "05-02"), *AFTER]


def test_one_that_fails_before_all_leaves_everything_as_it_was(folder: ProjectFolder) -> None:
    folder.edit("config.yaml", "SELECT @runtime_stage", "SELECT fail(@runtime_stage)")
    engine = FakeSpark()
    with pytest.raises(ExecutionError, match="a statement of before_all failed") as raised:
        apply(folder, engine)
    assert str(raised.value.location) == "config.yaml"
    assert "fail('before_all')" in raised.value.message
    assert engine.statements == 0
    workspace = open_fake(folder.root, engine)
    assert workspace.store.environments.get("dev") is None
    assert not workspace.store.statements.around_runs("dev")
    workspace.close()


def test_one_that_fails_after_all_is_told_and_tried_again(folder: ProjectFolder) -> None:
    folder.edit("config.yaml", "TABLE raw.orders", "TABLE fail.orders")
    engine = FakeSpark()
    result = apply(folder, engine)
    assert result.published
    assert [str(one.model) for one in result.failed_statements] == ["settings.after_all"]
    folder.edit("config.yaml", "TABLE fail.orders", "TABLE raw.orders")
    assert apply(folder, engine).failed_statements == (), "the outdated one is forgotten"


@pytest.mark.proof
@pytest.mark.parametrize("mode", ["kill_before", "kill_after"])
@pytest.mark.parametrize("point", ["before_all.run", "virtual_update.run", "publish.commit"])
def test_each_has_run_at_least_once_when_an_apply_that_died_is_done_again(
    folder: ProjectFolder, mode: str, point: str
) -> None:
    engine = FakeSpark()
    fault = Fault(point, mode)  # type: ignore[arg-type]
    injector = FaultInjector(fault, in_process=True)
    with suppress(ProcessKilled):
        apply(folder, engine, effects=injector)
    workspace = open_fake(folder.root, engine)
    workspace.store.database.run_transaction(
        lambda conn: conn.exec_driver_sql("DELETE FROM vde_leases")
    )
    workspace.close()
    assert apply(folder, engine).failed_statements == ()
    assert set(engine.session_statements) == {*BEFORE, REFRESH, *AFTER}


def test_what_an_environment_runs_ends_with_it(folder: ProjectFolder) -> None:
    engine = FakeSpark()
    apply(folder, engine)
    workspace = open_fake(folder.root, engine)
    assert workspace.store.statements.around_runs("dev")
    workspace.environments.drop("dev")
    workspace.maintenance.janitor()
    assert not workspace.store.statements.around_runs("dev")
    workspace.close()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT @nobody", "nobody"),
        ("SELECT (1", "cannot be parsed|syntax|Expecting"),
        ("@grants(1)", "grants"),
    ],
)
def test_a_mistake_is_found_when_planning_with_its_file(
    folder: ProjectFolder, statement: str, message: str
) -> None:
    folder.write("config.yaml", f"model_defaults: {{dialect: spark}}\nafter_all: ['{statement}']\n")
    workspace = open_fake(folder.root, FakeSpark())
    with pytest.raises(ProjectError, match=message) as raised:
        workspace.plan("dev")
    workspace.close()
    assert str(raised.value.location) == "config.yaml:2"
    assert workspace.store.plans.recent() == []


def test_a_models_macro_knows_no_environment(folder: ProjectFolder) -> None:
    folder.edit("models/orders.sql", "SELECT 1 AS id", "SELECT 1 AS id, @grants() AS x")
    workspace = open_fake(folder.root, FakeSpark())
    with pytest.raises(ProjectError, match="only in before_all and after_all"):
        workspace.plan("dev")
    workspace.close()


def test_operator_of_another_dialect_is_refused_unless_it_is_trusted(tmp_path: Path) -> None:
    statement = "CREATE TABLE log.t AS SELECT a / 2 AS half FROM m.a"
    settings = f'[tool.vde]\ndialect = "trino"\nbefore_all = ["{statement}"]\n'
    (tmp_path / "models").mkdir()
    model = "MODEL (name m.a, kind FULL);\nSELECT CAST(1 AS INT) AS a"
    (tmp_path / "models/a.sql").write_text(model)

    (tmp_path / "pyproject.toml").write_text(settings)
    with open_fake(tmp_path) as workspace, pytest.raises(ProjectError) as caught:
        workspace.plan("dev")
    assert "on Trino, a division of integers drops the remainder" in str(caught.value)

    (tmp_path / "pyproject.toml").write_text(settings + 'dialect_trust = ["/"]\n')
    with open_fake(tmp_path) as workspace:
        [before] = workspace.plan("dev").statements.before
    assert before == statement.replace("m.a", "`lakehouse`.`m__dev`.`a`")
