"""Changes of a model from one version of an environment to another, at once or in steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.execution.changes.compare_versions import (
    ComparedSides,
    ModelChanges,
    Side,
    pair_sides,
    read_side,
)
from vde_dagster.execution.published_version import named_environment
from vde_dagster.planning.changes.columns import ColumnPair, ViewColumn, column_events
from vde_dagster.planning.changes.query import (
    CHANGE_COLUMNS,
    LOGS,
    StepColumns,
    VersionStep,
    convert_to_last_columns,
    key_after_last_step,
    no_changes_query,
    vary_changelog_names,
)

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles
    from vde_dagster.planning.environments.environment import Environment


def changes_between(
    handles: Handles, environment: str, model: ModelName, since: int, until: int | None
) -> ModelChanges:
    """Compare a model in two versions of an environment, and build the query for its changed rows.

    Args:
        since: Version that the reader has; 0 for none. May be later than `until`.
        until: The version to reach; None for the current version.

    Raises:
        UsageError: The environment, `until` or the model does not exist; the target version's data
            is gone; or `since` is later than the target version and does not exist.
    """
    wanted = environment if until is None else f"{environment}@{until}"
    later = named_environment(handles, wanted)
    earlier = handles.store.versions.at(environment, since) if since else None
    if since < 0 or (since > later.version and earlier is None):
        raise UsageError(
            f"environment '{environment}' has no version {since}",
            hint=f"to list versions, run: vde history {environment}",
        )
    after = read_side(handles, later, model)
    ended = bool(since) and handles.store.versions.is_end(environment, since)
    known = earlier is not None and not ended
    why = None
    if since and not known and not ended:  # A version that ended the environment has no models.
        why = f"version {since} of '{environment}' is no longer kept"
    before = None
    if known and earlier is not None:
        if after is None and model not in earlier.entries:
            raise _model_not_found(environment, model, since, later.version)
        try:
            before = read_side(handles, earlier, model)
        except UsageError as error:
            if after is None:
                raise
            why = error.message
    if after is None and before is None:
        raise _model_not_found(environment, model, since, later.version)
    catalog = handles.settings.catalog
    return ComparedSides(catalog, later, model, since, before, after, why).changes()


def _model_not_found(environment: str, model: ModelName, since: int, until: int) -> UsageError:
    return UsageError(
        f"the model {model} is not in version {until} of '{environment}'; version {since} does not "
        "contain it either, or was deleted",
        hint=f"to list models, run `vde info`; to list versions, run `vde history {environment}`",
    )


VersionSide = tuple["Environment", Side | None]
"""Version of an environment, and one model in it."""


def changes_by_version(
    handles: Handles, environment: str, model: ModelName, since: int, until: int | None
) -> ModelChanges:
    """Build the query for a model's changed rows, separately for each version after `since`.

    Raises:
        UsageError: As for `changes_between`; or `until` is earlier than `since`.
    """
    # No rows are read. A copy that applies the changes in the order of `_change_ordinal` passes
    # through the content of each version.
    whole = changes_between(handles, environment, model, since, until)
    if whole.until < since:
        raise UsageError(
            f"version {whole.until} of '{environment}' is earlier than version {since}: changes "
            "can be read version by version only from an earlier to a later version",
            hint="read the net changes, which may also lead to an earlier version",
        )
    if whole.method == "resync" or whole.until == since:
        return whole
    try:
        shown = list(_kept_versions(handles, environment, model, since, whole.until))
    except _NotReadableError as error:
        return resync_changes(whole, str(error))
    return version_steps(handles.settings.catalog, model, shown, whole)


class _NotReadableError(Exception):
    """A version of the environment is no longer kept, or its data cannot be read."""


def _kept_versions(
    handles: Handles, environment: str, model: ModelName, since: int, until: int
) -> Iterator[VersionSide | None]:
    versions = handles.store.versions
    numbers = [one.version for one in versions.history(environment, until=until)]
    if not since:
        yield None
    elif since not in numbers:
        raise _NotReadableError(f"version {since} of '{environment}' is no longer kept")
    for number in sorted(number for number in numbers if number >= since):
        version = versions.at(environment, number)
        if version is None:
            raise _NotReadableError(f"version {number} of '{environment}' is no longer kept")
        try:
            yield version, read_side(handles, version, model)
        except UsageError as error:
            raise _NotReadableError(error.message) from None


def columns_of_steps(sides: Sequence[Side | None]) -> StepColumns:
    """Compare a model's columns in consecutive versions, the oldest version first.

    Returns the columns of the oldest version, and the changes of columns in each later version.
    """
    last = sides[0]
    first = last.columns if last is not None else ()
    steps = []
    for side in sides[1:]:
        if side is not None:
            steps.append(pair_sides(last, side))
            last = side
        else:
            steps.append(tuple(ColumnPair(one, one) for one in last.columns) if last else ())
    return StepColumns(first, tuple(steps))


def version_steps(
    catalog: str,
    model: ModelName,
    shown: Sequence[VersionSide | None],
    whole: ModelChanges,
    *,
    pinned_only: bool = False,
    first: int = 0,
) -> ModelChanges:
    """Build the query for the changed rows of each version, compared with the version before it.

    Args:
        shown: The versions, oldest first. A leading None is the time before the first version.
        whole: The net changes from the first to the last version.
        pinned_only: Whether to read only pinned Iceberg snapshots, not the commits between them.
        first: Ordinal of the first step.
    """
    sides = [one[1] if one is not None else None for one in shown]
    columns = columns_of_steps(sides)
    found: list[tuple[ModelChanges, tuple[ColumnPair, ...]]] = []
    for place in range(1, len(shown)):
        later, after, before = shown[place], sides[place], sides[place - 1]
        if later is None or (before is None and after is None):
            continue
        earlier = shown[place - 1]
        since = earlier[0].version if earlier is not None else 0
        step = ComparedSides(
            catalog,
            later[0],
            model,
            since,
            before,
            after,
            ordinal=first + len(found),
            pinned_only=pinned_only,
            by_commits=sum(one.method == "commits" for one, _ in found) < LOGS // 2,
        ).changes()
        if step.method == "resync":
            return resync_changes(
                whole, f"the changes of version {step.until} are unknown: {step.why}"
            )
        if step.method != "nothing":
            found.append((step, columns.at(place)))
    events = column_events(columns.first, columns.at(0)) if sides[0] is not None else ()
    taken = VersionStep(0, None, whole.until, whole.publication_id)
    parts = [convert_to_last_columns(step.query, pairs) for step, pairs in found]
    # A step that inserts or deletes all rows has no update images, and so no key.
    keys = {key_after_last_step(step.key, pairs) for step, pairs in found if step.key}
    key = keys.pop() if len(keys) == 1 else None
    return replace(
        whole,
        method="steps" if found else "nothing",
        events=tuple(events),
        key=key or (),
        columns=(*CHANGE_COLUMNS, *((column.name, column.type) for column in columns.last)),
        query=vary_changelog_names(" UNION ALL ".join(parts))
        or no_changes_query(columns.last, taken),
        steps=tuple(step for step, _ in found),
    )


def resync_changes(whole: ModelChanges, why: str) -> ModelChanges:
    """Return empty changes that require the reader to load the whole view again."""
    columns = tuple(
        ViewColumn(name, type_, "") for name, type_ in whole.columns[len(whole.change_columns) :]
    )
    step = VersionStep(0, None, whole.until, whole.publication_id)
    query = no_changes_query(columns, step, resync=True)
    return replace(whole, method="resync", why=why, events=(), key=(), query=query, steps=())
