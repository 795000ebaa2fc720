"""Projects and environments for people and as JSON: settings, versions, rollback, clean-up."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from vde_dagster.cli.applying import failed_statements_json
from vde_dagster.cli.output import simple_table
from vde_dagster.cli.shapes import environment_json, instant_json
from vde_dagster.errors import ProjectError
from vde_dagster.reports.history import data_summary
from vde_dagster.reports.texts import count, short_time, size

if TYPE_CHECKING:
    from rich.console import Console

    from vde_dagster.base.names import ModelName
    from vde_dagster.execution.environments.rollback import RollbackResult
    from vde_dagster.execution.environments.version_changes import VersionChange
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.lakehouse.maintenance.cleaning import Decision
    from vde_dagster.lakehouse.maintenance.janitor import JanitorReport


def project_info(workspace: Workspace) -> dict[str, Any]:
    """Collect what `vde info --json` prints.

    Reads the files and the state store; writes nothing: a project without a state store has no
    environments yet.
    """
    from importlib.metadata import version

    from vde_dagster.base.plugins import installed
    from vde_dagster.state.db.database import without_password

    settings = workspace.settings
    models = workspace.project.models.values()
    environments = workspace.store.environments.summaries() if _has_state(workspace) else []
    versions = _versions(workspace)
    return {
        "version": version("vde-dagster"),
        "project": {"name": settings.name, "root": str(workspace.root)},
        "catalog": settings.catalog,
        "warehouse": settings.resolved_warehouse,
        "state": without_password(settings.resolved_state_url),
        "models": [
            {
                "name": str(model.name),
                "kind": model.kind.name,
                "file": model.location.path.as_posix(),
                "description": model.description,
                "versions": versions.get(model.name, []),
            }
            for model in models
        ],
        "environments": [environment_json(environment) for environment in environments],
        "plugins": [
            {
                "seam": plugin.seam,
                "name": plugin.name,
                "distribution": plugin.distribution,
                "version": plugin.version,
                "error": plugin.problem(),
            }
            for plugin in installed()
        ],
    }


def show_info(console: Console, info: dict[str, Any]) -> None:
    """Print what `project_info` collected."""
    console.print(f"[bold]{info['project']['name']}[/]  {info['project']['root']}")
    console.print(f"catalog    {info['catalog']}")
    console.print(f"warehouse  {info['warehouse']}")
    console.print(f"state      {info['state']}")
    kinds = Counter(model["kind"] for model in info["models"])
    console.print(
        f"models     {len(info['models'])}: "
        + ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
    )
    for environment in info["environments"]:
        console.print(f"environment {environment['name']} at version {environment['version']}")
    rows: list[tuple[str, ...]] = []
    for model in info["models"]:
        versions = [(one["version"], ", ".join(one["shown_by"])) for one in model["versions"]]
        first, *more = versions or [("", "")]
        rows.append((model["name"], model["kind"], model["file"], *first))
        rows += [("", "", "", *version) for version in more]
    console.print(simple_table(("model", "kind", "file", "version", "shown by"), rows))
    if info["plugins"]:
        keys = ("seam", "name", "distribution", "version", "error")
        found = [tuple(one[key] or "" for key in keys) for one in info["plugins"]]
        console.print(simple_table(("plug-ins of", *keys[1:]), found))


def _versions(workspace: Workspace) -> dict[ModelName, list[dict[str, Any]]]:
    """List each model's versions, the files' one first, and who shows each."""
    from vde_dagster.orchestration.models.live import live_models
    from vde_dagster.orchestration.models.load_live import snapshots_of, versions_in

    try:
        snapshots = workspace.snapshots()
    except ProjectError:  # a plan says what is wrong; what environments show is there all the same
        snapshots = {}
    if _has_state(workspace):
        environments = workspace.store.environments.all()
        stored = snapshots_of(workspace.store, environments)
        live = versions_in(workspace.store, snapshots, environments, stored)
    else:
        live = live_models(snapshots, (), {}, {})
    return {
        name: [{"version": one.key, "shown_by": list(one.labels)} for one in model.versions]
        for name, model in live.items()
    }


def _has_state(workspace: Workspace) -> bool:
    from pathlib import Path

    url = workspace.settings.resolved_state_url
    return not url.startswith("sqlite:///") or Path(url.removeprefix("sqlite:///")).exists()


_HEADERS = (
    "version",
    "published (UTC)",
    "by",
    "plan",
    "added",
    "changed",
    "removed",
    "data",
    "note",
)


def history_json(environment: str, changes: Sequence[VersionChange]) -> dict[str, Any]:
    """Return the documented JSON form."""
    return {
        "environment": environment,
        "versions": [
            {
                "version": change.version.version,
                "published_at": instant_json(change.version.published_at),
                "published_by": change.version.published_by,
                "plan": change.version.plan_id,
                "note": change.version.note,
                "added": change.version.added,
                "changed": change.version.changed,
                "removed": change.version.removed,
                "dropped": change.version.dropped,
                "changes": change.what,
                "data": [table.to_json() for table in change.data],
            }
            for change in changes
        ],
    }


def show_history(console: Console, changes: Sequence[VersionChange]) -> None:
    """Print a line a version."""
    rows = [
        (
            change.version.version,
            short_time(change.version.published_at),
            change.version.published_by,
            change.version.plan_id,
            change.version.added,
            change.version.changed,
            change.version.removed,
            data_summary(change.data),
            "dropped" if change.version.dropped else change.version.note,
        )
        for change in changes
    ]
    console.print(simple_table(_HEADERS, rows))


def rollback_json(result: RollbackResult, *, dry_run: bool = False) -> dict[str, Any]:
    """Return plain JSON data; models are keys."""
    return {
        "environment": environment_json(result.environment),
        "restored": result.restored,
        "dry_run": dry_run,
        "definitions_only": result.definitions_only,
        "moved": {str(name): {"rows": rows} for name, rows in result.moved.items()},
        "held": [str(name) for name in result.held],
        "holding": {one: [str(name) for name in names] for one, names in result.holding.items()},
        "missing": {str(name): ranges.to_json() for name, ranges in result.missing.items()},
        "reverted": {str(one.name): one.to_json() for one in result.reverted},
        "failed_statements": failed_statements_json(result.failed_statements),
    }


def rollback_sentence(result: RollbackResult, *, dry_run: bool = False) -> str:
    """Say in a sentence of Rich's markup what happened, or would."""
    name, restored = f"[bold]{result.environment.name}[/]", f"version {result.restored}"
    if result.definitions_only:
        restored += ", in its definitions"
    if dry_run:
        return f"{name} would be at version {result.environment.version}, equal to {restored}"
    return f"{name} is at version {result.environment.version}, equal to {restored}"


