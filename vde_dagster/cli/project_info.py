"""A project described: settings without secrets, models, environments."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from vde_dagster.cli.output import simple_table
from vde_dagster.cli.shapes import environment_json

if TYPE_CHECKING:
    from rich.console import Console

    from vde_dagster.execution.workspace import Workspace


def project_info(workspace: Workspace) -> dict[str, Any]:
    """Collect what `vde info --json` prints.

    Reads the files and the state store; writes nothing: a project without a state store has no
    environments yet.
    """
    from importlib.metadata import version

    from vde_dagster.state.database import without_password

    settings = workspace.settings
    models = workspace.project.models.values()
    environments = workspace.store.environments.summaries() if _has_state(workspace) else []
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
            }
            for model in models
        ],
        "environments": [environment_json(environment) for environment in environments],
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
    rows = [(model["name"], model["kind"], model["file"]) for model in info["models"]]
    console.print(simple_table(("model", "kind", "file"), rows))


def _has_state(workspace: Workspace) -> bool:
    from pathlib import Path

    url = workspace.settings.resolved_state_url
    return not url.startswith("sqlite:///") or Path(url.removeprefix("sqlite:///")).exists()
