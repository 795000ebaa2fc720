"""Telling a running webserver that a code location is to be loaded again."""

from __future__ import annotations

import json
import os
import urllib.request
from typing import Any

URL_VARIABLE = "VDE_DAGSTER_URL"
DEFAULT_URL = "http://127.0.0.1:3000"
SECONDS = 30.0
"""How long it may take; Dagster gives a tick of a sensor a minute."""

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


def reload_location(location: str) -> str | None:
    """Ask the webserver to load a code location again.

    Runs see new versions in any case, as each is a process of its own: the pages need this, and
    what is launched from them.

    Args:
        location: The location's name in `workspace.yaml`.

    Returns:
        None when it is done; otherwise what went wrong, and which button does it.
    """
    url = os.environ.get(URL_VARIABLE, DEFAULT_URL).rstrip("/")
    body = json.dumps({"query": _MUTATION, "variables": {"name": location}}).encode()
    request = urllib.request.Request(f"{url}/graphql", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            problem = _problem(json.load(answer)["data"]["reloadRepositoryLocation"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        problem = f"no answer from a webserver at {url} ({error}); {URL_VARIABLE} names another"
    if problem is None:
        return None
    return (
        f"Dagster still shows the project as it was, since it did not load the code location "
        f"'{location}' again: {problem}. Press Reload in its row of Deployment, Code locations."
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
