"""What reads a table through views is stale when that table's rows have changed, and only then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest

from vde_dagster.base.names import ModelName
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.assets.model_assets import model_specs
from vde_dagster.orchestration.events.sync import sync
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.orchestration.conftest import fill_by_itself, load_catalog, version_of
from vde_dagster_tests.orchestration.test_news import events_of, must, tick
from vde_dagster_tests.projects import Prepared, ProjectFolder

DAYS = ("2024-01-01", "2024-01-02", "2024-01-03")
TIMES = "kind INCREMENTAL_BY_TIME_RANGE (time_column day), start '2024-01-01', end '2024-01-03'"
RANGE = "WHERE day BETWEEN @start_date AND @end_date"
VIEW = "models/joined.sql"
FILES = {
    "models/events.sql": f"MODEL (name raw.events, {TIMES}); "
    "SELECT 1 AS id, 2 AS v, @start_date AS day",
    "models/names.sql": "MODEL (name raw.names, kind FULL); SELECT 1 AS id, 'a' AS name",
    "models/more.sql": "MODEL (name raw.more, kind FULL, grains (id)); "
    "SELECT id, max(name) AS title FROM raw.names GROUP BY id",
    "models/plain.sql": "MODEL (name staging.plain, kind EMBEDDED); SELECT * FROM raw.events",
    VIEW: """
        MODEL (name staging.joined, kind VIEW);
        SELECT e.id, e.v, e.day, n.name
        FROM staging.plain AS e JOIN raw.names AS n ON n.id = e.id
    """,
    "models/shown.sql": "MODEL (name staging.shown, kind VIEW); SELECT * FROM staging.joined",
    "models/daily.sql": f"MODEL (name marts.daily, {TIMES}); "
    f"SELECT day, sum(v) AS v FROM staging.shown {RANGE} GROUP BY day",
    "models/total.sql": "MODEL (name marts.total, kind FULL); "
    "SELECT sum(v) AS v FROM staging.shown",
}
WITH_MORE = {
    "n.name": "n.name, m.title",
    "n.id = e.id": "n.id = e.id LEFT JOIN raw.more AS m ON m.id = e.id",
}
FRESH = dict.fromkeys((*(f"marts.daily {day}" for day in DAYS), "marts.total"), True)


def published(root: Path) -> None:
    with open_fake(ProjectFolder(root, FILES).root) as workspace:
        workspace.apply(workspace.plan("prod"))


@pytest.fixture
def folder(prepared: Prepared) -> ProjectFolder:
    """The project, applied."""
    return prepared(published)


@pytest.fixture
def outside(folder: ProjectFolder) -> Iterator[Workspace]:
    """The project as the command line has it open."""
    with open_fake(folder.root) as workspace:
        yield workspace


def fresh(
    folder: ProjectFolder, instance: dg.DagsterInstance, days: Sequence[str] = DAYS
) -> dict[str, bool]:
    """Ask Dagster which partitions of the readers are as new as what they read."""
    from vde_dagster.orchestration import vde_definitions

    graph = vde_definitions(folder.root).resolve_asset_graph()
    context = LoadingContextForTest(instance)
    resolver = CachingStaleStatusResolver(instance, graph, loading_context=context)
    live = load_catalog(folder).live.models
    found = {}
    for told in (*(f"marts.daily {day}" for day in days), "marts.total"):
        name, _, day = told.partition(" ")
        current = live[ModelName.parse(name)].current
        assert current is not None
        partition = f"{current.key}|{day}" if day else current.key
        status = resolver.get_status(dg.AssetKey(name.split(".")), partition)
        found[told] = status is StaleStatus.FRESH
    return found


def test_assets_depend_on_the_tables_behind_views_and_views_on_what_they_name(
    folder: ProjectFolder,
) -> None:
    specs = model_specs(load_catalog(folder))
    found = {
        str(name): sorted(dep.asset_key.to_user_string() for dep in spec.deps)
        for name, spec in specs.items()
        if name.namespace != "raw"
    }
    through = ["raw/events", "raw/names", "staging/shown"]
    assert found == {
        "staging.plain": ["raw/events"],
        "staging.joined": ["raw/names", "staging/plain"],
        "staging.shown": ["staging/joined"],
        "marts.daily": through,
        "marts.total": through,
    }


def test_a_table_that_begins_to_read_what_reads_it_in_production_closes_no_circle(
    folder: ProjectFolder,
) -> None:
    joined = (folder.root / VIEW).read_text()
    for old, new in WITH_MORE.items():
        folder.edit(VIEW, old, new)
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    folder.write(VIEW, joined)
    folder.write(
        "models/more.sql",
        "MODEL (name raw.more, kind FULL); SELECT v AS id, 'a' AS title FROM marts.total",
    )
    specs = model_specs(load_catalog(folder))
    found = {
        str(name): {dep.asset_key.to_user_string() for dep in spec.deps}
        for name, spec in specs.items()
    }
    assert found["raw.more"] == {"marts/total"}
    assert found["marts.total"] == {"raw/events", "raw/names", "staging/shown"}
    assert found["marts.daily"] == {"raw/events", "raw/names", "raw/more", "staging/shown"}


def test_what_is_computed_anew_behind_views_makes_what_reads_it_stale_and_nothing_else(
    folder: ProjectFolder, outside: Workspace, instance: dg.DagsterInstance
) -> None:
    must(tick(folder, instance))
    assert fresh(folder, instance) == FRESH
    # Said once more, with the same commits.
    for model, day in (("raw.names", ""), ("raw.events", DAYS[2])):
        last = events_of(instance, model.replace(".", "/"))[-1]
        commit = int((last.tags or {})["dagster/data_version"].rpartition("@")[2])
        fill_by_itself(folder, instance, model, day, commit)
    assert fresh(folder, instance) == FRESH

    fill_by_itself(folder, instance, "raw.events", DAYS[1])
    stale = {f"marts.daily {DAYS[1]}": False, "marts.total": False}
    assert fresh(folder, instance) == {**FRESH, **stale}

    fill_by_itself(folder, instance, "raw.names")
    assert fresh(folder, instance) == dict.fromkeys(FRESH, False)


def test_readers_that_keep_their_tables_are_fresh_when_a_view_begins_or_ends_to_read_one(
    folder: ProjectFolder, outside: Workspace, instance: dg.DagsterInstance
) -> None:
    cursor = must(tick(folder, instance))
    versions = {name: version_of(folder, name) for name in ("marts.daily", "marts.total")}
    without_more = {new: old for old, new in WITH_MORE.items()}
    for edits in (WITH_MORE, without_more):
        for old, new in edits.items():
            folder.edit(VIEW, old, new)
        outside.reload()
        assert fresh(folder, instance) == FRESH
        for environment in ("dev", "prod"):
            outside.apply(outside.plan(environment))
            cursor = must(tick(folder, instance, cursor))
            assert fresh(folder, instance) == FRESH
    assert versions == {name: version_of(folder, name) for name in versions}


@pytest.mark.parametrize("reverted", [False, True])
def test_runs_leave_readers_fresh_while_only_development_has_what_the_view_begins_to_read(
    folder: ProjectFolder, instance: dg.DagsterInstance, reverted: bool
) -> None:
    for path in ("models/events.sql", "models/daily.sql"):
        folder.edit(path, ", end '2024-01-03'", "")
    folder.remove("models/more.sql")

    def noon(day: int) -> datetime:
        return datetime(2024, 1, day, 12, tzinfo=timezone.utc)

    with open_fake(folder.root) as outside:
        outside.apply(outside.plan("prod", now=noon(4)))
        cursor = must(tick(folder, instance))
        folder.write("models/more.sql", FILES["models/more.sql"])
        for old, new in WITH_MORE.items():
            folder.edit(VIEW, old, new)
        outside.reload()
        outside.apply(outside.plan("dev", now=noon(4)))
        cursor = must(tick(folder, instance, cursor))
        if reverted:
            for old, new in WITH_MORE.items():
                folder.edit(VIEW, new, old)
            folder.remove("models/more.sql")
            outside.reload()
        days = (*DAYS, "2024-01-04")
        for environment in ("prod", "dev"):
            outside.apply(outside.plans.due(environment, now=noon(5)))
            cursor = tick(folder, instance, cursor) or cursor
            assert fresh(folder, instance, days) == {**FRESH, "marts.daily 2024-01-04": True}
        assert events_of(instance, "raw/more")
        shown = outside.store.environments.get("prod")
        assert shown is not None
        assert ModelName("raw", "more") not in shown.entries


def test_sync_says_again_what_events_of_an_earlier_release_leave_out(
    folder: ProjectFolder, outside: Workspace, instance: dg.DagsterInstance
) -> None:
    must(tick(folder, instance))
    key = "dagster/input_data_version/raw/events"
    for asset in ("marts/daily", "marts/total"):
        for event in events_of(instance, asset):
            tags = {name: value for name, value in (event.tags or {}).items() if name != key}
            instance.report_runless_asset_event(event._replace(tags=tags))
    assert fresh(folder, instance) == dict.fromkeys(FRESH, False)
    assert sync(outside, instance).materializations == len(DAYS) + 1
    assert fresh(folder, instance) == FRESH
    assert sync(outside, instance).is_empty
