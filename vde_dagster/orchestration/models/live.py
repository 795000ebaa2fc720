"""Live versions of models: those that environments and the working copy refer to.

Pure functions and values; nothing here knows Dagster.

A view shows what its parents hold at once: its own events never tell that rows have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from vde_dagster.base.names import ModelName
from vde_dagster.planning.environments.environment import PRODUCTION, Entry, Environment
from vde_dagster.planning.plan.assign_tables import TablesByContent, choose_table
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.project.model import UnitTest

WORKING_COPY = ""
"""Stands for the project's files where otherwise an environment is named."""


def version_key(snapshot: Snapshot, table: PhysicalTable | None) -> str:
    """Return the partition key of a snapshot that is served by a table, or by none."""
    return table.version if table is not None else snapshot.table_version


@dataclass(frozen=True, slots=True)
class LiveVersion:
    """One version of a model that somebody refers to.

    Args:
        key: Its partition key.
        snapshot: The definition, as its first reader below has it.
        table: The table that holds it; None for views and for what was not built yet.
        readers: Environments that refer to it, production first; the working copy
            (`WORKING_COPY`) comes last.
        parents: The version of each parent that the first reader combines it with, by name, and of
            each table behind a view.
        building: Environments that will show it, as an approved plan of theirs says.
        behind: The tables that it reads through views there.
    """

    key: str
    snapshot: Snapshot
    table: PhysicalTable | None
    readers: tuple[str, ...]
    parents: dict[ModelName, str]
    building: tuple[str, ...] = ()
    behind: tuple[ModelName, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of who shows it: environments, those that build it, the working copy."""
        found = [*self.environments, *(f"{name} (being built)" for name in self.building)]
        return (*found, *(["working copy"] if WORKING_COPY in self.readers else []))

    @property
    def environments(self) -> tuple[str, ...]:
        """The environments that refer to it, production first."""
        return tuple(reader for reader in self.readers if reader != WORKING_COPY)


@dataclass(frozen=True, slots=True)
class LiveModel:
    """A model with its live versions.

    Args:
        snapshot: Its definition in the working copy, or else in the first environment.
        versions: The live versions, the one of `snapshot` first; empty for external models.
        in_project: Whether the working copy has it.
        error: What is wrong with its file now, or None.
    """

    name: ModelName
    snapshot: Snapshot
    versions: tuple[LiveVersion, ...]
    in_project: bool = True
    error: str | None = None

    @property
    def current(self) -> LiveVersion | None:
        """The version of the working copy, or of the first environment."""
        return self.versions[0] if self.versions else None

    @property
    def published(self) -> Snapshot | None:
        """The definition that readers see: production's, or else the first environment's."""
        shown = [version for version in self.versions if version.environments]
        first = [version for version in shown if PRODUCTION in version.environments]
        return (first or shown)[0].snapshot if shown else None

    @property
    def listed(self) -> tuple[LiveVersion, ...]:
        """The versions that are partitions: those that an environment shows or is being built for.

        An edit that waits for its approval is none of them, or production would look half
        filled for as long as somebody types. A model that nobody shows yet lists what its file
        says, which is missing indeed.
        """
        found = tuple(v for v in self.versions if v.environments or v.building)
        return found or self.versions[:1]

    def version(self, key: str) -> LiveVersion | None:
        """Return the live version with a partition key."""
        return next((version for version in self.versions if version.key == key), None)


@dataclass(frozen=True, slots=True)
class LiveProject:
    """Every model that the working copy or an environment has.

    Args:
        models: By name, parents first.
        environments: The environments as they are published, by name.
        starts: First instant of data by model (UTC).
        errors: Mistakes in files that belong to no known model.
        tests: Unit tests by model, as the files have them.
        waiting: Plans that wait for an approval, oldest first.
        read_at: When this was read (UTC).
    """

    models: dict[ModelName, LiveModel]
    environments: dict[str, Environment] = field(default_factory=dict)
    starts: dict[ModelName, datetime] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    tests: dict[ModelName, tuple[UnitTest, ...]] = field(default_factory=dict)
    waiting: tuple[Plan, ...] = ()
    read_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Combination:
    """Versions of models that are read together: an environment's, a plan's, or the files'.

    Args:
        served: By model its definition, and the table that serves it; None for views.
    """

    served: Mapping[ModelName, tuple[Snapshot, PhysicalTable | None]]

    @classmethod
    def of(
        cls,
        entries: Mapping[ModelName, Entry],
        snapshots: Mapping[str, Snapshot],
        tables: Mapping[str, PhysicalTable],
    ) -> Combination:
        """Return what entries refer to, as far as it is known.

        Args:
            snapshots: By their ids.
            tables: By their ids.
        """
        return cls(
            {
                name: (snapshots[entry.snapshot_id], tables.get(entry.table_id or ""))
                for name, entry in entries.items()
                if entry.snapshot_id in snapshots
            }
        )

    def definition(self, name: ModelName) -> Snapshot | None:
        """Return a model's definition here."""
        return self.served[name][0] if name in self.served else None

    def table(self, name: ModelName) -> PhysicalTable | None:
        """Return the table that serves a model here."""
        return self.served[name][1] if name in self.served else None

    def key(self, name: ModelName) -> str | None:
        """Return the partition key of a model's version here; None when it has none."""
        return version_key(*self.served[name]) if name in self.served else None

    def behind(self, snapshot: Snapshot) -> tuple[ModelName, ...]:
        """Return the tables that a model reads through the views that are here."""
        return behind_views(snapshot, self.definition)


def live_models(
    project: Mapping[ModelName, Snapshot],
    environments: Iterable[Environment],
    stored: Mapping[str, Snapshot],
    tables: Mapping[str, PhysicalTable],
    errors: Mapping[ModelName, str] | None = None,
    approved: Iterable[Plan] = (),
) -> dict[ModelName, LiveModel]:
    """Collect the live versions of every model.

    Args:
        project: The working copy's snapshots; models whose files are wrong are missing.
        environments: The environments as they are published.
        stored: The snapshots that environments refer to, by id.
        tables: Tables that environments refer to or that may serve the working copy, by id.
        errors: What is wrong, by model.
        approved: Plans that are being applied, or failed and wait to be tried again.

    Returns:
        The models, parents first.
    """
    ordered = sorted(environments, key=lambda env: (env.name != PRODUCTION, env.name))
    targets = [_Target(e.name, Combination.of(e.entries, stored, tables)) for e in ordered]
    for plan in approved:
        planned = Combination.of(plan.entries, plan.snapshots, plan.tables)
        targets.append(_Target(plan.environment, planned, building=True))
    targets.append(_Target(WORKING_COPY, _working_copy(project, tables)))
    return _collect(project, targets, errors or {})


@dataclass(frozen=True, slots=True)
class _Target:
    """What an environment, an approved plan or the files combine."""

    reader: str
    combination: Combination
    building: bool = False


def _working_copy(
    project: Mapping[ModelName, Snapshot], tables: Mapping[str, PhysicalTable]
) -> Combination:
    known = TablesByContent(tables.values())
    served = {
        name: choose_table(snapshot, known, lambda table: True) if snapshot.has_table else None
        for name, snapshot in project.items()
    }
    return Combination({name: (snapshot, served[name]) for name, snapshot in project.items()})


def _collect(
    project: Mapping[ModelName, Snapshot],
    targets: list[_Target],
    errors: Mapping[ModelName, str],
) -> dict[ModelName, LiveModel]:
    keys = [
        {name: version_key(*served) for name, served in target.combination.served.items()}
        for target in targets
    ]
    found: dict[ModelName, dict[str, LiveVersion]] = {}
    for target, known in zip(targets, keys, strict=True):
        readers = () if target.building else (target.reader,)
        building = (target.reader,) if target.building else ()
        for name, (snapshot, table) in target.combination.served.items():
            versions = found.setdefault(name, {})
            if snapshot.model.kind.is_external:
                continue
            key = known[name]
            version = versions.get(key)
            if version is None:
                behind = target.combination.behind(snapshot)
                read = (*snapshot.parents, *behind)
                parents = {parent: known[parent] for parent in read if parent in known}
                versions[key] = LiveVersion(
                    key, snapshot, table, readers, parents, building, behind
                )
            else:
                shown = set(building) <= set(version.readers)
                versions[key] = replace(
                    version,
                    table=version.table or table,
                    readers=(*version.readers, *readers),
                    building=version.building if shown else (*version.building, *building),
                )
    models: dict[ModelName, LiveModel] = {}
    for target, known in reversed(list(zip(targets, keys, strict=True))):
        for name, (snapshot, _) in target.combination.served.items():
            if name in models:
                continue
            first = known[name]
            ordered = sorted(found[name].values(), key=lambda version: version.key != first)
            models[name] = LiveModel(
                name, snapshot, tuple(ordered), name in project, errors.get(name)
            )
    return models


Find = Callable[[ModelName], Snapshot | None]
"""Returns a model's definition; None for what nobody declares."""


def behind_views(snapshot: Snapshot, find: Find) -> tuple[ModelName, ...]:
    """Return the tables that a model reads only through views and embedded models, sorted.

    Args:
        snapshot: The model; one without a table holds no rows that could be out of date.
    """
    if not snapshot.has_table:
        return ()
    direct = snapshot.model.depends_on
    seen: set[ModelName] = {snapshot.name, *direct}
    return tuple(sorted({found for parent in direct for found in _tables(parent, find, seen)}))


def without_circles(
    direct: Mapping[ModelName, Sequence[ModelName]], behind: Mapping[ModelName, Sequence[ModelName]]
) -> dict[ModelName, tuple[ModelName, ...]]:
    """Leave out tables behind views by which a model would depend on itself.

    What a model reads directly is what its file says, what is behind views is what production
    shows: a view that no longer reads a table, and the table that now reads what is made of the
    view, would close a circle, and Dagster would load nothing.

    Args:
        direct: What each model reads.
        behind: The tables that it reads through views.

    >>> a, b = ModelName("db", "a"), ModelName("db", "b")
    >>> without_circles({a: [b], b: []}, {b: [a]})[b]
    ()
    """
    kept = {name: tuple(tables) for name, tables in behind.items()}
    while True:
        graph = {name: (*parents, *kept.get(name, ())) for name, parents in direct.items()}
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circle = list(pairwise(error.args[1]))
            closing = [(above, name) for above, name in circle if above in kept.get(name, ())]
            for above, name in closing:
                kept[name] = tuple(table for table in kept[name] if table != above)
            if closing:
                continue
        return kept


def _tables(name: ModelName, find: Find, seen: set[ModelName]) -> Iterator[ModelName]:
    snapshot = find(name)
    if snapshot is None or snapshot.has_table:
        return
    for parent in snapshot.model.depends_on:
        if parent in seen:
            continue
        seen.add(parent)
        known = find(parent)
        if known is None or known.has_table or known.model.kind.is_external:
            yield parent
        else:
            yield from _tables(parent, find, seen)
