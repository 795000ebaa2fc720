"""VIEW models as virtual assets: who asks for it, and what Dagster makes of it."""

from __future__ import annotations

import warnings

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest

from vde_dagster.base.names import ModelName
from vde_dagster.orchestration.assets.model_assets import model_specs
from vde_dagster_tests.orchestration.conftest import load_catalog
from vde_dagster_tests.projects import ProjectFolder


def test_views_are_virtual_where_the_project_asks_for_it(built: ProjectFolder) -> None:
    catalog = load_catalog(built)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain, asked = model_specs(catalog), model_specs(catalog, virtual_views=True)
    view = ModelName("staging", "orders")
    assert not any(spec.is_virtual for spec in plain.values())
    assert {name for name, spec in asked.items() if spec.is_virtual} == {view}
    assert asked[view].partitions_def == plain[view].partitions_def


@pytest.mark.parametrize("same_partitions", [False, True])
def test_behind_a_virtual_view_dagster_compares_assets_and_not_partitions(
    same_partitions: bool,
) -> None:
    """Why it is off by default: a later day of a table marks the earlier ones of its readers."""
    days = dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-01-04")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")

        @dg.asset(partitions_def=days)
        def table() -> None: ...

        same = dg.IdentityPartitionMapping() if same_partitions else None
        view = dg.AssetSpec(
            "view",
            deps=[dg.AssetDep(table, partition_mapping=same)],
            partitions_def=days if same_partitions else None,
            is_virtual=True,
        )

        @dg.asset(partitions_def=days, deps=[dg.AssetDep("view", partition_mapping=same)])
        def reader() -> None: ...

    with dg.DagsterInstance.ephemeral() as instance:
        for day in ("2024-01-01", "2024-01-02"):
            for asset in (table, reader):
                dg.materialize(
                    [table, view, reader], instance=instance, partition_key=day, selection=[asset]
                )
        graph = dg.Definitions([table, view, reader]).resolve_asset_graph()
        context = LoadingContextForTest(instance)
        resolver = CachingStaleStatusResolver(instance, graph, loading_context=context)
        found = {
            day: resolver.get_status(dg.AssetKey("reader"), day)
            for day in ("2024-01-01", "2024-01-02")
        }
    assert found == {"2024-01-01": StaleStatus.STALE, "2024-01-02": StaleStatus.FRESH}


def test_behind_a_virtual_view_an_event_that_says_the_same_again_is_a_change() -> None:
    """Why it is off for tables that are made whole, too: publications say again what they hold."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")

        @dg.asset
        def table() -> dg.MaterializeResult[None]:
            return dg.MaterializeResult(data_version=dg.DataVersion("same"))

        view = dg.AssetSpec("view", deps=[table], is_virtual=True)

        @dg.asset(deps=["view"])
        def reader() -> None: ...

    with dg.DagsterInstance.ephemeral() as instance:
        for asset in (table, reader, table):
            dg.materialize([table, view, reader], instance=instance, selection=[asset])
        graph = dg.Definitions([table, view, reader]).resolve_asset_graph()
        context = LoadingContextForTest(instance)
        resolver = CachingStaleStatusResolver(instance, graph, loading_context=context)
        assert resolver.get_status(dg.AssetKey("reader")) is StaleStatus.STALE
