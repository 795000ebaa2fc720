"""Checks are executed by themselves in Dagster, and block what they block in the model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from vde_dagster.cli.main_job import QUIET
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration import vde_definitions
from vde_dagster.orchestration.resource import lend
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.orchestration.conftest import version_of
from vde_dagster_tests.orchestration.test_news import must, tick
from vde_dagster_tests.projects import ProjectFolder

FIRST, NEXT = dg.AssetKey(["db", "first"]), dg.AssetKey(["db", "next"])
FILES = {
    "models/first.sql": """
        MODEL (name db.first, kind FULL, audits (not_null(columns := (n)),
          not_null(columns := (n, m), blocking := false)));
        SELECT 1 AS n, 2 AS m
    """,
    "models/next.sql": """
        MODEL (name db.next, kind FULL, audits (not_null(columns := (n))));
        SELECT n FROM db.first
    """,
}


@pytest.fixture
def engine() -> FakeSpark:
    return FakeSpark()


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "project", FILES)


@pytest.fixture
def workspace(folder: ProjectFolder, engine: FakeSpark) -> Iterator[Workspace]:
    opened = open_fake(folder.root, engine)
    opened.apply(opened.plan("prod"))
    with lend(opened):
        yield opened
    opened.close()


def specs(folder: ProjectFolder) -> dict[str, dg.AssetCheckSpec]:
    graph = vde_definitions(folder.root).resolve_asset_graph()
    checks = [graph.get(key) for key in graph.asset_check_keys if key.asset_key == FIRST]
    return {node.key.name: graph.get_check_spec(node.key) for node in checks}


def execute(
    folder: ProjectFolder,
    instance: dg.DagsterInstance,
    *,
    assets: set[dg.AssetKey] = frozenset(),  # type: ignore[assignment]
    checks: set[dg.AssetCheckKey] | None = None,
    partition: str | None = None,
) -> dg.ExecuteInProcessResult:
    """Do what the buttons *Execute* of a check and *Materialize* of assets do."""
    job = vde_definitions(folder.root).resolve_implicit_global_asset_job_def()
    chosen = job.get_subset(asset_selection=set(assets), asset_check_selection=checks)
    return chosen.execute_in_process(
        instance=instance, run_config=QUIET, partition_key=partition, raise_on_error=False
    )


def test_a_check_blocks_what_it_blocks_in_the_model(
    folder: ProjectFolder, workspace: Workspace
) -> None:
    blocking = {name: spec.blocking for name, spec in specs(folder).items()}
    assert sorted(blocking.values()) == [False, True]
    assert blocking["not_null_columns_n"]


def test_a_check_executed_by_itself_audits_what_production_shows(
    folder: ProjectFolder, workspace: Workspace, engine: FakeSpark, instance: dg.DagsterInstance
) -> None:
    cursor = must(tick(folder, instance))
    check = dg.AssetCheckKey(FIRST, "not_null_columns_n")
    statements = engine.statements
    result = execute(folder, instance, checks={check})
    assert result.success
    (evaluation,) = result.get_asset_check_evaluations()
    assert engine.statements == statements + 1
    assert evaluation.passed
    assert evaluation.metadata["vde/environment"].value == "prod"
    assert evaluation.metadata["vde/partition"].value == version_of(folder, "db.first")
    assert evaluation.target_materialization_data is not None

    engine.failing_audits.add("db.first")
    others = {dg.AssetCheckKey(FIRST, name) for name, spec in specs(folder).items()} - {check}
    result = execute(folder, instance, checks=others)
    assert result.success
    (warned,) = result.get_asset_check_evaluations()
    assert (warned.passed, warned.severity) == (False, dg.AssetCheckSeverity.WARN)
    result = execute(folder, instance, checks={check})
    assert not result.success
    (failed,) = result.get_asset_check_evaluations()
    assert (failed.passed, failed.blocking) == (False, True)

    history = instance.event_log_storage.get_asset_check_execution_history(check, limit=99)
    cursor = must(tick(folder, instance, cursor))
    again = instance.event_log_storage.get_asset_check_execution_history(check, limit=99)
    assert len(again) == len(history)

    # What the command line audits is told.
    engine.failing_audits.clear()
    workspace.environments.audit("prod")
    must(tick(folder, instance, cursor))
    newest = instance.event_log_storage.get_asset_check_execution_history(check, limit=1)[0]
    assert newest.evaluation is not None
    assert newest.evaluation.passed


def test_a_fill_whose_checks_block_evaluates_them_and_ends_well(
    folder: ProjectFolder, workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    first, second = version_of(folder, "db.first"), version_of(folder, "db.next")
    for keys, partition in (({FIRST}, first), ({NEXT}, second)):
        result = execute(folder, instance, assets=keys, partition=partition)
        assert result.success
        checked = {e.asset_key for e in result.get_asset_check_evaluations()}
        assert checked >= keys


def test_audits_of_tables_that_others_write_are_checks_that_can_be_executed(
    folder: ProjectFolder, workspace: Workspace, engine: FakeSpark, instance: dg.DagsterInstance
) -> None:
    folder.write(
        "external_models.yaml",
        """
        - name: lake.events
          columns: {n: INT}
          audits: [{name: not_null, columns: "[n]"}]
        """,
    )
    folder.write("models/view.sql", "MODEL (name db.seen, kind VIEW); SELECT n FROM lake.events")
    workspace.reload()
    cursor = must(tick(folder, instance))
    workspace.apply(workspace.plan("prod"))
    tick(folder, instance, cursor)
    check = dg.AssetCheckKey(dg.AssetKey(["lake", "events"]), "not_null_columns_n")
    history = instance.event_log_storage.get_asset_check_execution_history(check, limit=9)
    assert [record.evaluation.passed for record in history if record.evaluation] == [True]

    engine.failing_audits.add("lake.events")
    result = execute(folder, instance, checks={check})

    (evaluation,) = result.get_asset_check_evaluations()
    assert (evaluation.passed, evaluation.blocking) == (False, True)


def test_what_an_audit_reads_beside_its_model_is_a_dependency_of_its_check(
    folder: ProjectFolder, workspace: Workspace
) -> None:
    folder.write(
        "audits/known.sql",
        "AUDIT (name known); SELECT * FROM @this_model AS t LEFT ANTI JOIN db.next AS o USING (n)",
    )
    folder.edit("models/first.sql", "audits (", "audits (known, ")
    workspace.reload()

    (known,) = [spec for name, spec in specs(folder).items() if name.startswith("known")]

    assert [dep.asset_key for dep in known.additional_deps] == [NEXT]
    assert vde_definitions(folder.root).resolve_asset_graph().get(FIRST).parent_keys == set()


def test_a_standalone_audit_is_a_node_behind_what_it_reads_with_one_check(
    folder: ProjectFolder, workspace: Workspace, engine: FakeSpark, instance: dg.DagsterInstance
) -> None:
    folder.write(
        "audits/alone.sql",
        "AUDIT (name alone, standalone true); SELECT n FROM db.first JOIN db.next USING (n)",
    )
    workspace.reload()
    cursor = must(tick(folder, instance))
    engine.failing_audits.add("default.alone")
    workspace.apply(workspace.plan("prod"))
    tick(folder, instance, cursor)

    node = dg.AssetKey(["default", "alone"])
    graph = vde_definitions(folder.root).resolve_asset_graph()
    assert graph.get(node).parent_keys == {FIRST, NEXT}
    assert not graph.get(node).is_materializable
    (check,) = (key for key in graph.asset_check_keys if key.asset_key == node)
    history = instance.event_log_storage.get_asset_check_execution_history(check, limit=9)
    (evaluation,) = [record.evaluation for record in history if record.evaluation]
    assert (evaluation.passed, evaluation.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert execute(folder, instance, checks={check}).success
