"""Budgets: for an expensive plan, the gate `budgets` warns, requires an approval, or refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from vde_dagster.api.plans import Level, Objection, Plan
from vde_dagster.api.values import PluginSettings, Settings, Work, size
from vde_dagster.plugins.cost.spending import list_work

if TYPE_CHECKING:
    from vde_dagster.api.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Limit:
    """Maximum spending: at least one of `seconds`, `bytes` and `money`.

    Args:
        bytes: Bytes written.
        money: In the unit of `[tool.vde.cost]`.
        level: The consequence of exceeding the limit: `warn`, `ask` or `refuse`.
        environments: The environments that the limit applies to; all by default.
        approvers: With `ask`: the possible approvers; anyone by default.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    seconds: float | None = None
    bytes: float | None = None
    money: float | None = None
    level: Level = "refuse"
    environments: tuple[str, ...] = ()
    approvers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BudgetsSettings(PluginSettings):
    """The table `[tool.vde.budgets]`.

    Args:
        plan: Limits of one plan.
        day: Limits of all plans since midnight (UTC), including this one.
        month: Limits of all plans since the first of the month (UTC), including this one.
        environment: Limits of all plans of an environment in the last 30 days, including this one.
    """

    plan: tuple[Limit, ...] = field(default=())
    day: tuple[Limit, ...] = field(default=())
    month: tuple[Limit, ...] = field(default=())
    environment: tuple[Limit, ...] = field(default=())

    def mistakes(self) -> Iterator[tuple[str, str, str]]:
        for name, limits in self.limits():
            for limit in limits:
                given = (limit.seconds, limit.bytes, limit.money)
                if all(one is None for one in given):
                    yield name, "limits nothing", "write seconds, bytes or money"
                if any(one is not None and not one >= 0 for one in given):
                    yield name, "is negative or not a number", "write a number from 0"
                for one in limit.environments:
                    if hint := Settings.environment_hint(one):
                        yield name, f"has an invalid environment '{one}'", hint
                if limit.approvers and limit.level != "ask":
                    yield name, "has approvers but does not ask", 'write level = "ask"'

    def limits(self) -> Iterable[tuple[Span, tuple[Limit, ...]]]:
        yield "plan", self.plan
        yield "day", self.day
        yield "month", self.month
        yield "environment", self.environment


Span = Literal["plan", "day", "month", "environment"]


def budgets_gate(workspace: Workspace, plan: Plan, now: datetime) -> Iterator[Objection]:
    """Yield an objection for each limit that the plan's expected cost would exceed.

    The cost of earlier work in the limit's time is added to the expected cost. A limit in money
    yields an objection, too, if no prices are configured.
    """
    import msgspec

    settings = msgspec.convert(workspace.settings.plugins["budgets"], BudgetsSettings)
    wanted = [
        (
            span,
            [one for one in limits if not one.environments or plan.environment in one.environments],
        )
        for span, limits in settings.limits()
    ]
    if not plan.computed or not any(limits for _, limits in wanted):
        return
    for span, limits in wanted:
        if limits:
            spent = _spent_work(workspace, span, plan, now)
            for limit in limits:
                message = _describe_excess(workspace, limit, plan, spent)
                if message:
                    name = f"budget of {'an environment' if span == 'environment' else f'a {span}'}"
                    yield Objection(name, message, limit.level, limit.approvers)


def _spent_work(workspace: Workspace, span: Span, plan: Plan, now: datetime) -> Work:
    if span == "plan":
        return Work()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    since = {
        "day": midnight,
        "month": midnight.replace(day=1),
        "environment": now - timedelta(days=30),
    }[span]
    only = plan.environment if span == "environment" else None
    items = list_work(workspace, since, now + timedelta(seconds=1), only)
    # The plan's estimate includes what an earlier attempt has computed.
    others = (one for one in items if one.how == "computed" and one.plan != plan.id)
    return sum((one.work for one in others), Work())


def _describe_excess(workspace: Workspace, limit: Limit, plan: Plan, spent: Work) -> str | None:
    cost, estimate = workspace.settings.cost, workspace.plans.estimate(plan)
    texts: tuple[Callable[[float], str], ...]
    texts = (lambda seconds: f"{seconds:,.0f} s", lambda number: size(round(number)), cost.text)
    limits = (limit.seconds, limit.bytes, limit.money)
    before = (spent.seconds, spent.bytes, cost.price(spent))
    expected = (estimate.seconds, estimate.bytes, estimate.money)
    for most, so_far, more, text in zip(limits, before, expected, texts, strict=True):
        if most is None:
            continue
        if more is None:
            return "its cost in money is unknown: cost.core_hour and cost.terabyte are not set"
        if so_far + more.expected <= most:
            continue
        after = f" after {text(so_far)} already spent" if so_far else ""
        return f"its expected cost is {more.text(text)}{after}, but the limit is {text(most)}"
    return None
