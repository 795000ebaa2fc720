"""Telling a running webserver that the models or their versions changed."""

from __future__ import annotations

import json
import os
import urllib.request
from typing import Protocol

URL_VARIABLE = "VDE_DAGSTER_URL"
DEFAULT_URL = "http://127.0.0.1:3000"
_MUTATION = """
mutation Reload($name: String!) {
  reloadRepositoryLocation(repositoryLocationName: $name) { __typename }
}
"""


class _Log(Protocol):
    def debug(self, msg: object) -> None: ...


def reload_location(log: _Log, location: str = "vde") -> bool:
    """Ask the webserver to load a code location again; without one nothing happens.

    New versions are seen by the next run in any case: the page alone needs this, so whatever
    goes wrong is only logged.

    Args:
        log: Takes the reason when it did not work.
        location: The location's name in `workspace.yaml`.

    Returns:
        Whether the webserver did it.
    """
    url = os.environ.get(URL_VARIABLE, DEFAULT_URL).rstrip("/") + "/graphql"
    body = json.dumps({"query": _MUTATION, "variables": {"name": location}}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            done = json.load(answer)["data"]["reloadRepositoryLocation"]["__typename"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.debug(f"no webserver at {url} reloaded the models: {error}")
        return False
    if done != "WorkspaceLocationEntry":
        log.debug(f"the webserver at {url} did not reload the models: {done}")
        return False
    return True
