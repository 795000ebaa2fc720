"""Views in production's catalog that show the last changes of its models.

They follow a publication in a transaction of their own, all of them or none: what they say is
pinned, so one that has not followed yet tells less, and never anything else. Whoever publishes
writes them, and so does the clean-up before it forgets versions that they read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.execution.changes.by_version import Shown, columns_of_steps, steps_of
from vde_dagster.execution.changes.model_changes import ModelChanges
from vde_dagster.execution.changes.view_versions import VersionsOfViews, lasting_versions
from vde_dagster.planning.changes.query import MARKS, Step
from vde_dagster.planning.changes.view import SUFFIX, view_query
from vde_dagster.planning.environment import PRODUCTION
from vde_dagster.planning.table import TableRef
from vde_dagster.planning.work import ViewDefinition

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse
    from vde_dagster.planning.environment import Environment
    from vde_dagster.state.change_points import ChangePoint

_POINTS, _FORM = "vde.changes_since", 1
"""The property that says which versions a view tells of, and the form in which it does."""


@dataclass(frozen=True, slots=True)
class ChangeViews:
    """What became of the views of changes.

    Args:
        changed: The views that were written or removed.
        without: Models that have none, with the reason.
    """

    changed: tuple[TableRef, ...] = ()
    without: tuple[tuple[ModelName, str], ...] = ()


def refresh_change_views(warehouse: Warehouse, who: str) -> ChangeViews:
    """Write the views of changes that production should have, and remove others.

    Args:
        warehouse: The project's warehouse.
        who: For the record.

    Raises:
        ConflictError: Production was published meanwhile.
        StoreError: State or catalog cannot be reached.
    """
    from vde_dagster.lakehouse.change_views import replace_views

    if not warehouse.lakehouse.catalog.promises.keeps_views:
        return ChangeViews()
    store, patterns = warehouse.store, warehouse.settings.change_views
    ending = warehouse.lakehouse.views_ending(PRODUCTION, SUFFIX)
    current = store.environments.get(PRODUCTION) if patterns or ending else None
    if current is None:
        return ChangeViews()
    models = [
        entry.name
        for entry in current.entries.values()
        if entry.table_id is not None and _is_wanted(entry.name, patterns)
    ]
    own = {current.views.ref(name) for name in current.entries}
    there = [ref for ref in ending if ref not in own]
    if not models and not there:
        return ChangeViews()
    reading = VersionsOfViews(warehouse, lasting_versions(warehouse))
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
    changed, taken = replace_views(warehouse.lakehouse, current, views, gone, who)
    of = {current.views.ref(_named(name)): name for name in models}
    without += ((of[ref], why) for ref, why in taken.items())
    return ChangeViews(changed, tuple(without))


def _is_wanted(name: ModelName, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(str(name), pattern) for pattern in patterns)


def _named(name: ModelName) -> ModelName:
    return ModelName(name.namespace, f"{name.name}{SUFFIX}")


def _listed(points: Iterable[ChangePoint]) -> str:
    return f"{_FORM}: {', '.join(str(point.first) for point in points)}"


def _define(
    reading: VersionsOfViews, current: Environment, name: ModelName, points: Sequence[ChangePoint]
) -> ViewDefinition:
    catalog, shown = reading.warehouse.settings.catalog, reading.shown(name, points)
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
    both = {column.lower() for column, *_ in own} & {column for column, *_ in marks}
    if both:
        raise UsageError(
            f"{name} has a column '{min(both)}', which its changes have, too",
            hint="give the column another name",
        )
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
    whole = ModelChanges(
        environment=PRODUCTION,
        model=name,
        since=shown[0][0].version,
        until=current.version,
        publication_id=current.publication_id,
        method="nothing",
        why=None,
        events=(),
        key=(),
        columns=(*MARKS, *((column.name, column.type) for column in columns.last)),
        query="",
    )
    return steps_of(catalog, name, shown, whole, pinned_only=True, first=1)
