"""Environments, their versions (`prod`, `prod@41`, `prod@2026-11-01`) and models by name."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import closest, closest_by_one_letter, suggest
from vde_dagster.base.times import instant_text, parse_time
from vde_dagster.errors import UsageError
from vde_dagster.planning.environments.environment import (
    PRODUCTION,
    Entry,
    Environment,
    branch_name,
    environment_name,
)
from vde_dagster.planning.snapshots.snapshot import Snapshot, sort_parents_first
from vde_dagster.state.store import StateStore

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles


_MAX_VERSION = 2**31 - 1
"""Versions are 32-bit integers in the database."""

_CLOCKS_DIFFER = timedelta(minutes=1)
"""Tolerance for times in the future, because clocks differ by some seconds."""


def find_similar_environment(store: StateStore, environment: str) -> str | None:
    """Return an existing environment whose name differs by one letter from a new name, or None."""
    # The name of a Git branch is rarely a typing error, so it is only compared with production's.
    is_branch, names = bool(branch_name(environment)), store.environments.names()
    environment = environment_name(environment)
    if is_branch and environment not in names:
        names = [name for name in names if name == PRODUCTION]
    return None if environment in names else closest_by_one_letter(environment, names)


def require_environment(store: StateStore, environment: str) -> str:
    """Return an environment's stored name.

    Raises UsageError if the environment does not exist, unless it is production.
    """
    name = environment_name(environment)
    if name != PRODUCTION and not store.environments.exists(name):
        raise environment_not_found(store, name)
    return name


def environment_not_found(store: StateStore, environment: str) -> UsageError:
    close = closest(environment, store.environments.names())
    hint = f"did you mean '{close}'?" if close else f"to create it, run: vde apply {environment}"
    return UsageError(f"environment '{environment}' does not exist", hint=hint)


def published_version(store: StateStore, text: str, at: str | None = None) -> Environment | None:
    """Find the version of an environment that a text such as `prod@41` names.

    Returns None if no version is given.

    Args:
        text: Name of an environment, optionally with `@` and a version's number or a time (UTC).
        at: A version's number or a time (UTC), instead of the text after `@`.

    Raises:
        UsageError: The environment or version does not exist, two versions are given, or the time
            is in the future.
    """
    name, sign, meant = text.partition("@")
    name = environment_name(name)
    if sign and at is not None:
        raise UsageError(
            f"'{text}' names a version and cannot be combined with --at", hint="remove one of them"
        )
    if not sign and at is None:
        return None
    meant = at if at is not None else meant.strip()
    number = version_number(meant)
    if number is None:
        number = _version_at_time(store, name, meant)
    found = store.versions.at(name, number)
    if found is None:
        raise _version_not_found(store, name, f"no version {meant[:40]}")
    if store.versions.is_end(name, number):
        raise UsageError(
            f"version {number} of '{name}' is empty, because the environment was dropped then",
            hint=f"to list versions, run: vde history {name}",
        )
    return found


def named_environment(handles: Handles, text: str) -> Environment:
    """Find an environment's current version (`dev`) or a given version (`prod@41`).

    Raises:
        UsageError: The environment or version does not exist.
    """
    version = published_version(handles.store, text)
    if version is not None:
        return version
    name = environment_name(text)
    found = handles.store.environments.get(name)
    if found is None:
        raise environment_not_found(handles.store, name)
    return found


def stored_snapshots(handles: Handles, environment: Environment) -> dict[ModelName, Snapshot]:
    """Read the models' definitions in an environment's version, parents before children."""
    ids = {entry.snapshot_id for entry in environment.entries.values()}
    found = handles.store.snapshots.load(sorted(ids))
    return sort_parents_first(
        {name: found[one.snapshot_id] for name, one in environment.entries.items()}
    )


def version_number(text: str) -> int | None:
    # Numbers that are too large become the maximum.
    if not (text.isascii() and text.isdigit()):
        return None
    return int(text) if len(text) < 10 else _MAX_VERSION


def _version_at_time(store: StateStore, name: str, text: str) -> int:
    now = store.database.clock.now()
    at = parse_time(text, "the time of a version", now)
    if at > now + _CLOCKS_DIFFER:
        raise UsageError(
            f"the time {instant_text(at)} is in the future",
            hint=f"omit the time for the current version of '{name}'",
        )
    number = store.versions.number_at(name, at)
    if number is None:
        raise _version_not_found(store, name, f"no version from {instant_text(at)} or before")
    return number


def _version_not_found(store: StateStore, name: str, what: str) -> UsageError:
    kept = store.versions.history(name)
    if not kept:
        return environment_not_found(store, name)
    first, last = kept[-1], kept[0]
    return UsageError(
        f"environment '{name}' has {what}",
        hint=f"its versions are {first.version} (of {instant_text(first.published_at)}) to "
        f"{last.version}; the setting history_days limits how long versions are kept",
    )


def published_entry(
    handles: Handles, environment: str, name: ModelName
) -> tuple[Environment, Entry]:
    """Return an environment's current version and a model's entry in it, or raise UsageError."""
    known = named_environment(handles, environment)
    return known, require_entry(known, name)


def require_entry(version: Environment, name: ModelName) -> Entry:
    """Return a model's entry in a version, or raise UsageError if the version lacks the model."""
    entry = version.entries.get(name)
    if entry is None:
        raise UsageError(
            f"environment '{version.name}' does not contain the model '{name}'",
            hint=suggest(str(name), [str(one) for one in version.entries], "models"),
        )
    return entry


@dataclass(frozen=True, slots=True)
class TableName:
    """The names of a model's view and table in an environment, quoted for Spark.

    Args:
        view: The model's view; None if the model has no view.
        table: The table with the model's rows; None if the model has no table.
        branch: The Iceberg branch with the rows; None for `main`.
    """

    model: ModelName
    environment: str
    view: str | None
    table: str | None
    branch: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "model": str(self.model)}


def name_table(handles: Handles, environment: str, model: str) -> TableName:
    """Look up a model's view and table names in an environment, or raise UsageError."""
    name = ModelName.parse(model, handles.settings.default_namespace)
    known, entry = published_entry(handles, environment, name)
    catalog = handles.settings.catalog
    if entry.table_id is None:
        snapshot = handles.store.snapshots.load([entry.snapshot_id])[entry.snapshot_id]
        shown = snapshot.model.kind.is_shown
        return TableName(
            name, environment, known.views.quoted(name, catalog) if shown else None, None
        )
    table = handles.store.tables.get(entry.table_id)
    quoted = table.ref.quoted(catalog)
    return TableName(name, environment, known.views.quoted(name, catalog), quoted, table.branch)
