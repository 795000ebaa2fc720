"""A sync is an asset behind its model, with what it sent as metadata."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from vde_dagster.orchestration.definitions import vde_definitions
from vde_dagster_tests.sync.receiver import receiving
from vde_dagster_tests.sync.world import Shop

pytestmark = pytest.mark.server


def test_it_runs_after_its_model_and_tells_what_it_sent(tmp_path: Path) -> None:
    key = dg.AssetKey(["sync", "latest"])
    shop = Shop(tmp_path / "shop")
    shop.publish()
    assert not vde_definitions(shop.folder.root).resolve_asset_graph().has(key)
    with receiving() as receiver:
        shop.define(sink="http", to={"prod": {"url": receiver.url}})
        definitions = vde_definitions(shop.folder.root)
        parents = definitions.resolve_asset_graph().get(key).parent_keys
        assert parents == {dg.AssetKey(["marts", "latest"]), dg.AssetKey(["vde", "environment"])}
        with dg.DagsterInstance.ephemeral() as instance:
            job = definitions.resolve_implicit_global_asset_job_def()
            for sent in (4, 0):
                run = job.execute_in_process(asset_selection=[key], instance=instance)
                (event,) = run.asset_materializations_for_node("sync__latest")
                told = {name: one.value for name, one in event.metadata.items()}
                assert (told["sent"], told["refused"], told["until"]) == (sent, 0, 1)
        assert len(receiver.rows) == 4


def test_a_sync_without_prod_sends_from_its_first_environment(tmp_path: Path) -> None:
    key, shop = dg.AssetKey(["sync", "latest"]), Shop(tmp_path / "shop")
    shop.publish()
    shop.publish("dev")
    with receiving() as receiver, dg.DagsterInstance.ephemeral() as instance:
        shop.define(sink="http", to={"dev": {"url": receiver.url}})
        job = vde_definitions(shop.folder.root).resolve_implicit_global_asset_job_def()
        run = job.execute_in_process(asset_selection=[key], instance=instance)
        (event,) = run.asset_materializations_for_node("sync__latest")
        assert event.metadata["environment"].value == "dev"
        assert len(receiver.rows) == 4


def test_a_publication_during_a_run_is_followed_by_another_run(tmp_path: Path) -> None:
    key, shop = dg.AssetKey(["sync", "latest"]), Shop(tmp_path / "shop")
    shop.define(sink="http", to={"prod": {"url": "http://127.0.0.1:1/changes"}})
    shop.publish()
    definitions = vde_definitions(shop.folder.root)
    environment = dg.AssetKey(["vde", "environment"])
    cursor: Any = None
    requested = []
    partitions = definitions.resolve_asset_graph().get(environment).partitions_def
    with dg.DagsterInstance.ephemeral() as instance:
        assert isinstance(partitions, dg.DynamicPartitionsDefinition)
        instance.add_dynamic_partitions(partitions.name or "", ["prod"])

        def publish_and_tick(*, published: bool) -> None:
            nonlocal cursor
            if published:
                event = dg.AssetMaterialization(environment, partition="prod")
                instance.report_runless_asset_event(event)
            found = dg.evaluate_automation_conditions(
                definitions,
                instance=instance,
                asset_selection=dg.AssetSelection.assets(key),
                cursor=cursor,
            )
            cursor = found.cursor
            requested.append(found.total_requested)

        publish_and_tick(published=True)
        publish_and_tick(published=True)
        job = definitions.resolve_implicit_global_asset_job_def()
        run = instance.create_run_for_job(
            job, asset_selection={key}, status=dg.DagsterRunStatus.STARTED
        )
        publish_and_tick(published=True)
        instance.report_run_canceled(run)
        publish_and_tick(published=False)
        publish_and_tick(published=False)
    assert requested[1:] == [1, 0, 1, 0]
