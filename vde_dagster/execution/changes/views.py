"""Views in production's catalog that show recent changes of production's models.

A separate transaction updates the views after each publication, and before the cleanup deletes
versions that the views read. The content of a view is pinned, so an outdated view lacks recent
changes but never shows wrong changes.
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
from vde_dagster.execution.changes.between import VersionSide, columns_of_steps, version_steps
from vde_dagster.execution.changes.compare_versions import (
    ModelChanges,
    Side,
    changes_without_rows,
    read_side,
)
from vde_dagster.execution.pinned_reads import PinnedVersion
from vde_dagster.planning.changes.query import (
    CHANGE_COLUMNS,
    SUFFIX,
    VersionStep,
    changes_view_query,
)
from vde_dagster.planning.engine_tasks import ViewDefinition
from vde_dagster.planning.environments.environment import PRODUCTION, Environment
from vde_dagster.planning.tables.table import TableRef

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles
    from vde_dagster.state.environments.changes import VersionRange


_FIRST_VERSIONS, _FORM = "vde.changes_since", 1
"""Property with the versions in a view, and the format of the view."""


@dataclass(frozen=True, slots=True)
class ChangeViews:
    """Views of changes that an update wrote or removed, and models without a view, with reasons."""

    changed: tuple[TableRef, ...] = ()
    without: tuple[tuple[ModelName, str], ...] = ()


def refresh_change_views(handles: Handles, who: str) -> ChangeViews:
    """Write the views of changes that the settings require, and remove all other such views.

    Raises:
        ConflictError: Production was published meanwhile.
        StoreError: The state or the catalog cannot be reached.
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
    reading = ChangeViewReader(handles, find_kept_versions(handles))
    views: list[ViewDefinition] = []
    without: list[tuple[ModelName, str]] = []
    as_they_are: set[TableRef] = set()
    for name in models:
        if current.views.ref(_view_name(name)) in own:
            without.append((name, f"{_view_name(name)} is a model"))
            continue
        try:
            ranges = reading.readable_ranges(name)
            ref = current.views.ref(_view_name(name))
            if ending.get(ref, {}).get(_FIRST_VERSIONS) == _format_first_versions(ranges):
                as_they_are.add(ref)
            else:
                views.append(_define_view(reading, current, name, ranges))
        except UsageError as error:
            without.append((name, error.message))
    wanted = as_they_are | {TableRef(view.namespace, view.name) for view in views}
    gone = [ref for ref in there if ref not in wanted]
    changed, taken = replace_views(handles.lakehouse, current, views, gone, who)
    of = {current.views.ref(_view_name(name)): name for name in models}
    without += ((of[ref], why) for ref, why in taken.items())
    return ChangeViews(changed, tuple(without))


def _view_name(name: ModelName) -> ModelName:
    return ModelName(name.namespace, f"{name.name}{SUFFIX}")


def _format_first_versions(ranges: Iterable[VersionRange]) -> str:
    return f"{_FORM}: {', '.join(str(each.first) for each in ranges)}"


def _define_view(
    reading: ChangeViewReader, current: Environment, name: ModelName, ranges: Sequence[VersionRange]
) -> ViewDefinition:
    catalog, contents = reading.handles.settings.catalog, reading.contents(name, ranges)
    found = _changes_by_version(catalog, name, current, contents)
    if found.method == "resync":  # Without identifiable rows, show all rows as changed.
        contents = contents[-1:]
        found = _changes_by_version(catalog, name, current, contents)
    columns = columns_of_steps([side for _, side in contents])
    first, side = contents[0]
    pin = side.shown.pin.snapshot_id if side is not None and side.shown is not None else None
    begun = VersionStep(0, pin, first.version, first.publication_id or None)
    rows = side.query if side is not None else None
    steps = [found.query] if found.steps else []
    ref = current.views.ref(_view_name(name))
    change_columns = [(*mark, None) for mark in CHANGE_COLUMNS]
    own = [(one.name, one.type, None) for one in columns.last]
    return ViewDefinition(
        namespace=ref.namespace,
        name=ref.name,
        columns=(*change_columns, *own),
        queries={"spark": changes_view_query(rows, columns.at(0), begun, steps)},
        query_columns=tuple(column for column, *_ in (*change_columns, *own)),
        properties=(
            ("vde.environment", PRODUCTION),
            ("vde.changes_of", str(name)),
            (_FIRST_VERSIONS, _format_first_versions(ranges)),
        ),
        comment=f"Changes of {name} by versions of '{PRODUCTION}', since version {begun.version}",
    )


