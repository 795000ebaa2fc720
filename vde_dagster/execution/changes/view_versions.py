"""What the versions of production showed that a view of changes tells of."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import takewhile
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.execution.changes.by_version import Shown
from vde_dagster.execution.changes.sides import Side, read_side
from vde_dagster.execution.pinned_version import PinnedVersion
from vde_dagster.planning.environment import PRODUCTION

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse
    from vde_dagster.state.change_points import ChangePoint

_SOON = timedelta(hours=1)
"""Versions that are forgotten so soon are read by no new view."""


def lasting_versions(warehouse: Warehouse) -> list[int]:
    """Return the versions of production that no clean-up forgets soon, rising."""
    from vde_dagster.lakehouse.janitor import retention_of
    from vde_dagster.state.reachability import kept_versions

    database = warehouse.store.database
    policy = retention_of(warehouse.settings)
    with database.reading() as conn:
        kept, _ = kept_versions(conn, policy, database.clock.now() + _SOON)
    return sorted(kept.get(PRODUCTION, ()))


@dataclass
class VersionsOfViews:
    """Reads what versions of production showed, each version once.

    Args:
        warehouse: The project's warehouse.
        kept: The versions that no clean-up forgets soon, rising.
        versions: What was read.
    """

    warehouse: Warehouse
    kept: Sequence[int]
    versions: dict[int, PinnedVersion | None] = field(default_factory=dict)

    def points(self, name: ModelName) -> list[ChangePoint]:
        """Return the last versions that changed a model and can be read, oldest first."""
        most = self.warehouse.settings.change_view_versions + 1
        known = self.warehouse.store.change_points.of(PRODUCTION, name)[-most:]
        readable = takewhile(self._is_readable, reversed(known))
        return list(readable)[::-1]

    def _is_readable(self, point: ChangePoint) -> bool:
        has_rows = point.table_id is not None or not point.shown
        return has_rows and self._kept_of(point) is not None

    def _kept_of(self, point: ChangePoint) -> int | None:
        """Return the last of the versions in a row that is kept."""
        end = len(self.kept) if point.end is None else bisect_left(self.kept, point.end)
        last = self.kept[end - 1] if end else 0
        return last if last >= point.first else None

    def shown(self, name: ModelName, points: Sequence[ChangePoint]) -> list[Shown]:
        """Read what the versions showed of a model, oldest first.

        Raises:
            UsageError: What the last one showed is not known.
        """
        found: list[Shown] = []
        for point in reversed(points):
            one = self._read(name, point)
            if one is None:
                break
            found.append(one)
        if not found:
            raise UsageError(
                f"it is not known what '{PRODUCTION}' shows of {name}", hint="publish again"
            )
        return found[::-1]

    def _read(self, name: ModelName, point: ChangePoint) -> Shown | None:
        number = self._kept_of(point) or 0
        versions = self.warehouse.store.versions
        if number not in self.versions:
            read = versions.at(PRODUCTION, number)
            self.versions[number] = PinnedVersion(self.warehouse, read) if read else None
        reader = self.versions[number]
        if reader is None:
            return None
        side: Side | None = None
        if point.shown:
            try:
                side = read_side(self.warehouse, reader.version, name, reader)
            except UsageError:
                return None
        made_by = versions.publication(PRODUCTION, point.first) or ""
        return replace(reader.version, version=point.first, publication_id=made_by), side
