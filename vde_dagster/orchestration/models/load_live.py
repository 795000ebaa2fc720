"""Reading what a code location shows: the project's cache and one look at the state store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError, VdeError
from vde_dagster.execution.plans.gather_state import beside_production
from vde_dagster.orchestration.models.live import LiveModel, LiveProject, live_models
from vde_dagster.planning.environments.environment import PRODUCTION
from vde_dagster.planning.plan.missing_intervals import Window, infer_starts
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.model import Model, UnitTest

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.orchestration.models.catalog import AssetCatalog
    from vde_dagster.orchestration.models.translator import VdeTranslator
    from vde_dagster.planning.environments.environment import Environment
    from vde_dagster.planning.plan.plan import Plan
    from vde_dagster.state import StateStore


def load_catalog(workspace: Workspace, translator: VdeTranslator) -> AssetCatalog:
    """Read what a code location shows now."""
    from vde_dagster.orchestration.models.catalog import build_catalog

    now = datetime.now(timezone.utc)
    return build_catalog(load_live(workspace, now), translator, now)


def load_live(workspace: Workspace, now: datetime) -> LiveProject:
    """Collect the models of the working copy and of every environment.

    Mistakes in files break nothing: a model whose file is wrong keeps its last published
    definition, with the mistake said beside it.
    """
    from vde_dagster.project.loading.loader import load_project_isolated

    project = load_project_isolated(workspace.root, strict=False)
    store = workspace.store
    expired = set(store.environments.expired())
    environments = [one for one in store.environments.all() if one.name not in expired]
    stored = snapshots_of(store, environments)
    published = _published(environments, stored)

    models = dict(project.models)
    errors: dict[ModelName, str] = {}
    loose: list[str] = []
    for problem in project.problems:
        names = _names_of(problem, models, published)
        for name in names:
            errors[name] = str(problem)
        if not names:
            loose.append(str(problem))
    models |= {name: published[name].model for name in errors if name in published}
    snapshots = _build(workspace, models, published, errors)

    live = versions_in(store, snapshots, environments, stored, errors)
    loose += [text for name, text in errors.items() if name not in live]
    window = Window(now, default_start=project.settings.start_time)
    starts = infer_starts({name: model.snapshot for name, model in live.items()}, window)
    tests: dict[ModelName, tuple[UnitTest, ...]] = {}
    for test in project.tests:
        tests[test.model] = (*tests.get(test.model, ()), test)
    shown = {environment.name: environment for environment in environments}
    waiting = store.plans.waiting(project.files_hash)
    return LiveProject(live, shown, starts, tuple(loose), tests, tuple(waiting), now)


def snapshots_of(store: StateStore, environments: Iterable[Environment]) -> dict[str, Snapshot]:
    """Read the snapshots that environments refer to, by id."""
    entries = (entry for env in environments for entry in env.entries.values())
    return store.snapshots.load(sorted({entry.snapshot_id for entry in entries}))


def versions_in(
    store: StateStore,
    snapshots: Mapping[ModelName, Snapshot],
    environments: Sequence[Environment],
    stored: Mapping[str, Snapshot],
    errors: Mapping[ModelName, str] | None = None,
) -> dict[ModelName, LiveModel]:
    """Collect the live versions of every model, with the tables that hold them."""
    fills = {s.fill_version for s in snapshots.values() if s.has_table}
    tables = {table.id: table for table in store.tables.with_fill_versions(sorted(fills))}
    named = {e.table_id for env in environments for e in env.entries.values() if e.table_id}
    tables.update(store.tables.load(sorted(named - tables.keys())))
    return live_models(snapshots, environments, stored, tables, errors, _approved_plans(store))


def _approved_plans(store: StateStore) -> list[Plan]:
    """Return the plans that are being applied, and those that failed after they began a table."""
    found = []
    for record in store.plans.approved():
        try:
            plan = store.plans.load(record.id)
        except VdeError:  # cleaned up meanwhile: nobody can go on with it
            continue
        tables = [model.table.id for model in plan.builds if model.table is not None]
        if record.status == "applying" or store.tables.load(tables):
            found.append(plan)
    return found


def _published(
    environments: list[Environment], stored: Mapping[str, Snapshot]
) -> dict[ModelName, Snapshot]:
    found: dict[ModelName, Snapshot] = {}
    for environment in sorted(environments, key=lambda env: (env.name != PRODUCTION, env.name)):
        for name, entry in environment.entries.items():
            found.setdefault(name, stored[entry.snapshot_id])
    return found


def _names_of(
    problem: ProjectError,
    models: Mapping[ModelName, Model],
    published: Mapping[ModelName, Snapshot],
) -> list[ModelName]:
    """Return the models that a mistake is about: those of its file, now or as published."""
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
    """Build the working copy's snapshots, leaving out what cannot be understood."""
    while True:
        try:
            alone = workspace.snapshots_of(models, warnings=[])
            return beside_production(workspace, models, alone)
        except ProjectError as error:
            wrong = _by_model(error, models)
            if not wrong:
                raise
            for name, mistakes in wrong.items():
                errors[name] = "\n".join(str(mistake) for mistake in mistakes)
                if name not in models:
                    continue  # It reads one that was just left out.
                if name in published and models[name] != published[name].model:
                    models[name] = published[name].model
                else:
                    _drop(models, name)


def _by_model(
    error: ProjectError, models: Mapping[ModelName, Model]
) -> dict[ModelName, list[ProjectError]]:
    """Return mistakes by the model that each is about: the last one above its line."""
    wrong: dict[ModelName, list[ProjectError]] = {}
    for mistake in error.mistakes:
        names = _names_of(mistake, models, {})
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