def _changes_by_version(
    catalog: str, name: ModelName, current: Environment, contents: Sequence[VersionSide]
) -> ModelChanges:
    columns = columns_of_steps([side for _, side in contents])
    whole = changes_without_rows(current, name, contents[0][0].version, columns.last)
    return version_steps(catalog, name, contents, whole, pinned_only=True, first=1)


_SOON = timedelta(hours=1)
"""New views do not read versions that will be deleted within this time."""


def find_kept_versions(handles: Handles) -> list[int]:
    """Return the numbers of production's versions that the next cleanup keeps, ascending."""
    from vde_dagster.lakehouse.maintenance.janitor import retention_policy
    from vde_dagster.state.retention import kept_versions

    database = handles.store.database
    policy = retention_policy(handles.settings)
    with database.reading() as conn:
        kept, _ = kept_versions(conn, policy, database.clock.now() + _SOON)
    return sorted(kept.get(PRODUCTION, ()))


@dataclass
class ChangeViewReader:
    """Reads models in production's kept versions (ascending), and loads each version once."""

    handles: Handles
    kept: Sequence[int]
    versions: dict[int, PinnedVersion | None] = field(default_factory=dict)

    def readable_ranges(self, name: ModelName) -> list[VersionRange]:
        """Return the latest versions that changed a model's rows and can be read, ascending.

        If a version cannot be read, all versions before it are left out, too.
        """
        from vde_dagster.state.environments.changes import version_ranges

        most = self.handles.settings.change_view_versions + 1
        known = version_ranges(self.handles.store.database, PRODUCTION, name)[-most:]
        readable = takewhile(self._is_readable, reversed(known))
        return list(readable)[::-1]

    def _is_readable(self, span: VersionRange) -> bool:
        has_rows = span.table_id is not None or not span.shown
        return has_rows and self._last_kept(span) is not None

    def _last_kept(self, span: VersionRange) -> int | None:
        end = len(self.kept) if span.end is None else bisect_left(self.kept, span.end)
        last = self.kept[end - 1] if end else 0
        return last if last >= span.first else None

    def contents(self, name: ModelName, ranges: Sequence[VersionRange]) -> list[VersionSide]:
        """Return a model's content in the latest versions of `ranges`, ascending.

        If a version cannot be read, all versions before it are left out, too.

        Raises:
            UsageError: The latest of the versions cannot be read.
        """
        found: list[VersionSide] = []
        for span in reversed(ranges):
            one = self._read(name, span)
            if one is None:
                break
            found.append(one)
        if not found:
            raise UsageError(
                f"the content of {name} in '{PRODUCTION}' is unknown; to compute it again: "
                f"vde apply {PRODUCTION} --restate {name}"
            )
        return found[::-1]

    def _read(self, name: ModelName, span: VersionRange) -> VersionSide | None:
        number = self._last_kept(span) or 0
        versions = self.handles.store.versions
        if number not in self.versions:
            read = versions.at(PRODUCTION, number)
            self.versions[number] = PinnedVersion(self.handles, read) if read else None
        reader = self.versions[number]
        if reader is None:
            return None
        side: Side | None = None
        if span.shown:
            try:
                side = read_side(self.handles, reader.version, name, reader)
            except UsageError:
                return None
        made_by = versions.publication(PRODUCTION, span.first) or ""
        return replace(reader.version, version=span.first, publication_id=made_by), side
