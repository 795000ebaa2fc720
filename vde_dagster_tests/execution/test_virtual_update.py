"""Statements that models want after their views are published: at least once, and never before."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.execution.events import ApplyResult, Event, Published, VirtualUpdateRan
from vde_dagster.planning.plan.plan import Category
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.faults import Fault, FaultInjector, ProcessKilled
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.long

FILES = {
    "models/orders.sql": """
        MODEL (name raw.orders, kind FULL);
        SELECT 1 AS id;
        ON_VIRTUAL_UPDATE_BEGIN;
        GRANT SELECT ON VIEW @this_model TO ROLE `all`;
        COMMENT ON TABLE marts.sums IS 'made of raw.orders';
        ON_VIRTUAL_UPDATE_END;
    """,
    "models/sums.sql": """
        MODEL (name marts.sums, kind VIEW);
        SELECT sum(id) AS s FROM raw.orders;
        ON_VIRTUAL_UPDATE_BEGIN;
        @DEF(who, analysts);
        REFRESH TABLE Marts.`sums`;
        ON_VIRTUAL_UPDATE_END
    """,
    "models/other.sql": "MODEL (name marts.other); SELECT 2 AS two",
}
DEV = [
    "GRANT SELECT ON VIEW `lakehouse`.`raw__dev`.`orders` TO ROLE `all`",
    "COMMENT ON TABLE `lakehouse`.`marts__dev`.`sums` IS 'made of raw.orders'",
    "REFRESH TABLE `lakehouse`.`marts__dev`.`sums`",
]
PROD = [text.replace("__dev", "") for text in DEV]


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "shop", FILES)


def apply(
    folder: ProjectFolder,
    engine: FakeSpark,
    environment: str = "prod",
    effects: FaultInjector | None = None,
    events: list[Event] | None = None,
) -> ApplyResult:
    workspace = open_fake(folder.root, engine, effects=effects)
    try:
        listen = events.append if events is not None else None
        return workspace.apply(workspace.plan(environment), on_event=listen)
    finally:
        workspace.close()


def test_statements_run_once_the_views_are_published_with_this_environments_names(
    folder: ProjectFolder,
) -> None:
    engine, events = FakeSpark(), list[Event]()
    assert apply(folder, engine, events=events).failed_statements == ()
    assert engine.session_statements == PROD
    kinds = [type(event) for event in events]
    assert kinds.index(Published) < kinds.index(VirtualUpdateRan)
    assert [event.error for event in events if isinstance(event, VirtualUpdateRan)] == [None] * 3

    folder.edit("models/other.sql", "2", "3")
    apply(folder, engine, "dev")
    assert engine.session_statements == [*PROD, *DEV], "a new environment shows all models"
    apply(folder, engine, "prod")
    assert engine.session_statements == [*PROD, *DEV], "nothing changed for these two"


def test_another_statement_is_metadata_and_runs_when_the_environment_is_updated(
    folder: ProjectFolder,
) -> None:
    engine = FakeSpark()
    apply(folder, engine)
    folder.edit("models/orders.sql", "`all`", "everybody")
    workspace = open_fake(folder.root, engine)
    plan = workspace.plan("prod")
    changed = {str(m.name): m.category for m in plan.models if m.category is not None}
    assert changed["raw.orders"] is Category.METADATA
    assert plan.builds == ()
    assert "marts.sums" not in changed
    workspace.apply(plan)
    workspace.close()
    assert engine.session_statements[3:] == [
        PROD[0].replace("`all`", "everybody"),
        PROD[1],
    ]


def test_a_failure_is_told_keeps_what_is_published_and_is_tried_again(
    folder: ProjectFolder,
) -> None:
    folder.edit("models/orders.sql", "ROLE `all`", "ROLE fail")
    engine = FakeSpark()
    result = apply(folder, engine)
    assert result.published
    (failed,) = result.failed_statements
    assert (str(failed.model), failed.error) == ("raw.orders", "the statement failed")
    assert len(engine.session_statements) == 3, "the others have run"

    again = apply(folder, engine)
    assert not again.published
    assert [one.statement for one in again.failed_statements] == [failed.statement]
    assert len(engine.session_statements) == 4, "only what failed is run again"

    folder.edit("models/orders.sql", "ROLE fail", "ROLE nobody")
    assert apply(folder, engine).failed_statements == ()
    assert apply(folder, engine).failed_statements == (), "an outdated statement is forgotten"


@pytest.mark.proof
@pytest.mark.parametrize("mode", ["kill_before", "kill_after"])
@pytest.mark.parametrize(
    "point", ["virtual_update.run", "state.virtual_update_done.delete vde_journal"]
)
def test_what_dies_behind_the_publication_is_finished_by_the_next_apply(
    folder: ProjectFolder, mode: str, point: str
) -> None:
    engine = FakeSpark()
    fault = Fault(point, mode, occurrence=2)  # type: ignore[arg-type]
    with pytest.raises(ProcessKilled):
        apply(folder, engine, effects=FaultInjector(fault, in_process=True))
    ran = len(engine.session_statements)

    workspace = open_fake(folder.root, engine)
    assert workspace.store.environments.get("prod") is not None, "it is published"
    workspace.store.database.run_transaction(
        lambda conn: conn.exec_driver_sql("DELETE FROM vde_leases")
    )
    plan = workspace.plan("prod")
    assert plan.is_empty
    assert workspace.apply(plan).failed_statements == ()
    assert set(engine.session_statements) == set(PROD), "each has run at least once"
    assert len(engine.session_statements) > ran
    assert workspace.store.statements.waiting("prod") == []
    workspace.close()


def test_a_rollback_runs_the_statements_of_what_it_brings_back(folder: ProjectFolder) -> None:
    engine = FakeSpark()
    apply(folder, engine)
    folder.edit("models/orders.sql", "1 AS id", "2 AS id")
    apply(folder, engine)
    del engine.session_statements[:]
    workspace = open_fake(folder.root, engine)
    result = workspace.environments.rollback("prod")
    workspace.close()
    assert result.failed_statements == ()
    assert sorted(engine.session_statements) == sorted(PROD)


def test_what_waits_ends_with_its_environment(folder: ProjectFolder) -> None:
    folder.edit("models/orders.sql", "ROLE `all`", "ROLE fail")
    engine = FakeSpark()
    apply(folder, engine)
    apply(folder, engine, "dev")
    workspace = open_fake(folder.root, engine)
    assert len(workspace.store.statements.waiting("dev")) == 1
    workspace.environments.drop("dev")
    workspace.maintenance.janitor()
    assert workspace.store.statements.waiting("dev") == []
    assert len(workspace.store.statements.waiting("prod")) == 1
    workspace.close()
