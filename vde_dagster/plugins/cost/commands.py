from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vde_dagster.api.commands import Output, on_project, simple_table
from vde_dagster.api.errors import UsageError
from vde_dagster.api.plans import environment_name
from vde_dagster.api.values import count, size

if TYPE_CHECKING:
    from rich.console import Console

    from vde_dagster.api.workspace import Workspace
    from vde_dagster.plugins.cost.accuracy import Accuracy
    from vde_dagster.plugins.cost.spending import By, Total

BYS = ("model", "plan", "environment", "day", "month")
ByOption = Annotated[str, typer.Option(metavar="WHAT", help=f"Group by {', '.join(BYS)}.")]
Days = Annotated[int, typer.Option(min=1, max=365_000, help="Number of past days.")]
Only = Annotated[str | None, typer.Option("--env", metavar="ENV", help="Only this environment.")]
AccuracyOption = Annotated[
    bool, typer.Option("--accuracy", help="Show the accuracy of all estimates instead.")
]


@on_project
def cost(
    workspace: Workspace,
    output: Output,
    by: ByOption = "model",
    days: Days = 30,
    env: Only = None,
    accuracy: AccuracyOption = False,
) -> None:
    """Show the cost of work, and the savings from skipping and reuse.

    Money is shown if [tool.vde.cost] has prices. --accuracy compares each fill with the estimate
    from the fills before it. Examples: vde cost; vde cost --by month --days 365;
    vde cost --accuracy
    """
    if by not in BYS:
        raise UsageError(f"costs cannot be grouped by '{by}'", hint=f"write {', '.join(BYS)}")
    now = workspace.store.database.clock.now()
    since = now - timedelta(days=days)
    until = now + timedelta(seconds=1)
    if accuracy:
        if env is not None:
            raise UsageError("--accuracy covers all environments", hint="remove --env")
        if by != "model":
            raise UsageError("--accuracy and --by cannot be combined", hint="remove one")
        from vde_dagster.plugins.cost.accuracy import measure_accuracy

        found = measure_accuracy(workspace, since, until)
        value = {name: one.to_json() for name, one in found.items()}
        output.result(value, lambda console: _show_accuracy(console, found))
        return
    from vde_dagster.plugins.cost.spending import Total, list_work, total_by_group

    name = environment_name(env) if env is not None else None
    items = list_work(workspace, since, until, name)
    named: By = by  # type: ignore[assignment]
    totals, prices = total_by_group(items, named), workspace.settings.cost
    whole = Total()
    for item in items:
        whole.add(item)
    said = {
        "since": since.astimezone(timezone.utc).isoformat(timespec="seconds"),
        "by": by,
        "currency": prices.currency if prices.has_prices else None,
        "total": whole.to_json(workspace.settings),
        "parts": {name: one.to_json(workspace.settings) for name, one in totals.items()},
    }
    output.result(said, lambda console: _show(console, workspace, by, {**totals, "all": whole}))
    if whole.fills or whole.saved_fills:
        output.note(_LEGEND.format(days=count(days, "day")))


_LEGEND = """in the last {days}
seconds: total duration of all fills
task seconds: total duration of Spark's tasks, which run in parallel
written, read: bytes of data files
saved: fills that were skipped, and tables that an environment reused, at their earlier cost"""


def _show(console: Console, workspace: Workspace, by: str, totals: dict[str, Total]) -> None:
    from vde_dagster.plugins.cost.spending import COLUMNS

    prices, whole = workspace.settings.cost, totals["all"]
    if not (whole.fills or whole.saved_fills):
        console.print("nothing was computed or saved in this time")
        return
    titles = [by, *COLUMNS, *(("cost", "saved cost") if prices.has_prices else ())]
    rows = []
    for name, one in totals.items():
        row = [name, *one.cells()]
        if prices.has_prices:
            row.append(prices.text(prices.price(one.work)))
            row.append(prices.text(prices.price(one.saved)))
        rows.append(row)
    console.print(simple_table(titles, rows))
    if whole.refreshed_fills:
        console.print(
            f"{count(whole.refreshed_fills, 'fill')} refreshed from changes and left about "
            f"{size(whole.unread_bytes)} of their inputs unread (an estimate: the inputs' bytes "
            "minus the bytes read)"
        )
        if whole.unspent_seconds:
            than = "less" if whole.unspent_seconds > 0 else "more"
            console.print(
                f"they took about {abs(whole.unspent_seconds):,.1f} s {than} than computing all "
                "rows would have taken, as estimated when each fill began"
            )


def _show_accuracy(console: Console, found: dict[str, Accuracy]) -> None:
    if not any(one.fills for one in found.values()):
        console.print("nothing to compare: estimates need earlier fills")
        return
    rows: list[list[Any]] = []
    for name, one in found.items():
        if one.median_factor is None or one.share_within is None:
            continue
        amounts = [size(round(each)) if "bytes" in name else f"{each:,.1f}" for each in one.total]
        accuracies = [f"{one.median_factor:.2f}", f"{one.share_within:.0%}"]
        rows.append([name.replace("_", " "), f"{len(one.fills):,}", *amounts, *accuracies])
    titles = ["", "fills", "expected", "happened", "half within a factor of", "in their range"]
    console.print(simple_table(titles, rows))
    furthest = [
        [one.model, _at(one.at), f"{one.expected:,.2f}", f"{one.actual:,.2f}"]
        for one in found["seconds"].least_accurate()
    ]
    console.print(simple_table(["furthest off", "at", "expected, s", "took, s"], furthest))


def _at(at: datetime) -> str:
    return at.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M")
