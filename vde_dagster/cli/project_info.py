"""A project for people and as JSON: settings, models and versions, environments, plug-ins."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from vde_dagster.cli.output import simple_table
from vde_dagster.cli.shapes import environment_json
from vde_dagster.errors import ProjectError

if TYPE_CHECKING:
    from rich.console import Console

    from vde_dagster.base.names import ModelName
    from vde_dagster.execution.workspace import Workspace


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
