"""A row that claims a decided publication moves no pointer unless the state's content proves it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.metadata.table_metadata import head_of
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state.environments.publications import PublishedFile, ReturnedTo
from vde_dagster_tests.execution.test_other_catalog import (
    Warehouses,
    edited,
    next_day,
)
from vde_dagster_tests.execution.test_rest import OnRest

DAILY = ModelName("marts", "daily")
Forgery = Callable[[PublishedFile], PublishedFile]


def with_history(made: Warehouses) -> None:
    """Fill production for two days, and let `dev` show the same tables."""
    made.run(next_day(made))
    made.run(lambda workspace: workspace.apply(workspace.plan("dev"), who="eve"))


def back_to_the_first_commit(workspace: Workspace) -> PublishedFile:
    """Return a file that moves production's table back to its first commit."""
    store = workspace.store
    current = store.environments.get("prod")
    assert current is not None
    table = store.tables.get(current.entries[DAILY].table_id or "")
    loaded = workspace.lakehouse.find_table(table.ref)
    assert loaded is not None
    commits = sorted(loaded.metadata["snapshots"], key=lambda one: int(one["sequence-number"]))
    first, now = int(commits[0]["snapshot-id"]), head_of(loaded.metadata)
    assert now != first
    back = ReturnedTo(now, first, IntervalSet())
    return PublishedFile(loaded.location, loaded.location, "table", table.ref, None, table.id, back)


def decide(workspace: Workspace, environment: str, *files: PublishedFile) -> None:
    """Write a row as one login may: announced, and then decided."""
    store, current = workspace.store, workspace.store.environments.get(environment)
    version = current.version if current is not None else 1
    store.publications.intend("forged", environment, None, "eve", files)
    store.database.run_transaction(
        lambda conn: store.publications.commit(conn, "forged", version, settled=False),
        name="test",
    )


def assert_moves_nothing(made: Warehouses, environment: str) -> None:
    """Forge a row of an environment: its pointers stay, and later publications go on."""
    with_history(made)
    before = made.look()

    def forge(workspace: Workspace) -> None:
        decide(workspace, environment, back_to_the_first_commit(workspace))
        assert not workspace.lakehouse.recover()
        problems = [one.problem for one in workspace.maintenance.fsck()]
        assert problems.count("foreign_publication") == 1

    made.run(forge)
    assert made.look() == before
    made.project.edit("models/marts/week.sql", "sum(revenue)", "max(revenue)")
    made.run(lambda workspace: workspace.apply(workspace.plan("prod"), who="me"))
    assert made.look() != before


@pytest.mark.parametrize("environment", ["dev", "prod", "nowhere"])
def test_a_forged_publication_moves_nothing(
    environment: str, tmp_path: Path, empty_database: Path
) -> None:
    assert_moves_nothing(Warehouses(tmp_path, empty_database), environment)


@pytest.mark.server
@pytest.mark.parametrize("environment", ["dev", "prod"])
def test_a_forged_publication_moves_nothing_of_a_rest_catalog(
    environment: str, tmp_path: Path, empty_database: Path, rest_server: str
) -> None:
    assert_moves_nothing(OnRest(tmp_path, empty_database, rest_server), environment)


def test_a_publication_whose_files_cannot_be_read_stops_nothing(
    tmp_path: Path, empty_database: Path
) -> None:
    made = Warehouses(tmp_path, empty_database)
    with_history(made)

    def damage(workspace: Workspace) -> None:
        decide(workspace, "prod")
        damaged = "UPDATE vde_publications SET files = x'78' WHERE publication_id = 'forged'"
        workspace.store.database.run_transaction(
            lambda conn: conn.exec_driver_sql(damaged) and None, name="test"
        )
        assert not workspace.lakehouse.recover()
        (found,) = [
            one for one in workspace.maintenance.fsck() if one.problem == "foreign_publication"
        ]
        assert "cannot be read" in found.detail

    made.run(damage)
    before = made.look()
    made.project.edit("models/marts/week.sql", "sum(revenue)", "max(revenue)")
    made.run(lambda workspace: workspace.apply(workspace.plan("prod"), who="me"))
    assert made.look() != before


def _drops_it(file: PublishedFile) -> PublishedFile:
    return replace(file, previous=file.location, location="")


def _shows_another_file(file: PublishedFile) -> PublishedFile:
    return replace(file, location=f"{file.location.rpartition('/')[0]}/other.metadata.json")


def _has_another_name(file: PublishedFile) -> PublishedFile:
    return replace(file, ref=TableRef("marts", "theirs"))


def _is_a_table(file: PublishedFile) -> PublishedFile:
    return replace(file, kind="table")


def _is_shown(file: PublishedFile) -> PublishedFile:
    return replace(file, kind="shown")


FORGERIES = [_drops_it, _shows_another_file, _has_another_name, _is_a_table, _is_shown]


@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda one: one.__name__)
def test_a_changed_file_of_a_decided_publication_is_found(
    forgery: Forgery, tmp_path: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The publisher died between its decision and the catalog's first change."""
    made = Warehouses(tmp_path, empty_database)
    command = edited(made)
    with monkeypatch.context() as patch:
        patch.setattr("vde_dagster.lakehouse.publishing.publish.settle", lambda *_: None)
        made.run(command)

    def forge(workspace: Workspace) -> None:
        store, catalog = workspace.store, workspace.lakehouse.catalog
        (record,) = store.publications.unsettled()
        honest = next(one for one in record.files if one.kind == "view")
        before = catalog.all_pointers()
        given_up = "UPDATE vde_publications SET status = 'aborted' WHERE status = 'decided'"
        store.database.run_transaction(
            lambda conn: conn.exec_driver_sql(given_up) and None, name="test"
        )
        decide(workspace, "prod", forgery(honest))
        assert not workspace.lakehouse.recover()
        assert catalog.all_pointers() == before
        assert "foreign_publication" in [one.problem for one in workspace.maintenance.fsck()]

    made.run(forge)
