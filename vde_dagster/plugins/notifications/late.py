"""Late tables: their last fill is older than their model's `freshness` allows.

A missing fill writes no record in the outbox. So the process that sends notifications records the
models that became late, before it sends the messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from vde_dagster.api.values import ModelName, count, instant_text

if TYPE_CHECKING:
    from vde_dagster.api.models import Model
    from vde_dagster.api.plans import Environment
    from vde_dagster.api.workspace import Workspace
    from vde_dagster.plugins.notifications.settings import Receiver


_MOST_KNOWN = 100_000


@dataclass(frozen=True, slots=True)
class LateModel:
    """A model whose table in an environment is older than the model's `freshness`.

    Args:
        since: Time (UTC) of the table's last fill, or of a later fill that was skipped. Without
            fills: when the environment began to show the model's version.
        promised: Maximum age of the table.
    """

    name: ModelName
    since: datetime
    promised: timedelta
    owners: frozenset[str]

    def sentence(self) -> str:
        """Return a sentence such as `shop.orders: not filled since …, promised within 1 day`."""
        last = f"not filled since {instant_text(self.since)}"
        return f"{self.name}: {last}, promised within {_format_duration(self.promised)}"


def record_late_models(workspace: Workspace, receivers: Sequence[Receiver]) -> None:
    """Write an outbox record for models that became late in environments with receivers."""
    # Each model is recorded once until its next fill.
    store, settings = workspace.store, workspace.settings
    names = store.environments.names() if receivers else []
    found = []
    for name in names:
        if not any(one.wants_environment(name, settings) for one in receivers):
            continue
        environment = store.environments.get(name)
        if environment is None or environment.frozen is not None:
            continue
        late = late_models(workspace, environment, store.database.clock.now())
        recorded = _recorded_late(workspace, name) if late else {}
        new = [str(one.name) for one in late if recorded.get(str(one.name), one.since) <= one.since]
        if new:
            found.append({"environment": name, "models": new})
    store.outbox.add("late", found)


def _recorded_late(workspace: Workspace, environment: str) -> dict[str, datetime]:
    found: dict[str, datetime] = {}
    for record in workspace.store.outbox.with_kind("late"):
        if record.subject["environment"] == environment:
            found |= dict.fromkeys(record.subject["models"], record.at)
    return found


def late_models(workspace: Workspace, environment: Environment, at: datetime) -> list[LateModel]:
    """Return the models of an environment that are late at an instant (UTC), sorted by name."""
    store, entries = workspace.store, environment.entries.values()
    known = _models_with_freshness(workspace, [entry.snapshot_id for entry in entries])
    promises = {
        entry.table_id: known[entry.snapshot_id]
        for entry in entries
        if entry.table_id and entry.snapshot_id in known
    }
    if not promises:
        return []
    fills = store.fills.latest(promises)
    shown = store.versions.entry_times(environment.name, environment.version)
    found = []
    for table_id, model in promises.items():
        last = fills.get(table_id)
        since = last.recorded_at if last else shown.get(model.name, environment.published_at)
        promised = timedelta(seconds=model.freshness or 0)
        is_over = model.end is not None and model.end <= at
        if at - since > promised and not is_over:
            found.append(LateModel(model.name, since, promised, model_owners(model)))
    return sorted(found, key=lambda one: one.name)


_without_freshness: set[str] = set()
"""Ids of snapshots without a declared freshness; cached, as the sensor runs twice a minute."""


def _models_with_freshness(workspace: Workspace, ids: Sequence[str]) -> dict[str, Model]:
    asked = [one for one in ids if one not in _without_freshness]
    models = {key: one.model for key, one in workspace.store.snapshots.load(asked).items()}
    found = {key: model for key, model in models.items() if model.freshness is not None}
    if len(_without_freshness) > _MOST_KNOWN:
        _without_freshness.clear()
    _without_freshness.update(models.keys() - found.keys())
    return found


def model_owners(model: Model) -> frozenset[str]:
    more = model.asset.owners if model.asset else ()
    return frozenset(owner for owner in (model.owner, *more) if owner)


def _format_duration(length: timedelta) -> str:
    """Write a duration in its largest whole unit, such as `2 days`."""
    seconds = int(length.total_seconds())
    for size, unit in ((604_800, "week"), (86_400, "day"), (3_600, "hour")):
        if seconds % size == 0:
            return count(seconds // size, unit)
    return count(seconds // 60, "minute")