def rollback_notes(result: RollbackResult) -> Iterator[str]:
    """Say what goes back, what is held, and what is to be computed."""
    if result.moved:
        yield f"data back as they were: {_listed(result.moved)}"
    if result.held:
        yield (
            f"held as they were, until the next plan or run of {result.environment.name}: "
            f"{_listed(result.held)}"
        )
    for other, names in result.holding.items():
        yield (
            f"{other} goes on showing what it showed of {_listed(names)}, "
            "until its next plan or run"
        )
    for one in result.reverted:
        yield f"{one.name} {'; '.join(one.sentences())}"
    if result.missing:
        yield (
            f"to be computed: {_listed(result.missing)}; "
            f"do so with: vde run {result.environment.name}"
        )


def _listed(names: Iterable[object]) -> str:
    texts = [str(name) for name in names]
    more = f" and {len(texts) - 20} more" if len(texts) > 20 else ""
    return ", ".join(texts[:20]) + more


def show_janitor(console: Console, report: JanitorReport) -> None:
    """Print what is done with its reason, and what that frees; the JSON form says what is kept."""
    acted = report.acted
    rows = [
        (
            decision.action.replace("_", " "),
            subject,
            decision.error or decision.reason,
            decision.outcome,
            size(decision.bytes),
        )
        for decision, subject in _lines(acted)
    ]
    if rows:
        console.print(simple_table(("action", "subject", "reason", "outcome", "size"), rows))
    verb = "would free" if report.dry_run else "freed"
    failed = len(report.failures)
    kept = len(report.decisions) - len(acted)
    console.print(
        f"{verb} {size(report.bytes) or '0 B'} in {count(len(acted), 'step')}, keeps {kept}"
        + (f"; [red]{failed} failed, the next run tries again[/]" if failed else "")
    )


def _lines(decisions: Iterable[Decision]) -> Iterator[tuple[Decision, str]]:
    """Yield decisions with their subject; versions that go for one reason are one line."""
    for (_, environment, _), group in itertools.groupby(decisions, _sort):
        alike = list(group)
        if not environment or len(alike) == 1:
            yield from ((decision, decision.subject) for decision in alike)
            continue
        numbers = [decision.version[1] for decision in alike if decision.version]
        span = f"{min(numbers)} to {max(numbers)}"
        if len(numbers) != max(numbers) - min(numbers) + 1:
            span = f"{span}, {len(numbers)} of them"
        yield alike[0], f"{environment} versions {span}"


def _sort(decision: Decision) -> tuple[str, str, str]:
    environment = _environment(decision)
    return decision.action, environment, decision.reason if environment else ""


def _environment(decision: Decision) -> str:
    return decision.version[0] if decision.version else ""
