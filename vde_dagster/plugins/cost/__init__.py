"""The cost of work: `vde cost` reports spending and savings, budgets stop expensive plans.

`spending` adds up fills by model, plan, environment, day or month, `accuracy` compares each fill
with the estimate from earlier fills, `budgets` is the gate, `commands` the command, `page` the
asset in Dagster.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vde_dagster.api.dagster import AssetCatalog
    from vde_dagster.api.values import Settings


def cost_assets(catalog: AssetCatalog, settings: Settings) -> Iterable[Any]:
    """Return the Dagster asset that shows the cost of work."""
    from vde_dagster.plugins.cost.page import cost_asset

    return (cost_asset(catalog),)


def cost_sensors(settings: Settings) -> Iterable[Any]:
    """Return the sensor that keeps the asset `vde/cost` up to date."""
    from vde_dagster.plugins.cost.page import cost_sensor

    return (cost_sensor(settings),)
