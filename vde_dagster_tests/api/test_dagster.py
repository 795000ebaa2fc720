"""Examples of assets and sensors in the code location."""

from __future__ import annotations

import dagster as dg

from vde_dagster.api.dagster import AssetCatalog, Names, guarded_step
from vde_dagster.api.values import ModelName, Settings


def test_AssetCatalog() -> None:
    def pager_assets(catalog: AssetCatalog, settings: Settings) -> list[dg.AssetsDefinition]:
        @dg.asset(key=catalog.names.asset_key("pager"), deps=[catalog.key(ModelName("a", "b"))])
        def pager() -> None:
            """Calls somebody when a.b changes."""

        return [pager]

    assert pager_assets.__name__ == "pager_assets"


def test_Names() -> None:
    names = Names("shop")
    assert names.asset_key("pager").to_user_string() == "shop/pager"


def test_guarded_step() -> None:
    @guarded_step
    def send() -> dg.MaterializeResult[None]:
        return dg.MaterializeResult(metadata={"sent": "https://me:secret@pager.test"})

    assert "secret" not in str(send().metadata)
