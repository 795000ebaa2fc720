"""The asset `vde/cost`: spending and savings, as a page and as figures for Dagster's plots.

The sensor `vde_costs` reports a materialization, without a run, when the state has new records.
Materializing the asset manually computes the same page.
"""

# Dagster reads the annotations of decorated functions, so they are not postponed here.
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import dagster as dg

from vde_dagster.api.dagster import AssetCatalog, Names, guarded_step
from vde_dagster.api.errors import VdeError
from vde_dagster.api.reports import plain_table
from vde_dagster.api.values import Settings, mask
from vde_dagster.api.workspace import Workspace
from vde_dagster.plugins.cost import spending

MONTHS = 3
"""Number of months on the page, including the current one."""
MOST_ROWS = 20
_EACH_SECONDS = 60
_TEXT = f"""The cost of work, and the savings from skipping and reuse, as in `vde cost`.

Each event has figures of the last 30 days, which *Plots* shows, and four tables. Three tables cover
the last 30 days: by environment, by plan or run, and by model. The fourth table lists the last
{MONTHS} months. Money is included if `[tool.vde.cost]` has prices."""


def cost_asset(catalog: AssetCatalog) -> dg.AssetsDefinition:
    names = catalog.names

    @dg.asset(
        key=names.asset_key("vde", "cost"),
        deps=[dg.AssetDep(names.environment_key, partition_mapping=dg.AllPartitionMapping())],
        group_name=names.group,
        description=_TEXT,
        required_resource_keys={names.resource},
    )
    @guarded_step
    def vde__cost(context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
        workspace = getattr(context.resources, names.resource).get()
        return dg.MaterializeResult(metadata=cost_metadata(workspace, names))

    return vde__cost


def cost_sensor(settings: Settings) -> dg.SensorDefinition:
    names = Names.from_settings(settings)

    @dg.sensor(
        name=names.named("vde_costs"),
        description="Adds the latest costs to the asset that shows them.",
        minimum_interval_seconds=max(_EACH_SECONDS, settings.dagster.sensor_interval_seconds),
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def vde_costs(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        try:
            with Workspace.open(settings.root) as workspace:
                told = workspace.store.outbox.number()
                upto = f"{told.store} {told.newest}"
                if context.cursor == upto:
                    return dg.SkipReason("nothing was recorded")
                shown = cost_metadata(workspace, names)
        except VdeError as error:
            raise dg.Failure(str(error)) from error
        key = names.asset_key("vde", "cost")
        event = dg.AssetMaterialization(asset_key=key, metadata=shown)
        return dg.SensorResult(asset_events=[event], cursor=upto)

    return vde_costs


def cost_metadata(workspace: Workspace, names: Names) -> dict[str, Any]:
    """Return the asset's metadata: tables to read, and figures of 30 days to plot."""
    prices, now = workspace.settings.cost, workspace.store.database.clock.now()
    items = spending.list_work(workspace, _months_back(now, MONTHS - 1), now + timedelta(seconds=1))
    recent = [one for one in items if one.at >= now - timedelta(days=30)]
    whole = spending.Total()
    for one in recent:
        whole.add(one)

    def table(
        of: Sequence[spending.WorkItem], by: spending.By, key: dg.AssetKey | None = None
    ) -> dg.MarkdownMetadataValue:
        totals = spending.total_by_group(of, by)
        shown = {name: totals[name] for name in list(totals)[-MONTHS:]} if by == "month" else totals
        return dg.MetadataValue.md(mask(_table(by, shown, workspace.settings, key)))

    figures = whole.to_json(workspace.settings)
    return {
        "months": table(items, "month"),
        "environments": table(recent, "environment", names.environment_key),
        "plans": table(recent, "plan", names.plan_key),
        "models": table(recent, "model"),
        **{f"vde/{name}": value for name, value in figures.items() if value is not None},
        **({"vde/currency": mask(prices.currency)} if prices.has_prices else {}),
    }


def _months_back(now: datetime, months: int) -> datetime:
    years, month = divmod(now.year * 12 + now.month - 1 - months, 12)
    return now.replace(
        year=years, month=month + 1, day=1, hour=0, minute=0, second=0, microsecond=0
    )


def _table(
    by: str, totals: Mapping[str, spending.Total], settings: Settings, key: dg.AssetKey | None
) -> str:
    if not totals:
        return "Nothing was computed or saved."
    prices = settings.cost
    money = ["cost", "saved"] if prices.has_prices else []
    work = ["fills", "seconds", "task s", "written", "read", *spending.COLUMNS[5:]]
    rows = []
    for name, one in list(totals.items())[:MOST_ROWS]:
        shown = Names.link(key, name, name) if key is not None and name[0] != "(" else name
        spent = (prices.text(prices.price(part)) for part in (one.work, one.saved))
        rows.append([shown, *(spent if prices.has_prices else ()), *one.cells()])
    more = len(totals) - len(rows)
    return plain_table([by, *money, *work], rows, narrow=True) + (
        f"\n\n… and {more} more" if more > 0 else ""
    )
