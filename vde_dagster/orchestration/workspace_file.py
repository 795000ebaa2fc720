"""Which code locations Dagster shows of a project: its own workspace file, or one made for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from vde_dagster.orchestration.instance import dagster_home
from vde_dagster.orchestration.require_models import require_models
from vde_dagster.project.configuration.settings_source import read_tools

if TYPE_CHECKING:
    from dagster._core.remote_origin import CodeLocationOrigin

WRITTEN = "vde-workspace.yaml"
_OWN = "workspace.yaml"
_OWN_LOCATION = "vde_dagster.orchestration.location"


def workspace_file(root: Path) -> Path | None:
    """Return the workspace file for a project, written into Dagster's home where it has none.

    Args:
        root: The project's folder, absolute.

    Returns:
        None where the project's `pyproject.toml` says what its code locations are.

    Raises:
        UsageError: There is no such folder, or it has no models.
        ProjectError: The project's settings are wrong.
    """
    if (root / _OWN).is_file():
        return root / _OWN
    text = made_for(root)
    if text is None:
        return None
    written = dagster_home(root) / WRITTEN
    written.write_text(text, "utf-8")
    return written


def made_for(root: Path) -> str | None:
    """Return the text of a workspace file with a project as its one code location.

    Args:
        root: The project's folder, absolute.

    Returns:
        None where the project's `pyproject.toml` says what its code locations are.

    Raises:
        UsageError: There is no such folder, or it has no models.
        ProjectError: The project's settings are wrong.
    """
    _, tools = read_tools(root)
    if "dagster" in tools or "dg" in tools:
        return None
    project = require_models(root)
    location = {"location_name": project.settings.name, "working_directory": str(root)}
    definitions = root / "definitions.py"
    if definitions.is_file():
        target = {"python_file": {"relative_path": str(definitions), **location}}
    else:
        target = {"python_module": {"module_name": _OWN_LOCATION, **location}}
    # YAML reads JSON.
    return f"# Written by `vde ui`.\n{json.dumps({'load_from': [target]}, indent=2)}\n"


def only_location(root: Path) -> CodeLocationOrigin | None:
    """Return where Dagster loads a project from, or None where that is not one place.

    Args:
        root: The project's folder, absolute.

    Raises:
        UsageError: There is no such folder, or it has no models.
        ProjectError: The project's settings are wrong.
    """
    from dagster._core.workspace.load import location_origins_from_yaml_paths

    file = workspace_file(root)
    origins = location_origins_from_yaml_paths([str(file)]) if file is not None else []
    return origins[0] if len(origins) == 1 else None
