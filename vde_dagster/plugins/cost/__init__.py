"""The cost of work: `vde cost` reports spending and savings, budgets limit plans."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vde_dagster.api.dagster import AssetCatalog
    from vde_dagster.api.values import Settings


def cost_assets(catalog: AssetCatalog, settings: Settings) -> Iterable[Any]:
    from vde_dagster.plugins.cost.page import cost_asset

    return (cost_asset(catalog),)


def cost_sensors(settings: Settings) -> Iterable[Any]:
    from vde_dagster.plugins.cost.page import cost_sensor

    return (cost_sensor(settings),)
