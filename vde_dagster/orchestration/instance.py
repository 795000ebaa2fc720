"""Dagster instance of a project: its home, its code locations, and its webserver."""

from __future__ import annotations

import json
import os
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vde_dagster.errors import UsageError
from vde_dagster.project.configuration.settings_source import read_tools
from vde_dagster.project.loading.loader import Project, load_project, no_models_error

if TYPE_CHECKING:
    import dagster as dg

    from vde_dagster.orchestration.dagster_private import CodeLocationOrigin


HOME_VARIABLE = "DAGSTER_HOME"
PROJECT_VARIABLE = "VDE_PROJECT"
HOME_FOLDER = ".dagster_home"
INSTANCE_CONFIG = Path(__file__).parent / "dagster.yaml"
"""Default configuration, for projects without a `dagster.yaml`."""


def dagster_home(root: Path) -> Path:
    """Return the project's Dagster home: `DAGSTER_HOME`, or `.dagster_home` of the project.

    A new home gets a copy of the project's `dagster.yaml`, or else of the package's. The project's
    file is copied again when it changes, unless `DAGSTER_HOME` names the folder.
    """
    given = os.environ.get(HOME_VARIABLE)
    home = Path(given).expanduser().resolve() if given else root.resolve() / HOME_FOLDER
    home.mkdir(parents=True, exist_ok=True)
    config = home / "dagster.yaml"
    own = root / "dagster.yaml"
    if not config.exists() or (not given and own.is_file()):
        text = (own if own.is_file() else INSTANCE_CONFIG).read_text("utf-8")
        if not config.exists() or config.read_text("utf-8") != text:
            config.write_text(text, "utf-8")
    return home


def open_instance(root: Path) -> dg.DagsterInstance:
    import dagster as dg

    home = dagster_home(root)
    os.environ[HOME_VARIABLE] = str(home)
    return dg.DagsterInstance.from_config(str(home))


WRITTEN = "vde-workspace.yaml"
_OWN = "workspace.yaml"
_OWN_LOCATION = "vde_dagster.orchestration.location"


def workspace_file(root: Path) -> Path | None:
    """Return a project's workspace file. A missing file is written to Dagster's home.

    Returns None if the project's `pyproject.toml` lists its code locations.

    Raises:
        UsageError: The folder does not exist, or it has no models.
    """
    if (root / _OWN).is_file():
        return root / _OWN
    text = workspace_text(root)
    if text is None:
        return None
    written = dagster_home(root) / WRITTEN
    written.write_text(text, "utf-8")
    return written


def workspace_text(root: Path) -> str | None:
    """Return a workspace file's text, or None if `pyproject.toml` lists code locations."""
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
    # JSON is valid YAML.
    return f"# Written by `vde ui`.\n{json.dumps({'load_from': [target]}, indent=2)}\n"


def only_location(root: Path) -> CodeLocationOrigin | None:
    """Return the only code location in a project's workspace file, or None."""
    from vde_dagster.orchestration.dagster_private import location_origins

    file = workspace_file(root)
    origins = location_origins(str(file)) if file is not None else []
    return origins[0] if len(origins) == 1 else None


def require_models(root: Path) -> Project:
    """Load a project that has models, even invalid models.

    Raises UsageError if the folder does not exist, or has no models.
    """
    if not root.is_dir():
        hint = "pass the project's folder with --project, or create a project: vde init"
        raise UsageError(f"the folder {root} does not exist", hint=hint)
    project = load_project(root, strict=False)
    if not project.models and not project.problems:
        raise no_models_error(project.settings)
    return project


URL_VARIABLE = "VDE_DAGSTER_URL"
DEFAULT_URL = "http://127.0.0.1:3000"
SECONDS = 30.0
"""Timeout of a reload; Dagster gives a sensor's tick 60 seconds."""

_MUTATION = """
mutation Reload($name: String!) {
  reloadRepositoryLocation(repositoryLocationName: $name) {
    __typename
    ... on PythonError { message }
    ... on WorkspaceLocationEntry {
      locationOrLoadError { __typename ... on PythonError { message } }
    }
  }
}
"""


def query_webserver(url: str, query: str, seconds: float, **variables: str) -> dict[str, Any]:
    """Return a webserver's response to a GraphQL query.

    Raises OSError if it does not respond, ValueError if the response is not valid JSON.
    """
    body = json.dumps({"query": query, "variables": variables}).encode()
    request = urllib.request.Request(f"{url}/graphql", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=seconds) as answer:
        found: dict[str, Any] = json.load(answer)["data"]
        return found


def reload_location(location: str) -> str | None:
    """Reload a code location through the webserver. Returns a problem with its remedy, or None."""
    url = os.environ.get(URL_VARIABLE, DEFAULT_URL).rstrip("/")
    try:
        answer = query_webserver(url, _MUTATION, SECONDS, name=location)
        problem = _problem(answer["reloadRepositoryLocation"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        problem = f"no webserver responds at {url} ({error}); set {URL_VARIABLE} to its URL"
    if problem is None:
        return None
    return (
        f"Dagster shows an old state of the project, because it did not reload the code location "
        f"'{location}': {problem}. Press Reload in its row of Deployment, Code locations."
    )


def _problem(answer: dict[str, Any]) -> str | None:
    found = answer.get("locationOrLoadError") or {}
    if (
        answer["__typename"] == "WorkspaceLocationEntry"
        and found.get("__typename") != "PythonError"
    ):
        return None
    said = found.get("message") or answer.get("message") or answer["__typename"]
    lines = [line.strip() for line in str(said).splitlines() if line.strip()]
    return lines[-1] if lines else str(answer["__typename"])
