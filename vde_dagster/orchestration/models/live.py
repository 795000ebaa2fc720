"""Live versions of models: the versions that environments and the working copy refer to.

A view shows its parents' rows immediately, so events of the view never record changes of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.execution.plans.gather_state import reuse_production_tables
from vde_dagster.planning.environments.environment import (
    PRODUCTION,
    Entry,
    Environment,
    production_first,
)
from vde_dagster.planning.plan.assign_tables import TablesByContent, choose_table
from vde_dagster.planning.plan.missing_intervals import Window, infer_starts
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.project.model import Exposure, Model, UnitTest

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.state.store import StateStore


WORKING_COPY = ""
"""Name of the project's files in places that otherwise name an environment."""


def version_key(snapshot: Snapshot, table: PhysicalTable | None) -> str:
    """Return the partition key of a model version, from its table or else from its snapshot."""
    return table.version if table is not None else snapshot.table_version


@dataclass(frozen=True, slots=True)
class LiveVersion:
    """One version of a model that an environment or the working copy refers to.

    Args:
        key: The version's partition key.
        snapshot: Definition that the first reader refers to.
        table: Table with its rows; None for views and for versions that are not built yet.
        readers: Environments that refer to the version, production first; `WORKING_COPY` is last.
        parents: The first reader's version of each parent, also of `indirect_parents`, by name.
        building: Environments whose approved plans will publish the version.
        indirect_parents: Tables read through views, in the first reader's environment.
    """

    key: str
    snapshot: Snapshot
    table: PhysicalTable | None
    readers: tuple[str, ...]
    parents: dict[ModelName, str]
    building: tuple[str, ...] = ()
    indirect_parents: tuple[ModelName, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """Texts such as `prod`, `dev (being built)` and `working copy`."""
        found = [*self.environments, *(f"{name} (being built)" for name in self.building)]
        return (*found, *(["working copy"] if WORKING_COPY in self.readers else []))

    @property
    def environments(self) -> tuple[str, ...]:
        return _without_files(self.readers)


@lru_cache(maxsize=1024)
def _without_files(readers: tuple[str, ...]) -> tuple[str, ...]:
    # Many versions have equal readers, so the result is cached.
    return tuple(reader for reader in readers if reader != WORKING_COPY)


@dataclass(frozen=True, slots=True)
class LiveModel:
    """A model with its live versions.

    Args:
        snapshot: Definition from the first of these that contains the model: the working copy, a
            plan that is being applied or can be retried, production, other environments by name.
        versions: Live versions, the version of `snapshot` first; empty for external models.
        in_project: Whether the working copy has the model.
        error: Current error in its file, or None.
    """

    name: ModelName
    snapshot: Snapshot
    versions: tuple[LiveVersion, ...]
    in_project: bool = True
    error: str | None = None

    @property
    def current(self) -> LiveVersion | None:
        """The version of `snapshot`."""
        return self.versions[0] if self.versions else None

    @property
    def published(self) -> Snapshot | None:
        """The definition in production, or in another environment if production lacks the model."""
        shown = [version for version in self.versions if version.environments]
        first = [version for version in shown if PRODUCTION in version.environments]
        return (first or shown)[0].snapshot if shown else None

    @property
    def listed(self) -> tuple[LiveVersion, ...]:
        """Versions that are partitions, newest first: published versions and versions being built.

        A model that no environment contains lists the version of its file.
        """
        # Edits that await approval are not partitions, or production would look half filled.
        found = [v for v in self.versions if v.environments or v.building]
        # Versions have no times: what is being built is new, and production comes last.
        found.sort(key=lambda v: (not v.building, v != self.current, PRODUCTION in v.environments))
        return tuple(found) or self.versions[:1]

    @property
    def shape(self) -> Snapshot:
        """The first listed version's definition, which decides the model's partitions."""
        # An edit that awaits approval changes neither the kind nor the times of published versions.
        return self.listed[0].snapshot if self.versions else self.snapshot

    def version(self, key: str) -> LiveVersion | None:
        return next((version for version in self.versions if version.key == key), None)


@dataclass(frozen=True, slots=True)
class LiveProject:
    """All models of the project's files and of the environments.

    Args:
        models: Models by name, parents first.
        starts: First instant of data by model (UTC).
        errors: Errors in files without a known model.
        waiting: Plans that await approval, oldest first.
        readers: Exposures, syncs and metrics, from the project's files.
        stored: Snapshots that environments refer to, by id.
    """

    models: dict[ModelName, LiveModel]
    environments: dict[str, Environment] = field(default_factory=dict)
    starts: dict[ModelName, datetime] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    tests: dict[ModelName, tuple[UnitTest, ...]] = field(default_factory=dict)
    waiting: tuple[Plan, ...] = ()
    read_at: datetime | None = None
    readers: tuple[Exposure, ...] = ()
    stored: Mapping[str, Snapshot] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Combination:
    """The snapshot and table of each model in one version of an environment."""

    served: Mapping[ModelName, tuple[Snapshot, PhysicalTable | None]]

    @classmethod
    def from_entries(
        cls,
        entries: Mapping[ModelName, Entry],
        snapshots: Mapping[str, Snapshot],
        tables: Mapping[str, PhysicalTable],
    ) -> Combination:
        """Combine the snapshots and tables of entries, leaving out missing snapshots."""
        return cls(
            {
                name: (snapshots[entry.snapshot_id], tables.get(entry.table_id or ""))
                for name, entry in entries.items()
                if entry.snapshot_id in snapshots
            }
        )

    def snapshot(self, name: ModelName) -> Snapshot | None:
        return self.served[name][0] if name in self.served else None

    def table(self, name: ModelName) -> PhysicalTable | None:
        return self.served[name][1] if name in self.served else None

    def key(self, name: ModelName) -> str | None:
        return version_key(*self.served[name]) if name in self.served else None

    def indirect_parents(self, snapshot: Snapshot) -> tuple[ModelName, ...]:
        """Return the tables that a model reads through views or embedded models, sorted."""
        visited: set[ModelName] = {snapshot.name, *snapshot.model.depends_on}

        def through(view: Snapshot | None) -> Iterator[ModelName]:
            if view is None or view.has_table:
                return
            for parent in view.model.depends_on:
                if parent not in visited:
                    visited.add(parent)
                    known = self.snapshot(parent)
                    if known is None or known.has_table or known.model.kind.is_external:
                        yield parent
                    else:
                        yield from through(known)

        # A model without a table holds no rows that could be out of date.
        direct = snapshot.model.depends_on if snapshot.has_table else ()
        return tuple(sorted({name for read in direct for name in through(self.snapshot(read))}))


def live_models(
    project: Mapping[ModelName, Snapshot],
    environments: Iterable[Environment],
    stored: Mapping[str, Snapshot],
    tables: Mapping[str, PhysicalTable],
    errors: Mapping[ModelName, str] | None = None,
    started: Iterable[Plan] = (),
) -> dict[ModelName, LiveModel]:
    """Collect the live versions of every model, parents first.

    Args:
        project: The working copy's snapshots, without models whose files have errors.
        stored: Snapshots that environments refer to, by id.
        tables: Tables that environments refer to or that may serve the working copy, by id.
        started: Plans that are being applied, or that failed and can be retried.
    """
    ordered = sorted(environments, key=lambda env: production_first(env.name))
    known = TablesByContent(tables.values())
    files = {
        name: (
            snapshot,
            choose_table(snapshot, known, lambda table: True) if snapshot.has_table else None,
        )
        for name, snapshot in project.items()
    }
    # Versions with their reader, and whether the reader is still being built.
    combine = Combination.from_entries
    targets = [
        *((env.name, combine(env.entries, stored, tables), False) for env in ordered),
        *(
            (plan.environment, combine(plan.entries, plan.snapshots, plan.tables), True)
            for plan in started
        ),
        (WORKING_COPY, Combination(files), False),
    ]
    # Each version with its readers, and the readers that still build it.
    found: dict[ModelName, dict[str, tuple[LiveVersion, list[str], list[str]]]] = {}
    keys: dict[tuple[str, str], str] = {}
    for reader, combination, is_building in targets:
        for name, (snapshot, table) in combination.served.items():
            versions = found.setdefault(name, {})
            if snapshot.model.kind.is_external:
                continue
            pair = snapshot.id, table.id if table is not None else ""
            key = keys.get(pair) or keys.setdefault(pair, version_key(snapshot, table))
            known_version = versions.get(key)
            if known_version is None:
                indirect = combination.indirect_parents(snapshot)
                names = (*snapshot.parents, *indirect)
                read = ((parent, combination.key(parent)) for parent in names)
                parents = {parent: own for parent, own in read if own is not None}
                version = LiveVersion(key, snapshot, table, (), parents, (), indirect)
                known_version = versions[key] = version, [], []
            elif table is not None and known_version[0].table is None:
                known_version = replace(known_version[0], table=table), *known_version[1:]
                versions[key] = known_version
            _, readers, building = known_version
            if not is_building:
                readers.append(reader)
            elif reader not in readers:
                building.append(reader)
    live = {
        name: {
            key: replace(version, readers=tuple(readers), building=tuple(building))
            for key, (version, readers, building) in versions.items()
        }
        for name, versions in found.items()
    }
    models: dict[ModelName, LiveModel] = {}
    # The files, then what is being built, then environments, production first.
    built = len(ordered)
    for _, combination, _ in [*reversed(targets[built:]), *targets[:built]]:
        for name, served in combination.served.items():
            if name not in models:
                first = version_key(*served)
                own = sorted(live[name].values(), key=lambda version: version.key != first)
                error = (errors or {}).get(name)
                exists = name in project or error is not None
                models[name] = LiveModel(name, served[0], tuple(own), exists, error)
    return models


def without_circles(
    direct: Mapping[ModelName, Sequence[ModelName]],
    indirect: Mapping[ModelName, Sequence[ModelName]],
) -> dict[ModelName, tuple[ModelName, ...]]:
    """Remove tables behind views if a model would depend on itself through them.

    >>> a, b = ModelName("db", "a"), ModelName("db", "b")
    >>> without_circles({a: [b], b: []}, {b: [a]})[b]
    ()
    """
    # Direct parents come from the project's files, tables behind views from production. Together
    # they may form a cycle, which Dagster cannot load.
    kept = {name: tuple(tables) for name, tables in indirect.items()}
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


def load_live(workspace: Workspace, now: datetime) -> LiveProject:
    """Collect the models of the working copy and of every environment.

    A model with an invalid file keeps its last published definition, and its asset shows the error.
    """
    from vde_dagster.project.loading.loader import load_project_isolated

    project = load_project_isolated(workspace.root, strict=False)
    store = workspace.store
    expired = set(store.environments.expired())
    environments = [one for one in store.environments.all() if one.name not in expired]
    stored = load_snapshots(store, environments)
    ordered = sorted(environments, key=lambda env: production_first(env.name))
    published = {
        name: stored[entry.snapshot_id]
        for environment in reversed(ordered)  # Production comes last, so its values win.
        for name, entry in environment.entries.items()
    }

    models = dict(project.models)
    errors: dict[ModelName, str] = {}
    loose: list[str] = []
    for problem in project.problems:
        names = _affected_models(problem, models, published)
        for name in names:
            errors[name] = str(problem)
        if not names:
            loose.append(str(problem))
    models |= {name: published[name].model for name in errors if name in published}
    snapshots = _build(workspace, models, published, errors)

    live = load_live_models(store, snapshots, environments, stored, errors)
    loose += [text for name, text in errors.items() if name not in live]
    window = Window(now, default_start=project.settings.start_time)
    starts = infer_starts({name: model.shape for name, model in live.items()}, window)
    tests: dict[ModelName, tuple[UnitTest, ...]] = {}
    for test in project.tests:
        tests[test.model] = (*tests.get(test.model, ()), test)
    shown = {environment.name: environment for environment in environments}
    waiting = store.plans.waiting(project.files_hash)
    return LiveProject(
        live, shown, starts, tuple(loose), tests, tuple(waiting), now, project.exposures, stored
    )


def load_snapshots(store: StateStore, environments: Iterable[Environment]) -> dict[str, Snapshot]:
    entries = (entry for env in environments for entry in env.entries.values())
    return store.snapshots.load(sorted({entry.snapshot_id for entry in entries}))


def load_live_models(
    store: StateStore,
    snapshots: Mapping[ModelName, Snapshot],
    environments: Sequence[Environment],
    stored: Mapping[str, Snapshot],
    errors: Mapping[ModelName, str] | None = None,
) -> dict[ModelName, LiveModel]:
    fills = {s.fill_version for s in snapshots.values() if s.has_table}
    tables = {table.id: table for table in store.tables.with_fill_versions(sorted(fills))}
    named = {e.table_id for env in environments for e in env.entries.values() if e.table_id}
    tables.update(store.tables.load(sorted(named - tables.keys())))
    return live_models(snapshots, environments, stored, tables, errors, _started_plans(store))


def _started_plans(store: StateStore) -> list[Plan]:
    found = []
    for record in store.plans.started():
        plan = store.plans.find(record.id)
        if plan is None:  # cleaned up meanwhile: the plan cannot be resumed
            continue
        tables = [model.table.id for model in plan.builds if model.table is not None]
        if record.status == "applying" or store.tables.load(tables):
            found.append(plan)
    return found


def _affected_models(
    problem: ProjectError,
    models: Mapping[ModelName, Model],
    published: Mapping[ModelName, Snapshot],
) -> list[ModelName]:
    if problem.location is None:
        return []
    path = Path(problem.location.path)
    known = {name: snapshot.model for name, snapshot in published.items()}
    return [
        name
        for name, model in {**known, **models}.items()
        if model.location.path == path and not model.kind.is_external
    ]


def _build(
    workspace: Workspace,
    models: dict[ModelName, Model],
    published: Mapping[ModelName, Snapshot],
    errors: dict[ModelName, str],
) -> dict[ModelName, Snapshot]:
    while True:
        try:
            alone = workspace.snapshots_of(models, warnings=[])
            return reuse_production_tables(workspace, models, alone)
        except ProjectError as error:
            wrong = _by_model(error, models)
            if not wrong:
                raise
            for name, mistakes in wrong.items():
                errors[name] = "\n".join(str(mistake) for mistake in mistakes)
                if name not in models:
                    continue  # It reads a model that was just dropped.
                if name in published and models[name] != published[name].model:
                    models[name] = published[name].model
                else:
                    _drop(models, name)


def _by_model(
    error: ProjectError, models: Mapping[ModelName, Model]
) -> dict[ModelName, list[ProjectError]]:
    # Each error belongs to the last model that begins above its line.
    wrong: dict[ModelName, list[ProjectError]] = {}
    for mistake in error.mistakes:
        names = _affected_models(mistake, models, {})
        if mistake.location is not None and mistake.location.line is not None and len(names) > 1:
            line = mistake.location.line
            before = [n for n in names if (models[n].location.line or 1) <= line]
            names = sorted(before, key=lambda n: models[n].location.line or 1)[-1:]
        for name in names:
            wrong.setdefault(name, []).append(mistake)
    return wrong


def _drop(models: dict[ModelName, Model], name: ModelName) -> None:
    del models[name]
    readers = [other for other, model in models.items() if name in model.depends_on]
    for reader in readers:
        if reader in models:
            _drop(models, reader)
