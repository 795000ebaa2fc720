"""Views in production's catalog that show the last changes of its models.

They follow a publication in a transaction of their own, all of them or none: what they say is
pinned, so one that has not followed yet tells less, and never anything else. Whoever publishes
writes them, and so does the clean-up before it forgets versions that they read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.execution.changes.between import Shown, columns_of_steps, steps_of
from vde_dagster.execution.changes.compare_versions import ModelChanges, Side, read_side, unchanged
from vde_dagster.execution.pinned_reads import PinnedVersion
from vde_dagster.planning.changes.query import MARKS, SUFFIX, Step, view_query
from vde_dagster.planning.engine_tasks import ViewDefinition
from vde_dagster.planning.environments.environment import PRODUCTION
from vde_dagster.planning.tables.table import TableRef

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles
    from vde_dagster.planning.environments.environment import Environment
    from vde_dagster.state.environments.changes import ChangePoint


_POINTS, _FORM = "vde.changes_since", 1
"""The property that says which versions a view tells of, and the form in which it does."""


@dataclass(frozen=True, slots=True)
class ChangeViews:
    """The views of changes that were written or removed, and models without one, with why."""

    changed: tuple[TableRef, ...] = ()
    without: tuple[tuple[ModelName, str], ...] = ()


def refresh_change_views(handles: Handles, who: str) -> ChangeViews:
    """Write the views of changes that production should have, and remove others.

    Raises:
        ConflictError: Production was published meanwhile.
        StoreError: State or catalog cannot be reached.
    """
    from vde_dagster.lakehouse.publishing.publish import replace_views

    if not handles.lakehouse.catalog.form.keeps_pointers:
        return ChangeViews()
    store, patterns = handles.store, handles.settings.change_views
    ending = handles.lakehouse.views_ending(PRODUCTION, SUFFIX)
    current = store.environments.get(PRODUCTION) if patterns or ending else None
    if current is None:
        return ChangeViews()
    models = [
        entry.name
        for entry in current.entries.values()
        if entry.table_id is not None
        and any(fnmatchcase(str(entry.name), pattern) for pattern in patterns)
    ]
    own = {current.views.ref(name) for name in current.entries}
    there = [ref for ref in ending if ref not in own]
    if not models and not there:
        return ChangeViews()
    reading = VersionsOfViews(handles, lasting_versions(handles))
    views: list[ViewDefinition] = []
    without: list[tuple[ModelName, str]] = []
    as_they_are: set[TableRef] = set()
    for name in models:
        if current.views.ref(_named(name)) in own:
            without.append((name, f"{_named(name)} is a model"))
            continue
        try:
            points = reading.points(name)
            ref = current.views.ref(_named(name))
            if ending.get(ref, {}).get(_POINTS) == _listed(points):
                as_they_are.add(ref)
            else:
                views.append(_define(reading, current, name, points))
        except UsageError as error:
            without.append((name, error.message))
    wanted = as_they_are | {TableRef(view.namespace, view.name) for view in views}
    gone = [ref for ref in there if ref not in wanted]
    changed, taken = replace_views(handles.lakehouse, current, views, gone, who)
    of = {current.views.ref(_named(name)): name for name in models}
    without += ((of[ref], why) for ref, why in taken.items())
    return ChangeViews(changed, tuple(without))


def _named(name: ModelName) -> ModelName:
    return ModelName(name.namespace, f"{name.name}{SUFFIX}")


def _listed(points: Iterable[ChangePoint]) -> str:
    return f"{_FORM}: {', '.join(str(point.first) for point in points)}"


def _define(
    reading: VersionsOfViews, current: Environment, name: ModelName, points: Sequence[ChangePoint]
) -> ViewDefinition:
    catalog, shown = reading.handles.settings.catalog, reading.shown(name, points)
    found = _steps(catalog, name, current, shown)
    if found.method == "resync":  # Rows that cannot be told apart: there are only all of them.
        shown = shown[-1:]
        found = _steps(catalog, name, current, shown)
    columns = columns_of_steps([side for _, side in shown])
    first, side = shown[0]
    pin = side.shown.pin.snapshot_id if side is not None and side.shown is not None else None
    begun = Step(0, pin, first.version, first.publication_id or None)
    rows = side.query if side is not None else None
    steps = [found.query] if found.steps else []
    ref = current.views.ref(_named(name))
    marks = [(*mark, None) for mark in MARKS]
    own = [(one.name, one.type, None) for one in columns.last]
    return ViewDefinition(
        namespace=ref.namespace,
        name=ref.name,
        columns=(*marks, *own),
        queries={"spark": view_query(rows, columns.at(0), begun, steps)},
        query_columns=tuple(column for column, *_ in (*marks, *own)),
        properties=(
            ("vde.environment", PRODUCTION),
            ("vde.changes_of", str(name)),
            (_POINTS, _listed(points)),
        ),
        comment=f"What versions of '{PRODUCTION}' changed in {name}, since version {begun.version}",
    )


def _steps(
    catalog: str, name: ModelName, current: Environment, shown: Sequence[Shown]
) -> ModelChanges:
    columns = columns_of_steps([side for _, side in shown])
    whole = unchanged(current, name, shown[0][0].version, columns.last)
    return steps_of(catalog, name, shown, whole, pinned_only=True, first=1)


_SOON = timedelta(hours=1)
"""Versions that are forgotten so soon are read by no new view."""


def lasting_versions(handles: Handles) -> list[int]:
    """Return the versions of production that no clean-up forgets soon, rising."""
    from vde_dagster.lakehouse.maintenance.janitor import retention_policy
    from vde_dagster.state.retention import kept_versions

    database = handles.store.database
    policy = retention_policy(handles.settings)
    with database.reading() as conn:
        kept, _ = kept_versions(conn, policy, database.clock.now() + _SOON)
    return sorted(kept.get(PRODUCTION, ()))


@dataclass
class VersionsOfViews:
    """Reads what kept versions of production (their numbers, rising) showed, each version once."""

    handles: Handles
    kept: Sequence[int]
    versions: dict[int, PinnedVersion | None] = field(default_factory=dict)

    def points(self, name: ModelName) -> list[ChangePoint]:
        """Return the last versions that changed a model and can be read, oldest first."""
        from vde_dagster.state.environments.changes import change_points

        most = self.handles.settings.change_view_versions + 1
        known = change_points(self.handles.store.database, PRODUCTION, name)[-most:]
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
        """Read a model's states in the versions, oldest first; the last one has to be known."""
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
        versions = self.handles.store.versions
        if number not in self.versions:
            read = versions.at(PRODUCTION, number)
            self.versions[number] = PinnedVersion(self.handles, read) if read else None
        reader = self.versions[number]
        if reader is None:
            return None
        side: Side | None = None
        if point.shown:
            try:
                side = read_side(self.handles, reader.version, name, reader)
            except UsageError:
                return None
        made_by = versions.publication(PRODUCTION, point.first) or ""
        return replace(reader.version, version=point.first, publication_id=made_by), side
