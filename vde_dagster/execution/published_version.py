"""Environments, their versions (`prod`, `prod@41`, `prod@2026-11-01`) and models, by name."""

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
from vde_dagster.planning.snapshots.snapshot import Snapshot, in_order
from vde_dagster.state import StateStore

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles


_GREATEST = 2**31 - 1
"""Versions are integers of 32 bits in the database."""

_CLOCKS_DIFFER = timedelta(minutes=1)
"""By which a time may lie ahead: machines agree to within some seconds."""


def likely_meant(store: StateStore, environment: str) -> str | None:
    """Return the environment that a new one's name is one letter away from, or None.

    The names of branches are not typed by people, and may be as near as they like to all but
    production's.
    """
    is_branch, names = bool(branch_name(environment)), store.environments.names()
    environment = environment_name(environment)
    if is_branch and environment not in names:
        names = [name for name in names if name == PRODUCTION]
    return None if environment in names else closest_by_one_letter(environment, names)


def require_environment(store: StateStore, environment: str) -> str:
    """Return the stored name of an environment that there is, or of production."""
    name = environment_name(environment)
    if name != PRODUCTION and not store.environments.exists(name):
        raise no_environment(store, name)
    return name


def no_environment(store: StateStore, environment: str) -> UsageError:
    """Return the error that says that there is no such environment."""
    close = closest(environment, store.environments.names())
    hint = f"did you mean '{close}'?" if close else f"plan it first: vde plan {environment}"
    return UsageError(f"there is no environment '{environment}'", hint=hint)


def published_version(store: StateStore, text: str, at: str | None = None) -> Environment | None:
    """Return the version of an environment that a text names; None where it names no version.

    Args:
        text: An environment's name, perhaps with `@` and a version's number or a time (UTC).
        at: A time (UTC), in place of what follows `@`.

    Raises:
        UsageError: There is no such environment or version, two are named, or the time is to come.
    """
    name, sign, meant = text.partition("@")
    name = environment_name(name)
    if sign and at is not None:
        raise UsageError(f"'{text}' names a version, and --at another", hint="give one of them")
    if not sign and at is None:
        return None
    meant = at if at is not None else meant.strip()
    number = version_number(meant)
    if number is None:
        number = _number_at(store, name, meant)
    found = store.versions.at(name, number)
    if found is None:
        raise _unknown(store, name, f"no version {meant[:40]}")
    if store.versions.is_end(name, number):
        raise UsageError(
            f"version {number} of '{name}' is its end: it was dropped",
            hint=f"see: vde history {name}",
        )
    return found


def named_environment(handles: Handles, text: str) -> Environment:
    """Return an environment as it is published now, or a version of it: `dev`, `prod@41`.

    Raises:
        UsageError: There is no such environment or version.
    """
    version = published_version(handles.store, text)
    if version is not None:
        return version
    name = environment_name(text)
    found = handles.store.environments.get(name)
    if found is None:
        raise no_environment(handles.store, name)
    return found


def stored_snapshots(handles: Handles, environment: Environment) -> dict[ModelName, Snapshot]:
    """Return the definitions that a version of an environment shows, parents before children."""
    ids = {entry.snapshot_id for entry in environment.entries.values()}
    found = handles.store.snapshots.load(sorted(ids))
    return in_order({name: found[one.snapshot_id] for name, one in environment.entries.items()})


def version_number(text: str) -> int | None:
    """Return the number of a version that a text is: the greatest for one too long; else None."""
    if not (text.isascii() and text.isdigit()):
        return None
    return int(text) if len(text) < 10 else _GREATEST


def _number_at(store: StateStore, name: str, text: str) -> int:
    now = store.database.clock.now()
    at = parse_time(text, "the time of a version", now)
    if at > now + _CLOCKS_DIFFER:
        raise UsageError(
            f"{instant_text(at)} lies in the future: it is not known what '{name}' shows then",
            hint=f"without a time it is what '{name}' shows now",
        )
    number = store.versions.number_at(name, at)
    if number is None:
        raise _unknown(store, name, f"no version that is as old as {instant_text(at)}")
    return number


def _unknown(store: StateStore, name: str, what: str) -> UsageError:
    kept = store.versions.history(name)
    if not kept:
        return no_environment(store, name)
    first, last = kept[-1], kept[0]
    return UsageError(
        f"environment '{name}' has {what}",
        hint=f"its versions are {first.version} (of {instant_text(first.published_at)}) to "
        f"{last.version}; history_days says how long they are kept",
    )


def published_entry(
    handles: Handles, environment: str, name: ModelName
) -> tuple[Environment, Entry]:
    """Return an environment as it was published, and a model's entry in it.

    Raises:
        UsageError: There is no such environment, or it shows no such model.
    """
    known = named_environment(handles, environment)
    return known, shown_entry(known, name)


def shown_entry(version: Environment, name: ModelName) -> Entry:
    """Return a model's entry in a version of an environment.

    Raises:
        UsageError: It shows no such model.
    """
    entry = version.entries.get(name)
    if entry is None:
        raise UsageError(
            f"environment '{version.name}' shows no model '{name}'",
            hint=suggest(str(name), [str(one) for one in version.entries], "models"),
        )
    return entry


@dataclass(frozen=True, slots=True)
class TableName:
    """The view and table by which an environment has a model.

    Args:
        view: Its view, quoted for Spark; None for what has none.
        table: The table that holds its rows, quoted; None where a view of its query is all.
        branch: The Iceberg branch that has them; None for `main`.
    """

    model: ModelName
    environment: str
    view: str | None
    table: str | None
    branch: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return {**asdict(self), "model": str(self.model)}


def name_table(handles: Handles, environment: str, model: str) -> TableName:
    """Name the table of a model in an environment; asks the state store alone.

    Raises:
        UsageError: There is no such environment, or it shows no such model.
    """
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
