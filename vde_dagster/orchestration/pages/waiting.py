"""Which plans wait for an approval: the list in the descriptions of `vde/plan` and `vde/apply`."""

from __future__ import annotations

from datetime import datetime

from vde_dagster.orchestration.models.catalog import AssetCatalog
from vde_dagster.orchestration.pages.links import partition_link
from vde_dagster.orchestration.pages.markdown import title_in_words
from vde_dagster.planning.contracts import describe_breaks
from vde_dagster.planning.plan import Plan


def waiting_plans(catalog: AssetCatalog) -> str:
    """List the plans that wait: what each does, by whom and how old, and what it breaks."""
    plans = catalog.live.waiting
    if not plans:
        return "**No plan waits for an approval.**"
    what = "1 plan waits" if len(plans) == 1 else f"{len(plans)} plans wait"
    lines = [_line(plan, catalog) for plan in reversed(plans)]
    return "\n".join([f"**{what} for an approval:**", "", *lines])


def _line(plan: Plan, catalog: AssetCatalog) -> str:
    names = catalog.names
    read, approve = (
        partition_link(key, plan.id, text)
        for key, text in ((names.plan_key, "read"), (names.apply_key, "approve"))
    )
    author = plan.proposal.author if plan.proposal and plan.proposal.author else "somebody"
    parts = [
        f"- **{plan.environment}: {title_in_words(plan)}** ({read}, {approve})",
        f"by {author}, {_age(plan.created_at, catalog.live.read_at or plan.created_at)}",
        f"computes {_models(sum(model.skips is None for model in plan.builds))}",
    ]
    if plan.breaks:
        parts.append(f"**breaks: {describe_breaks(plan.breaks)}**")
    return "; ".join(parts)


def _models(count: int) -> str:
    return "nothing" if not count else "1 model" if count == 1 else f"{count} models"


def _age(made: datetime, now: datetime) -> str:
    """Say when a plan was made and, of one that was not made just now, for how long it waits."""
    minutes = int((now - made).total_seconds() // 60)
    said = f"made {made:%d %b %H:%M} UTC"
    if minutes < 2:
        return said
    for size, unit in ((1440, "days"), (60, "hours")):
        if minutes >= 2 * size:
            return f"{said}, {minutes // size} {unit} old at {now:%d %b %H:%M}"
    return f"{said}, {minutes} minutes old at {now:%H:%M}"
