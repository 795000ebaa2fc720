"""Staleness is exact: read over GraphQL from the real server process of the code location."""

from __future__ import annotations

import dagster as dg
import pytest

from vde_dagster_tests.orchestration.conftest import (
    apply_all,
    fill_by_itself,
    load_catalog,
    version_of,
)
from vde_dagster_tests.orchestration.graphql import open_location
from vde_dagster_tests.projects import ProjectFolder

pytestmark = [
    pytest.mark.spark,
    pytest.mark.usefixtures("spark_engine"),
    pytest.mark.turns(12, "plays and tours"),
]

DAYS = [f"2024-01-0{n}" for n in range(1, 6)]
INCREMENTAL = ("marts.daily", "marts.running")
WHOLE = ("raw.orders", "staging.orders", "marts.customers", "marts.top")


def statuses(
    folder: ProjectFolder,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
    versions: dict[str, str],
) -> dict[str, set[str]]:
    """Return the set of statuses over all partitions of a version of each model."""
    out = {}
    with open_location(folder.root, instance, monkeypatch) as location:
        for name, version in versions.items():
            asset = name.replace(".", "/")
            keys = [version]
            if name in INCREMENTAL:
                keys = [f"{version}|{day}" for day in DAYS]
            out[name] = set(location.stale(asset, keys).values())
    return out


def versions_of(folder: ProjectFolder) -> dict[str, str]:
    return {name: version_of(folder, name) for name in (*INCREMENTAL, *WHOLE)}


@pytest.fixture
def kept(tmp_path_factory: pytest.TempPathFactory) -> dg.DagsterInstance:
    """An instance on disk, which server processes can open."""
    return dg.DagsterInstance.local_temp(str(tmp_path_factory.mktemp("home")))


def test_only_what_changed_is_stale(
    built: ProjectFolder, kept: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply_all(built, kept)
    old = versions_of(built)
    fresh = {name: {"FRESH"} for name in old}
    assert statuses(built, kept, monkeypatch, old) == fresh

    # A description changes nothing.
    built.edit("models/marts/daily.sql", "cron '@daily',", "cron '@daily', description 'A day',")
    assert versions_of(built) == old
    assert statuses(built, kept, monkeypatch, old) == fresh

    # An edit: the old version is stale, everything else as it was; the new one is no partition.
    built.edit("models/marts/daily.sql", "sum(amount)", "sum(amount * 2)")
    new = versions_of(built)
    changed = {name for name in new if new[name] != old[name]}
    assert changed == {"marts.daily", "marts.running"}
    found = statuses(built, kept, monkeypatch, old)
    assert {name for name, status in found.items() if status == {"STALE"}} == changed
    for name, partitions in load_catalog(built).partitions.items():
        assert partitions is not None
        shown = {key.split("|")[0] for key in partitions.get_partition_keys()}
        assert shown == {old[str(name)]}

    # Once it is applied, everything is fresh, children that kept their tables included.
    apply_all(built, kept)
    assert statuses(built, kept, monkeypatch, new) == fresh


def test_a_child_that_keeps_its_table_stays_fresh_when_its_parent_is_replaced(
    built: ProjectFolder, kept: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply_all(built, kept)
    old = versions_of(built)
    # No child reads the new column, so they keep their tables while the parent gets a new one.
    built.edit("models/marts/daily.sql", "AS revenue", "AS revenue, max(amount) AS most")
    new = versions_of(built)
    assert new["marts.daily"] != old["marts.daily"]
    assert new["marts.running"] == old["marts.running"]
    apply_all(built, kept, "dev")
    assert statuses(built, kept, monkeypatch, {"marts.running": new["marts.running"]}) == {
        "marts.running": {"FRESH"}
    }
    apply_all(built, kept)
    assert statuses(built, kept, monkeypatch, new) == {name: {"FRESH"} for name in new}


def test_a_restated_interval_makes_only_its_readers_stale(
    built: ProjectFolder, kept: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply_all(built, kept)
    versions = versions_of(built)
    fill_by_itself(built, kept, "marts.daily", "2024-01-03")
    with open_location(built.root, kept, monkeypatch) as location:
        keys = [f"{versions['marts.running']}|{day}" for day in DAYS]
        found = location.stale("marts/running", keys)
    assert [day for day, status in zip(DAYS, found.values(), strict=True) if status != "FRESH"] == [
        "2024-01-03"
    ]
