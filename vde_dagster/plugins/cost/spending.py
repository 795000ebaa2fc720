"""Work of fills, and work that was saved by skipped fills and reused tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from vde_dagster.api.plans import Change, Plan
from vde_dagster.api.values import Settings, Work, size

if TYPE_CHECKING:
    from vde_dagster.api.workspace import FillRecord, Workspace

By = Literal["model", "plan", "environment", "day", "month"]
COLUMNS = (
    *("fills", "seconds", "task seconds", "written", "read"),
    *("saved fills", "saved seconds", "saved bytes"),
)
"""Headers of `Total.cells`."""


@dataclass(frozen=True, slots=True)
class WorkItem:
    """A fill that ran, or a fill that was not needed.

    Args:
        at: Time (UTC).
        how: `computed`; `skipped`: no input had changed; `reused`: an environment began to show an
            existing table.
        work: The cost; for `skipped` and `reused` the cost that was saved.
        refreshed: Whether the fill computed only rows affected by changes of its inputs.
        unread_bytes: Estimated bytes of its inputs that a refreshed fill did not read.
        unspent_seconds: Estimated seconds that a refreshed fill saved compared with a whole one.
    """

    at: datetime
    model: str
    plan: str
    environment: str
    how: Literal["computed", "skipped", "reused"]
    work: Work
    rows: float = 0.0
    refreshed: bool = False
    unread_bytes: int = 0
    unspent_seconds: float = 0.0

    def key(self, by: By) -> str:
        """Return the name of the item's group, such as its model or `2026-03`."""
        if by in ("day", "month"):
            return self.at.strftime("%Y-%m-%d" if by == "day" else "%Y-%m")
        return str(getattr(self, by)) or "(a plan that was deleted)"


@dataclass(slots=True)
class Total:
    """Adds up the spent work and the saved work of several items."""

    fills: int = 0
    work: Work = field(default_factory=Work)
    rows: float = 0.0
    saved_fills: int = 0
    saved: Work = field(default_factory=Work)
    refreshed_fills: int = 0
    unread_bytes: int = 0
    unspent_seconds: float = 0.0

    def add(self, item: WorkItem) -> None:
        if item.how == "computed":
            self.fills += 1
            self.work += item.work
            self.rows += item.rows
            self.refreshed_fills += item.refreshed
            self.unread_bytes += item.unread_bytes
            self.unspent_seconds += item.unspent_seconds
        else:
            self.saved_fills += 1
            self.saved += item.work

    def cells(self) -> list[str]:
        return [
            f"{self.fills:,}",
            f"{self.work.seconds:,.1f}",
            f"{self.work.task_seconds:,.1f}",
            size(round(self.work.bytes)),
            size(round(self.work.bytes_read)),
            f"{self.saved_fills:,}",
            f"{self.saved.seconds:,.1f}",
            size(round(self.saved.bytes)),
        ]

    def to_json(self, settings: Settings) -> dict[str, Any]:
        """Return the total as `vde cost --json` prints it. Money is null without prices."""
        price = settings.cost.price if settings.cost.has_prices else None
        return {
            "fills": self.fills,
            "rows": round(self.rows),
            **self.work.to_json(),
            "money": round(price(self.work), 4) if price else None,
            "saved_fills": self.saved_fills,
            **{f"saved_{name}": value for name, value in self.saved.to_json().items()},
            "refreshed_fills": self.refreshed_fills,
            "unread_bytes": self.unread_bytes,
            "unspent_seconds": round(self.unspent_seconds, 3),
            "saved_money": round(price(self.saved), 4) if price else None,
        }


def total_by_group(items: Iterable[WorkItem], by: By) -> dict[str, Total]:
    """Add up work by group. Days and months are in order, other groups by descending seconds."""
    found: dict[str, Total] = {}
    for item in items:
        found.setdefault(item.key(by), Total()).add(item)
    if by in ("day", "month"):
        return dict(sorted(found.items()))
    return dict(sorted(found.items(), key=lambda one: (-one[1].work.seconds, one[0])))


def list_work(
    workspace: Workspace, since: datetime, until: datetime, environment: str | None = None
) -> list[WorkItem]:
    """Return the spent and the saved work in a half-open range (UTC), in order of time."""
    store = workspace.store
    fills = store.fills.between(since, until)
    plans = {one.id: one for one in store.plans.between(since, until)}
    names = _model_names(workspace, {one.table_id for one in fills})
    environments = {plan.id: plan.environment for plan in plans.values()}
    items = [item for fill in fills if (item := _fill_item(fill, names, environments)) is not None]
    for record in plans.values():
        ended = record.finished_at
        if record.status == "applied" and record.kind != "run" and ended and since <= ended < until:
            plan = store.plans.find(record.id)
            if plan is not None:
                items += _reuse_items(workspace, plan, ended)
    chosen = (one for one in items if environment in (None, one.environment))
    return sorted(chosen, key=lambda one: (one.at, one.model))


def _model_names(workspace: Workspace, tables: Iterable[str]) -> Mapping[str, str]:
    loaded = workspace.store.tables.load(tables)
    snapshots = workspace.store.snapshots.load({one.snapshot_id for one in loaded.values()})
    return {
        id_: str(snapshots[one.snapshot_id].name)
        for id_, one in loaded.items()
        if one.snapshot_id in snapshots
    }


def _fill_item(
    fill: FillRecord, names: Mapping[str, str], environments: Mapping[str, str]
) -> WorkItem | None:
    skipped = fill.facts.skipped
    cost = fill if skipped is None else skipped
    refresh = fill.facts.refresh
    if cost.seconds is None and cost.bytes is None:
        return None
    return WorkItem(
        fill.recorded_at,
        names.get(fill.table_id, "(a table that was dropped)"),
        fill.plan_id,
        environments.get(fill.plan_id, ""),
        "computed" if skipped is None else "skipped",
        cost.work,
        float(fill.rows or 0),
        _is_refreshed(fill),
        refresh.unread_bytes(fill.bytes_read) if refresh is not None else 0,
        refresh.saved_seconds(fill.seconds) if refresh is not None else 0.0,
    )


def _is_refreshed(fill: FillRecord) -> bool:
    refresh = fill.facts.refresh
    return refresh is not None and refresh.from_changes


def _reuse_items(workspace: Workspace, plan: Plan, at: datetime) -> Iterator[WorkItem]:
    """Yield each existing table that an environment began to show, with the cost of its fills."""
    shown = {
        model.table.id: model
        for model in plan.models
        if model.table is not None
        and not model.builds
        and model.change is not Change.REMOVED
        and (plan.base_version == 0 or model.change is not Change.UNCHANGED)
    }
    for table_id, fills in workspace.store.fills.recent(shown, 1000, at).items():
        computed = [one for one in fills if one.facts.skipped is None]
        if not plan.snapshot_of(shown[table_id]).is_incremental:
            # Each fill replaced the one before.
            whole = (one for one in computed if not _is_refreshed(one))
            computed = [next(whole, computed[0])] if computed else []
        yield WorkItem(
            at,
            str(shown[table_id].name),
            plan.id,
            plan.environment,
            "reused",
            sum((one.work for one in computed), Work()),
        )
