"""How what one environment shows differs from what another does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.execution.make_plans import no_environment
from vde_dagster.execution.published_version import published_version
from vde_dagster.planning.compare import classify
from vde_dagster.planning.environment import environment_name
from vde_dagster.planning.plan import Category, Change
from vde_dagster.planning.snapshot import Snapshot

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse
    from vde_dagster.planning.environment import Environment


@dataclass(frozen=True, slots=True)
class Difference:
    """A model that two environments do not show alike.

    Args:
        name: The model.
        change: How it differs.
        category: What that means for its data, or None.
        new: Its snapshot in the one environment, or None.
        old: Its snapshot in the other, or None.
    """

    name: ModelName
    change: Change
    category: Category | None
    new: Snapshot | None
    old: Snapshot | None

    @property
    def columns(self) -> dict[str, list[str]]:
        """Names of the columns that are added, removed, and changed in meaning or type."""
        before = {c.name: (c.version, c.type) for c in self.old.columns} if self.old else {}
        after = {c.name: (c.version, c.type) for c in self.new.columns} if self.new else {}
        return {
            "added": [name for name in after if name not in before],
            "removed": [name for name in before if name not in after],
            "changed": [n for n, what in after.items() if n in before and before[n] != what],
        }


def compare_environments(
    warehouse: Warehouse, new: Environment, old: Environment
) -> tuple[Difference, ...]:
    """Compare what an environment shows with what another one does; stores nothing.

    Args:
        warehouse: The project's warehouse.
        new: The environment, or version of one, whose changes are told.
        old: The one that it is compared with.
    """
    differing = [
        name for name in {**new.entries, **old.entries} if _id(new, name) != _id(old, name)
    ]
    ids = {one for name in differing for one in (_id(new, name), _id(old, name)) if one}
    snapshots = warehouse.store.snapshots.load(ids)
    found = []
    for name in sorted(differing):
        one, two = snapshots.get(_id(new, name) or ""), snapshots.get(_id(old, name) or "")
        change, category = classify(one, two)
        found.append(Difference(name, change, category, one, two))
    return tuple(found)


def named_environment(warehouse: Warehouse, text: str) -> Environment:
    """Return an environment as it is published now, or a version of it: `dev`, `prod@41`.

    Raises:
        UsageError: There is no such environment or version.
    """
    version = published_version(warehouse.store, text)
    if version is not None:
        return version
    name = environment_name(text)
    found = warehouse.store.environments.get(name)
    if found is None:
        raise no_environment(warehouse.store, name)
    return found


def _id(environment: Environment, name: ModelName) -> str | None:
    entry = environment.entries.get(name)
    return entry.snapshot_id if entry is not None else None
